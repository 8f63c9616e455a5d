#include "profiler/machine/machine_profiler.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "tests/testing/errors.h"
#include "tests/testing/fake_hardware.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::FakeDevice;
using ::emplace::testing::FakeLog;
using ::emplace::testing::FakeOp;
using ::emplace::testing::TwoFakeCores;

profiler::MachineProfilerOptions ByTheClock(bool links) {
  profiler::MachineProfilerOptions options{.ops = {.samples = 3, .repeats = 0},
                                           .links = links,
                                           .contention = links,
                                           .contention_options = {},
                                           .make_meter = {}};
  options.make_meter = [](profiler::HardwareDevice&) { return profiler::MakeClockMeter(); };
  return options;
}

TEST(MachineProfilerTest, EachKindOfDeviceIsMeasuredOnceAndASecondGraphOnlyWhereItIsNew) {
  TwoFakeCores cores;
  Profile profile;
  std::size_t saved = 0;
  const auto extend = [&](const Graph& graph) {
    return profiler::ExtendProfile(
        graph, cores.devices, ByTheClock(false), &profile, [&](const Profile&) { ++saved; },
        [](const profiler::MachineProfilerProgress&) {});
  };
  const profiler::MachineProfilerResult one = extend(Build({FakeOp("a"), FakeOp("b", {"a"}, "tanh")}));
  EXPECT_EQ(one.new_ops.at("cpu-core"), 2U);
  EXPECT_EQ(one.known_ops.at("cpu-core"), 0U);
  EXPECT_EQ(cores.second.prepared(), 0U);
  EXPECT_EQ(profile.ops.size(), 2U);
  ASSERT_EQ(profile.devices.size(), 1U);
  EXPECT_EQ(profile.devices[0].backend, "clock");
  EXPECT_EQ(saved, 2U);  // after the ops, and after the gap
  const profiler::MachineProfilerResult two = extend(Build({FakeOp("a"), FakeOp("b", {"a"}, "sigmoid")}));
  EXPECT_EQ(two.new_ops.at("cpu-core"), 1U);
  EXPECT_EQ(two.known_ops.at("cpu-core"), 1U);
  EXPECT_EQ(profile.ops.size(), 3U);
  EXPECT_EQ(profile.devices.size(), 1U);
}

TEST(MachineProfilerTest, BetweenDevicesLinksAndContentionAreMeasuredOnceLengthy) {
  TwoFakeCores cores;
  Profile profile;
  const profiler::MachineProfilerOptions options = ByTheClock(true);
  std::vector<std::string> progress;
  const auto extend = [&](const Graph& graph) {
    profiler::ExtendProfile(
        graph, cores.devices, options, &profile, [](const Profile&) {},
        [&](const profiler::MachineProfilerProgress& now) {
          if (now.what == "contention") progress.push_back(fmt::format("{} of {}", now.done, now.total));
        });
  };
  extend(Build({FakeOp("a"), FakeOp("b", {"a"}, "tanh")}));
  ASSERT_EQ(profile.links.size(), 1U);  // one entry per pair of kinds: core to core
  EXPECT_EQ(profile.links[0].from, "cpu-core");
  ASSERT_EQ(profile.devices.size(), 1U);
  EXPECT_EQ(profile.devices[0].contention.count("elementwise"), 1U);
  ASSERT_EQ(profile.ops.size(), 2U);
  ASSERT_TRUE(profile.ops[0].contention && profile.ops[1].contention);
  const double of_first = *profile.ops[0].contention;
  const std::size_t copies = static_cast<std::size_t>(cores.log.copies()["cpu:0 to cpu:1"]);
  EXPECT_EQ(static_cast<std::size_t>(cores.log.copies()["cpu:1 to cpu:0"]), copies);  // in both directions
  extend(Build({FakeOp("a"), FakeOp("b", {"a"}, "sigmoid")}));
  EXPECT_EQ(profile.links.size(), 1U);
  EXPECT_EQ(static_cast<std::size_t>(cores.log.copies()["cpu:0 to cpu:1"]), copies);
  EXPECT_EQ(profile.ops[0].contention, of_first);
  ASSERT_EQ(profile.ops.size(), 3U);
  EXPECT_TRUE(profile.ops[2].contention);
  progress.erase(std::unique(progress.begin(), progress.end()), progress.end());
  // Only the second graph's new op.
  EXPECT_THAT(progress, ::testing::ElementsAre("0 of 2", "1 of 2", "2 of 2", "0 of 1", "1 of 1"));
}

