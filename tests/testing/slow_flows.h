#ifndef EMPLACE_TESTS_TESTING_SLOW_FLOWS_H_
#define EMPLACE_TESTS_TESTING_SLOW_FLOWS_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace emplace::testing {

struct SlowFlow {
  std::int64_t start = 0;
  std::vector<std::uint32_t> route;  // links
  std::int64_t bytes = 0;
  std::optional<std::int64_t> alone = {};  // FlowNetwork::Start
};

// The end of each flow, as FlowNetwork says, by searching all links at each start and end. Without shared code.
std::vector<std::int64_t> SlowFlowEnds(const std::vector<double>& bytes_per_ns, const std::vector<SlowFlow>& flows);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_SLOW_FLOWS_H_
