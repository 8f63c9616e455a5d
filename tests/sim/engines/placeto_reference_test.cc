#include "sim/engines/placeto_reference.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/check.h"
#include "sim/simulator.h"
#include "tests/bench/literal_port.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace placeto_reference_test {

using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeOp;
using ::emplace::testing::MeasuredCosts;

#ifdef EMPLACE_SANITIZED
constexpr int kRandomDags = 300;
#else
constexpr int kRandomDags = 5000;
#endif

Cluster Published(std::size_t devices) {
  return MakeCluster(devices, {.bandwidth_gb_per_s = 7.6, .latency_micros = 0, .gap_micros = 25}, 5.7);
}

StepResult RunOn(const Graph& graph, const Cluster& cluster, std::vector<std::size_t> devices) {
  Placement placement(graph.num_ops());
  for (std::size_t i = 0; i < devices.size(); ++i) placement[MakeId<OpId>(i)] = MakeId<DeviceId>(devices[i]);
  return Simulator(graph, cluster, MeasuredCosts(graph, cluster), {.engine = "placeto-reference", .start_times = true})
      .Run(placement);
}

TEST(PlacetoReferenceTest, TheStepIncludesTheGapBehindTheLastOp) {
  // docs/model.md, P22: one op of 10 us ends the step at 15.7.
  EXPECT_EQ(RunOn(testing::MakeChain(1, 10, 0), Published(1), {0}).step_time_micros, 15.7);
}

TEST(PlacetoReferenceTest, TheStepIncludesTheGapBehindTheLastTransfer) {
  // a (10 us) sends 7600 bytes (1 us): arrives at 11, the bus is free at 36, b (0 us) runs at 11.
  GraphBuilder builder("g");
  builder.Add(MakeOp("a", 10, {}, {7600}));
  builder.Add(MakeOp("b", 0, {"a"}));
  const StepResult result = RunOn(builder.Build(), Published(2), {0, 1});
  EXPECT_EQ(result.start_micros[1], 11);
  EXPECT_EQ(result.step_time_micros, 36);
}

TEST(PlacetoReferenceTest, OneTransferServesAllDestinations) {
  // a (10 us) sends 76000 bytes (10 us) to two devices: both start at 20.
  // Canonical order: source, branch0, branch1, sink.
  const StepResult shared = RunOn(testing::MakeForkJoin(2, 10, 76000), Published(3), {0, 1, 2, 0});
  EXPECT_EQ(shared.start_micros[1], 20);
  EXPECT_EQ(shared.start_micros[2], 20);
}

TEST(PlacetoReferenceTest, AgreesWithTheLiteralPortOnThousandsOfRandomDags) {
  Rng rng(51);
  for (int i = 0; i < kRandomDags; ++i) {
    testing::RandomDagOptions options;
    options.num_ops = 2 + rng.Below(i % 100 == 0 ? 2000 : 60);
    options.max_inputs = 1 + rng.Below(4);
    options.zero_time_probability = rng.Uniform();
    options.zero_bytes_probability = rng.Uniform();
    options.fractional = rng.Below(2) == 0;
    const Graph graph = testing::RandomDag(rng, options);
    const Cluster cluster =
        MakeCluster(1 + rng.Below(12),
                    {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = static_cast<double>(rng.Below(2))},
                    static_cast<double>(rng.Below(2)));
    const CostTable costs = MeasuredCosts(graph, cluster);
    const Placement placement = testing::RandomPlacement(rng, graph, cluster, costs);
    testing::LiteralPort port(graph, cluster, costs, 3);
    const double expected = port.Run(placement.devices());
    const Simulator simulator(graph, cluster, costs,
                              {.engine = "placeto-reference", .start_times = true, .initial_offset_micros = 3});
    const StepResult result = simulator.Run(placement);
    ASSERT_EQ(result.step_time_micros, expected) << "graph " << i;
    ASSERT_EQ(result.start_micros, port.start_micros()) << "graph " << i;
  }
}

TEST(PlacetoReferenceTest, TheTimelineShowsTheRun) {
  const Graph graph = testing::MakeForkJoin(3, 10, 7600);
  const Cluster cluster = Published(3);
  const Simulator simulator(graph, cluster, MeasuredCosts(graph, cluster), {.engine = "placeto-reference"});
  Placement placement(graph.num_ops());
  placement[MakeId<OpId>(1)] = MakeId<DeviceId>(1);
  placement[MakeId<OpId>(2)] = MakeId<DeviceId>(1);
  placement[MakeId<OpId>(3)] = MakeId<DeviceId>(2);
  const Timeline timeline = simulator.Record(placement);
  EXPECT_EQ(timeline.ops.size(), 5U);
  // source to gpu:1 (once for two readers) and gpu:2; branch0, branch1 and branch2 to gpu:0.
  EXPECT_EQ(timeline.transfers.size(), 5U);
  EXPECT_FALSE(timeline.memory.empty());
}

TEST(PlacetoReferenceTest, RefusesClustersThatItCannotAnswerFor) {
  const Graph graph = testing::MakeChain(2, 1, 4);
  const auto error_of = [&graph](const Cluster& cluster) {
    try {
      Simulator(graph, cluster, MeasuredCosts(graph, cluster), {.engine = "placeto-reference"});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const Link link{.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0};
  const std::vector<Device> devices = MakeCluster(2).devices();
  EXPECT_EQ(error_of(MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 1, .gap_micros = 0})),
            "cluster test: engine placeto-reference supports no link latency (use engine fifo)");
  EXPECT_EQ(error_of(MakeCluster(2, {.bandwidth_gb_per_s = 1, .knee = Bytes{8}, .beyond_gb_per_s = 2})),
            "cluster test: engine placeto-reference supports no knee in a link's speed (use engine fifo)");
  EXPECT_EQ(error_of(Cluster::Uniform("test", devices, link, Channels::kPerPair)),
            "cluster test: engine placeto-reference supports one outgoing channel per device only (use engine fifo)");
  EXPECT_EQ(error_of(MakeCluster(2, {})),
            "cluster test: engine placeto-reference supports clusters with links only (use engine fifo)");
  Link other = link;
  other.gap_micros = 1;
  EXPECT_EQ(error_of(Cluster("test", "", devices, {link, link, other, link}, Channels::kPerDevice)),
            "cluster test: engine placeto-reference supports one link for all pairs of devices only (use engine fifo)");
  std::vector<Device> gaps = devices;
  gaps[1].op_gap_micros = 3;
  EXPECT_EQ(error_of(Cluster::Uniform("test", gaps, link)),
            "cluster test: engine placeto-reference supports one op_gap_us for all devices only (use engine fifo)");
  std::vector<Device> cores = devices;
  cores[1].copy_engine = false;
  EXPECT_EQ(error_of(Cluster::Uniform("test", cores, link)),
            "cluster test: engine placeto-reference supports devices with a copy engine only (use engine fifo)");
}

}  // namespace placeto_reference_test
}  // namespace emplace
