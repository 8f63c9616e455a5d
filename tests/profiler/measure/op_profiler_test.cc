#include "profiler/measure/op_profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "profiler/activity.h"
#include "tests/testing/errors.h"
#include "tests/testing/fake_hardware.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::ErrorOf;
using ::emplace::testing::FakeDevice;
using ::emplace::testing::FakeLog;
using ::emplace::testing::FakeOp;
using ::testing::ElementsAre;

// in -> a -> b -> c: a and b have one signature, c (a tanh) another.
Graph ThreeOps() {
  return Build({FakeOp("in", {}, "input"), FakeOp("a", {"in"}), FakeOp("b", {"a"}), FakeOp("c", {"b"}, "tanh")});
}

// Reports 100 * t + k µs for sample k of task t, or the times that the test sets.
class CountingMeter : public profiler::OpMeter {
 public:
  void Begin() override {
    ++rounds;
    measured_.clear();
  }
  void Sample(std::size_t task, profiler::OpKernel& kernel, const std::vector<profiler::TensorHandle>& inputs,
              std::vector<profiler::TensorHandle>* outputs) override {
    kernel.Run(inputs, outputs);
    order.push_back(task);
    std::vector<double>& micros = measured_[task].micros;
    micros.push_back(micros_of ? micros_of(rounds, micros.size()) : 1000.0 * static_cast<double>(task + 1));
    measured_[task].kernels = 2;
  }
  std::map<std::size_t, Measured> End() override { return measured_; }

  std::function<double(std::size_t, std::size_t)> micros_of;  // arguments: (round, sample)
  std::size_t rounds = 0;
  std::vector<std::size_t> order;

 private:
  std::map<std::size_t, Measured> measured_;
};

std::size_t DisturbedOf(const profiler::OpProfilerResult& result) {
  std::size_t sum = 0;
  for (const auto& [signature, count] : result.disturbed) sum += count;
  return sum;
}

const auto kIgnore = [](const profiler::OpProfilerProgress&, const std::vector<Profile::OpEntry>&) {};

TEST(OpProfilerTest, OnlyDistinctOpsThatTheProfileLacksAreMissing) {
  const Graph graph = ThreeOps();
  const std::vector<profiler::ProfileTask> all = profiler::MissingOps(graph, {}, "cpu-core");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].signature, "relu(f32[1])");
  EXPECT_EQ(all[0].recipe.name, "a");
  EXPECT_EQ(all[1].signature, "tanh(f32[1])");
  Profile known;
  for (const auto& [signature, kind] : {std::pair{"relu(f32[1])", "cpu-core"}, {"tanh(f32[1])", "h200"}}) {
    Profile::OpEntry& entry = known.ops.emplace_back();
    entry.signature = signature;
    entry.device = kind;
  }
  const std::vector<profiler::ProfileTask> missing = profiler::MissingOps(graph, known, "cpu-core");
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(missing[0].signature, "tanh(f32[1])");
}

TEST(OpProfilerTest, FreshInputsAreThoseThatNoVariableHolds) {
  const Graph graph = Build({FakeOp("in", {}, "input"), FakeOp("w", {}, "variable"), FakeOp("a", {"in", "w"}, "add"),
                             FakeOp("b", {"w", "a"}, "add")});
  EXPECT_THAT(profiler::FreshInputs(graph, *graph.FindOp("a")), ElementsAre(true, false));
  EXPECT_THAT(profiler::FreshInputs(graph, *graph.FindOp("b")), ElementsAre(false, true));
  EXPECT_THAT(profiler::MissingOps(graph, {}, "cpu-core")[0].fresh, ElementsAre(true, false));
}

// Before a sample, an op's inputs are in the caches, except weights. So is its previous output, whose memory is free
// again.
TEST(OpProfilerTest, CachesAreLeftAsInAStep) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  const std::vector<profiler::TensorHandle> inputs = {device.Make({}, 1), device.Make({}, 2), device.Make({}, 3)};
  std::vector<profiler::TensorHandle> outputs = {device.Make({}, 4)};
  const std::weak_ptr<profiler::DeviceTensor> last = outputs[0];
  const profiler::DeviceTensor* const written = outputs[0].get();
  profiler::LeaveAsInAStep(device, inputs, {true, false, true}, &outputs);
  EXPECT_THAT(device.touched, ElementsAre(written, inputs[0].get(), inputs[2].get()));
  EXPECT_TRUE(outputs.empty());
  EXPECT_TRUE(last.expired());
}

