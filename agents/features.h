#ifndef EMPLACE_AGENTS_FEATURES_H_
#define EMPLACE_AGENTS_FEATURES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agents/environment.h"
#include "sim/evaluator.h"
#include "sim/placement.h"

namespace emplace::agents {

enum class StartFeature : std::uint8_t {
  kStartTime,   // (start of the group - start of the current group) / step time
  kRawStart,    // the same in us, divided by its largest value unless that is 0, as in Placeto's code
  kPeakMemory,  // in the thesis's code, instead of the start: peak bytes of the group's device minus those of the
                // current group's device, divided by the largest such value unless that is 0
  kNone,
};

struct FeatureOptions {
  StartFeature start = StartFeature::kStartTime;
  bool memory = false;  // adds the persistent and output bytes of a group
};

// Input of a policy that changes a placement group by group.
struct PlacementState {
  Placement placement;
  std::vector<std::uint32_t> done;  // [num_groups]: number of times placed in this episode
  std::vector<double> starts;       // [num_groups]: start of a group's first op in the last step simulated, in us
  std::vector<double> peaks;        // [num_devices]: peak bytes in that step; empty unless requested
  double step_micros = 0;
  bool operator==(const PlacementState&) const = default;

  // At the start of an episode.
  template <typename State>
  static void SavedFields(State& state, auto& self) {
    state(self.placement, self.starts, self.peaks, self.step_micros);
    if constexpr (State::kLoads) self.done.assign(self.placement.num_ops(), 0);
  }
};

// Earliest start among the ops of each group, in us. Requires: `result` has start times.
std::vector<double> GroupStarts(const Grouping& grouping, const StepResult& result);

// Features of the groups of one problem, one row each:
//   0  mean time of the group over the accelerators where it is allowed, or else over all devices where it is
//      allowed; divided by the largest of all groups
//   1  bytes of its output tensors that other groups read, divided by the largest
//   2  number of times it was placed in this episode
//   3  1 for the group to be placed now, else 0
//   4  StartFeature
//   5  with options.memory: persistent and output bytes of its ops, divided by the largest
//   .. one-hot: the device where it is placed, num_devices columns
// Source: Placeto's and the thesis's published code; Addanki et al. 2019, section on node features. Their column 4 can
// be of the order of 1e9; the default here is scaled.
class FeatureBuilder {
 public:
  FeatureBuilder(const Observation& observation, const FeatureOptions& options);

  std::size_t num_features() const { return NumFeatures(num_devices_, options_); }
  static std::size_t NumFeatures(std::size_t num_devices, const FeatureOptions& options) {
    return 5 + (options.memory ? 1 : 0) + num_devices;
  }
  // Writes the row of group n to `row_of(n)`, a float [num_features].
  template <typename RowOf>
  void Fill(const PlacementState& state, std::size_t current, RowOf row_of) const {
    std::vector<float>& column = column_;
    FillStarts(state, current);
    for (std::size_t n = 0; n < num_groups_; ++n) {
      float* row = row_of(n);
      *row++ = static_columns_[3 * n];
      *row++ = static_columns_[3 * n + 1];
      *row++ = static_cast<float>(state.done[n]);
      *row++ = n == current ? 1.0F : 0.0F;
      *row++ = column[n];
      if (options_.memory) *row++ = static_columns_[3 * n + 2];
      const std::size_t device = Index(state.placement[MakeId<OpId>(n)]);
      for (std::size_t d = 0; d < num_devices_; ++d) *row++ = d == device ? 1.0F : 0.0F;
    }
  }

 private:
  void FillStarts(const PlacementState& state, std::size_t current) const;

  FeatureOptions options_;
  std::size_t num_groups_;
  std::size_t num_devices_;
  std::vector<float> static_columns_;  // [num_groups, 3]: time, bytes out, bytes held
  mutable std::vector<float> column_;  // scratch
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_FEATURES_H_
