#include "sim/cost/profiled.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;

// A "matmul" op that reads an f32[2,3] and has attrs; an op "other" that no profile contains.
Graph TwoOps() {
  GraphBuilder builder("g");
  OpSpec input;
  input.name = "in";
  input.kind = "input";
  input.outputs = {{.size = std::nullopt, .dtype = DType::kF32, .shape = {2, 3}}};
  builder.Add(input);
  OpSpec product;
  product.name = "product";
  product.kind = "matmul";
  product.inputs = {"in"};
  product.attrs = R"({"transpose":true,"alpha":2})";
  builder.Add(product);
  OpSpec other;
  other.name = "other";
  other.kind = "mystery";
  builder.Add(other);
  return builder.Build();
}

Profile::OpEntry Entry(std::string signature, std::string device, double micros) {
  Profile::OpEntry entry;
  entry.signature = std::move(signature);
  entry.device = std::move(device);
  entry.median_micros = micros;
  return entry;
}

TEST(ProfiledTest, FindsTheMedianBySignatureAndKind) {
  Profile profile;
  profile.ops = {Entry("matmul(f32[2,3]){alpha=2,transpose=true}", "test-gpu", 7.5),
                 Entry("matmul(f32[2,3]){transpose=true,alpha=3}", "test-gpu", 1),
                 Entry("matmul(f32[2,4]){alpha=2,transpose=true}", "test-gpu", 2),
                 Entry("matmul(f32[2,3]){alpha=2,transpose=true}", "test-cpu", 90)};
  const auto model = MakeProfiledCostModel(profile);
  const Graph graph = TwoOps();
  const Cluster cluster = testing::MakeMixedCluster(1);
  const OpId product = *graph.FindOp("product");
  EXPECT_EQ(model->OpMicros(graph, product, cluster, "test-gpu"), 7.5);
  EXPECT_EQ(model->OpMicros(graph, product, cluster, "test-cpu"), 90.0);
  EXPECT_EQ(model->OpMicros(graph, product, cluster, "k80"), std::nullopt);
  EXPECT_EQ(model->OpMicros(graph, *graph.FindOp("other"), cluster, "test-gpu"), std::nullopt);
}

// A chain of four ops with an input f32[10].
Graph ACopyAProductAndTwoOthers() {
  GraphBuilder builder("g");
  for (const auto& [name, kind, input] : std::vector<std::array<std::string, 3>>{{"in", "input", ""},
                                                                                 {"copy", "concat", "in"},
                                                                                 {"sum", "add", "in"},
                                                                                 {"product", "matmul", "in"},
                                                                                 {"mystery", "mystery", "in"}}) {
    OpSpec op;
    op.name = name;
    op.kind = kind;
    if (!input.empty()) op.inputs = {input};
    op.outputs = {{.size = std::nullopt, .dtype = DType::kF32, .shape = {10}}};
    builder.Add(op);
  }
  return builder.Build();
}

TEST(ProfiledTest, ContentionIsTheOpsOwnElseThatOfItsClassAboveNoise) {
  const Graph graph = ACopyAProductAndTwoOthers();
  Profile profile;
  const auto contention = [&](const std::string& op, const std::string& kind = "test-cpu") {
    return MakeProfiledCostModel(profile)->Contention(graph, *graph.FindOp(op), kind);
  };
  EXPECT_EQ(contention("copy"), 1);
  profile.devices = {{.kind = "test-cpu",
                      .backend = "cpu",
                      .contention = {{"copy", 1.9}, {"elementwise", 1.05}, {"matrix-product", 1.06}}}};
  EXPECT_EQ(contention("copy"), 1.9);
  EXPECT_EQ(contention("sum"), 1);
  EXPECT_EQ(contention("product"), 1.06);
  EXPECT_EQ(contention("mystery"), 1);
  EXPECT_EQ(contention("copy", "test-gpu"), 1);
  profile.ops = {Entry("concat(f32[10])", "test-cpu", 1), Entry("add(f32[10])", "test-cpu", 1),
                 Entry("mystery(f32[10])", "test-cpu", 1), Entry("matmul(f32[10])", "test-cpu", 1)};
  profile.ops[0].contention = 0.98;
  profile.ops[1].contention = 1.4;
  profile.ops[2].contention = 1.3;
  EXPECT_EQ(contention("copy"), 1);
  EXPECT_EQ(contention("sum"), 1.4);
  EXPECT_EQ(contention("mystery"), 1.3);
  EXPECT_EQ(contention("product"), 1.06);
  EXPECT_EQ(contention("sum", "test-gpu"), 1);
}

// A profile entry with outputs is matched first; one without them is accepted too.
TEST(ProfiledTest, TheFullSignatureComesFirst) {
  GraphBuilder builder("g");
  OpSpec fill;
  fill.name = "zeros";
  fill.kind = "fill";
  fill.outputs = {{.size = std::nullopt, .dtype = DType::kF32, .shape = {5}}};
  builder.Add(fill);
  const Graph graph = builder.Build();
  const Cluster cluster = testing::MakeMixedCluster(1);
  Profile profile;
  profile.ops = {Entry("fill()", "test-gpu", 3)};
  EXPECT_EQ(MakeProfiledCostModel(profile)->OpMicros(graph, OpId{0}, cluster, "test-gpu"), 3.0);
  profile.ops.push_back(Entry("fill()->f32[5]", "test-gpu", 4));
  EXPECT_EQ(MakeProfiledCostModel(profile)->OpMicros(graph, OpId{0}, cluster, "test-gpu"), 4.0);
}

TEST(ProfiledTest, AnOpThatTheProfileLacksIsNamed) {
  const auto model = MakeProfiledCostModel(Profile());
  const Graph graph = TwoOps();
  const Cluster cluster = testing::TwoDevices();
  const std::string error = ErrorOf([&] { CostTable(graph, cluster, *model); });
  EXPECT_NE(error.find("has no time on any device of cluster test (kinds test-gpu); the profile has no entry with its "
                       "signature"),
            std::string::npos)
      << error;
}

TEST(ProfiledTest, TheFallbackAnswersForWhatTheProfileLacks) {
  Profile profile;
  profile.ops = {Entry("matmul(f32[2,3]){alpha=2,transpose=true}", "test-gpu", 7.5)};
  const auto model = MakeProfiledCostModel(profile);
  const testing::FixedCostModel fallback(3);
  const Graph graph = TwoOps();
  const CostTable costs(graph, testing::TwoDevices(), *model, &fallback);
  EXPECT_EQ(costs.Micros(*graph.FindOp("product"), DeviceId{0}), 7.5);
  EXPECT_EQ(costs.Micros(*graph.FindOp("other"), DeviceId{0}), 3);
  EXPECT_EQ(costs.Micros(*graph.FindOp("in"), DeviceId{0}), 0) << "inputs are free without a fallback";
  EXPECT_EQ(costs.fallback_ops(), 1U);
}

}  // namespace
}  // namespace emplace
