#include "agents/features.h"

#include <algorithm>
#include <limits>

#include "agents/candidates.h"

namespace emplace::agents {

std::vector<double> GroupStarts(const Grouping& grouping, const StepResult& result) {
  std::vector<double> starts(grouping.num_groups(), std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < grouping.num_ops(); ++i) {
    double& start = starts[grouping.group_of(MakeId<OpId>(i))];
    start = std::min(start, result.start_micros[i]);
  }
  return starts;
}

FeatureBuilder::FeatureBuilder(const Observation& observation, const FeatureOptions& options)
    : options_(options), num_groups_(observation.num_groups()), num_devices_(observation.num_devices()) {
  std::vector<double> columns(3 * num_groups_);
  double largest[3] = {0, 0, 0};
  const std::vector<std::vector<DeviceId>> devices = SearchDevices(observation, /*use_cpus=*/false);
  for (std::size_t n = 0; n < num_groups_; ++n) {
    double times = 0;
    for (const DeviceId device : devices[n]) times += observation.TimeMicros(n, Index(device));
    const OpId group = MakeId<OpId>(n);
    Bytes leaving;
    for (std::size_t k = 0; k < observation.graph.num_outputs(group); ++k) {
      leaving += observation.graph.tensor(MakeId<TensorId>(Index(observation.graph.first_output(group)) + k)).size;
    }
    columns[3 * n] = times / static_cast<double>(devices[n].size());
    columns[3 * n + 1] = static_cast<double>(leaving.count);
    columns[3 * n + 2] = static_cast<double>((observation.persistent[n] + observation.output[n]).count);
    for (std::size_t c = 0; c < 3; ++c) largest[c] = std::max(largest[c], columns[3 * n + c]);
  }
  static_columns_.resize(columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    static_columns_[i] = largest[i % 3] > 0 ? static_cast<float>(columns[i] / largest[i % 3]) : 0.0F;
  }
}

void FeatureBuilder::FillStarts(const PlacementState& state, std::size_t current) const {
  column_.assign(num_groups_, 0.0F);
  if (options_.start == StartFeature::kNone) return;
  const bool peaks = options_.start == StartFeature::kPeakMemory;
  if (peaks ? state.peaks.empty() : state.starts.empty()) return;  // the evaluator has none
  const auto value = [&](std::size_t n) {
    return peaks ? state.peaks[Index(state.placement[MakeId<OpId>(n)])] : state.starts[n];
  };
  const double own = value(current);
  double divisor = 1;
  if (options_.start == StartFeature::kStartTime) {
    divisor = state.step_micros > 0 ? state.step_micros : 1;
  } else {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::size_t n = 0; n < num_groups_; ++n) largest = std::max(largest, value(n) - own);
    if (largest != 0) divisor = largest;
  }
  for (std::size_t n = 0; n < num_groups_; ++n) column_[n] = static_cast<float>((value(n) - own) / divisor);
}

}  // namespace emplace::agents
