#ifndef EMPLACE_TESTS_E2E_SAMPLES_H_
#define EMPLACE_TESTS_E2E_SAMPLES_H_

#include <string>

#include "tests/testing/run_program.h"

namespace emplace::testing {

// One line per op, so that tests can edit them.
inline constexpr const char* kGraph = R"({"schema": "emplace.graph", "version": 1, "name": "pair",
 "ops": [
  {"name": "a", "kind": "test", "outputs": [2000], "time_us": 4},
  {"name": "b", "kind": "test", "inputs": ["a"], "persistent_bytes": 1000, "time_us": 4}]}
)";

inline constexpr const char* kCluster = R"(schema: emplace.cluster
version: 1
name: two
source: made for the tests
devices:
  - {name: "gpu:0", kind: k80, memory_gib: 1, count: 2}
link: {bandwidth_gb_per_s: 1, latency_us: 0, gap_us: 0}
)";

inline constexpr const char* kPlacement =
    R"({"schema": "emplace.placement", "version": 1, "graph": "pair", "cluster": "two",
 "devices": {"a": "gpu:0", "b": "gpu:1"}}
)";

// A sweep of one trial.
inline constexpr const char* kOneTrial = R"(# Who is best?
schema: emplace.experiment
version: 1
name: quick
graphs: {model: rnnlm, set: {hidden: 64, steps: 2}, grouping: {groups: 20}}
cluster: {name: post-8k80, gpus: 2}
costs: roofline
agent: {name: annealing}
budget: {evaluations: 100}
)";

// Each test starts with g.json, c.yaml and p.json in its folder.
class EmplaceTest : public ProgramTest {
 protected:
  EmplaceTest() : ProgramTest(EMPLACE_BINARY) {
    Write("g.json", kGraph);
    Write("c.yaml", kCluster);
    Write("p.json", kPlacement);
  }
};

// Exit status 2, one line, no standard output, and no new file beside the three samples.
inline void ExpectRefused(const Ran& ran, const std::string& line) {
  EXPECT_EQ(ran.status, 2) << ran.err;
  EXPECT_EQ(ran.err, line + "\n");
  EXPECT_EQ(ran.out, "");
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_E2E_SAMPLES_H_
