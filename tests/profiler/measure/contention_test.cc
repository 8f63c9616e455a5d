#include "profiler/measure/contention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/testing/fake_hardware.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::FakeLog;
using ::emplace::testing::FakeOp;
using ::emplace::testing::TwoFakeCores;
using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

class TestClock : public profiler::Clock {
 public:
  std::int64_t NowNs() const override { return now_; }
  void Add(std::int64_t ns) { now_ += ns; }

 private:
  std::atomic<std::int64_t> now_ = 0;
};

Profile Known(const std::vector<std::pair<std::string, double>>& times) {
  Profile profile;
  for (const auto& [signature, micros] : times) {
    Profile::OpEntry& entry = profile.ops.emplace_back();
    entry.signature = signature;
    entry.device = "cpu-core";
    entry.median_micros = micros;
  }
  return profile;
}

const auto kNoProgress = [](std::size_t) {};

std::vector<std::string> Names(const std::vector<profiler::ProfileTask>& tasks) {
  std::vector<std::string> names;
  names.reserve(tasks.size());
  for (const profiler::ProfileTask& task : tasks) names.push_back(task.recipe.name);
  return names;
}

TEST(ContentionTest, OpsWithATimeAreAsked) {
  const Graph graph =
      Build({FakeOp("a", {}, "relu", 10), FakeOp("b", {"a"}, "tanh", 10), FakeOp("c", {"b"}, "sigmoid", 10),
             FakeOp("d", {"c"}, "softmax", 10), FakeOp("e", {"d"}, "reshape", 10), FakeOp("f", {"e"}, "mystery", 10),
             FakeOp("g", {"f"}, "add", 10)});
  const Profile profile = Known({{"relu()", 50},
                                 {"tanh(f32[10])", 200},
                                 {"sigmoid(f32[10])", 100},
                                 {"softmax(f32[10])", 20},
                                 {"reshape(f32[10])->f32[10]", 1},
                                 {"mystery(f32[10])", 5}});
  const std::vector<profiler::ProfileTask> tasks = profiler::TimedTasks(graph, profile, "cpu-core");
  EXPECT_THAT(Names(tasks), ElementsAre("a", "b", "c", "d", "f"));  // a view takes no time, g's time is unknown
  EXPECT_EQ(tasks[1].micros, 200);
  EXPECT_TRUE(profiler::TimedTasks(graph, profile, "h200").empty());
}

// a once 50 us, b, c and e 90 together, d 20.
TEST(ContentionTest, TheLargestTasksAreTheFewestThatTakeThatShareOfAStep) {
  const Graph graph =
      Build({FakeOp("a", {}, "relu", 10), FakeOp("b", {"a"}, "tanh", 10), FakeOp("c", {"b"}, "tanh", 10),
             FakeOp("d", {"c"}, "softmax", 10), FakeOp("e", {"d"}, "tanh", 10)});
  const std::vector<profiler::ProfileTask> tasks =
      profiler::TimedTasks(graph, Known({{"relu()", 50}, {"tanh(f32[10])", 30}, {"softmax(f32[10])", 20}}), "cpu-core");
  EXPECT_THAT(profiler::LargestTasks(graph, tasks, 0.5), ElementsAre(1));
  EXPECT_THAT(profiler::LargestTasks(graph, tasks, 0.6), ElementsAre(1, 0));
  EXPECT_THAT(profiler::LargestTasks(graph, tasks, 1), ElementsAre(1, 0, 2));
  EXPECT_THAT(profiler::LargestTasks(graph, {}, 0.9), ElementsAre());
}

