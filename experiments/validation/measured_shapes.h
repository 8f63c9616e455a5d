#ifndef EMPLACE_EXPERIMENTS_VALIDATION_MEASURED_SHAPES_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_MEASURED_SHAPES_H_

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/curves.h"
#include "sim/cost_model.h"
#include "sim/graph.h"

namespace emplace::experiments {

// A shape that was measured on a device.
struct MeasuredShape {
  CurveQuestion question;
  double micros = 0;
};

// What a file of measurements says about one kind of device.
struct MeasuredShapes {
  std::vector<MeasuredShape> rows;
  std::size_t several = 0;  // calls that are several products at once, and are not used
  std::size_t unknown = 0;  // measured ops whose shapes the file does not say, or that no curve is for

  void Add(MeasuredShapes others);
};

// A table of kernels, CSV with a header: `kind`, `type`, `time_us`, and what the kind of a row needs (docs/formats.md).
// Throws InputError whose place is `file` and the line.
MeasuredShapes ReadKernelsCsv(std::istream& in, const std::string& file);

// Whether no rate of a device has to do with an op of a trace: those of the host, and what GPUs still did of the step
// before.
bool IsOfHost(const Op& op);

// The kind of device with most of the measured times of a graph, those of the host aside; nullopt if it has none.
std::optional<std::string> FindDominantKind(const Graph& graph);

// Which call of a trace an op is a kernel of, if that has several; else "".
std::string CallIdOf(const Op& op);

// The ops of a graph to which a model of measured times gives one on devices of the kind `measured`, which need not be
// one with rates. Kernels of one call of a trace count together.
MeasuredShapes ShapesOfGraph(const Graph& graph, const CostModel& model, std::string_view measured,
                             const RooflineOptions& options);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_MEASURED_SHAPES_H_
