#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_CHARTS_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_CHARTS_H_

#include <string>
#include <vector>

#include "experiments/report/learning_curves.h"
#include "experiments/report/placement_picture.h"

namespace emplace::experiments {

// Vega specifications (version 5) as JSON text, their data inside. Text and axes take the page's text colour. Marks are
// named, which gives them a class of that name in the page. The page gives a chart with "autosize" fit-x the width that
// there is, and sets the signal "narrow" on a phone.

struct CurveChartOptions {
  std::string x_title = {};
  std::string y_title = {};
  std::vector<std::string> labels = {};  // of every chart of the page, so that an agent has one colour
  bool log_x = false;
};
// For each curve a band ("band") and a line ("curve").
std::string CurveChart(const std::vector<Curve>& curves, const CurveChartOptions& options);

// An agent's mean and interval, from the top in their order.
struct IntervalRow {
  std::string label = {};
  std::string note = {};  // behind the label, where there is room
  std::string text = {};  // the numbers, to the right, likewise
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
// For each row a rule ("interval") and a symbol ("mean"), a name ("name") and a rule for each line ("line"). A row far
// below the others is drawn at the left edge as a triangle.
std::string IntervalChart(const std::vector<IntervalRow>& rows, const IntervalChartOptions& options);
// Whether it has such a row.
bool HasCutRow(const std::vector<IntervalRow>& rows, const IntervalChartOptions& options);

struct ScatterPoint {
  std::string label;
  double x = 0;
  double y = 0;
};
struct ScatterChartOptions {
  std::string x_title = {};
  std::string y_title = {};
  std::vector<std::string> labels = {};  // as CurveChartOptions
};
// A symbol for each point ("point"), and the line on which x is y ("equal"). Both axes have one scale, from 0.
std::string ScatterChart(const std::vector<ScatterPoint>& points, const ScatterChartOptions& options);

// A symbol for each op ("op"), its area by the op's time, and a thin rule for each transfer ("transfer").
std::string PictureChart(const PlacementPicture& picture);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_CHARTS_H_
