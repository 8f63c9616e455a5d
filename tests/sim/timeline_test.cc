#include "sim/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using nlohmann::json;
using testing::MakeChain;
using testing::MakeCluster;
using testing::MakeOp;
using testing::MeasuredCosts;
using testing::RandomDag;
using testing::RandomPlacement;
using testing::TwoDevices;

json Trace(const Timeline& timeline, const Graph& graph, const Cluster& cluster) {
  std::ostringstream text;
  WriteChromeTrace(text, timeline, graph, cluster);
  return json::parse(text.str());
}

std::vector<json> Events(const json& trace, const std::string& phase) {
  std::vector<json> events;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) events.push_back(event);
  }
  return events;
}

TEST(ChromeTraceTest, TellsWhatAnIssueLaneDoes) {
  const Graph graph = MakeChain(2, 4, 0);
  std::vector<Device> devices = MakeCluster(1).devices();
  devices[0].issue = {.host_micros = 1, .launch_latency_micros = 2};
  const Cluster cluster = Cluster::Uniform("fed", devices, {});
  const json trace =
      Trace(Simulator(graph, cluster, MeasuredCosts(graph, cluster)).Record(Placement(2)), graph, cluster);
  std::vector<json> issues;
  for (const json& event : Events(trace, "X")) {
    if (event.at("tid") == 2) issues.push_back(event);
  }
  ASSERT_EQ(issues.size(), 2U);
  EXPECT_EQ(issues[0].at("ts"), 0);
  EXPECT_EQ(issues[1].at("ts"), 1);
  EXPECT_EQ(issues[1].at("dur"), 1);
  EXPECT_EQ(issues[1].at("cat"), "issue");
}

TEST(ChromeTraceTest, TellsOpsTransfersAndMemoryOfAChainOverTwoDevices) {
  // op0 runs 0-4 on gpu:0, its 2000 bytes are sent 4-6 (1000 bytes/us), op1 runs 6-10 on gpu:1.
  const Graph graph = MakeChain(2, 4, 2000);
  const Cluster cluster = TwoDevices();
  Placement placement(2);
  placement[*graph.FindOp("op1")] = MakeId<DeviceId>(1);
  const Timeline timeline = Simulator(graph, cluster, MeasuredCosts(graph, cluster)).Record(placement);
  const json trace = Trace(timeline, graph, cluster);

  std::map<std::string, json> spans;
  for (const json& event : Events(trace, "X"))
    spans[event.at("name").get<std::string>() + event.at("tid").dump()] = event;
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans.at("op00").at("ts"), 0);
  EXPECT_EQ(spans.at("op00").at("dur"), 4);
  EXPECT_EQ(spans.at("op00").at("pid"), 0);
  EXPECT_EQ(spans.at("op01").at("ts"), 4);
  EXPECT_EQ(spans.at("op01").at("dur"), 2);
  EXPECT_EQ(spans.at("op01").at("args").at("to"), "gpu:1");
  EXPECT_EQ(spans.at("op01").at("args").at("bytes"), 2000);
  EXPECT_EQ(spans.at("op10").at("ts"), 6);
  EXPECT_EQ(spans.at("op10").at("pid"), 1);

  // gpu:0 holds op0's 2000 bytes from 0 until they have arrived at 6. gpu:1 holds the copy from 4 to 10, and op1's own
  // 2000 bytes from 6 to 10: at most 4000.
  std::map<std::pair<int, double>, std::int64_t> memory;
  for (const json& event : Events(trace, "C")) {
    memory[{event.at("pid").get<int>(), event.at("ts").get<double>()}] = event.at("args").at("bytes");
  }
  EXPECT_EQ(memory.at({0, 0}), 2000);
  EXPECT_EQ(memory.at({0, 6}), 0);
  EXPECT_EQ(memory.at({1, 4}), 2000);
  EXPECT_EQ(memory.at({1, 6}), 4000);
  EXPECT_EQ(memory.at({1, 10}), 0);
}

TEST(ChromeTraceTest, NamesOneProcessPerDeviceWithItsThreads) {
  const Graph graph = MakeChain(1, 1, 0);
  const Cluster cluster = TwoDevices();
  const json trace =
      Trace(Simulator(graph, cluster, MeasuredCosts(graph, cluster)).Record(Placement(1)), graph, cluster);
  std::map<std::pair<int, std::string>, std::string> names;
  for (const json& event : Events(trace, "M")) {
    const std::string what = event.at("name");
    if (what == "process_sort_index") continue;
    names[{event.at("pid").get<int>(), what + event.at("tid").dump()}] = event.at("args").at("name");
  }
  EXPECT_EQ(names.at({0, "process_name0"}), "gpu:0");
  EXPECT_EQ(names.at({1, "process_name0"}), "gpu:1");
  EXPECT_EQ(names.at({1, "thread_name0"}), "ops");
  EXPECT_EQ(names.at({1, "thread_name1"}), "outgoing transfers");
}

