#include "sim/formats/graph_json.h"

#include <gmock/gmock.h>

#include <chrono>
#include <sstream>
#include <vector>

#include "sim/base/file_io.h"
#include "sim/base/rng.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace graph_json_test {

using ::emplace::testing::ErrorOf;
using ::emplace::testing::Replaced;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Graph Read(const std::string& text) {
  std::istringstream in(text);
  return ReadGraph(in, "g.json");
}

// A graph with these ops.
std::string WithOps(const std::string& ops) {
  return R"({"schema": "emplace.graph", "version": 1, "name": "g", "ops": [)" + ops + "]}";
}

std::string ErrorOfOps(const std::string& ops) {
  return ErrorOf([&] { Read(WithOps(ops)); });
}

// The example of the format's description, with every field, as WriteGraph writes it.
constexpr const char* kExample = R"({"schema": "emplace.graph", "version": 1, "name": "example",
 "ops": [
  {"name": "images", "kind": "input", "outputs": [{"dtype": "f32", "shape": [32, 3, 299, 299]}], "time_us": 0},
  {"name": "conv0/w", "kind": "variable", "outputs": [{"dtype": "f32", "shape": [32, 3, 3, 3]}], "persistent_bytes": 3456, "time_us": 0},
  {"name": "conv0", "kind": "conv2d", "inputs": ["images:0", "conv0/w:0"], "control_inputs": ["images"], "outputs": [{"dtype": "f32", "shape": [32, 32, 149, 149]}], "attrs": {"stride":[2,2],"padding":"valid"}, "flop": 1227626496, "temp_bytes": 8, "persistent_bytes": 16, "time_us": {"k80": 812.4, "xeon-e5-2686v4": 9100}, "pass": "forward", "layer": "conv0", "colocate_with": "conv0/w"}]}
)";

TEST(GraphJsonTest, ReadsEveryFieldOfTheExample) {
  const Graph graph = Read(kExample);
  EXPECT_EQ(graph.name(), "example");
  ASSERT_EQ(graph.num_ops(), 3U);
  const OpId conv = *graph.FindOp("conv0");
  const Op& op = graph.op(conv);
  EXPECT_EQ(op.kind, "conv2d");
  EXPECT_EQ(op.attrs, R"({"stride":[2,2],"padding":"valid"})");
  EXPECT_EQ(op.flop, 1227626496);
  EXPECT_EQ(op.temp.count, 8);
  EXPECT_EQ(op.persistent.count, 16);
  EXPECT_EQ(op.pass, Pass::kForward);
  EXPECT_EQ(op.layer, "conv0");
  EXPECT_EQ(op.colocate_with, graph.FindOp("conv0/w"));
  EXPECT_FALSE(op.time_micros.has_value());
  EXPECT_EQ(graph.MeasuredMicros(conv, "k80"), 812.4);
  EXPECT_EQ(graph.MeasuredMicros(conv, "xeon-e5-2686v4"), 9100.0);
  EXPECT_EQ(graph.MeasuredMicros(conv, "v100"), std::nullopt);
  EXPECT_EQ(graph.op(*graph.FindOp("images")).time_micros, 0.0);
  ASSERT_EQ(graph.inputs(conv).size(), 2U);
  EXPECT_THAT(graph.control_inputs(conv), ElementsAre(*graph.FindOp("images")));
  const Tensor& output = graph.tensor(graph.first_output(conv));
  EXPECT_EQ(output.dtype, DType::kF32);
  EXPECT_THAT(output.shape, ElementsAre(32, 32, 149, 149));
  EXPECT_EQ(output.size.count, 4LL * 32 * 32 * 149 * 149);
}

TEST(GraphJsonTest, WritesTheExampleToTheByte) { EXPECT_EQ(testing::GraphText(Read(kExample)), kExample); }

