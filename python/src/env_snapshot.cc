#include "python/src/env_snapshot.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "sim/base/check.h"
#include "sim/base/fingerprint.h"

namespace emplace::python {
namespace {

bool IsPossible(const EnvState& state, const VectorProblem& problem, std::span<const std::int16_t> devices) {
  const std::size_t groups = problem.num_groups;
  if (state.problem != problem.number || state.groups != groups || state.devices != problem.num_devices) return false;
  if (state.over > 1 || state.ended > 1 || state.fits > 1 || state.step_ns < 0 || !std::isfinite(state.cost)) {
    return false;
  }
  if (state.next_group > groups || (state.over == 0 && state.next_group == groups)) return false;
  for (std::size_t group = 0; group < groups; ++group) {
    const auto device = static_cast<std::size_t>(static_cast<std::uint16_t>(devices[group]));
    if (device >= problem.num_devices || !problem.Allows(group, device)) return false;
  }
  return true;
}

}  // namespace

std::string SnapshotText(EnvState state, const VectorProblem& problem, std::span<const std::int16_t> devices) {
  static_assert(std::is_trivially_copyable_v<EnvState>);
  state.problem = problem.number;
  state.groups = problem.num_groups;
  state.devices = problem.num_devices;
  std::string text(sizeof(state) + devices.size_bytes(), '\0');
  std::memcpy(text.data(), &state, sizeof(state));
  std::memcpy(text.data() + sizeof(state), devices.data(), devices.size_bytes());
  return text + FingerprintText(text);
}

EnvState ReadSnapshot(std::string_view text, const VectorProblem& problem, std::vector<std::int16_t>* devices) {
  const EnvState fresh;
  EnvState state;
  devices->resize(problem.num_groups);
  const std::size_t of_devices = problem.num_groups * sizeof(std::int16_t);
  const std::size_t size = sizeof(state) + of_devices;
  bool is_good = text.size() > size && text.starts_with(std::string_view(fresh.magic, sizeof(fresh.magic))) &&
                 FingerprintText(text.substr(0, size)) == text.substr(size);
  if (is_good) {
    std::memcpy(static_cast<void*>(&state), text.data(), sizeof(state));
    std::memcpy(devices->data(), text.data() + sizeof(state), of_devices);
    is_good = IsPossible(state, problem, *devices);
  }
  if (is_good) return state;
  throw InputError("snapshot", "is not of an environment of this problem, or is damaged (what snapshot() returned)");
}

}  // namespace emplace::python
