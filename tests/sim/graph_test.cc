#include "sim/graph.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "sim/formats/graph_json.h"
#include "sim/graph_adjacency.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace graph_test {

using ::emplace::testing::MakeOp;
using ::testing::ElementsAre;

std::vector<std::string> Names(const Graph& graph, std::span<const OpId> ids) {
  std::vector<std::string> names;
  for (const OpId id : ids) names.emplace_back(graph.op(id).name);
  return names;
}

std::vector<std::string> NamesById(const Graph& graph) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) names.emplace_back(graph.op(MakeId<OpId>(i)).name);
  return names;
}

OpId Find(const Graph& graph, std::string_view name) { return graph.FindOp(name).value(); }

std::string ErrorOf(const std::vector<OpSpec>& specs) {
  GraphBuilder builder("broken");
  for (const OpSpec& spec : specs) builder.Add(spec);
  try {
    builder.Build();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

OpSpec With(OpSpec spec, const std::function<void(OpSpec*)>& change) {
  change(&spec);
  return spec;
}

TEST(GraphTest, IdsAreTheCanonicalOrderWhateverTheOrderOfAdding) {
  // Initially ready: b and a, so a (0). Then b and a's only successor c: b (1), c (2); then "Z" < "d" in bytes.
  GraphBuilder builder("order");
  builder.Add(MakeOp("d", 1, {"b", "c"}));
  builder.Add(MakeOp("c", 1, {"a"}));
  builder.Add(MakeOp("Z", 1, {"c"}));
  builder.Add(MakeOp("b", 1));
  builder.Add(MakeOp("a", 1));
  const Graph graph = builder.Build();
  EXPECT_THAT(NamesById(graph), ElementsAre("a", "b", "c", "Z", "d"));
  EXPECT_THAT(Names(graph, graph.file_order()), ElementsAre("d", "c", "Z", "b", "a"));
  EXPECT_EQ(graph.op(Find(graph, "b")).file_position, 3U);
}

TEST(GraphTest, MetadataIsWhatTheBuilderWasGiven) {
  GraphBuilder builder("g");
  builder.Reserve(10);
  builder.SetMetadata("{\"a\":1}");
  EXPECT_EQ(builder.Build().metadata(), "{\"a\":1}");
  EXPECT_EQ(Graph().metadata(), "");
}

TEST(GraphTest, ReadingATensorTwiceIsOneConsumer) {
  GraphBuilder builder("twice");
  builder.Add(MakeOp("a", 1, {}, {8, 16}));
  builder.Add(MakeOp("b", 1, {"a:1", "a:1", "a"}));
  const Graph graph = builder.Build();
  const OpId a = Find(graph, "a");
  const OpId b = Find(graph, "b");
  const TensorId second = MakeId<TensorId>(Index(graph.first_output(a)) + 1);
  EXPECT_THAT(graph.inputs(b), ElementsAre(second, second, graph.first_output(a)));
  EXPECT_THAT(graph.consumers(second), ElementsAre(b));
  EXPECT_EQ(graph.tensor(second).size, Bytes{16});
  EXPECT_EQ(boost::num_edges(graph.adjacency()), 1U);
}

TEST(GraphTest, EdgesAreRowsOfSuccessors) {
  const Graph graph = testing::Build({MakeOp("a", 1), MakeOp("b", 1, {"a"}), MakeOp("c", 1, {"a", "b"})});
  const Graph::Adjacency& edges = graph.adjacency();
  EXPECT_THAT(edges.row_offsets(), ElementsAre(0, 2, 3, 3));
  EXPECT_THAT(edges.columns(), ElementsAre(1, 2, 2));
  EXPECT_THAT(edges.successors(0), ElementsAre(1, 2));
  EXPECT_THAT(edges.successors(2), ElementsAre());
}

TEST(GraphTest, ControlEdgesOrderWithoutData) {
  GraphBuilder builder("control");
  builder.Add(MakeOp("a", 1, {}, {}));
  builder.Add(With(MakeOp("b", 1), [](OpSpec* spec) { spec->control_inputs = {"a", "a"}; }));
  const Graph graph = builder.Build();
  EXPECT_THAT(graph.control_consumers(Find(graph, "a")), ElementsAre(Find(graph, "b")));
  EXPECT_EQ(graph.control_inputs(Find(graph, "b")).size(), 2U);
  EXPECT_EQ(graph.num_outputs(Find(graph, "a")), 0U);
}

TEST(GraphTest, EdgesByPositionAreThoseByName) {
  const OpSpec a = With(MakeOp("a", 1), [](OpSpec* spec) {
    spec->outputs = {{Bytes{8}, {}, {}}, {Bytes{16}, {}, {}}};
  });
  GraphBuilder by_name("edges");
  by_name.Add(MakeOp("c", 1, {"b", "a:1"}));
  by_name.Add(a);
  by_name.Add(With(MakeOp("b", 1, {"a:1", "a:0"}), [](OpSpec* spec) { spec->control_inputs = {"a"}; }));
  by_name.Add(With(MakeOp("d", 1), [](OpSpec* spec) { spec->control_inputs = {"c", "b"}; }));
  GraphBuilder by_position("edges");
  // Names come before positions.
  by_position.Add(With(MakeOp("c", 1, {"b"}), [](OpSpec* spec) { spec->input_positions = {{.op = 1, .output = 1}}; }));
  by_position.Add(a);
  by_position.Add(With(MakeOp("b", 1), [](OpSpec* spec) {
    spec->input_positions = {{.op = 1, .output = 1}, {.op = 1, .output = 0}};
    spec->control_positions = {1};
  }));
  by_position.Add(With(MakeOp("d", 1), [](OpSpec* spec) {
    spec->control_inputs = {"c"};
    spec->control_positions = {2};
  }));
  std::ostringstream positions;
  std::ostringstream names;
  WriteGraph(positions, by_position.Build());
  WriteGraph(names, by_name.Build());
  EXPECT_EQ(positions.str(), names.str());
}

TEST(GraphTest, ColocationClassesAreTheClosureOfColocateWith) {
  GraphBuilder builder("colocated");
  builder.Add(MakeOp("a", 1));
  builder.Add(With(MakeOp("b", 1), [](OpSpec* spec) { spec->colocate_with = "d"; }));
  builder.Add(MakeOp("c", 1));
  builder.Add(With(MakeOp("d", 1), [](OpSpec* spec) { spec->colocate_with = "a"; }));
  const Graph graph = builder.Build();
  EXPECT_EQ(graph.colocation_class(Find(graph, "b")), Find(graph, "a"));
  EXPECT_EQ(graph.colocation_class(Find(graph, "d")), Find(graph, "a"));
  EXPECT_EQ(graph.colocation_class(Find(graph, "c")), Find(graph, "c"));
  EXPECT_EQ(graph.op(Find(graph, "b")).colocate_with, Find(graph, "d"));
}

TEST(GraphTest, SizesFollowFromDtypeAndShape) {
  GraphBuilder builder("sizes");
  OpSpec spec = MakeOp("a", 1, {}, {});
  spec.outputs.push_back({.size = std::nullopt, .dtype = DType::kBf16, .shape = {3, 5}});  // 2 * 15 bytes
  spec.outputs.push_back({.size = std::nullopt, .dtype = DType::kF64, .shape = {}});       // a scalar
  spec.outputs.push_back({.size = std::nullopt, .dtype = DType::kF32, .shape = {7, 0}});   // empty
  spec.outputs.push_back({.size = Bytes{100}, .dtype = DType::kF32, .shape = {7}});        // padded: as given
  builder.Add(spec);
  const Graph graph = builder.Build();
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < graph.num_tensors(); ++i) sizes.push_back(graph.tensor(MakeId<TensorId>(i)).size.count);
  EXPECT_THAT(sizes, ElementsAre(30, 8, 0, 100));
  EXPECT_THAT(graph.tensor(MakeId<TensorId>(0)).shape, ElementsAre(3, 5));
}

TEST(GraphTest, AMissingTimeIsNoTimeButInputsAndVariablesAreFree) {
  GraphBuilder builder("times");
  const auto untimed = [](const char* name, const char* kind) {
    OpSpec spec;
    spec.name = name;
    spec.kind = kind;
    return spec;
  };
  builder.Add(untimed("images", "input"));
  builder.Add(With(untimed("w", "variable"), [](OpSpec* spec) { spec->kind_times = {{"k80", 2.5}}; }));
  builder.Add(untimed("conv", "conv2d"));
  const Graph graph = builder.Build();
  EXPECT_EQ(graph.MeasuredMicros(Find(graph, "images"), "k80"), 0.0);
  EXPECT_EQ(graph.MeasuredMicros(Find(graph, "w"), "k80"), 2.5);
  EXPECT_EQ(graph.MeasuredMicros(Find(graph, "w"), "v100"), 0.0);
  EXPECT_EQ(graph.MeasuredMicros(Find(graph, "conv"), "k80"), std::nullopt);
  EXPECT_EQ(graph.FindOp("nobody"), std::nullopt);
}

TEST(GraphTest, RefusesWhatIsWrongWithTheExactPlace) {
  const OpSpec a = MakeOp("a", 1);
  EXPECT_EQ(ErrorOf({a, a}), "ops[1].name: duplicate op name \"a\" (also ops[0])");
  EXPECT_EQ(ErrorOf({MakeOp("", 1)}), "ops[0].name: the name is empty");
  EXPECT_EQ(ErrorOf({MakeOp("x:0", 1)}),
            "ops[0].name: \"x:0\" is not an op name (it holds no ':' and does not start with '^')");
  EXPECT_EQ(ErrorOf({MakeOp("^x", 1)}),
            "ops[0].name: \"^x\" is not an op name (it holds no ':' and does not start with '^')");
  EXPECT_EQ(ErrorOf({With(a, [](OpSpec* s) { s->kind.clear(); })}), "ops[0].kind: the kind is empty");
  EXPECT_EQ(ErrorOf({a, MakeOp("b", 1, {"a", "q:1"})}), "ops[1].inputs[1]: unknown producer \"q\" (the name of an op)");
  EXPECT_EQ(ErrorOf({a, MakeOp("b", 1, {"a:1"})}),
            "ops[1].inputs[0]: \"a:1\": output index 1 is out of range (\"a\" has 1 outputs)");
  for (const char* const input : {"a:", "a:x", "a:-1", "a:0:0", "a: 0", "a:99999999999"}) {
    EXPECT_EQ(ErrorOf({a, MakeOp("b", 1, {input})}),
              fmt::format("ops[1].inputs[0]: \"{}\" is not an input (PRODUCER or PRODUCER:OUTPUT_INDEX)", input));
  }
  EXPECT_EQ(ErrorOf({With(a, [](OpSpec* s) { s->control_inputs = {"q"}; })}),
            "ops[0].control_inputs[0]: unknown producer \"q\" (the name of an op)");
  EXPECT_EQ(ErrorOf({With(a, [](OpSpec* s) { s->colocate_with = "q"; })}),
            "ops[0].colocate_with: unknown op \"q\" (the name of an op)");
}

TEST(GraphTest, RefusesNumbersOutOfRange) {
  const OpSpec a = MakeOp("a", 1);
  EXPECT_EQ(ErrorOf({MakeOp("a", -1)}), "ops[0].time_us: time -1.000000 is out of range (0 to 1e12 us)");
  EXPECT_EQ(ErrorOf({MakeOp("a", 0.0 / 0.0)}).substr(0, 15), "ops[0].time_us:");
  EXPECT_EQ(ErrorOf({With(a,
                          [](OpSpec* s) {
                            s->kind_times = {{"k80", 2e12}};
                          })})
                .substr(0, 19),
            "ops[0].time_us.k80:");
  EXPECT_EQ(ErrorOf({MakeOp("a", 1, {}, {4, -4})}), "ops[0].outputs[1].bytes: size -4 is negative (integers >= 0)");
  EXPECT_EQ(ErrorOf({With(a, [](OpSpec* s) { s->temp = Bytes{-1}; })}),
            "ops[0].temp_bytes: size -1 is negative (integers >= 0)");
  EXPECT_EQ(ErrorOf({With(a, [](OpSpec* s) { s->flop = -2; })}).substr(0, 12), "ops[0].flop:");
  EXPECT_EQ(ErrorOf({With(a, [](OpSpec* s) { s->outputs = {{}}; })}),
            "ops[0].outputs[0]: no size (bytes, or dtype and shape)");
  EXPECT_EQ(ErrorOf({MakeOp("a", 1, {}, {std::int64_t{1} << 61, std::int64_t{1} << 61})}),
            "ops[0].outputs[1].bytes: the sizes of the graph add up to more than 2^62 bytes");
  OpSpec huge = MakeOp("a", 1, {}, {});
  huge.outputs.push_back({.size = std::nullopt, .dtype = DType::kF32, .shape = {1 << 30, 1 << 30, 4}});
  EXPECT_EQ(ErrorOf({huge}), "ops[0].outputs[0].shape: the tensor is larger than 2^62 bytes");
  OpSpec negative = MakeOp("a", 1, {}, {});
  negative.outputs.push_back({.size = std::nullopt, .dtype = DType::kF32, .shape = {-3}});
  EXPECT_EQ(ErrorOf({negative}), "ops[0].outputs[0].shape: dimension -3 is negative (integers >= 0)");
}

TEST(GraphTest, ACycleIsRefusedWithTheOpsOnIt) {
  // "in" and "out" are connected to the cycle but not part of it.
  EXPECT_EQ(ErrorOf({MakeOp("in", 1), MakeOp("a", 1, {"c", "in"}), MakeOp("b", 1, {"a"}),
                     With(MakeOp("c", 1), [](OpSpec* s) { s->control_inputs = {"b"}; }), MakeOp("out", 1, {"c"})}),
            "ops[1]: the graph has a cycle: a -> b -> c -> a");
  EXPECT_EQ(ErrorOf({MakeOp("self", 1, {"self"})}), "ops[0]: the graph has a cycle: self -> self");
}

TEST(GraphTest, OfALongCycleTheFirstAndLastOpsAreNamedAndAllAreCounted) {
  const auto cycle_of = [](std::size_t size) {
    std::vector<OpSpec> ops;
    for (std::size_t i = 0; i < size; ++i) {
      ops.push_back(MakeOp("op" + std::to_string(i), 1, {"op" + std::to_string((i + size - 1) % size)}));
    }
    return ErrorOf(ops);
  };
  EXPECT_EQ(cycle_of(10),
            "ops[0]: the graph has a cycle: op0 -> op1 -> op2 -> op3 -> op4 -> op5 -> op6 -> op7 -> op8 -> op9 -> op0");
  EXPECT_EQ(cycle_of(11),
            "ops[0]: the graph has a cycle of 11 ops: op0 -> op1 -> op2 -> op3 -> op4 -> ... -> op6 -> op7 -> op8 -> "
            "op9 -> op10 -> op0");
  EXPECT_EQ(cycle_of(30000),
            "ops[0]: the graph has a cycle of 30000 ops: op0 -> op1 -> op2 -> op3 -> op4 -> ... -> op29995 -> op29996 "
            "-> op29997 -> op29998 -> op29999 -> op0");
}

TEST(GraphTest, ControlCharactersInANameDoNotBreakTheLine) {
  EXPECT_EQ(ErrorOf({MakeOp("a\nb:", 1)}).find('\n'), std::string::npos);
}

TEST(GraphTest, MemoryUsageGrowsWithTheGraph) {
  const std::size_t small = testing::MakeChain(100, 1, 4).MemoryUsage();
  const std::size_t large = testing::MakeChain(200, 1, 4).MemoryUsage();
  EXPECT_GT(small, 100 * sizeof(Op));
  EXPECT_GT(large, small + 100 * sizeof(Op));
  EXPECT_LT(large, 200 * 600);  // an op of a chain takes about 300 bytes
}

TEST(GraphTest, TypesAndPassesAreFoundByTheirNames) {
  for (const DType dtype :
       {DType::kBool, DType::kI8, DType::kU8, DType::kI16, DType::kF16, DType::kBf16, DType::kI32, DType::kF32,
        DType::kI64, DType::kF64, DType::kF8E4M3, DType::kF8E5M2, DType::kU4, DType::kI4}) {
    EXPECT_EQ(DTypeFromName(Name(dtype)), dtype);
  }
  for (const Pass pass : {Pass::kForward, Pass::kBackward, Pass::kUpdate}) EXPECT_EQ(PassFromName(Name(pass)), pass);
  EXPECT_EQ(DTypeFromName("f33"), std::nullopt);
  EXPECT_EQ(PassFromName("sideways"), std::nullopt);
}

TEST(GraphTest, ElementsOfFourBitsShareBytes) {
  const auto bytes = [](DType dtype, const std::vector<std::int64_t>& shape) {
    return TensorBytes(dtype, shape, "x").count;
  };
  EXPECT_EQ(bytes(DType::kU4, {3, 5}), 8);
  EXPECT_EQ(bytes(DType::kI4, {4, 4}), 8);
  EXPECT_EQ(bytes(DType::kI4, {}), 1);
  EXPECT_EQ(bytes(DType::kU4, {7, 0}), 0);
  EXPECT_EQ(bytes(DType::kF8E4M3, {3, 5}), 15);
  EXPECT_EQ(bytes(DType::kF8E5M2, {2}), 2);
  EXPECT_EQ(ElementBytes(DType::kU4), 1);
  EXPECT_EQ(ElementBits(DType::kU4), 4);
  EXPECT_EQ(ElementBits(DType::kBf16), 16);
  EXPECT_EQ(ElementBits(DType::kNone), 0);
}

TEST(GraphTest, RanksMeetInCollectivesOrMessages) {
  EXPECT_FALSE(testing::MakeChain(3, 1, 8).has_ranks());
  std::vector<OpSpec> ops = {MakeOp("s", 1, {}, {8}), MakeOp("r", 1, {"s:0"})};
  ops[1].kind = "recv";
  EXPECT_TRUE(testing::Build(ops).has_ranks());
}

}  // namespace graph_test
}  // namespace emplace
