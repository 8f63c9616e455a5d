// Links without contention (F19), and that occupy the receiver too (F20).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/graph.h"
#include "sim/schedule/schedule_evaluator.h"
#include "sim/simulator.h"
#include "sim/step_explanation.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace link_options_test {

using ::emplace::testing::ErrorOf;
using ::testing::HasSubstr;

// 1,000 bytes take 1 us.
Cluster Devices(std::size_t count, bool contention, bool receive, Channels channels = Channels::kPerDevice) {
  std::vector<Device> devices;
  for (std::size_t d = 0; d < count; ++d)
    devices.push_back({.name = "d" + std::to_string(d), .kind = "k", .memory = {}});
  Link link{.bandwidth_gb_per_s = 1};
  link.contention = contention;
  link.receive = receive;
  return Cluster::Uniform("options", devices, link, channels);
}

OpSpec Task(const std::string& name, std::vector<std::string> inputs, std::size_t outputs) {
  OpSpec op;
  op.name = name;
  op.kind = "task";
  op.inputs = std::move(inputs);
  op.time_micros = 10;
  for (std::size_t i = 0; i < outputs; ++i) op.outputs.push_back({.size = Bytes{1000}, .shape = {}});
  return op;
}

double Step(const Graph& graph, const Cluster& cluster, const std::vector<std::uint32_t>& devices,
            const SimOptions& options = {}) {
  const CostTable costs(graph, cluster, *MakeCostModel("measured"));
  std::vector<DeviceId> of_ops;
  for (const std::uint32_t device : devices) of_ops.push_back(MakeId<DeviceId>(device));
  return Simulator(graph, cluster, costs, options).Run(Placement(of_ops)).step_time_micros;
}

// a hands a tensor each to b, c and d.
Graph Fan() {
  GraphBuilder builder("fan");
  builder.Add(Task("a", {}, 3));
  builder.Add(Task("b", {"a:0"}, 0));
  builder.Add(Task("c", {"a:1"}, 0));
  builder.Add(Task("d", {"a:2"}, 0));
  return builder.Build();
}

TEST(LinkOptionsTest, WithoutContentionTransfersDoNotWait) {
  for (const Channels channels : {Channels::kPerDevice, Channels::kPerPair}) {
    const bool per_pair = channels == Channels::kPerPair;
    EXPECT_EQ(Step(Fan(), Devices(4, true, false, channels), {0, 1, 2, 3}), per_pair ? 21 : 23);
    EXPECT_EQ(Step(Fan(), Devices(4, false, false, channels), {0, 1, 2, 3}), 21);
    // Three tensors to one device over one link.
    EXPECT_EQ(Step(Fan(), Devices(4, true, false, channels), {0, 1, 1, 1}), 41);
    EXPECT_EQ(Step(Fan(), Devices(4, false, false, channels), {0, 1, 1, 1}), 41);
  }
}

// a and b hand a tensor each to c.
Graph Join() {
  GraphBuilder builder("join");
  builder.Add(Task("a", {}, 1));
  builder.Add(Task("b", {}, 1));
  builder.Add(Task("c", {"a:0", "b:0"}, 0));
  return builder.Build();
}

TEST(LinkOptionsTest, ReceivingOccupiesTheReceiver) {
  EXPECT_EQ(Step(Join(), Devices(3, true, false), {0, 1, 2}), 21);
  EXPECT_EQ(Step(Join(), Devices(3, true, true), {0, 1, 2}), 22);
  EXPECT_EQ(Step(Join(), Devices(3, false, true), {0, 1, 2}), 22);
  EXPECT_EQ(Step(Join(), Devices(3, true, true), {2, 1, 2}), 21);  // one of them is there already
}

TEST(LinkOptionsTest, AreReadWrittenAndKeptApart) {
  const Cluster cluster = Devices(3, false, true);
  std::ostringstream out;
  WriteCluster(out, cluster);
  EXPECT_THAT(out.str(), HasSubstr("contention: false, receive: true"));
  std::istringstream in(out.str());
  const Cluster again = ReadCluster(in, "c.yaml");
  EXPECT_EQ(again.link(MakeId<DeviceId>(0), MakeId<DeviceId>(1)),
            cluster.link(MakeId<DeviceId>(0), MakeId<DeviceId>(1)));
  EXPECT_TRUE(again.has_free_links());
  EXPECT_FALSE(again.has_plain_links());
  EXPECT_TRUE(Devices(2, true, false).has_plain_links());
  EXPECT_FALSE(Devices(2, true, true).has_free_links());
}

TEST(LinkOptionsTest, OtherEnginesRefuseThem) {
  for (const char* const engine : {"flow", "placeto-reference"}) {
    EXPECT_THAT(ErrorOf([&] {
                  Step(Join(), Devices(3, false, false), {0, 1, 2}, {.engine = engine});
                }),
                HasSubstr("contention"))
        << engine;
  }
  const Cluster cluster = Devices(2, false, false);
  const Graph graph = Join();
  const CostTable costs(graph, cluster, *MakeCostModel("measured"));
  EXPECT_THAT(ErrorOf([&] { ScheduleEvaluator(graph, cluster, costs, {.name = "gpipe", .micro_batches = 2}); }),
              HasSubstr("which schedules do not support"));
}

}  // namespace link_options_test
}  // namespace emplace