TEST(GraphJsonTest, LeavesOutWhatIsDefaultAndWhatFollows) {
  const std::string text = WithOps(
      R"({"colocate_with": "b", "layer": "", "name": "a", "kind": "k", "inputs": [], "control_inputs": [], "outputs":
      [7, {"bytes": 8}, {"shape": [2, 1], "bytes": 9}, {"dtype": "f32", "bytes": 4}, {"dtype": "i8", "bytes": 5},
       {"dtype": "i8", "shape": [3], "bytes": 6}, {"dtype": "i8", "shape": [3], "bytes": 3}, {"dtype": "f64", "shape": []}],
      "attrs": {}, "flop": 0, "temp_bytes": 0, "persistent_bytes": 0, "time_us": {}},
      {"name": "b", "kind": "k", "inputs": ["a", "a:1"], "time_us": 0.0, "attrs": {"x": [1.50, "\u0041", {"z": null, "a": true}]}})");
  // 7 and {"bytes": 8} are plain numbers; an f32 of 4 bytes is a scalar; an i8 of 5 bytes without a shape has no shape.
  EXPECT_EQ(testing::GraphText(Read(text)), R"({"schema": "emplace.graph", "version": 1, "name": "g",
 "ops": [
  {"name": "a", "kind": "k", "outputs": [7, 8, {"shape": [2, 1], "bytes": 9}, {"dtype": "f32", "shape": []}, {"dtype": "i8", "bytes": 5}, {"dtype": "i8", "shape": [3], "bytes": 6}, {"dtype": "i8", "shape": [3]}, {"dtype": "f64", "shape": []}], "colocate_with": "b"},
  {"name": "b", "kind": "k", "inputs": ["a:0", "a:1"], "attrs": {"x":[1.5,"A",{"z":null,"a":true}]}, "time_us": 0}]}
)");
}

TEST(GraphJsonTest, OnlySchemaVersionNameAndKindAreRequired) {
  EXPECT_EQ(Read(R"({"schema": "emplace.graph", "version": 1})").num_ops(), 0U);
  const Graph graph = Read(R"({"ops": [{"kind": "k", "name": "n"}], "version": 1, "schema": "emplace.graph"})");
  EXPECT_EQ(graph.name(), "");
  EXPECT_EQ(graph.MeasuredMicros(OpId{0}, "any"), std::nullopt) << "a missing time is not a time";
  EXPECT_EQ(testing::GraphText(Graph()),
            "{\"schema\": \"emplace.graph\", \"version\": 1, \"name\": \"\",\n \"ops\": []}\n");
}

TEST(GraphJsonTest, MoreThanAGraphMayHaveIsRefusedWhileReading) {
  const std::string text = R"({"schema": "emplace.graph", "version": 1, "ops": [)"
                           R"({"name": "a", "kind": "k", "outputs": [1, 2]}, )"
                           R"({"name": "b", "kind": "k", "inputs": ["a", "a:1"], "outputs": [1]}, )"
                           R"({"name": "c", "kind": "k", "inputs": ["b"], "control_inputs": ["a"]}]})";
  const auto refusal = [&text](const GraphLimits& limits) {
    return ErrorOf([&] {
      std::istringstream in(text);
      ReadGraph(in, "g.json", limits);
    });
  };
  EXPECT_EQ(refusal({.ops = 3, .outputs = 3, .reads = 4}), "(no error)");
  EXPECT_EQ(refusal({.ops = 2}), "g.json: ops[2]: there are too many ops (at most 2)");
  EXPECT_EQ(refusal({.outputs = 2}), "g.json: ops[1]: there are too many outputs of ops (at most 2)");
  EXPECT_EQ(refusal({.reads = 3}), "g.json: ops[2]: there are too many inputs of ops (at most 3)");
}

TEST(GraphJsonTest, MetadataIsKeptAsItIs) {
  const std::string text = R"({"schema": "emplace.graph", "version": 1, "name": "g",
 "metadata": {"source":"kineto","measured":{"step_time_us":2.5}},
 "ops": [
  {"name": "a", "kind": "b"}]}
)";
  EXPECT_EQ(Read(text).metadata(), R"({"source":"kineto","measured":{"step_time_us":2.5}})");
  EXPECT_EQ(testing::GraphText(Read(text)), text);
  EXPECT_EQ(Read(kExample).metadata(), "");
  EXPECT_THAT(ErrorOf([] { Read(R"({"schema": "emplace.graph", "version": 1, "metadata": 3, "ops": []})"); }),
              ::testing::HasSubstr("metadata"));
}

TEST(GraphJsonTest, OpsMayNameLaterOnes) {
  const Graph graph =
      Read(WithOps(R"({"name": "b", "kind": "k", "inputs": ["a"]}, {"name": "a", "kind": "k", "outputs": [1]})"));
  EXPECT_EQ(graph.op(graph.file_order()[0]).name, "b");
  EXPECT_EQ(graph.op(OpId{0}).name, "a");
}