TEST(MachineProfilerTest, WhereLinksDifferThoseOfOtherDevicesAreMeasuredToo) {
  TwoFakeCores cores;
  Profile profile;
  profile.links = {
      {.from = "cpu-core", .to = "cpu-core", .bandwidth_gb_per_s = 1},
      {.from = "cpu-core", .to = "cpu-core", .bandwidth_gb_per_s = 1, .from_device = "cpu:0", .to_device = "cpu:1"}};
  const auto extend = [&] {
    profiler::ExtendProfile(
        Build({FakeOp("a")}), cores.devices, ByTheClock(true), &profile, [](const Profile&) {},
        [](const profiler::MachineProfilerProgress&) {});
  };
  extend();
  ASSERT_EQ(profile.links.size(), 3U);
  EXPECT_EQ(profile.links[2].from_device, "cpu:1");
  EXPECT_EQ(profile.links[2].to_device, "cpu:0");
  EXPECT_EQ(cores.log.copies()["cpu:0 to cpu:1"], 0);
  extend();
  EXPECT_EQ(profile.links.size(), 3U);
}

TEST(MachineProfilerTest, StoppedInTheMiddleItHasSavedWhatIsWhole) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  const std::vector<profiler::HardwareDevice*> devices = {&device};
  profiler::MachineProfilerOptions options = ByTheClock(false);
  options.ops.batch_memory = {1};
  Profile profile;
  Profile last_saved;
  struct Stop {};
  EXPECT_THROW(profiler::ExtendProfile(
                   Build({FakeOp("a"), FakeOp("b", {"a"}, "tanh")}), devices, options, &profile,
                   [&](const Profile& now) { last_saved = now; },
                   [](const profiler::MachineProfilerProgress& now) {
                     if (now.done == 1) throw Stop();
                   }),
               Stop);
  ASSERT_EQ(last_saved.ops.size(), 1U);
  EXPECT_EQ(last_saved.ops[0].signature, "relu()");
}

