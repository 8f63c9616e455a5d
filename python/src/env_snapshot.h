#ifndef EMPLACE_PYTHON_SRC_ENV_SNAPSHOT_H_
#define EMPLACE_PYTHON_SRC_ENV_SNAPSHOT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "python/src/vector_problem.h"
#include "sim/base/rng.h"

namespace emplace::python {

// One environment, as its snapshot holds it beside the devices of the groups.
struct EnvState {
  char magic[8] = {'e', 'm', 'p', 'l', 'e', 'n', 'v', '3'};
  std::uint64_t problem = 0;  // VectorProblem::number
  std::uint64_t groups = 0;
  std::uint64_t devices = 0;
  std::uint64_t next_group = 0;
  std::uint64_t over = 0;
  std::uint64_t ended = 0;
  std::uint64_t fits = 0;
  std::int64_t step_ns = 0;
  double cost = 0;
  Rng rng{0};
};

// The bytes of the state, of `devices`, and a checksum. Fills in what `state` has of the problem.
std::string SnapshotText(EnvState state, const VectorProblem& problem, std::span<const std::int16_t> devices);

// Returns the state, and the devices of the groups. Throws InputError on a text that SnapshotText did not write for the
// same problem.
EnvState ReadSnapshot(std::string_view text, const VectorProblem& problem, std::vector<std::int16_t>* devices);

}  // namespace emplace::python

#endif  // EMPLACE_PYTHON_SRC_ENV_SNAPSHOT_H_
