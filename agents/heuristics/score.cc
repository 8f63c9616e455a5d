#include "agents/heuristics/score.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>

#include "agents/heuristics/solver_input.h"
#include "agents/saved_text.h"

namespace emplace {

bool Score::BetterThan(const Score& other) const {
  if (fits != other.fits) return fits;
  if (!fits && overflow_bytes != other.overflow_bytes) return overflow_bytes < other.overflow_bytes;
  return reward > other.reward;
}

Score ScoreOf(const Outcome& outcome, const Cluster& cluster) {
  Score score{.fits = outcome.result.fits_memory, .overflow_bytes = 0, .reward = outcome.reward};
  for (std::size_t d = 0; d < outcome.result.peak_memory.size(); ++d) {
    const std::optional<Bytes>& memory = cluster.devices()[d].memory;
    if (memory && outcome.result.peak_memory[d] > *memory) {
      score.overflow_bytes += static_cast<double>((outcome.result.peak_memory[d] - *memory).count);
    }
  }
  return score;
}

void SaveScore(std::ostream& out, const Score& score) {
  out << (score.fits ? 1 : 0) << ' ';
  SaveDouble(out, score.overflow_bytes);
  SaveDouble(out, score.reward);
}

Score LoadScore(std::istream& in) {
  Score score;
  score.fits = LoadNumber(in) != 0;
  score.overflow_bytes = LoadDouble(in);
  score.reward = LoadDouble(in);
  return score;
}

double CostOf(const Score& score) { return -score.reward + score.overflow_bytes / 1e9; }

std::vector<std::vector<DeviceId>> SearchDevices(const Observation& observation, bool use_cpus) {
  const std::vector<DeviceId> all = use_cpus ? AllDevices(observation.cluster) : observation.accelerators;
  std::vector<std::vector<DeviceId>> devices;
  for (std::size_t group = 0; group < observation.num_groups(); ++group) {
    devices.push_back(Candidates(observation, group, all));
  }
  return devices;
}

std::vector<std::uint8_t> MaskOf(std::span<const DeviceId> devices, std::size_t num_devices) {
  std::vector<std::uint8_t> mask(num_devices);
  for (const DeviceId device : devices) mask[Index(device)] = 1;
  return mask;
}

Placement OnOneOf(const Observation& observation, std::span<const DeviceId> devices) {
  DeviceId best = devices[0];
  double least = std::numeric_limits<double>::infinity();
  for (const DeviceId device : devices) {
    double total = 0;
    for (std::size_t group = 0; group < observation.num_groups(); ++group) {
      const std::size_t place = Index(observation.Fastest(group, {&device, 1}));
      total += observation.TimeMicros(group, place);
    }
    if (total < least) {
      least = total;
      best = device;
    }
  }
  Placement placement(observation.num_groups());
  for (std::size_t group = 0; group < observation.num_groups(); ++group) {
    placement[MakeId<OpId>(group)] = observation.Fastest(group, {&best, 1});
  }
  return placement;
}

Placement OnFirstAccelerator(const Observation& observation) {
  return OnOneOf(observation, {observation.accelerators.data(), 1});
}

}  // namespace emplace
