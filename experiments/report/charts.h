#ifndef EMPLACE_EXPERIMENTS_REPORT_CHARTS_H_
#define EMPLACE_EXPERIMENTS_REPORT_CHARTS_H_

#include <string>
#include <vector>

#include "experiments/report/learning_curves.h"
#include "experiments/report/placement_picture.h"

namespace emplace::experiments {

// Vega specifications (version 5) as JSON text that includes their data. Text and axes use the page's text colour. Each
// mark's name is also its class in the page. The page sets the width of a chart with "autosize" fit-x to the available
// width, and sets the signal "narrow" on a phone.

struct CurveChartOptions {
  std::string x_title = {};
  std::string y_title = {};
  std::vector<std::string> labels = {};  // labels of all charts on the page, so that each agent has one colour
  bool log_x = false;
};
// Each curve has a band ("band") and a line ("curve").
std::string CurveChart(const std::vector<Curve>& curves, const CurveChartOptions& options);

// An agent's mean and interval; rows are drawn from top to bottom.
struct IntervalRow {
  std::string label = {};
  std::string note = {};  // after the label, if there is space
  std::string text = {};  // the numbers, on the right, if there is space
  double mean = 0;
  double low = 0;
  double high = 0;
  bool is_hollow = false;
};
struct ChartLine {
  std::string name;
  double at = 0;
};
struct IntervalChartOptions {
  std::string x_title = {};
  std::vector<ChartLine> lines = {};  // ascending
};
// Each row has a rule ("interval"), a symbol ("mean") and a name ("name"); each line has a rule ("line"). A row far
// below the others is drawn at the left edge as a triangle.
std::string IntervalChart(const std::vector<IntervalRow>& rows, const IntervalChartOptions& options);
// Whether a row is drawn that way.
bool HasCutRow(const std::vector<IntervalRow>& rows, const IntervalChartOptions& options);

struct ScatterPoint {
  std::string label;
  double x = 0;
  double y = 0;
};
struct ScatterChartOptions {
  std::string x_title = {};
  std::string y_title = {};
  std::vector<std::string> labels = {};  // see CurveChartOptions
};
// A symbol for each point ("point"), and the line x = y ("equal"). Both axes have the same scale, from 0 unless all
// points are far from it.
std::string ScatterChart(const std::vector<ScatterPoint>& points, const ScatterChartOptions& options);

// A symbol for each op ("op"), with area proportional to its time, and a thin rule for each transfer ("transfer").
std::string PictureChart(const PlacementPicture& picture);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_CHARTS_H_