TEST(OpProfilerTest, SamplesOfDifferentOpsAreTakenInTurn) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  CountingMeter meter;
  const auto tasks = profiler::MissingOps(ThreeOps(), {}, "cpu-core");
  const profiler::OpProfilerResult result = profiler::ProfileOps(tasks, device, meter, {.samples = 3}, kIgnore);
  EXPECT_THAT(meter.order, ElementsAre(0, 1, 0, 1, 0, 1));
  ASSERT_EQ(result.ops.size(), 2U);
  EXPECT_EQ(result.ops[1].signature, "tanh(f32[1])");
  EXPECT_EQ(result.ops[1].device, "cpu-core");
  EXPECT_EQ(result.ops[1].median_micros, 2000);
  EXPECT_EQ(result.ops[1].samples, 3);
  EXPECT_EQ(result.ops[1].kernels, 2);
  EXPECT_EQ(result.ops[1].temp.count, 1024 - 256);  // the fake watch: peak minus kept bytes
  EXPECT_TRUE(result.too_wide.empty());
}

// Its records cannot be trusted in the first rounds.
class DoubtfulMeter : public CountingMeter {
 public:
  std::map<std::size_t, Measured> End() override {
    std::map<std::size_t, Measured> measured = CountingMeter::End();
    if (doubtful-- > 0) throw profiler::ActivityError("kernel \"k\" has no start time");
    return measured;
  }
  int doubtful = 0;
};

TEST(OpProfilerTest, ARoundThatCannotBeTrustedIsRunAgainTwiceAtMost) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  const auto tasks = profiler::MissingOps(ThreeOps(), {}, "cpu-core");
  DoubtfulMeter meter;
  meter.doubtful = 2;
  const profiler::OpProfilerResult result = profiler::ProfileOps(tasks, device, meter, {.samples = 3}, kIgnore);
  EXPECT_EQ(result.repeated_rounds, 2U);
  EXPECT_EQ(meter.order.size(), 3U * 6);
  ASSERT_EQ(result.ops.size(), 2U);
  EXPECT_EQ(result.ops[1].samples, 3);
  meter.doubtful = 3;
  EXPECT_THROW(profiler::ProfileOps(tasks, device, meter, {.samples = 3}, kIgnore), profiler::ActivityError);
}

// A GPU reports 3 µs for its kernels, but the call that starts them takes the host over 200 µs.
TEST(OpProfilerTest, BehindTheHostAnOpTakesNoLessThanTheHostsCall) {
  for (const bool is_cpu : {true, false}) {
    FakeDevice device("cuda:0", "a-gpu", nullptr, is_cpu);
    device.on_run = [](const std::string&) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
      while (std::chrono::steady_clock::now() < until) {
      }
    };
    CountingMeter meter;
    meter.micros_of = [](std::size_t, std::size_t) { return 3; };
    const profiler::OpProfilerResult result =
        profiler::ProfileOps(profiler::MissingOps(ThreeOps(), {}, "a-gpu"), device, meter, {}, kIgnore);
    for (const Profile::OpEntry& op : result.ops) {
      if (is_cpu) {
        EXPECT_EQ(op.median_micros, 3);
      } else {
        EXPECT_GE(op.median_micros, 200);
      }
    }
  }
}

TEST(OpProfilerTest, TimeEndsTheSamplesOfAnOpButForThree) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  CountingMeter meter;
  const auto tasks = profiler::MissingOps(ThreeOps(), {}, "cpu-core");
  // No op takes less than 1e-9 s, so the time limit is reached at once.
  const profiler::OpProfilerResult result =
      profiler::ProfileOps(tasks, device, meter, {.samples = 20, .seconds = 1e-9}, kIgnore);
  EXPECT_EQ(result.ops[0].samples, 3);
}

