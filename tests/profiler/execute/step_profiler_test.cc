#include "profiler/execute/step_profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "profiler/activity.h"
#include "tests/testing/fake_hardware.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::FakeDevice;
using ::emplace::testing::FakeLog;
using ::emplace::testing::FakeOp;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const auto kIgnoreSteps = [](const profiler::OpProfilerProgress&) {};

// Canonical order would be in, w, a, b, z. c, which nobody reads, is the last of the program, and d waits for it.
Graph Program() {
  OpSpec last = FakeOp("d", {"a"}, "aten::tanh");
  last.control_inputs = {"c"};
  return Build({FakeOp("w", {}, "variable"), FakeOp("in", {}, "input"), FakeOp("z", {"in"}, "aten::relu"),
                FakeOp("a", {"z", "w"}, "aten::add.Tensor"), FakeOp("b", {"a"}, "aten::relu"),
                FakeOp("c", {"a", "b"}, "aten::add.Tensor"), last});
}

std::vector<std::string> Names(const Graph& graph, const std::vector<OpId>& ops) {
  std::vector<std::string> names;
  for (const OpId op : ops) names.emplace_back(graph.op(op).name);
  return names;
}

std::vector<std::string> RunsOf(const FakeLog& log) {
  std::vector<std::string> names;
  for (const FakeLog::Run& run : log.runs()) names.push_back(run.op);
  return names;
}

profiler::OpProfilerResult Profiled(const Graph& graph, FakeDevice& device,
                                    const profiler::OpProfilerOptions& options) {
  const auto meter = profiler::MakeClockMeter();
  return profiler::ProfileSteps(graph, profiler::MissingOps(graph, {}, device.kind()), device, *meter, options,
                                kIgnoreSteps);
}

TEST(StepProfilerTest, ARecordedProgramHasAtensOperatorsAlone) {
  EXPECT_TRUE(profiler::IsRecordedProgram(Program()));
  EXPECT_FALSE(profiler::IsRecordedProgram(Build({FakeOp("in", {}, "input")})));
  EXPECT_FALSE(profiler::IsRecordedProgram(
      Build({FakeOp("in", {}, "input"), FakeOp("a", {"in"}, "aten::relu"), FakeOp("b", {"a"}, "relu")})));
}

TEST(StepProfilerTest, TheProgramIsInTheOrderOfTheFileUnlessThatCannotRun) {
  const Graph graph = Program();
  EXPECT_THAT(Names(graph, profiler::ProgramOrder(graph)), ElementsAre("w", "in", "z", "a", "b", "c", "d"));
  const Graph backwards = Build({FakeOp("b", {"a"}), FakeOp("a", {"in"}), FakeOp("in", {}, "input")});
  EXPECT_THAT(Names(backwards, profiler::ProgramOrder(backwards)), ElementsAre("in", "a", "b"));
}

TEST(StepProfilerTest, AStepHoldsItsDataAndWhatIsStillToBeRead) {
  OpSpec large = FakeOp("b", {"a"}, "aten::relu", 100);
  large.temp = Bytes{1000};
  // Data: 40 bytes. While b runs: a and b, 8 and 400 bytes, and 1000 of its own; a is gone when c runs.
  EXPECT_EQ(profiler::MemoryOfSteps(Build({FakeOp("in", {}, "input", 10), FakeOp("a", {"in"}, "aten::relu", 2), large,
                                           FakeOp("c", {"b"}, "aten::relu", 250)})),
            Bytes{40 + 8 + 400 + 1000});
  // The same, but for c: 1200 bytes beside b.
  EXPECT_EQ(profiler::MemoryOfSteps(Build({FakeOp("in", {}, "input", 10), FakeOp("a", {"in"}, "aten::relu", 2), large,
                                           FakeOp("c", {"b"}, "aten::relu", 300)})),
            Bytes{40 + 400 + 1200});
}

