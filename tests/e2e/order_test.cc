// Orders of ops: emplace place --order, and simulate.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

class OrderTest : public EmplaceTest {
 protected:
  void SetUp() override {
    EmplaceTest::SetUp();
    // Two processors: the long task 2 first, beside 1 and 3; first come, first served takes 1 and 3 first.
    Write("g.stg", "4\n0 0 0\n1 4 1 0\n2 8 1 0\n3 4 1 0\n4 4 1 3\n5 0 3 1 2 4\n");
    Write("two.yaml",
          "schema: emplace.cluster\nversion: 1\nname: two\ndevices: [{name: 'p:0', kind: cpu-core, count: 2}]\n"
          "link: {bandwidth_gb_per_s: 1, contention: false}\n");
    ASSERT_EQ(Emplace("import g.stg -o tasks.json").status, 0);
  }
};

TEST_F(OrderTest, IsSearchedWrittenAndSimulated) {
  const Ran placed = Emplace("place tasks.json --cluster two.yaml --order -o o.json");
  ASSERT_EQ(placed.status, 0) << placed.err;
  EXPECT_THAT(placed.out, HasSubstr("step time    12 us\n"));
  EXPECT_EQ(nlohmann::json::parse(Read("o.json")).at("order").size(), 2U);
  const Ran simulated = Emplace("simulate --graph tasks.json --cluster two.yaml --placement o.json");
  ASSERT_EQ(simulated.status, 0) << simulated.err;
  EXPECT_THAT(simulated.out, HasSubstr("step time    12 us\n"));
  ExpectRefused(Emplace("explain --graph tasks.json --cluster two.yaml --placement o.json"),
                "o.json: order: the ops have an order, which is not taken here (simulate takes it)");
}

TEST_F(OrderTest, AContradictionIsOneLine) {
  ASSERT_EQ(Emplace("place tasks.json --cluster two.yaml --order -o o.json").status, 0);
  nlohmann::json placement = nlohmann::json::parse(Read("o.json"));
  for (auto& [device, ops] : placement["order"].items()) std::reverse(ops.begin(), ops.end());
  Write("w.json", placement.dump());
  const Ran ran = Emplace("simulate --graph tasks.json --cluster two.yaml --placement w.json");
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("w.json: order: "));
  EXPECT_THAT(ran.err, HasSubstr("cycle"));
  ExpectRefused(Emplace("place tasks.json --cluster two.yaml --order --objective throughput -o x.json"),
                "--order: is for the step time of one batch (no --schedule, --objective step_time)");
}

}  // namespace
}  // namespace emplace::testing