TEST(GraphJsonTest, WhatWasWrittenIsWrittenAgain) {
  Rng rng(5);
  for (int i = 0; i < 50; ++i) {
    const Graph graph =
        testing::RandomDag(rng, {.num_ops = 40, .kinds_differ = i % 2 == 0, .memory = true, .fractional = true});
    const std::string text = testing::GraphText(graph);
    EXPECT_EQ(testing::GraphText(Read(text)), text);
  }
}

TEST(GraphJsonTest, AttrsOfABuilderAreWrittenAsTheReaderKeepsThem) {
  GraphBuilder builder("g");
  OpSpec spec = testing::MakeOp("a", 1);
  spec.attrs = R"({"rate": 1.0, "name": "\u0041"})";
  builder.Add(spec);
  const std::string text = testing::GraphText(builder.Build());
  EXPECT_THAT(text, HasSubstr(R"("attrs": {"rate":1,"name":"A"})"));
  EXPECT_EQ(testing::GraphText(Read(text)), text);
}

TEST(GraphJsonTest, KeepsHostAndDeviceTimes) {
  const std::string text = testing::GraphText(Read(WithOps(
      R"({"name": "a", "kind": "k", "time_us": 9, "host_us": 2.5, "device_us": {"k80": 8, "h100": 3}},
         {"name": "b", "kind": "k", "host_us": 4, "device_us": 1}, {"name": "c", "kind": "k", "device_us": 0.5})")));
  const Graph graph = Read(text);
  EXPECT_EQ(testing::GraphText(graph), text);
  EXPECT_THAT(text, HasSubstr(R"("time_us": 9, "host_us": 2.5, "device_us": {"k80": 8, "h100": 3}})"));
  const OpId a{0};
  const OpId b{1};
  const OpId c{2};
  EXPECT_EQ(graph.HostMicros(a), 2.5);
  EXPECT_EQ(graph.DeviceMicros(a, "h100"), 3);
  EXPECT_EQ(graph.DeviceMicros(a, "other"), std::nullopt);
  EXPECT_EQ(graph.MeasuredMicros(a, "h100"), 9) << "time_us comes first";
  EXPECT_EQ(graph.DeviceMicros(b, "other"), 1);
  EXPECT_EQ(graph.MeasuredMicros(b, "other"), 4) << "the larger of the two";
  EXPECT_EQ(graph.HostMicros(c), std::nullopt);
  EXPECT_EQ(graph.MeasuredMicros(c, "other"), 0.5);
}

TEST(GraphJsonTest, KeepsDoublesToTheBit) {
  const Graph graph = Read(WithOps(R"({"name": "a", "kind": "k", "time_us": 0.1000000000000000055511151231257827})"));
  EXPECT_EQ(graph.op(OpId{0}).time_micros, 0.1);
  EXPECT_THAT(testing::GraphText(graph), HasSubstr("\"time_us\": 0.1}"));
  EXPECT_THAT(testing::GraphText(Read(WithOps(R"({"name": "a", "kind": "k", "time_us": -0.0})"))),
              HasSubstr("\"time_us\": 0}"));
}

struct BrokenGraph {
  std::string ops;
  std::string error;
};

TEST(GraphJsonTest, NamesThePlaceOfEveryFault) {
  const std::vector<BrokenGraph> cases = {
      {R"(5)", "ops[0]: is the number 5 (an object)"},
      {R"({"kind": "k"})", "ops[0].name: is missing (a string)"},
      {R"({"name": "a"})", "ops[0].kind: is missing (a string)"},
      {R"({"name": 5, "kind": "k"})", "ops[0].name: is the number 5 (a string)"},
      {R"({"name": "", "kind": "k"})", "ops[0].name: the name is empty"},
      {R"({"name": "a:b", "kind": "k"})",
       "ops[0].name: \"a:b\" is not an op name (it holds no ':' and does not start with '^')"},
      {R"({"name": "^a", "kind": "k"})",
       "ops[0].name: \"^a\" is not an op name (it holds no ':' and does not start with '^')"},
      {R"({"name": "a", "kind": ""})", "ops[0].kind: the kind is empty"},
      {R"({"name": "a", "kind": null})", "ops[0].kind: is null (a string)"},
      {R"({"name": "a", "kind": "k", "name": "b"})", "ops[0].name: duplicate key (each key once)"},
      {R"({"name": "a", "kind": "k", "colour": 1})",
       "ops[0].colour: unknown key (name, kind, inputs, control_inputs, outputs, attrs, flop, temp_bytes, "
       "persistent_bytes, time_us, host_us, device_us, pass, layer, colocate_with)"},
      {R"({"name": "a", "kind": "k", "inputs": "b"})", "ops[0].inputs: is the text \"b\" (a list of strings)"},
      {R"({"name": "a", "kind": "k", "inputs": [1]})", "ops[0].inputs[0]: is the number 1 (PRODUCER:OUTPUT_INDEX)"},
      {R"({"name": "a", "kind": "k", "inputs": ["b"]})",
       "ops[0].inputs[0]: unknown producer \"b\" (the name of an op)"},
      {R"({"name": "a", "kind": "k", "outputs": [1]}, {"name": "b", "kind": "k", "inputs": ["a:0", "a:1"]})",
       "ops[1].inputs[1]: \"a:1\": output index 1 is out of range (\"a\" has 1 outputs)"},
      {R"({"name": "a", "kind": "k", "outputs": [1]}, {"name": "b", "kind": "k", "inputs": ["a:x"]})",
       "ops[1].inputs[0]: \"a:x\" is not an input (PRODUCER or PRODUCER:OUTPUT_INDEX)"},
      {R"({"name": "a", "kind": "k", "control_inputs": {}})",
       "ops[0].control_inputs: is an object (a list of strings)"},
      {R"({"name": "a", "kind": "k", "control_inputs": [true]})",
       "ops[0].control_inputs[0]: is true (the name of an op)"},
      {R"({"name": "a", "kind": "k", "control_inputs": ["z"]})",
       "ops[0].control_inputs[0]: unknown producer \"z\" (the name of an op)"},
      {R"({"name": "a", "kind": "k", "outputs": 4})", "ops[0].outputs: is the number 4 (a list of outputs)"},
      {R"({"name": "a", "kind": "k", "outputs": [-1]})",
       "ops[0].outputs[0]: is the number -1 (a size in bytes, or an object with dtype and shape)"},
      {R"({"name": "a", "kind": "k", "outputs": [1.5]})",
       "ops[0].outputs[0]: is the number 1.5 (a size in bytes, or an object with dtype and shape, written without a "
       "point or an exponent)"},
      {R"({"name": "a", "kind": "k", "outputs": [{}]})", "ops[0].outputs[0]: has no size (bytes, or dtype and shape)"},
      {R"({"name": "a", "kind": "k", "outputs": [{"dtype": "f32"}]})",
       "ops[0].outputs[0]: has no size (bytes, or dtype and shape)"},
      {R"({"name": "a", "kind": "k", "outputs": [{"shape": [1]}]})",
       "ops[0].outputs[0]: has no size (bytes, or dtype and shape)"},
      {R"({"name": "a", "kind": "k", "outputs": [{"dtype": "f31", "shape": []}]})",
       "ops[0].outputs[0].dtype: is the text \"f31\" (bool, u4, i4, i8, u8, i16, f8e4m3, f8e5m2, f16, bf16, i32, "
       "f32, i64 or f64)"},
      {R"({"name": "a", "kind": "k", "outputs": [{"dtype": 3, "shape": []}]})",
       "ops[0].outputs[0].dtype: is the number 3 (bool, u4, i4, i8, u8, i16, f8e4m3, f8e5m2, f16, bf16, i32, "
       "f32, i64 or f64)"},
      {R"({"name": "a", "kind": "k", "outputs": [{"dtype": "f32", "shape": 3}]})",
       "ops[0].outputs[0].shape: is the number 3 (a list of integers >= 0)"},
      {R"({"name": "a", "kind": "k", "outputs": [{"dtype": "f32", "shape": [3, -1]}]})",
       "ops[0].outputs[0].shape[1]: is the number -1 (an integer from 0 to 2^62 - 1)"},
      {R"({"name": "a", "kind": "k", "outputs": [{"dtype": "f32", "shape": [4000000000, 4000000000]}]})",
       "ops[0].outputs[0].shape: the tensor is larger than 2^62 bytes"},
      {R"({"name": "a", "kind": "k", "outputs": [{"bytes": 1e3}]})",
       "ops[0].outputs[0].bytes: is the number 1000 (an integer from 0 to 2^62 - 1, written without a point or an "
       "exponent)"},
      {R"({"name": "a", "kind": "k", "outputs": [{"bytes": 18446744073709551615}]})",
       "ops[0].outputs[0].bytes: is the number 18446744073709551615 (an integer from 0 to 2^62 - 1)"},
      {R"({"name": "a", "kind": "k", "outputs": [{"bytes": 1, "size": 1}]})",
       "ops[0].outputs[0].size: unknown key (dtype, shape, bytes)"},
      {R"({"name": "a", "kind": "k", "outputs": [4000000000000000000, 4000000000000000000]})",
       "ops[0].outputs[1].bytes: the sizes of the graph add up to more than 2^62 bytes"},
      {R"({"name": "a", "kind": "k", "attrs": []})", "ops[0].attrs: is a list of 0 elements (an object)"},
      {R"({"name": "a", "kind": "k", "attrs": {"b": {"c": 1, "c": 2}}})",
       "ops[0].attrs.b.c: duplicate key (each key once)"},
      {R"({"name": "a", "kind": "k", "flop": -1})", "ops[0].flop: is the number -1 (a number from 0 to 1e+24)"},
      {R"({"name": "a", "kind": "k", "flop": "1"})", "ops[0].flop: is the text \"1\" (a number from 0 to 1e+24)"},
      {R"({"name": "a", "kind": "k", "temp_bytes": 0.5})",
       "ops[0].temp_bytes: is the number 0.5 (an integer from 0 to 2^62 - 1, written without a point or an exponent)"},
      {R"({"name": "a", "kind": "k", "temp_bytes": false})",
       "ops[0].temp_bytes: is false (an integer from 0 to 2^62 - 1)"},
      {R"({"name": "a", "kind": "k", "persistent_bytes": -5})",
       "ops[0].persistent_bytes: is the number -5 (an integer from 0 to 2^62 - 1)"},
      {R"({"name": "a", "kind": "k", "time_us": -1})", "ops[0].time_us: is the number -1 (a number from 0 to 1e+12)"},
      {R"({"name": "a", "kind": "k", "host_us": -1})", "ops[0].host_us: is the number -1 (a number from 0 to 1e+12)"},
      {R"({"name": "a", "kind": "k", "device_us": {"k80": "1"}})",
       "ops[0].device_us.k80: is the text \"1\" (a number from 0 to 1e+12)"},
      {R"({"name": "a", "kind": "k", "time_us": 1e13})",
       "ops[0].time_us: is the number 1e+13 (a number from 0 to 1e+12)"},
      {R"({"name": "a", "kind": "k", "time_us": 1e999})",
       "ops[0].time_us: is the number \"1e999\" (a number below 1.8e308)"},
      {R"({"name": "a", "kind": "k", "time_us": "1"})",
       "ops[0].time_us: is the text \"1\" (a number of us, or an object with one for each device kind)"},
      {R"({"name": "a", "kind": "k", "time_us": {"k80": "1"}})",
       "ops[0].time_us.k80: is the text \"1\" (a number from 0 to 1e+12)"},
      {R"({"name": "a", "kind": "k", "time_us": {"my gpu": -1}})",
       "ops[0].time_us[\"my gpu\"]: is the number -1 (a number from 0 to 1e+12)"},
      {R"({"name": "a", "kind": "k", "pass": "sideways"})",
       "ops[0].pass: is the text \"sideways\" (forward, backward or update)"},
      {R"({"name": "a", "kind": "k", "pass": 1})", "ops[0].pass: is the number 1 (forward, backward or update)"},
      {R"({"name": "a", "kind": "k", "layer": 1})", "ops[0].layer: is the number 1 (a string)"},
      {R"({"name": "a", "kind": "k", "colocate_with": ""})",
       "ops[0].colocate_with: is the text \"\" (the name of an op)"},
      {R"({"name": "a", "kind": "k", "colocate_with": "z"})",
       "ops[0].colocate_with: unknown op \"z\" (the name of an op)"},
      {R"({"name": "a", "kind": "k"}, {"name": "a", "kind": "k"})",
       "ops[1].name: duplicate op name \"a\" (also ops[0])"},
      {R"({"name": "a", "kind": "k", "control_inputs": ["b"]}, {"name": "b", "kind": "k", "control_inputs": ["a"]})",
       "ops[0]: the graph has a cycle: a -> b -> a"},
  };
  for (const BrokenGraph& broken : cases) EXPECT_EQ(ErrorOfOps(broken.ops), "g.json: " + broken.error) << broken.ops;
}

TEST(GraphJsonTest, NamesThePlaceOfAFaultInTheRoot) {
  const std::string good = R"({"schema": "emplace.graph", "version": 1, "name": "g", "ops": []})";
  const auto error_with = [&good](const std::string& from, const std::string& to) {
    return ErrorOf([&] { Read(Replaced(good, from, to)); });
  };
  EXPECT_EQ(ErrorOf([] { Read("[]"); }), "g.json: is a list of 0 elements (an object of schema \"emplace.graph\")");
  EXPECT_EQ(error_with(R"("schema": "emplace.graph", )", ""), "g.json: schema: is missing (\"emplace.graph\")");
  EXPECT_EQ(error_with("emplace.graph", "emplace.placement"),
            "g.json: schema: is the text \"emplace.placement\" (\"emplace.graph\")");
  EXPECT_EQ(error_with(R"("version": 1, )", ""), "g.json: version: is missing (1)");
  EXPECT_EQ(error_with(R"("version": 1)", R"("version": 2)"), "g.json: version: is the number 2 (1)");
  EXPECT_EQ(error_with(R"("version": 1)", R"("version": "1")"), "g.json: version: is the text \"1\" (1)");
  EXPECT_EQ(error_with(R"("g")", "7"), "g.json: name: is the number 7 (a string)");
  EXPECT_EQ(error_with("[]", "{}"), "g.json: ops: is an object (a list of ops)");
  EXPECT_EQ(error_with("[]", "[], \"ops\": []"), "g.json: ops: duplicate key (each key once)");
  EXPECT_EQ(error_with("[]", "[], \"groups\": 1"),
            "g.json: groups: unknown key (schema, version, name, metadata, ops)");
}

TEST(GraphJsonTest, CallsAFileOfAnotherKindThatBeforeItsOps) {
  EXPECT_EQ(ErrorOf([] { Read(R"({"schema": "emplace.profile", "version": 1, "ops": [{"signature": "x"}]})"); }),
            "g.json: schema: is the text \"emplace.profile\" (\"emplace.graph\")");
}

TEST(GraphJsonTest, SaysWhereTheTextStopsBeingJson) {
  EXPECT_THAT(ErrorOf([] { Read(""); }), StartsWith("g.json: line 1, column 1: not valid JSON: "));
  EXPECT_THAT(ErrorOf([] { Read("{\"schema\": \"emplace.graph\",\n \"version\": 1,,"); }),
              StartsWith("g.json: line 2, column 15: not valid JSON: "));
  EXPECT_THAT(ErrorOf([] { Read(WithOps("{\"name\": \"\xff\", \"kind\": \"k\"}")); }), HasSubstr("ill-formed UTF-8"));
  EXPECT_THAT(ErrorOf([] { Read(WithOps("") + " x"); }), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOfOps(R"({"name": "a", "kind": "k", "flop": NaN})"), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOfOps(R"({"name": "a", "kind": "k", "flop": Infinity})"), HasSubstr("not valid JSON"));
}

TEST(GraphJsonTest, EveryTruncationIsRefused) {
  const std::string text = kExample;
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {  // the last two are "}\n"
    EXPECT_THAT(ErrorOf([&] { Read(text.substr(0, length)); }), HasSubstr("not valid JSON")) << length;
  }
}

TEST(GraphJsonTest, DeepNestingIsRefusedAndNotFollowed) {
  const std::string deep(1'000'000, '[');
  EXPECT_THAT(ErrorOf([&] { Read(deep); }), HasSubstr("is nested too deeply (at most 64 levels)"));
  EXPECT_THAT(ErrorOfOps(R"({"name": "a", "kind": "k", "attrs": {"x": )" + deep), HasSubstr("is nested too deeply"));
}

TEST(GraphJsonTest, AMessageIsOneLineWhateverTheNames) {
  const std::string error = ErrorOfOps(R"({"name": "a\nb\u0000c", "kind": "k", "inputs": ["x\ny"]})");
  EXPECT_EQ(error.find('\n'), std::string::npos);
  EXPECT_THAT(error, StartsWith("g.json: ops[0].inputs[0]: unknown producer "));
}

}  // namespace graph_json_test
}  // namespace emplace