TEST(StepProfilerTest, EachOpRunsOnceAStepOnWhatTheOpsBeforeItMade) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  const Graph graph = Program();
  const profiler::OpProfilerResult result = Profiled(graph, device, {.samples = 3});
  const std::vector<std::string> step = {"z", "a", "b", "c", "d"};
  std::vector<std::string> runs;
  for (int i = 0; i < 2 + 3; ++i) runs.insert(runs.end(), step.begin(), step.end());
  EXPECT_EQ(RunsOf(log), runs);
  // Each output is 1 and its inputs: z is 2, a is 1 + 2 + 1, b is 5.
  EXPECT_THAT(log.runs()[8].inputs, ElementsAre(4, 5));
  ASSERT_EQ(result.ops.size(), 3U);
  std::map<std::string, std::int64_t> samples;
  for (const Profile::OpEntry& entry : result.ops) {
    samples[entry.signature] = entry.samples;
    EXPECT_EQ(entry.device, "cpu-core");
    EXPECT_GT(entry.median_micros, 0);
    EXPECT_EQ(entry.temp, Bytes{1024 - 256});  // the fake watch
    EXPECT_FALSE(entry.host_micros);
  }
  EXPECT_EQ(samples,
            (std::map<std::string, std::int64_t>{
                {"aten::add.Tensor(f32[1],f32[1])", 6}, {"aten::relu(f32[1])", 6}, {"aten::tanh(f32[1])", 3}}));
}

TEST(StepProfilerTest, OnlyTheTasksAreSampledButAllOpsRun) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  const Graph graph = Program();
  std::vector<profiler::ProfileTask> tasks = profiler::MissingOps(graph, {}, "cpu-core");
  tasks.resize(1);
  const auto meter = profiler::MakeClockMeter();
  std::vector<std::size_t> done;
  const profiler::OpProfilerResult result = profiler::ProfileSteps(graph, tasks, device, *meter, {.samples = 2},
                                                                   [&](const profiler::OpProfilerProgress& now) {
                                                                     done.push_back(now.done);
                                                                     EXPECT_EQ(now.total, 1U);
                                                                   });
  ASSERT_EQ(result.ops.size(), 1U);
  EXPECT_EQ(result.ops[0].signature, "aten::relu(f32[1])");
  EXPECT_EQ(result.ops[0].samples, 4);
  EXPECT_EQ(log.runs().size(), 5U * (2 + 2));
  EXPECT_THAT(done, ElementsAre(0, 1));
}

// A step has six probes. With every seventh of them slow, two of the five samples of a step are beside a slow one at
// most, and other ones in each step.
TEST(StepProfilerTest, StepsFollowUntilEachTaskHasCalmSamples) {
  for (const double patience : {1e6, 1e-9, 0.0}) {
    FakeLog log;
    FakeDevice device("cpu:0", "cpu-core", &log);
    std::size_t probes = 0;
    device.probe = [&] { return probes++ % 7 == 6 ? 14.0 : 10.0; };
    const profiler::OpProfilerResult result = Profiled(Program(), device, {.samples = 8, .patience_seconds = patience});
    const std::size_t steps = log.runs().size() / 5 - 2;
    ASSERT_EQ(result.ops.size(), 3U);
    if (patience == 1e6) {
      EXPECT_GT(steps, 8U);
      EXPECT_THAT(result.disturbed, IsEmpty());
      EXPECT_EQ(result.ops[2].samples, 8);  // the tanh, once a step
      EXPECT_EQ(result.fastest_probe_micros, 10);
    } else if (patience > 0) {
      EXPECT_EQ(steps, 9U);  // all of the patience is gone after one more step
      EXPECT_EQ(result.patience_seconds, 0);
      EXPECT_EQ(result.disturbed.size(), 1U);
      EXPECT_EQ(result.ops[2].samples, 8);
    } else {
      EXPECT_EQ(steps, 8U);
      EXPECT_EQ(probes, 0U);
      EXPECT_THAT(result.disturbed, IsEmpty());
    }
  }
}

