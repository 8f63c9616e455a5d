#ifndef EMPLACE_EXPERIMENTS_VALIDATION_ROOFLINE_CHECK_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_ROOFLINE_CHECK_H_

#include <cstddef>
#include <iosfwd>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datasets/importers/registry.h"
#include "sim/cost_model.h"
#include "sim/device_catalog.h"
#include "sim/graph.h"

namespace emplace::experiments {

// The time of calls of operators, by roofline or another cost model, beside the measured one. Times in µs.
struct RooflineRow {
  std::string name;  // a class, or an operator
  OpClass op_class = OpClass::kNone;
  std::size_t calls = 0;
  std::size_t kernels = 0;  // kernels in the trace; for an Execution Trace, which does not contain them, the calls
  double measured = 0;
  double roofline = 0;
  // Statistics of the calls' |roofline / measured - 1|.
  double mean_error = 0;
  double median_error = 0;
  double p90_error = 0;

  double Ratio() const { return measured > 0 ? roofline / measured : 0; }
};

struct RooflineCheck {
  std::string kind;                    // device kind in the catalogue
  std::vector<RooflineRow> classes;    // those that occur, the largest measured time first
  std::vector<RooflineRow> operators;  // likewise
  RooflineRow total;
  // Times that are not compared.
  double transfers = 0;              // collectives, copies from and to the host
  double unknown_time = 0;           // time of operators that roofline does not support
  std::vector<std::string> unknown;  // their names, the largest time first
  // The step as it is simulated with roofline's times in place of those that are compared. None without a trace's step.
  std::optional<double> step_time = {};
  std::optional<double> measured_step_time = {};
};

// How many times as long as roofline says calls took in graphs with measured times: the median over an operator's
// calls, and over those of a class. It carries times from one kind of device over to another: roofline's time there,
// times this (Habitat scales by a ratio of roofline's rates as well: Yu et al. 2021, section 3).
struct RooflineScales {
  std::map<std::string, double> by_operator;
  std::map<OpClass, double> by_class;
  double all = 1;

  double Of(const std::string& name, OpClass op_class) const;
};
// Throws InputError, as CheckRoofline does, and on graphs in which there is nothing to compare.
RooflineScales MeasureRooflineScales(std::span<const datasets::Imported> imported, const CostModel& model);

// Compares a cost model, roofline or curves, on the kind of device where the graph's ops have times, the one with most
// of it. Threads of the host are left out. With `scales`, roofline's times are scaled. Throws InputError if no op has a
// time, or if the catalogue has no rates for the kind.
RooflineCheck CheckRoofline(const datasets::Imported& imported, const CostModel& model,
                            const RooflineScales* scales = nullptr);

// `emplace.roofline-check`, version 1. `costs`: the name of the model.
void WriteRooflineCheck(std::ostream& out, const RooflineCheck& check, const std::string& costs);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_ROOFLINE_CHECK_H_
