#include <gmock/gmock.h>

#include "tests/testing/rank_graphs.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;
using Dims = std::vector<std::int64_t>;

std::string Writer(const Graph& graph, const std::string& op, std::size_t input) {
  return std::string(graph.op(graph.tensor(graph.inputs(graph.FindOp(op).value())[input]).producer).name);
}

TEST(ReduceGradientsTest, ReplicasExchangeAsManyBytesAsThereAreParameters) {
  const Graph graph = datasets::Transform(TinyGpt(), {.data_parallel = 3});
  CheckRanks(graph, 3);
  const std::string group = "data/bucket0/all_reduce";
  const auto groups = Collectives(graph);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups.at(group).size(), 3U);
  EXPECT_EQ(GroupBytes(graph, group), 4 * kTinyGptParameters);
  EXPECT_EQ(GroupBytes(datasets::Transform(TinyGpt({{"precision", "f16"}}), {.data_parallel = 2}), group),
            2 * kTinyGptParameters);
  EXPECT_EQ(SumFlop(graph, OfRank("r2/")), SumFlop(TinyGpt(), [](const Op&) { return true; }));
  // Between the gradient and what clips it.
  EXPECT_EQ(Writer(graph, "r2/update/block0/norm1/gamma/l2_loss", 0), "r2/data/bucket0/all_reduce");
  EXPECT_EQ(Writer(graph, "r2/update/block0/norm1/gamma/clip", 0), "r2/data/bucket0/all_reduce");
}

TEST(ReduceGradientsTest, BucketsAreInTheOrderOfTheBackwardPass) {
  // A bucket is full with 1024 bytes. The last norm's 64 come first. The outer product's bias and weights, 32 and 1024,
  // fill the first bucket.
  const Graph graph = datasets::Transform(TinyGpt(), {.data_parallel = 2, .bucket_mib = 1.0 / 1024});
  const auto groups = Collectives(graph);
  const auto reads = [&](const std::string& bucket) {
    std::vector<std::string> layers;
    for (const TensorId input : graph.inputs(groups.at("data/" + bucket + "/all_reduce")[0])) {
      const Op& gradient = graph.op(graph.tensor(input).producer);
      if (layers.empty() || layers.back() != gradient.layer) layers.emplace_back(gradient.layer);
    }
    return layers;
  };
  EXPECT_EQ(reads("bucket0"), (std::vector<std::string>{"projection", "block1"}));
  EXPECT_GE(GroupBytes(graph, "data/bucket0/all_reduce"), 1024);
  EXPECT_EQ(reads("bucket1"), std::vector<std::string>{"block1"});
  // The table's is complete at the end.
  EXPECT_EQ(reads("bucket" + std::to_string(groups.size() - 1)).back(), "embedding");
  std::int64_t bytes = 0;
  for (const auto& [group, members] : groups) bytes += InputBytes(graph, members[0]);
  EXPECT_EQ(bytes, 4 * kTinyGptParameters);
}

TEST(ReduceGradientsTest, AShardedOptimizerKeepsAShareOfTheStateAndGathersWeights) {
  const Graph whole = TinyGpt();
  const Graph graph = datasets::Transform(whole, {.data_parallel = 4, .shard_optimizer = true});
  CheckRanks(graph, 4);
  EXPECT_EQ(SumPersistent(graph, Both(OfKind("variable"), OfRank("r1/"))), 4 * kTinyGptParameters);
  EXPECT_EQ(SumPersistent(graph, Both(OfKind("adam"), OfRank("r1/"))), 8 * kTinyGptParameters / 4);
  EXPECT_EQ(4 * SumFlop(graph, Both(OfKind("adam"), OfRank("r1/"))), SumFlop(whole, OfKind("adam")));
  const auto groups = Collectives(graph);
  EXPECT_EQ(groups.size(), 3U);
  const OpId scattered = groups.at("data/bucket0/reduce_scatter")[0];
  EXPECT_EQ(InputBytes(graph, scattered), 4 * kTinyGptParameters);
  EXPECT_EQ(OutputBytes(graph, scattered), kTinyGptParameters);
  const OpId gathered = groups.at("data/bucket0/all_gather")[0];
  EXPECT_EQ(InputBytes(graph, gathered), kTinyGptParameters);
  EXPECT_EQ(OutputBytes(graph, gathered), 4 * kTinyGptParameters);
  EXPECT_EQ(graph.control_inputs(gathered).size(), CountOps(graph, Both(OfKind("adam"), OfRank("r0/"))));
  // The norm of a gradient is that of its shares.
  EXPECT_EQ(GroupBytes(graph, "data/update/global_norm_scale/all_reduce"), 4);
  EXPECT_EQ(Writer(graph, "r0/update/block0/norm1/gamma/adam", 0), "r0/update/block0/norm1/gamma/shard");
  EXPECT_EQ(ShapeOf(graph, "r0/update/block0/norm1/gamma/clip"), Dims{2});
}

