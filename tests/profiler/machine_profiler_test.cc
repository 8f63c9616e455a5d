#include "profiler/machine_profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/fake_hardware.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::FakeDevice;
using ::emplace::testing::FakeLog;
using ::emplace::testing::FakeOp;
using ::emplace::testing::TwoFakeCores;

MachineProfilerOptions ByTheClock(bool links) {
  MachineProfilerOptions options{.ops = {.samples = 3, .repeats = 0},
                                 .links = links,
                                 .contention = links,
                                 .contention_options = {},
                                 .make_meter = {}};
  options.make_meter = [](HardwareDevice&) { return MakeClockMeter(); };
  return options;
}

TEST(MachineProfilerTest, EachKindOfDeviceIsMeasuredOnceAndASecondGraphOnlyWhereItIsNew) {
  TwoFakeCores cores;
  Profile profile;
  std::size_t saved = 0;
  const auto extend = [&](const Graph& graph) {
    return ExtendProfile(
        graph, cores.devices, ByTheClock(false), &profile, [&](const Profile&) { ++saved; },
        [](const MachineProfilerProgress&) {});
  };
  const MachineProfilerResult one = extend(Build({FakeOp("a"), FakeOp("b", {"a"}, "tanh")}));
  EXPECT_EQ(one.new_ops.at("cpu-core"), 2U);
  EXPECT_EQ(one.known_ops.at("cpu-core"), 0U);
  EXPECT_EQ(cores.second.prepared(), 0U);
  EXPECT_EQ(profile.ops.size(), 2U);
  ASSERT_EQ(profile.devices.size(), 1U);
  EXPECT_EQ(profile.devices[0].backend, "clock");
  EXPECT_EQ(saved, 2U);  // the ops, the gap
  const MachineProfilerResult two = extend(Build({FakeOp("a"), FakeOp("b", {"a"}, "sigmoid")}));
  EXPECT_EQ(two.new_ops.at("cpu-core"), 1U);
  EXPECT_EQ(two.known_ops.at("cpu-core"), 1U);
  EXPECT_EQ(profile.ops.size(), 3U);
  EXPECT_EQ(profile.devices.size(), 1U);
}

TEST(MachineProfilerTest, BetweenDevicesLinksAndContentionAreMeasuredOnce) {
  TwoFakeCores cores;
  Profile profile;
  const Graph graph = Build({FakeOp("a"), FakeOp("b", {"a"}, "tanh")});
  MachineProfilerOptions options = ByTheClock(true);
  options.contention_options.least_micros = 1e12;
  const auto extend = [&] {
    ExtendProfile(
        graph, cores.devices, options, &profile, [](const Profile&) {}, [](const MachineProfilerProgress&) {});
  };
  extend();
  ASSERT_EQ(profile.links.size(), 1U);  // by kind: from a core to another
  EXPECT_EQ(profile.links[0].from, "cpu-core");
  ASSERT_EQ(profile.devices.size(), 1U);
  EXPECT_TRUE(profile.devices[0].contention.empty());  // the fake ops are shorter than 10^12 us
  const std::size_t copies = static_cast<std::size_t>(cores.log.copies()["cpu:0 to cpu:1"]);
  EXPECT_EQ(static_cast<std::size_t>(cores.log.copies()["cpu:1 to cpu:0"]), copies);  // in both directions
  extend();
  EXPECT_EQ(profile.links.size(), 1U);
  EXPECT_EQ(static_cast<std::size_t>(cores.log.copies()["cpu:0 to cpu:1"]), copies);
  options.contention_options.least_micros = 0;
  extend();
  EXPECT_EQ(profile.devices[0].contention.count("elementwise"), 1U);
}

TEST(MachineProfilerTest, StoppedInTheMiddleItHasSavedWhatIsWhole) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  const std::vector<HardwareDevice*> devices = {&device};
  MachineProfilerOptions options = ByTheClock(false);
  options.ops.batch_memory = {1};
  Profile profile;
  Profile last_saved;
  struct Stop {};
  EXPECT_THROW(ExtendProfile(
                   Build({FakeOp("a"), FakeOp("b", {"a"}, "tanh")}), devices, options, &profile,
                   [&](const Profile& now) { last_saved = now; }, [](const MachineProfilerProgress&) { throw Stop(); }),
               Stop);
  ASSERT_EQ(last_saved.ops.size(), 1U);
  EXPECT_EQ(last_saved.ops[0].signature, "relu()");
}

}  // namespace
}  // namespace emplace