// The samples of two steps are in the file when the run is stopped.
TEST(StepProfilerTest, AStoppedRunsSamplesCountInTheNext) {
  const std::string path = ::testing::TempDir() + "step_profiler_test.samples";
  std::filesystem::remove(path);
  const Graph graph = Program();
  const std::vector<profiler::ProfileTask> tasks = profiler::MissingOps(graph, {}, "cpu-core");
  const auto meter = profiler::MakeClockMeter();
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  {
    profiler::SampleLog samples(path, {});
    int left = 2;
    EXPECT_THROW(profiler::ProfileSteps(graph, tasks, device, *meter, {.samples = 5, .log = &samples},
                                        [&](const profiler::OpProfilerProgress&) {
                                          if (--left == 0) throw std::runtime_error("stopped");
                                        }),
                 std::runtime_error);
  }
  EXPECT_EQ(log.runs().size(), 5U * (2 + 2));
  profiler::SampleLog samples(path, {});
  EXPECT_EQ(samples.Earlier(profiler::SampleLog::Of::kInStep, "cpu-core", "aten::tanh(f32[1])").size(), 2U);
  EXPECT_THAT(samples.Earlier(profiler::SampleLog::Of::kOp, "cpu-core", "aten::tanh(f32[1])"), IsEmpty());
  const profiler::OpProfilerResult result =
      profiler::ProfileSteps(graph, tasks, device, *meter, {.samples = 5, .log = &samples}, kIgnoreSteps);
  EXPECT_EQ(log.runs().size(), 5U * (2 + 2) + 5U * (2 + 3));
  EXPECT_EQ(result.ops[2].samples, 5);
  Profile profile;
  profile.ops = result.ops;
  samples.Finish(profile);
  EXPECT_FALSE(std::filesystem::exists(path));
}

// A meter whose records cannot be trusted at first, and whose device is busy for 3 us.
class DoubtfulStepMeter : public profiler::OpMeter {
 public:
  void Begin() override { measured_.clear(); }
  void Sample(std::size_t task, profiler::OpKernel& kernel, const std::vector<profiler::TensorHandle>& inputs,
              std::vector<profiler::TensorHandle>* outputs) override {
    kernel.Run(inputs, outputs);
    measured_[task].micros.push_back(3);
    measured_[task].kernels = 2;
  }
  std::map<std::size_t, Measured> End() override {
    if (doubtful-- > 0) throw profiler::ActivityError("kernel \"k\" has no start time");
    return measured_;
  }
  int doubtful = 0;

 private:
  std::map<std::size_t, Measured> measured_;
};

TEST(StepProfilerTest, BehindTheHostAnOpTakesNoLessThanTheHostsCallAndAStepIsRepeatedTwice) {
  FakeDevice device("cuda:0", "a-gpu", nullptr, /*is_cpu=*/false);
  device.on_run = [](const std::string&) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
    while (std::chrono::steady_clock::now() < until) {
    }
  };
  const Graph graph = Program();
  const std::vector<profiler::ProfileTask> tasks = profiler::MissingOps(graph, {}, "a-gpu");
  DoubtfulStepMeter meter;
  meter.doubtful = 2;
  const profiler::OpProfilerResult result =
      profiler::ProfileSteps(graph, tasks, device, meter, {.samples = 3}, kIgnoreSteps);
  EXPECT_EQ(result.repeated_rounds, 2U);
  for (const Profile::OpEntry& op : result.ops) {
    EXPECT_GE(op.median_micros, 200);
    EXPECT_EQ(op.device_micros, 3);
    EXPECT_EQ(op.host_micros, op.median_micros);
    EXPECT_EQ(op.kernels, 2);
  }
  meter.doubtful = 3;
  EXPECT_THROW(profiler::ProfileSteps(graph, tasks, device, meter, {.samples = 3}, kIgnoreSteps),
               profiler::ActivityError);
}

}  // namespace
}  // namespace emplace