TEST(OpProfilerTest, AnOpMayBeSampledHoweverLongItTakes) {
  EXPECT_EQ(profiler::SamplesWithin(1, 100'000, 3, 20), 10U);
  EXPECT_EQ(profiler::SamplesWithin(1, 1e9, 3, 20), 3U);
  EXPECT_EQ(profiler::SamplesWithin(1, 1e9, 20, 20), 20U);
  EXPECT_EQ(profiler::SamplesWithin(1, 1e9, 20, 2), 2U);
}

// A run that is stopped after the sixth sample, the third of each of two ops, and one that takes it up.
TEST(OpProfilerTest, AStoppedRunsSamplesCountInTheNext) {
  const std::string path = ::testing::TempDir() + "op_profiler_test.samples";
  std::filesystem::remove(path);
  const std::vector<profiler::ProfileTask> tasks = profiler::MissingOps(ThreeOps(), {}, "cpu-core");
  std::size_t first_runs = 0;
  {
    FakeLog log;
    FakeDevice device("cpu:0", "cpu-core", &log);
    profiler::SampleLog samples(path, {});
    const auto meter = profiler::MakeClockMeter();
    const auto stop = [&](const profiler::OpProfilerProgress& now, const std::vector<Profile::OpEntry>& ops) {
      EXPECT_TRUE(ops.empty());
      EXPECT_EQ(now.total, 2U);
      if (log.runs().size() == 2 * 2 + 2 * 3) throw std::runtime_error("stopped");  // two warm-ups each
    };
    EXPECT_THROW(profiler::ProfileOps(tasks, device, *meter, {.samples = 5, .repeats = 0, .log = &samples}, stop),
                 std::runtime_error);
    first_runs = log.runs().size();
  }
  EXPECT_EQ(first_runs, 10U);
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  profiler::SampleLog samples(path, {});
  const auto meter = profiler::MakeClockMeter();
  const profiler::OpProfilerResult result =
      profiler::ProfileOps(tasks, device, *meter, {.samples = 5, .repeats = 0, .log = &samples}, kIgnore);
  EXPECT_EQ(log.runs().size(), 2U * 2 + 2 * 2);  // two more of each
  ASSERT_EQ(result.ops.size(), 2U);
  EXPECT_EQ(result.ops[0].samples, 5);
  EXPECT_EQ(result.ops[1].samples, 5);
  EXPECT_EQ(samples.Earlier(profiler::SampleLog::Of::kOp, "cpu-core", "relu(f32[1])").size(), 3U);
  samples.Finish({});
  std::filesystem::remove(path);
}

// Every fourth probe is slow, so two samples of four are beside a slow one; those take 5 us, the others 3.
TEST(OpProfilerTest, DisturbedSamplesAreTakenAgainAndTheLeastDisturbedCount) {
  for (const double patience : {1e6, 1e-9, 0.0}) {
    FakeLog log;
    FakeDevice device("cpu:0", "cpu-core", &log);
    std::size_t probes = 0;
    device.probe = [&] { return probes++ % 4 == 2 ? 14.0 : 10.0; };
    CountingMeter meter;
    std::size_t taken = 0;
    meter.micros_of = [&](std::size_t, std::size_t) {
      const std::size_t sample = taken++;  // between probes `sample` and `sample + 1`
      return sample % 4 == 1 || sample % 4 == 2 ? 5.0 : 3.0;
    };
    const auto tasks = profiler::MissingOps(ThreeOps(), {}, "cpu-core");
    const profiler::OpProfilerResult result = profiler::ProfileOps(
        tasks, device, meter, {.samples = 4, .wide_spread = 9, .patience_seconds = patience}, kIgnore);
    ASSERT_EQ(result.ops.size(), 2U);
    EXPECT_EQ(result.ops[0].samples, 4);
    EXPECT_EQ(result.ops[1].samples, 4);
    if (patience == 1e6) {
      EXPECT_EQ(DisturbedOf(result), 0U);
      EXPECT_EQ(meter.order.size(), probes - 1);
      EXPECT_GT(meter.order.size(), 12U);
      EXPECT_EQ(result.ops[0].p90_micros, 3);
      EXPECT_EQ(result.ops[1].p90_micros, 3);
    } else {
      EXPECT_EQ(meter.order.size(), 8U);  // the patience ended with the second
      EXPECT_EQ(DisturbedOf(result), patience > 0 ? 4U : 0U);
      EXPECT_EQ(probes, patience > 0 ? 9U : 0U);
    }
  }
}

// Every sample of "a" is disturbed, and the first two of "c".
TEST(OpProfilerTest, OpsThatComeFirstLeavePatienceToTheOthersLengthy) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  device.on_run = [](const std::string&) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
  CountingMeter meter;
  std::size_t probes = 0;
  std::size_t probes_of_c = 0;
  device.probe = [&] {
    if (meter.rounds == 2) ++probes_of_c;
    return probes++ == 0 || probes_of_c > 2 ? 10.0 : 20.0;
  };
  const auto tasks = profiler::MissingOps(ThreeOps(), {}, "cpu-core");
  const profiler::OpProfilerResult result = profiler::ProfileOps(
      tasks, device, meter, {.samples = 4, .wide_spread = 9, .patience_seconds = 1.5, .batch_memory = {1}}, kIgnore);
  EXPECT_EQ(DisturbedOf(result), 4U);  // all samples of a
  std::map<std::string, int> runs;
  for (const FakeLog::Run& run : log.runs()) ++runs[run.op];
  EXPECT_GT(runs["a"], 2 + 4);    // two are warm-ups
  EXPECT_LE(runs["a"], 2 + 150);  // runs of 5 ms each, in half of the patience
  EXPECT_EQ(runs["c"], 2 + 2 + 4);
}

// Round 1: samples from 1 to 20, widely spread; round 2: all 5. Those with the smaller spread are kept.
TEST(OpProfilerTest, WhatIsTooWideIsMeasuredAgainAndTheClosestSamplesCount) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  CountingMeter meter;
  meter.micros_of = [](std::size_t round, std::size_t sample) {
    return round == 1 ? 1.0 + static_cast<double>(sample) : 5.0;
  };
  const auto tasks = profiler::MissingOps(ThreeOps(), {}, "cpu-core");
  const profiler::OpProfilerResult result = profiler::ProfileOps(tasks, device, meter, {}, kIgnore);
  EXPECT_EQ(meter.rounds, 2U);
  EXPECT_EQ(result.ops[0].median_micros, 5);
  EXPECT_TRUE(result.too_wide.empty());
}

