#include "datasets/transform/transform.h"

#include <gmock/gmock.h>

#include <sstream>

#include "sim/formats/graph_json.h"
#include "tests/testing/graphs.h"
#include "tests/testing/rank_graphs.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;

TEST(TransformTest, MetadataSaysHowManyRanksThereAre) {
  const Graph graph = datasets::Transform(TinyGpt(), {.tensor_parallel = 2, .data_parallel = 3});
  EXPECT_EQ(graph.name(), "gpt");
  EXPECT_EQ(graph.metadata(), R"({"parallel":{"data":3,"tensor":2,"expert":1}})");
  EXPECT_EQ(TransformRefusal(graph, {.data_parallel = 2}),
            "metadata.parallel: the graph is one of several ranks already (the graph of one)");
  GraphBuilder builder("known");
  builder.SetMetadata(R"({"source":"onnx"})");
  const Graph known = TinyGpt();
  for (std::size_t i = 0; i < known.num_ops(); ++i) {
    const OpId id = known.file_order()[i];
    OpSpec spec;
    spec.name = known.op(id).name;
    spec.kind = known.op(id).kind;
    spec.attrs = known.op(id).attrs;
    spec.pass = known.op(id).pass;
    for (const TensorId input : known.inputs(id)) {
      spec.inputs.push_back(std::string(known.op(known.tensor(input).producer).name) + ":" +
                            std::to_string(known.tensor(input).output_index));
    }
    for (std::size_t o = 0; o < known.num_outputs(id); ++o) {
      const Tensor& tensor = known.tensor(MakeId<TensorId>(Index(known.first_output(id)) + o));
      spec.outputs.push_back(
          {.size = tensor.size, .dtype = tensor.dtype, .shape = {tensor.shape.begin(), tensor.shape.end()}});
    }
    builder.Add(spec);
  }
  EXPECT_EQ(datasets::Transform(builder.Build(), {.data_parallel = 2}).metadata(),
            R"({"source":"onnx","parallel":{"data":2,"tensor":1,"expert":1}})");
}

TEST(TransformTest, TheSameGraphGivesTheSameBytesAndSurvivesItsFile) {
  const datasets::TransformOptions options = {
      .recompute = "selective", .tensor_parallel = 2, .data_parallel = 2, .shard_optimizer = true};
  const std::string text = GraphText(datasets::Transform(TinyGpt(), options));
  EXPECT_EQ(GraphText(datasets::Transform(TinyGpt(), options)), text);
  std::istringstream in(text);
  EXPECT_EQ(GraphText(ReadGraph(in, "ranks.json")), text);
}

TEST(TransformTest, ProducersMayStandBehindTheirConsumersInTheFile) {
  OpSpec update = MakeOp("u", 7);
  update.pass = Pass::kUpdate;
  update.inputs = {"g"};
  OpSpec gradient = MakeOp("g", 5);
  gradient.pass = Pass::kBackward;
  gradient.outputs = {{.size = Bytes{8}, .dtype = DType::kNone, .shape = {}}};  // no more than a size is needed
  const Graph graph = datasets::Transform(Build({update, gradient}), {.data_parallel = 2});
  EXPECT_EQ(graph.num_ops(), 6U);
  EXPECT_EQ(GroupBytes(graph, "data/bucket0/all_reduce"), 8);
}

TEST(TransformTest, ReplicasKeepMeasuredTimesAndPartsHaveNone) {
  OpSpec weights = MakeOp("w", 0);
  weights.kind = "variable";
  weights.outputs = {{.size = Bytes{8}, .dtype = DType::kF32, .shape = {2}}};
  OpSpec gradient = MakeOp("g", 5);
  gradient.pass = Pass::kBackward;
  gradient.outputs = weights.outputs;
  OpSpec update = MakeOp("u", 7);
  update.kind = "sgd";
  update.pass = Pass::kUpdate;
  update.inputs = {"w", "g"};
  const Graph graph = Build({weights, gradient, update});
  const Graph replicas = datasets::Transform(graph, {.data_parallel = 2});
  EXPECT_EQ(replicas.MeasuredMicros(replicas.FindOp("r1/u").value(), "any"), 7);
  EXPECT_THAT(TransformRefusal(graph, {.data_parallel = 2, .shard_optimizer = true}), HasSubstr("op \"u\" has a time"));
}

TEST(TransformTest, OptionsThatDoNotFitAreRefused) {
  EXPECT_THAT(TransformRefusal(TinyGpt(), {.shard_optimizer = true}), HasSubstr("needs replicas"));
  EXPECT_THAT(TransformRefusal(TinyGpt(), {.tensor_parallel = 2, .expert_parallel = 2}), HasSubstr("one of them"));
  EXPECT_THAT(TransformRefusal(TinyGpt(), {.data_parallel = 0}), HasSubstr("data_parallel: is 0"));
  EXPECT_THAT(TransformRefusal(TinyGpt(), {.tensor_parallel = 2, .data_parallel = 600000}),
              HasSubstr("too many ranks"));
  EXPECT_FALSE(datasets::TransformOptions{}.ChangesSomething());
}

}  // namespace
}  // namespace emplace::testing