// "long" takes 20 ms, longer than there is for all of its samples, and most of the step. Three are taken first. "b"
// takes next to nothing.
TEST(MachineProfilerTest, OpsThatTakeMostOfAStepAreSampledHoweverLongTheyTake) {
  TwoFakeCores cores;
  cores.first.on_run = cores.second.on_run = [](const std::string& op) {
    if (op == "long") std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  profiler::MachineProfilerOptions options = ByTheClock(false);
  options.ops = {.samples = 6, .seconds = 0.01, .repeats = 0};
  Profile profile;
  const Graph graph = Build({FakeOp("long"), FakeOp("b", {"long"}, "tanh")});
  const profiler::MachineProfilerResult result = profiler::ExtendProfile(
      graph, cores.devices, options, &profile, [](const Profile&) {}, [](const profiler::MachineProfilerProgress&) {});
  EXPECT_EQ(result.new_ops.at("cpu-core"), 2U);
  EXPECT_EQ(result.sampled_again, 1U);
  ASSERT_EQ(profile.ops.size(), 2U);
  EXPECT_EQ(profile.ops[0].samples, 6);
  EXPECT_GE(profile.ops[0].median_micros, 20'000);
}

// Canonical order would be in, a, z. A step holds 12 bytes.
TEST(MachineProfilerTest, RecordedProgramsAreSampledWithinStepsThatFit) {
  const Graph recorded =
      Build({FakeOp("in", {}, "input"), FakeOp("z", {"in"}, "aten::relu"), FakeOp("a", {"in"}, "aten::tanh")});
  const Graph generated = Build({FakeOp("in", {}, "input"), FakeOp("z", {"in"}), FakeOp("a", {"in"}, "tanh")});
  const auto first_ops = [](const Graph& graph, profiler::Sampling sampling, std::optional<Bytes> memory,
                            profiler::MachineProfilerResult* result, bool fails = false) {
    FakeLog log;
    FakeDevice device("cpu:0", "cpu-core", &log);
    if (memory) device.set_memory(*memory);
    bool failed = !fails;
    device.on_run = [&failed](const std::string& op) {
      if (op == "a" && !std::exchange(failed, true)) throw profiler::DeviceOutOfMemory("no room");
    };
    profiler::MachineProfilerOptions options = ByTheClock(false);
    options.sampling = sampling;
    Profile profile;
    const std::vector<profiler::HardwareDevice*> devices = {&device};
    *result = profiler::ExtendProfile(
        graph, devices, options, &profile, [](const Profile&) {}, [](const profiler::MachineProfilerProgress&) {});
    EXPECT_EQ(profile.ops.size(), 2U);
    for (const Profile::OpEntry& entry : profile.ops) EXPECT_EQ(entry.samples, 3);
    return log.runs()[0].op + log.runs()[1].op;  // two runs of one op, where it is prepared by itself
  };
  using profiler::Sampling;
  profiler::MachineProfilerResult result;
  EXPECT_EQ(first_ops(recorded, Sampling::kAuto, std::nullopt, &result), "za");
  EXPECT_THAT(result.in_steps, ::testing::ElementsAre("cpu-core"));
  EXPECT_EQ(result.not_in_steps, "");
  EXPECT_EQ(first_ops(recorded, Sampling::kAuto, Bytes{8}, &result), "za");
  EXPECT_EQ(first_ops(recorded, Sampling::kAuto, Bytes{7}, &result), "aa");
  EXPECT_TRUE(result.in_steps.empty());
  EXPECT_EQ(result.not_in_steps, "cpu:0: a whole step does not fit in its memory (it takes 8 B, and there are 7 B)");
  EXPECT_EQ(first_ops(recorded, Sampling::kAuto, std::nullopt, &result, /*fails=*/true), "za");
  EXPECT_EQ(result.not_in_steps, "cpu:0: a whole step does not fit in its memory (no room)");
  EXPECT_EQ(first_ops(recorded, Sampling::kOps, std::nullopt, &result), "aa");
  EXPECT_EQ(result.not_in_steps, "");
  EXPECT_EQ(first_ops(generated, Sampling::kAuto, std::nullopt, &result), "aa");
  EXPECT_EQ(first_ops(generated, Sampling::kSteps, std::nullopt, &result), "za");
  EXPECT_EQ(testing::ErrorOf([&] { first_ops(recorded, Sampling::kSteps, Bytes{7}, &result); }),
            "cpu:0: a whole step does not fit in its memory (it takes 8 B, and there are 7 B)");
}

// "a" takes 1 and 9 ms in turn; "b" is a view.
TEST(MachineProfilerTest, OpsWhoseSamplesAreFarApartAreNamedWithTheirPartOfTheStep) {
  TwoFakeCores cores;
  int runs = 0;
  cores.first.on_run = [&](const std::string& op) {
    if (op == "a") std::this_thread::sleep_for(std::chrono::milliseconds(++runs % 2 == 0 ? 1 : 9));
  };
  profiler::MachineProfilerOptions options = ByTheClock(false);
  options.ops = {.samples = 4, .repeats = 0, .patience_seconds = 1e-9};
  cores.first.probe = [] { return 20.0; };
  Profile profile;
  const profiler::MachineProfilerResult result = profiler::ExtendProfile(
      Build({FakeOp("a"), FakeOp("b", {"a"}, "reshape")}), cores.devices, options, &profile, [](const Profile&) {},
      [](const profiler::MachineProfilerProgress&) {});
  EXPECT_EQ(std::count(result.too_wide.begin(), result.too_wide.end(), "relu()"), 1);
  EXPECT_EQ(result.wide_share, 1);  // a view does not count
  ASSERT_EQ(profile.devices.size(), 1U);
  EXPECT_EQ(profile.devices[0].probe_micros, 20);
}

}  // namespace
}  // namespace emplace
