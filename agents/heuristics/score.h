#ifndef EMPLACE_AGENTS_HEURISTICS_SCORE_H_
#define EMPLACE_AGENTS_HEURISTICS_SCORE_H_

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <vector>

#include "agents/agent.h"

namespace emplace {

// How good an outcome is, for searches: one that fits beats one that does not; of two that fit the larger reward wins,
// of two that do not the one that is over by fewer bytes.
struct Score {
  bool fits = false;
  double overflow_bytes = 0;  // summed over devices
  double reward = 0;
  bool BetterThan(const Score& other) const;
  bool operator==(const Score&) const = default;
};
Score ScoreOf(const Outcome& outcome, const Cluster& cluster);

void SaveScore(std::ostream& out, const Score& score);
Score LoadScore(std::istream& in);

// What annealing lowers: minus the reward, plus a second for each GB over.
double CostOf(const Score& score);

// The devices that a search tries for each group: accelerators (all devices with `use_cpus`) where it is allowed, or
// else every device where it is. [num_groups], never empty.
std::vector<std::vector<DeviceId>> SearchDevices(const Observation& observation, bool use_cpus);

// 1 for each device of the list, [num_devices].
std::vector<std::uint8_t> MaskOf(std::span<const DeviceId> devices, std::size_t num_devices);

// Everything on the accelerator where the sum of all times is least, groups that may not go there on their fastest
// device: where searches start.
Placement OnOneOf(const Observation& observation, std::span<const DeviceId> devices);
// The same with the first accelerator: what papers call the single device.
Placement OnFirstAccelerator(const Observation& observation);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_HEURISTICS_SCORE_H_