TEST(ContentionTest, BusyworkIsTheGraphsOpsInItsOrder) {
  const Graph graph =
      Build({FakeOp("a", {}, "relu", 10), FakeOp("b", {"a"}, "tanh", 10), FakeOp("c", {"b"}, "tanh", 10),
             FakeOp("d", {"c"}, "softmax", 10), FakeOp("e", {"d"}, "tanh", 10)});
  const std::vector<profiler::ProfileTask> tasks =
      profiler::TimedTasks(graph, Known({{"relu()", 50}, {"tanh(f32[10])", 30}, {"softmax(f32[10])", 20}}), "cpu-core");
  const auto names = [](const profiler::Busywork& work) {
    std::vector<std::string> in_order;
    in_order.reserve(work.order.size());
    for (const std::size_t i : work.order) in_order.push_back(work.tasks[i].recipe.name);
    return in_order;
  };
  EXPECT_THAT(names(profiler::BusyworkOf(graph, tasks, {1 << 20})), ElementsAre("a", "b", "b", "d", "b"));
  EXPECT_THAT(names(profiler::BusyworkOf(graph, tasks, {120})), ElementsAre("a", "b", "b", "b"));  // 40 and 80 bytes
  EXPECT_THAT(names(profiler::BusyworkOf(graph, tasks, {1})), ElementsAre("b", "b", "b"));  // 90 of the step's 160 us
  EXPECT_TRUE(profiler::BusyworkOf(graph, {}, {1}).order.empty());
}

// The first core's op "a" takes twice as long in every second run, those beside a busy neighbour.
TEST(ContentionTest, AnOpThatABusyNeighbourSlowsIsFoundAmongOthers) {
  TwoFakeCores cores;
  TestClock clock;
  std::atomic<int> others = 0;
  cores.second.on_run = [&](const std::string&) { ++others; };
  int runs_of_a = 0;
  int others_before = 0;
  cores.first.on_run = [&](const std::string& op) {
    bool beside = false;
    if (op == "a") {
      beside = runs_of_a > 0 && runs_of_a % 2 == 0;  // the first run is a warm-up
      if (beside) {
        EXPECT_GT(others, others_before);  // since a's last run, alone
      }
      others_before = others;
      ++runs_of_a;
    }
    clock.Add(beside ? 4000 : 2000);
  };
  const Graph graph = Build({FakeOp("a", {}, "relu", 10), FakeOp("b", {"a"}, "softmax", 10)});
  const std::vector<profiler::ProfileTask> tasks =
      profiler::TimedTasks(graph, Known({{"relu()", 2}, {"softmax(f32[10])", 2}}), "cpu-core");
  std::vector<double> factors;
  profiler::MeasureContention(
      tasks, profiler::BusyworkOf(graph, tasks, {1 << 20}), cores.first, cores.second, {.samples = 3}, clock,
      [&](std::size_t first, const std::vector<double>& of_batch) {
        EXPECT_EQ(first, factors.size());
        factors.insert(factors.end(), of_batch.begin(), of_batch.end());
      },
      kNoProgress);
  EXPECT_THAT(factors, ElementsAre(2, 1));
  std::map<std::string, std::size_t> runs;
  for (const FakeLog::Run& run : cores.log.runs()) ++runs[run.op + " on " + run.device];
  EXPECT_EQ(runs["a on cpu:0"], 1 + 3 * 2U);  // a warm-up, then three samples alone and three beside
  EXPECT_EQ(runs["b on cpu:0"], 1 + 3 * 2U);
  EXPECT_GE(runs["a on cpu:1"], 1 + 1U);
  EXPECT_GE(runs["b on cpu:1"], 1 + 1U);
}

TEST(ContentionTest, AnOpThatFailsOnTheNeighbourEndsTheMeasurement) {
  const Graph graph = Build({FakeOp("a", {}, "relu", 10)});
  const std::vector<profiler::ProfileTask> tasks = profiler::TimedTasks(graph, Known({{"relu()", 2}}), "cpu-core");
  for (const int good_runs : {1, 4}) {  // the first run is a warm-up
    TwoFakeCores cores;
    std::atomic<int> runs = 0;
    cores.second.on_run = [&](const std::string&) {
      if (runs++ >= good_runs) throw std::runtime_error("the neighbour is on fire");
    };
    EXPECT_THAT(
        [&] {
          profiler::MeasureContention(
              tasks, profiler::BusyworkOf(graph, tasks, {1 << 20}), cores.first, cores.second, {.samples = 100},
              TestClock(), [](std::size_t, const std::vector<double>&) { ADD_FAILURE(); }, kNoProgress);
        },
        ThrowsMessage<std::runtime_error>("the neighbour is on fire"));
  }
}