// On each thread, spans do not overlap and are within the step. Counters reach the reported peak and never exceed it.
void CheckTrace(const json& trace, const StepResult& result, const Cluster& cluster) {
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> threads;
  for (const json& event : Events(trace, "X")) {
    threads[{event.at("pid").get<int>(), event.at("tid").get<int>()}].emplace_back(event.at("ts").get<double>(),
                                                                                   event.at("dur").get<double>());
  }
  for (auto& [thread, spans] : threads) {
    std::sort(spans.begin(), spans.end());
    double free = 0;
    for (const auto& [start, length] : spans) {
      ASSERT_GE(start, free - 1e-9) << "device " << thread.first << ", thread " << thread.second;
      ASSERT_GE(length, 0);
      free = start + length;
    }
    ASSERT_LE(free, result.step_time_micros + 1e-9);
  }
  std::vector<std::int64_t> peaks(cluster.num_devices(), 0);
  for (const json& event : Events(trace, "C")) {
    std::int64_t& peak = peaks[event.at("pid").get<std::size_t>()];
    peak = std::max(peak, event.at("args").at("bytes").get<std::int64_t>());
  }
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) ASSERT_EQ(peaks[d], result.peak_memory[d].count);
}

TEST(ChromeTraceTest, SpansNeverOverlapAndCountersReachThePeakOnRandomGraphsLengthy) {
  Rng rng(11);
  for (int i = 0; i < 100; ++i) {
    const Graph graph = RandomDag(rng, {.num_ops = 60, .memory = true, .fractional = i % 2 == 0});
    const Cluster cluster = MakeCluster(3, {.bandwidth_gb_per_s = 1, .latency_micros = 1, .gap_micros = 2}, 1);
    const CostTable costs = MeasuredCosts(graph, cluster);
    const Placement placement = RandomPlacement(rng, graph, cluster, costs);
    const Simulator simulator(graph, cluster, costs);
    const json trace = Trace(simulator.Record(placement), graph, cluster);
    ASSERT_NO_FATAL_FAILURE(CheckTrace(trace, simulator.Run(placement), cluster));
  }
}

TEST(ChromeTraceTest, PlacetoReferenceShowsASharedTransferOnce) {
  // The engine sends a's output once to each other device.
  GraphBuilder builder("fan");
  builder.Add(MakeOp("a", 4, {}, {7600}));
  builder.Add(MakeOp("b", 4, {"a"}));
  builder.Add(MakeOp("c", 4, {"a"}));
  const Graph graph = builder.Build();
  const Cluster cluster = MakeCluster(3);
  Placement placement(3);
  placement[*graph.FindOp("b")] = MakeId<DeviceId>(1);
  placement[*graph.FindOp("c")] = MakeId<DeviceId>(2);
  const Simulator simulator(graph, cluster, MeasuredCosts(graph, cluster), {.engine = "placeto-reference"});
  std::vector<json> transfers;
  for (const json& event : Events(Trace(simulator.Record(placement), graph, cluster), "X")) {
    if (event.at("tid") != 0) transfers.push_back(event);
  }
  ASSERT_EQ(transfers.size(), 1U);
  EXPECT_EQ(transfers[0].at("args").at("to"), "gpu:1, gpu:2");
}

TEST(ChromeTraceTest, ChannelsPerPairHaveAThreadEach) {
  // Both transfers start at 4 and overlap.
  GraphBuilder builder("fan");
  builder.Add(MakeOp("a", 4, {}, {1000}));
  builder.Add(MakeOp("b", 4, {"a"}));
  builder.Add(MakeOp("c", 4, {"a"}));
  const Graph graph = builder.Build();
  const Cluster cluster =
      Cluster::Uniform("pairs", MakeCluster(3).devices(),
                       {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, Channels::kPerPair);
  Placement placement(3);
  placement[*graph.FindOp("b")] = MakeId<DeviceId>(1);
  placement[*graph.FindOp("c")] = MakeId<DeviceId>(2);
  const Simulator simulator(graph, cluster, MeasuredCosts(graph, cluster));
  const json trace = Trace(simulator.Record(placement), graph, cluster);
  ASSERT_NO_FATAL_FAILURE(CheckTrace(trace, simulator.Run(placement), cluster));
  EXPECT_EQ(Events(trace, "X").size(), 5U);
}

TEST(ChromeTraceTest, NamesWithQuotesAndControlCharactersStayJson) {
  GraphBuilder builder("strange");
  builder.Add(MakeOp("say \"hi\"\\\n", 1));
  const Graph graph = builder.Build();
  const Cluster cluster = MakeCluster(1);
  const json trace =
      Trace(Simulator(graph, cluster, MeasuredCosts(graph, cluster)).Record(Placement(1)), graph, cluster);
  EXPECT_EQ(Events(trace, "X").at(0).at("name"), "say \"hi\"\\\n");
}

}  // namespace
}  // namespace emplace