TEST(OpProfilerTest, WhatStaysTooWideIsReported) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  CountingMeter meter;
  meter.micros_of = [](std::size_t, std::size_t sample) { return 1.0 + static_cast<double>(sample); };
  const auto tasks = profiler::MissingOps(ThreeOps(), {}, "cpu-core");
  const profiler::OpProfilerResult result = profiler::ProfileOps(tasks, device, meter, {.repeats = 2}, kIgnore);
  EXPECT_EQ(meter.rounds, 3U);
  EXPECT_THAT(result.too_wide, ElementsAre("relu(f32[1])", "tanh(f32[1])"));
}

TEST(OpProfilerTest, BatchesHoldNoMoreInputsThanAllowedAndAreTold) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  CountingMeter meter;
  const auto tasks = profiler::MissingOps(ThreeOps(), {}, "cpu-core");
  std::vector<std::size_t> done;
  profiler::ProfileOps(tasks, device, meter, {.samples = 3, .batch_memory = {1}},
                       [&](const profiler::OpProfilerProgress& progress, const std::vector<Profile::OpEntry>& entries) {
                         EXPECT_EQ(progress.total, 2U);
                         EXPECT_LE(progress.done, 2U);
                         if (entries.empty()) return;  // within a batch
                         EXPECT_EQ(entries.size(), 1U);
                         done.push_back(progress.done);
                       });
  EXPECT_THAT(done, ElementsAre(1, 2));
  std::vector<std::string> order;
  for (const FakeLog::Run& run : log.runs()) order.push_back(run.op);
  EXPECT_THAT(order, ElementsAre("a", "a", "a", "a", "a", "c", "c", "c", "c", "c"));  // two warm-ups and three samples
}

TEST(OpProfilerTest, AnOpThatDoesNotFitIsNamed) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  CountingMeter meter;
  const auto tasks = profiler::MissingOps(Build({FakeOp("huge", {}, "too-large")}), {}, "cpu-core");
  EXPECT_EQ(ErrorOf([&] { profiler::ProfileOps(tasks, device, meter, {}, kIgnore); }),
            "huge: does not fit in the device's memory alone (no room)");
}

TEST(OpProfilerTest, OpsThatDoNotFitTogetherAreMeasuredAlone) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  bool fails = true;
  device.on_run = [&](const std::string& op) {
    if (op == "c" && std::exchange(fails, false)) throw profiler::DeviceOutOfMemory("no room beside a");
  };
  CountingMeter meter;
  const auto tasks = profiler::MissingOps(ThreeOps(), {}, "cpu-core");
  std::vector<std::size_t> done;
  const profiler::OpProfilerResult result = profiler::ProfileOps(
      tasks, device, meter, {.samples = 3}, [&](const profiler::OpProfilerProgress& progress, const auto& entries) {
        if (!entries.empty()) done.push_back(progress.done);
      });
  EXPECT_FALSE(fails);
  EXPECT_THAT(done, ElementsAre(1, 2));
  ASSERT_EQ(result.ops.size(), 2U);
  EXPECT_EQ(result.ops[0].signature, "relu(f32[1])");
  EXPECT_EQ(result.ops[1].signature, "tanh(f32[1])");
}

TEST(OpProfilerTest, TheClockMeterMeasuresRunsOfKernels) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  const auto meter = profiler::MakeClockMeter();
  const auto tasks = profiler::MissingOps(ThreeOps(), {}, "cpu-core");
  const profiler::OpProfilerResult result =
      profiler::ProfileOps(tasks, device, *meter, {.samples = 5, .wide_spread = 1e9}, kIgnore);
  EXPECT_GT(result.ops[0].median_micros, 0);
  EXPECT_EQ(result.ops[0].samples, 5);
}

}  // namespace
}  // namespace emplace
