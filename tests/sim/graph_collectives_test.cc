#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/graph.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace graph_collectives_test {

using ::emplace::testing::Build;
using ::emplace::testing::ErrorOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

OpSpec Member(const std::string& name, const std::string& kind, const std::string& group,
              const std::vector<std::string>& inputs, const std::vector<std::int64_t>& outputs) {
  OpSpec spec;
  spec.name = name;
  spec.kind = kind;
  if (!group.empty()) spec.attrs = R"({"group":")" + group + R"("})";
  spec.inputs = inputs;
  for (const std::int64_t bytes : outputs) spec.outputs.emplace_back().size = Bytes{bytes};
  return spec;
}

std::vector<std::string> NamesOf(const Graph& graph, const Collective& collective) {
  std::vector<std::string> names;
  for (const OpId op : collective.members) names.emplace_back(graph.op(op).name);
  return names;
}

TEST(GraphCollectivesTest, OpsOfOneKindAndGroupAreOneCollective) {
  const Graph graph = Build(
      {Member("x0", "work", "", {}, {80, 20}), Member("x1", "work", "", {}, {80, 10}),
       Member("r1", "all_reduce", "r", {"x1:0", "x1:1"}, {80, 10}),
       Member("r0", "all_reduce", "r", {"x0:0", "x0:1"}, {80, 20}), Member("g0", "all_gather", "r", {"r0:0"}, {160}),
       Member("g1", "all_gather", "r", {"r1:0"}, {160}), Member("alone", "all_reduce", "", {"x0:0"}, {80})});
  ASSERT_EQ(graph.collectives().size(), 2U);
  const Collective& reduce = graph.collectives()[0];
  EXPECT_EQ(Name(reduce.kind), "all_reduce");
  EXPECT_EQ(reduce.group, "r");
  EXPECT_EQ(reduce.size, Bytes{100});  // the largest member's
  EXPECT_THAT(NamesOf(graph, reduce), ElementsAre("r0", "r1"));
  const Collective& gather = graph.collectives()[1];
  EXPECT_EQ(gather.kind, CollectiveKind::kAllGather);
  EXPECT_EQ(gather.size, Bytes{160});  // the size that each rank has at the end
  EXPECT_EQ(graph.CollectiveOf(*graph.FindOp("r1")), 0U);
  EXPECT_EQ(graph.CollectiveOf(*graph.FindOp("g0")), 1U);
  EXPECT_EQ(graph.CollectiveOf(*graph.FindOp("alone")), std::nullopt);
  EXPECT_EQ(Build({Member("x", "work", "", {}, {80})}).CollectiveOf(MakeId<OpId>(0)), std::nullopt);
}

TEST(GraphCollectivesTest, ASenderComesBeforeItsReceiver) {
  const Graph graph = Build({Member("x", "work", "", {}, {80}), Member("z_send", "send", "p", {"x:0"}, {}),
                             Member("a_recv", "recv", "p", {}, {80})});
  ASSERT_EQ(graph.collectives().size(), 1U);
  EXPECT_EQ(Name(graph.collectives()[0].kind), "send_receive");
  EXPECT_EQ(graph.collectives()[0].size, Bytes{80});
  EXPECT_THAT(NamesOf(graph, graph.collectives()[0]), ElementsAre("z_send", "a_recv"));
}

TEST(GraphCollectivesTest, WrongGroupsAreRefused) {
  EXPECT_EQ(ErrorOf([] {
              OpSpec spec = Member("r", "all_reduce", "", {}, {8});
              spec.attrs = R"({"group":3})";
              Build({spec});
            }),
            "ops[0].attrs.group: 3 is not a group (a nonempty string)");
  EXPECT_EQ(ErrorOf([] {
              Build({Member("a", "recv", "p", {}, {8}), Member("b", "recv", "p", {}, {8})});
            }),
            "ops[1].attrs.group: \"p\" has 2 ops of kinds send and recv (one of each)");
  EXPECT_EQ(ErrorOf([] { Build({Member("a", "recv", "p", {}, {8})}); }),
            "ops[0].attrs.group: \"p\" has 1 op of kinds send and recv (one of each)");
}

TEST(GraphCollectivesTest, CollectivesThatWaitForOneAnotherAreRefused) {
  // One device reduces a, then b; the other b, then a.
  const auto make = [](const std::string& second, const std::string& third) {
    return std::vector<OpSpec>{Member("a0", "all_reduce", "a", {}, {8}), Member("b0", "all_reduce", "b", {"a0:0"}, {8}),
                               Member("m1", "all_reduce", second, {}, {8}),
                               Member("n1", "all_reduce", third, {"m1:0"}, {8})};
  };
  EXPECT_EQ(Build(make("a", "b")).collectives().size(), 2U);
  EXPECT_THAT(ErrorOf([&] { Build(make("b", "a")); }),
              HasSubstr("can never start: \"n1\" waits for collectives that wait for one another"));
}

}  // namespace graph_collectives_test
}  // namespace emplace