TEST(ContentionTest, LongOpsHaveFewerSamplesAndBatchesAreAsLargeAsMemory) {
  TwoFakeCores cores;
  const Graph graph = Build({FakeOp("a", {}, "relu", 10), FakeOp("b", {"a"}, "softmax", 10)});
  const std::vector<profiler::ProfileTask> tasks =
      profiler::TimedTasks(graph, Known({{"relu()", 50'000}, {"softmax(f32[10])", 1e9}}), "cpu-core");
  std::vector<std::size_t> firsts;
  profiler::MeasureContention(
      tasks, profiler::BusyworkOf(graph, tasks, {1 << 20}), cores.first, cores.second,
      {.seconds = 0.5, .batch_memory = {1}}, TestClock(),
      [&](std::size_t first, const std::vector<double>& factors) {
        EXPECT_EQ(factors.size(), 1U);
        firsts.push_back(first);
      },
      kNoProgress);
  EXPECT_THAT(firsts, ElementsAre(0, 1));
  std::map<std::string, std::size_t> runs;
  for (const FakeLog::Run& run : cores.log.runs()) ++runs[run.op + " on " + run.device];
  EXPECT_EQ(runs["a on cpu:0"], 1 + 5 * 2U);
  EXPECT_EQ(runs["b on cpu:0"], 1 + 3 * 2U);
}

// The file has both samples of a alone, 1 us, and one of two beside, 9 us.
TEST(ContentionTest, SamplesOfAStoppedRunCount) {
  const std::string path = ::testing::TempDir() + "contention_test.samples";
  std::filesystem::remove(path);
  TwoFakeCores cores;
  const Graph graph = Build({FakeOp("a", {}, "relu", 10)});
  const std::vector<profiler::ProfileTask> tasks = profiler::TimedTasks(graph, Known({{"relu()", 1}}), "cpu-core");
  {
    using profiler::SampleLog;
    SampleLog log(path, {});
    for (const auto& [of, micros] :
         {std::pair{SampleLog::Of::kAlone, 1.0}, {SampleLog::Of::kAlone, 1.0}, {SampleLog::Of::kBeside, 9.0}}) {
      log.Add(of, "cpu-core", tasks[0].signature, {.micros = micros, .slowdown = 1});
    }
  }
  profiler::SampleLog log(path, {});
  std::vector<double> factors;
  std::size_t turns = 0;
  TestClock clock;
  cores.first.on_run = [&](const std::string&) { clock.Add(5000); };
  profiler::MeasureContention(
      tasks, profiler::BusyworkOf(graph, tasks, {1 << 20}), cores.first, cores.second, {.samples = 2, .log = &log},
      clock, [&](std::size_t, const std::vector<double>& of_batch) { factors = of_batch; },
      [&](std::size_t done) { turns += done == 0 ? 1 : 0; });
  EXPECT_THAT(factors, ElementsAre(7));  // the median of 9 and 5, over 1
  EXPECT_EQ(turns, 1U);
  std::map<std::string, std::size_t> runs;
  for (const FakeLog::Run& run : cores.log.runs()) ++runs[run.device];
  EXPECT_EQ(runs["cpu:0"], 1 + 1U);  // the warm-up, and the sample that lacked
  log.Finish({});
  std::filesystem::remove(path);
}

TEST(ContentionTest, AClassHasTheMedianOfItsOps) {
  Profile profile = Known({{"relu(f32[1])", 1},
                           {"tanh(f32[1])", 1},
                           {"add(f32[1])", 1},
                           {"concat(f32[1]){axis=0}", 1},
                           {"mystery()", 1},
                           {"sigmoid(f32[1])", 1}});
  for (std::size_t i = 0; i + 1 < profile.ops.size(); ++i)
    profile.ops[i].contention = 1 + 0.1 * static_cast<double>(i * i);
  const auto by_class = profiler::ContentionByClass(profile, "cpu-core");
  EXPECT_EQ(by_class.size(), 2U);
  EXPECT_DOUBLE_EQ(by_class.at("elementwise"), 1.1);
  EXPECT_DOUBLE_EQ(by_class.at("copy"), 1.9);
  EXPECT_TRUE(profiler::ContentionByClass(profile, "h200").empty());
}

}  // namespace
}  // namespace emplace