TEST(ReduceGradientsTest, MixedPrecisionAndShardsTakeTwoBytesAndTwelveByReplicas) {
  // Rajbhandari et al. 2020, figure 1, P_os: 2 + 2 + 12 / D bytes of a parameter, of which 2 are gradients.
  const Graph graph =
      datasets::Transform(TinyGpt({{"precision", "bf16"}}), {.data_parallel = 4, .shard_optimizer = true});
  EXPECT_EQ(SumPersistent(graph, OfRank("r3/")), (2 + 12 / 4) * kTinyGptParameters);
}

TEST(ReduceGradientsTest, EachPartHasBucketsOfItsOwn) {
  const Graph graph =
      datasets::Transform(TinyGpt(), {.tensor_parallel = 2, .data_parallel = 2, .shard_optimizer = true});
  CheckRanks(graph, 4);
  const auto groups = Collectives(graph);
  const auto names = [&](const std::string& group) {
    std::vector<std::string> members;
    for (const OpId id : groups.at(group)) members.emplace_back(graph.op(id).name);
    return members;
  };
  EXPECT_EQ(names("data/t1/bucket0/reduce_scatter"),
            (std::vector<std::string>{"r0/t1/data/bucket0/reduce_scatter", "r1/t1/data/bucket0/reduce_scatter"}));
  EXPECT_EQ(names("r1/block0/attention/output/matmul/all_reduce"),
            (std::vector<std::string>{"r1/t0/block0/attention/output/matmul/all_reduce",
                                      "r1/t1/block0/attention/output/matmul/all_reduce"}));
  EXPECT_EQ(names("data/t0/update/global_norm_scale/data/all_reduce").size(), 2U);
  EXPECT_EQ(graph.op(graph.FindOp("r1/t1/update/block0/norm1/beta/adam").value()).colocate_with,
            graph.FindOp("r1/t1/block0/norm1/beta"));
}

TEST(ReduceGradientsTest, RowsAreGatheredWhereTheyAreFewerThanTheTable) {
  // 2 * 12 rows of segments against a table of 2: added up to a table. 2 * 16 rows of 1000: gathered.
  const Graph bert = datasets::Transform(TinyBert(), {.data_parallel = 2});
  CheckRanks(bert, 2);
  EXPECT_EQ(CountOps(bert, OfKind("all_gather")), 0U);
  EXPECT_EQ(CountOps(bert, OfKind("sparse_adam")), 0U);
  EXPECT_EQ(ShapeOf(bert, "r0/gradients/embedding/segment/table/scatter_add"), (Dims{2, 8}));
  EXPECT_EQ(ShapeOf(bert, "r0/update/embedding/segment/table/clip"), (Dims{2, 8}));
  EXPECT_TRUE(bert.FindOp("r0/update/embedding/segment/table/adam"));
  const Graph rnnlm = datasets::Transform(
      datasets::MakeModel("rnnlm",
                          {{"layers", "1"}, {"steps", "4"}, {"batch", "4"}, {"hidden", "8"}, {"vocabulary", "1000"}}),
      {.data_parallel = 2});
  CheckRanks(rnnlm, 2);
  std::size_t gathers = 0;
  for (const auto& [group, members] : Collectives(rnnlm)) {
    if (rnnlm.op(members[0]).kind != "all_gather") continue;
    ++gathers;
    const TensorId rows = rnnlm.first_output(members[0]);
    EXPECT_EQ(rnnlm.tensor(rows).shape[0], 32);
  }
  EXPECT_EQ(gathers, 1U);
}

TEST(ReduceGradientsTest, ReplicasOfAnyTrainingGraph) {
  for (const char* const model : {"resnet", "transformer_xl"}) {
    const Graph graph = datasets::MakeModel(model, {{"batch", "2"}});
    CheckRanks(datasets::Transform(graph, {.data_parallel = 2}), 2);
    CheckRanks(datasets::Transform(graph, {.data_parallel = 2, .shard_optimizer = true}), 2);
  }
  EXPECT_THAT(TransformRefusal(Graph(), {.data_parallel = 2}), HasSubstr("no op of the update pass reads a gradient"));
}

}  // namespace
}  // namespace emplace::testing
