#include "profiler/execute/placed_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::MakeOp;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto kFirst = DeviceId{0};
constexpr auto kSecond = DeviceId{1};
constexpr auto kThird = DeviceId{2};

// a writes two tensors; b reads a:0 and a:1 on a second device, c reads a:0 on a's device, d reads a:0 on a third.
struct Fan {
  Graph graph = Build({MakeOp("a", 1, {}, {8, 16}), MakeOp("b", 1, {"a:0", "a:1", "a:0"}), MakeOp("c", 1, {"a:0"}),
                       MakeOp("d", 1, {"a:0"})});
  profiler::PlacedProgram program = profiler::MakePlacedProgram(graph, Placement({kFirst, kSecond, kFirst, kThird}), 3);
};

TEST(PlacedProgramTest, CopiesGoByOutputThenByDestination) {
  const Fan fan;
  const profiler::PlacedProgram::Step& a = fan.program.steps[0];
  ASSERT_EQ(a.copies.size(), 3U);
  const auto to = [&](std::size_t i) { return fan.program.slots[fan.program.copies[a.copies[i]].to]; };
  EXPECT_EQ(to(0).device, kSecond);
  EXPECT_EQ(to(0).size.count, 8);
  EXPECT_EQ(to(1).device, kThird);
  EXPECT_EQ(to(2).device, kSecond);
  EXPECT_EQ(to(2).size.count, 16);
  EXPECT_THAT(fan.program.num_copies, ElementsAre(3, 0, 0));
}

TEST(PlacedProgramTest, AnOpWaitsOnceForEachLocalProducerAndEachCopy) {
  const Fan fan;
  EXPECT_EQ(fan.program.steps[0].waits, 0U);
  EXPECT_EQ(fan.program.steps[1].waits, 2U);  // two copies, one of them read twice
  EXPECT_EQ(fan.program.steps[2].waits, 1U);
  EXPECT_EQ(fan.program.steps[3].waits, 1U);
  EXPECT_THAT(fan.program.steps[0].next_here, ElementsAre(OpId{2}));
  EXPECT_THAT(fan.program.roots[0], ElementsAre(OpId{0}));
  EXPECT_THAT(fan.program.roots[1], IsEmpty());
}

TEST(PlacedProgramTest, ATensorIsFreedAfterItsReadersAndTheCopiesThatLeave) {
  const Fan fan;
  const auto& a = fan.program.steps[0];
  EXPECT_EQ(fan.program.slots[a.outputs[0]].uses, 3U);  // c, and copies to two devices
  EXPECT_EQ(fan.program.slots[a.outputs[1]].uses, 1U);  // one copy
  const auto& b = fan.program.steps[1];
  EXPECT_THAT(b.inputs, ElementsAre(b.inputs[0], b.inputs[1], b.inputs[0]));
  EXPECT_EQ(b.frees.size(), 2U);
  for (const std::uint32_t slot : b.frees) {
    EXPECT_EQ(fan.program.slots[slot].uses, 1U);
    EXPECT_EQ(fan.program.slots[slot].device, kSecond);
  }
}

TEST(PlacedProgramTest, ControlEdgesTellWithoutACopy) {
  OpSpec near = MakeOp("near", 1);
  near.control_inputs = {"a"};
  OpSpec remote = MakeOp("remote", 1);
  remote.control_inputs = {"a"};
  const Graph graph = Build({MakeOp("a", 1), near, remote});
  const profiler::PlacedProgram program = profiler::MakePlacedProgram(graph, Placement({kFirst, kFirst, kSecond}), 2);
  EXPECT_THAT(program.copies, IsEmpty());
  EXPECT_THAT(program.steps[0].next_here, ElementsAre(OpId{1}));
  EXPECT_THAT(program.steps[0].next_elsewhere, ElementsAre(OpId{2}));
  EXPECT_EQ(program.steps[2].waits, 1U);
}

// An op that depends on another by data and by a control edge waits for it once.
TEST(PlacedProgramTest, DataAndControlFromOneLocalProducerAreOneWait) {
  OpSpec both = MakeOp("b", 1, {"a"});
  both.control_inputs = {"a"};
  const Graph graph = Build({MakeOp("a", 1), both});
  EXPECT_EQ(profiler::MakePlacedProgram(graph, Placement(2), 1).steps[1].waits, 1U);
  // On another device, the copy and the control edge arrive separately.
  EXPECT_EQ(profiler::MakePlacedProgram(graph, Placement({kFirst, kSecond}), 2).steps[1].waits, 2U);
}

}  // namespace
}  // namespace emplace
