#include "datasets/importers/tensorflow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "datasets/exporters/tensorflow_devices.h"
#include "datasets/importers/importers.h"
#include "datasets/importers/tensorflow_body.h"
#include "datasets/importers/tensorflow_kinds.h"
#include "datasets/shipped_clusters.h"
#include "sim/ops/op_catalog_parts.h"
#include "tests/datasets/importers/samples.h"
#include "tests/datasets/importers/tensorflow_text.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/op_case.h"

namespace emplace::testing {
namespace tensorflow_test {

using datasets::Imported;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Imported Import(const std::string& text, std::vector<std::string> inputs = {}, const std::string& cluster = "") {
  const datasets::ImportSource source("g.pb", text);
  datasets::ImportOptions options;
  options.inputs = std::move(inputs);
  options.cluster = cluster;
  return datasets::ImportTensorFlow({&source, 1}, options);
}
Graph Ops(const std::string& text, std::vector<std::string> inputs = {}) {
  return Import(text, std::move(inputs)).graph;
}

std::string Binary(const std::string& text) { return datasets::ReadTensorFlowFile(text).graph.SerializeAsString(); }

std::vector<std::string> Names(const Graph& graph) {
  std::vector<std::string> names;
  for (const OpId id : graph.file_order()) names.emplace_back(graph.op(id).name);
  return names;
}
std::string KindOf(const Graph& graph, const std::string& name) { return std::string(FindOp(graph, name).kind); }

// ---- Files

TEST(TensorFlowFileTest, BinaryTextAndMetaGraphAreTheSame) {
  const std::string text = TfSample();
  const std::string binary = Binary(text);
  tensorflow::MetaGraphDef meta;
  ASSERT_TRUE(meta.mutable_graph_def()->ParseFromString(binary));
  meta.mutable_meta_info_def()->set_tensorflow_version("2.21.0");
  meta.mutable_meta_info_def()->mutable_stripped_op_list()->add_op()->set_name("MatMul");
  tensorflow::SavedModel saved;
  saved.set_saved_model_schema_version(1);
  *saved.add_meta_graphs() = meta;
  std::vector<std::string> expected = {"x", "w", "scope/product", "scope/relu", "loss", "gradients/g", "update"};
  for (const std::string& content : {text, binary, meta.SerializeAsString(), saved.SerializeAsString()}) {
    EXPECT_TRUE(datasets::LooksLikeTensorFlow(content));
    EXPECT_EQ(Names(Ops(content, {"x=3x8"})), expected);
  }
  EXPECT_EQ(datasets::ReadTensorFlowFile(saved.SerializeAsString()).form, "SavedModel");
  EXPECT_EQ(datasets::ReadTensorFlowFile(meta.SerializeAsString()).version, "2.21.0");
  // A signature says what is computed.
  auto& outputs = *(*saved.mutable_meta_graphs(0)->mutable_signature_def())["serving_default"].mutable_outputs();
  outputs["y"].set_name("scope/relu:0");
  EXPECT_THAT(Names(Ops(saved.SerializeAsString(), {"x=3x8"})), ElementsAre("x", "w", "scope/product", "scope/relu"));
}

TEST(TensorFlowFileTest, OtherFilesDoNotLookLikeIt) {
  for (const std::string text : {"", "{\"node\": 1}", "node { op_type: \"Add\" }",
                                 "\x0a\x03"
                                 "abc",
                                 "3\n0 0 0\n"}) {
    EXPECT_FALSE(datasets::LooksLikeTensorFlow(text)) << text;
  }
}

TEST(TensorFlowFileTest, FaultsHaveTheirPlace) {
  const auto refused = [](const std::string& content) { return ErrorOf([&] { Import(content, {"x=3x8"}); }); };
  EXPECT_EQ(refused(""), "g.pb: is empty (a GraphDef, MetaGraphDef or SavedModel)");
  EXPECT_EQ(refused(Binary(TfSample()).substr(0, 300)),
            "g.pb: is not a GraphDef, MetaGraphDef or SavedModel with nodes, or is cut");
  EXPECT_THAT(refused(TfSample() + "node { name: 3 }"), HasSubstr("g.pb: line 12, column"));
  EXPECT_EQ(refused(TfSample() + TfNode("loss", "NoOp")), "g.pb: node \"loss\": comes twice (names are unique)");
  EXPECT_EQ(refused(TfSample() + TfNode("y", "Relu", {"z"})), "g.pb: node \"y\": has input \"z\", which is not there");
  EXPECT_EQ(refused(TfSample() + TfNode("y", "Relu", {"x:a"})),
            "g.pb: node \"y\": has input \"x:a\" (NODE or NODE:INDEX)");
  EXPECT_EQ(refused(TfSample() + TfNode("a", "Relu", {"b"}) + TfNode("b", "Relu", {"a"})),
            "g.pb: node \"a\": is on a cycle, or behind one");
  EXPECT_EQ(ErrorOf([&] { Import(TfSample()); }),
            "g.pb: placeholder \"x\": has free dimensions: set its shape, as --input x=1x8");
  EXPECT_EQ(ErrorOf([&] {
              Import(TfSample(), {"x=3x8", "y=2"});
            }),
            "g.pb: --input: \"y\" is none of the placeholders (x)");
  EXPECT_EQ(ErrorOf([&] { Import(TfSample(), {"x=3x7"}); }),
            "g.pb: node \"scope/product\": MatMul: inner sizes 7 and 8 of [3,7] and [8,4]");
}

// ---- A step

TEST(TensorFlowTest, NodesBecomeOpsOfTheCatalogue) {
  const Graph graph = Ops(TfSample(), {"x=3x8"});
  EXPECT_EQ(KindOf(graph, "scope/product"), "matmul");
  EXPECT_THAT(Inputs(graph, "scope/product"), ElementsAre("x:0=96", "w:0=128"));
  EXPECT_EQ(FindOp(graph, "scope/product").flop, 2 * 3 * 8 * 4);
  EXPECT_EQ(FindOp(graph, "scope/product").layer, "scope");
  EXPECT_EQ(FindOp(graph, "w").persistent.count, 128);
  EXPECT_EQ(KindOf(graph, "loss"), "reduce_sum");
  EXPECT_EQ(FindOp(graph, "gradients/g").pass, Pass::kBackward);
  EXPECT_EQ(FindOp(graph, "gradients/g").attrs, R"({"transpose_a":true})");
  EXPECT_EQ(KindOf(graph, "update"), "sgd");
  EXPECT_EQ(FindOp(graph, "update").pass, Pass::kUpdate);
  EXPECT_EQ(graph.op(*FindOp(graph, "update").colocate_with).name, "w");
}

TEST(TensorFlowTest, WhatOnlyPreparesIsLeftOut) {
  const std::string text = TfSample() + TfNumbersText("zeros", {8, 4}, 0) +
                           TfNode("w/Assign", "AssignVariableOp", {"w", "zeros"}) +
                           TfNode("init", "NoOp", {"^w/Assign"}) + TfPlaceholder("save/filename", {}, "DT_STRING") +
                           TfNode("save/SaveV2", "SaveV2", {"save/filename", "w/read"}) +
                           TfNode("save/RestoreV2", "RestoreV2", {"save/filename"}) +
                           TfNode("save/Assign", "AssignVariableOp", {"w", "save/RestoreV2"});
  EXPECT_EQ(Names(Ops(text, {"x=3x8"})), Names(Ops(TfSample(), {"x=3x8"})));
}

TEST(TensorFlowTest, ShapeArithmeticIsNoOp) {
  // [N, 8] becomes [N * 2, 4], by the shape that the graph computes.
  const std::string text =
      TfPlaceholder("x", {-1, 8}) + TfNode("shape", "Shape", {"x"}, TfTypeAttr()) + TfIntegersText("zero", {0}) +
      TfIntegersText("one", {1}) +
      TfNode("n", "StridedSlice", {"shape", "zero", "one", "one"},
             TfTypeAttr("T", "DT_INT32") + TfAttr("shrink_axis_mask", "i: 1")) +
      TfIntegersText("two", {2}, true) + TfNode("rows", "Mul", {"n", "two"}, TfTypeAttr("T", "DT_INT32")) +
      TfIntegersText("four", {4}, true) + TfNode("target", "Pack", {"rows", "four"}, TfTypeAttr("T", "DT_INT32")) +
      TfNode("y", "Reshape", {"x", "target"}, TfTypeAttr());
  const Graph graph = Ops(text, {"x=5x8"});
  EXPECT_THAT(Names(graph), ElementsAre("x", "y"));
  EXPECT_EQ(KindOf(graph, "y"), "reshape");
  EXPECT_THAT(graph.tensor(graph.first_output(*graph.FindOp("y"))).shape, ElementsAre(10, 4));
}

TEST(TensorFlowTest, ControlInputsPassThroughWhatIsLeftOut) {
  const std::string text = TfPlaceholder("x", {4}) + TfNode("a", "Exp", {"x"}, TfTypeAttr()) +
                           TfNode("group", "NoOp", {"^a"}) + TfNode("held", "Identity", {"x", "^group"}, TfTypeAttr()) +
                           TfNode("free", "Identity", {"a"}, TfTypeAttr()) +
                           TfNode("b", "Neg", {"held"}, TfTypeAttr()) + TfNode("c", "Neg", {"free"}, TfTypeAttr());
  const Graph graph = Ops(text);
  EXPECT_THAT(Names(graph), ElementsAre("x", "a", "held", "b", "c"));
  EXPECT_EQ(KindOf(graph, "held"), "tf::Identity");
  ASSERT_EQ(graph.control_inputs(*graph.FindOp("held")).size(), 1U);
  EXPECT_THAT(Inputs(graph, "c"), ElementsAre("a:0=16"));
}

TEST(TensorFlowTest, OperatorsWithoutAFormulaAreSaid) {
  const Imported imported = Import(
      TfPlaceholder("x", {4}) +
      TfNode("y", "Unheard", {"x"}, TfTypeAttr() + TfAttr("_output_shapes", "list { " + TfShapeText({2}) + " }")) +
      TfNode("z", "Neg", {"y"}, TfTypeAttr()));
  EXPECT_THAT(imported.notes,
              Contains(HasSubstr("1 of 2 ops are operators without a formula: 0 FLOP, timed by their bytes: Unheard")));
  EXPECT_EQ(FindOpKind("tf::Unheard"), &OtherTensorFlowKind());
  const Imported unknown = Import(TfPlaceholder("x", {4}) + TfNode("y", "Unheard", {"x"}, TfTypeAttr()) +
                                  TfNode("z", "Neg", {"y"}, TfTypeAttr()));
  EXPECT_THAT(unknown.notes, Contains(HasSubstr("2 of 2 ops have no shape")));
}

TEST(TensorFlowTest, ConvolutionsCountWhatTheyMultiply) {
  // Image [2,8,8,3], filter [3,3,3,5], stride 2, same: [2,4,4,5].
  const std::string window =
      TfTypeAttr() + TfAttr("strides", "list { i: 1 i: 2 i: 2 i: 1 }") + TfAttr("padding", "s: \"SAME\"");
  const std::string text = TfPlaceholder("x", {2, 8, 8, 3}) + TfVariableText("w", {3, 3, 3, 5}) +
                           TfNode("y", "Conv2D", {"x", "w/read"}, window) + TfIntegersText("sizes", {2, 8, 8, 3}) +
                           TfIntegersText("filter", {3, 3, 3, 5}) +
                           TfNode("dx", "Conv2DBackpropInput", {"sizes", "w/read", "y"}, window) +
                           TfNode("dw", "Conv2DBackpropFilter", {"x", "filter", "y"}, window);
  const Graph graph = Ops(text);
  const double flop = 2.0 * 2 * 4 * 4 * 5 * 27;
  for (const char* const name : {"y", "dx", "dw"}) EXPECT_EQ(FindOp(graph, name).flop, flop) << name;
  EXPECT_THAT(graph.tensor(graph.first_output(*graph.FindOp("y"))).shape, ElementsAre(2, 4, 4, 5));
  EXPECT_THAT(Inputs(graph, "dx"), ElementsAre("w:0=540", "y:0=640"));
}

TEST(TensorFlowTest, SlotsBelongToTheUpdate) {
  const std::string text = TfPlaceholder("g", {6}) + TfVariableText("w", {6}) + TfVariableText("m", {6}) +
                           TfVariableText("v", {6}) + TfNumbersText("rate", {}, 0.1) +
                           TfNode("adam", "ResourceApplyAdam",
                                  {"w", "m", "v", "rate", "rate", "rate", "rate", "rate", "rate", "g"}, TfTypeAttr()) +
                           TfNode("train", "NoOp", {"^adam"});
  const Graph graph = Ops(text);
  EXPECT_THAT(Names(graph), ElementsAre("g", "w", "adam"));
  EXPECT_EQ(KindOf(graph, "adam"), "adam");
  EXPECT_EQ(FindOp(graph, "adam").persistent.count, 48);
}

// ---- Functions and loops

std::string DoubleFunction() {
  return TfFunction("double", {"a"}, TfNode("twice", "AddV2", {"a", "a"}, TfTypeAttr()), {{"out", "twice:z:0"}});
}

TEST(TensorFlowTest, CallsBecomeTheNodesOfTheFunction) {
  const std::string text = TfPlaceholder("x", {4}) + TfNode("call", "PartitionedCall", {"x"}, TfCalls("f", "double")) +
                           TfNode("again", "double", {"call"}) + TfNode("y", "Neg", {"again"}, TfTypeAttr()) +
                           TfLibrary(DoubleFunction());
  const Graph graph = Ops(text);
  EXPECT_THAT(Names(graph), ElementsAre("x", "call/twice", "again/twice", "y"));
  EXPECT_THAT(Inputs(graph, "again/twice"), ElementsAre("call/twice:0=16", "call/twice:0=16"));
  EXPECT_EQ(ErrorOf([&] { Ops(Replaced(text, "name: \"double\" } ", "name: \"triple\" } ")); }),
            "g.pb: node \"call\": f \"triple\" is not in the library");
  // A function that calls itself.
  EXPECT_THAT(ErrorOf([&] {
                Ops(TfPlaceholder("x", {4}) + TfNode("y", "f", {"x"}) + TfNode("z", "Neg", {"y"}, TfTypeAttr()) +
                    TfLibrary(TfFunction("f", {"a"}, TfNode("inner", "f", {"a"}), {{"out", "inner:out:0"}})));
              }),
              HasSubstr("calls functions more than 64 deep"));
}

// x doubled as long as the counter is below `end`.
std::string LoopText(const std::string& counter_type, const std::string& end) {
  const std::string condition = TfFunction(
      "cond", {"i", "n", "a"}, TfNode("less", "Less", {"i", "n"}, TfTypeAttr("T", "DT_INT32")), {{"out", "less:z:0"}});
  const std::string body = TfFunction("body", {"i", "n", "a"},
                                      TfIntegersText("one", {1}, true) +
                                          TfNode("next", "AddV2", {"i", "one:output:0"}, TfTypeAttr("T", "DT_INT32")) +
                                          TfNode("twice", "AddV2", {"a", "a"}, TfTypeAttr()),
                                      {{"o0", "next:z:0"}, {"o1", "n"}, {"o2", "twice:z:0"}});
  return TfPlaceholder("x", {4}) + TfIntegersText("zero", {0}, true) + end +
         TfNode("loop", counter_type, {"zero", "n", "x"}, TfCalls("cond", "cond") + TfCalls("body", "body")) +
         TfNode("y", "Neg", {"loop:2"}, TfTypeAttr()) + TfLibrary(condition + body);
}

TEST(TensorFlowTest, LoopsAreUnrolled) {
  const Imported imported = Import(LoopText("While", TfIntegersText("n", {3}, true)));
  EXPECT_THAT(Names(imported.graph), ElementsAre("x", "loop/twice[0]", "loop/twice[1]", "loop/twice[2]", "y"));
  EXPECT_THAT(Inputs(imported.graph, "loop/twice[2]"), ElementsAre("loop/twice[1]:0=16", "loop/twice[1]:0=16"));
  EXPECT_EQ(imported.graph.op(*FindOp(imported.graph, "loop/twice[2]").colocate_with).name, "loop/twice[0]");
  EXPECT_THAT(imported.notes, Contains("loop \"loop\" unrolled: 3 iterations"));
  EXPECT_THAT(Names(Ops(LoopText("StatelessWhile", TfIntegersText("n", {0}, true)))), ElementsAre("x", "y"));
}

TEST(TensorFlowTest, LoopsOfUnknownLengthStayOneOp) {
  const Imported imported = Import(LoopText("While", TfPlaceholder("n", {}, "DT_INT32")));
  EXPECT_THAT(Names(imported.graph), ElementsAre("x", "n", "loop", "y"));
  EXPECT_EQ(KindOf(imported.graph, "loop"), "tf::While");
  EXPECT_THAT(imported.notes, Contains(HasSubstr("one op of 0 FLOP each: loop")));
}

TEST(TensorFlowTest, LoopsOfControlFlowNodesAreTheSame) {
  const std::string frame = TfTypeAttr() + TfAttr("frame_name", "s: \"frame\"");
  const std::string text =
      TfPlaceholder("x", {4}) + TfIntegersText("zero", {0}, true) + TfVariableText("w", {4}) +
      TfNode("Enter", "Enter", {"zero"}, frame) + TfNode("Enter_1", "Enter", {"x"}, frame) +
      TfNode("Enter_w", "Enter", {"w/read"}, frame + TfAttr("is_constant", "b: true")) +
      TfNode("Merge", "Merge", {"Enter", "Next"}, TfTypeAttr()) +
      TfNode("Merge_1", "Merge", {"Enter_1", "Next_1"}, TfTypeAttr()) + TfIntegersText("n", {3}, true, "^Merge") +
      TfNode("Less", "Less", {"Merge", "n"}, TfTypeAttr("T", "DT_INT32")) + TfNode("LoopCond", "LoopCond", {"Less"}) +
      TfNode("Switch", "Switch", {"Merge", "LoopCond"}, TfTypeAttr()) +
      TfNode("Switch_1", "Switch", {"Merge_1", "LoopCond"}, TfTypeAttr()) + TfNode("Pivot", "Identity", {"Switch:1"}) +
      TfIntegersText("one", {1}, true, "^Pivot") +
      TfNode("add", "AddV2", {"Pivot", "one"}, TfTypeAttr("T", "DT_INT32")) +
      TfNode("mul", "Mul", {"Switch_1:1", "Enter_w"}, TfTypeAttr()) +
      TfNode("Next", "NextIteration", {"add"}, TfTypeAttr()) +
      TfNode("Next_1", "NextIteration", {"mul"}, TfTypeAttr()) + TfNode("Exit_1", "Exit", {"Switch_1"}, TfTypeAttr()) +
      TfNode("y", "Neg", {"Exit_1"}, TfTypeAttr());
  const Graph graph = Ops(text);
  EXPECT_THAT(Names(graph), ElementsAre("x", "w", "mul[0]", "mul[1]", "mul[2]", "y"));
  EXPECT_THAT(Inputs(graph, "mul[2]"), ElementsAre("mul[1]:0=16", "w:0=16"));
  EXPECT_THAT(ErrorOf([&] { Ops(Replaced(text, "\"one\" op: \"Const\" input: \"^Pivot\"", "\"one\" op: \"Const\"")); }),
              HasSubstr("reads a value of another loop without Enter"));
  EXPECT_THAT(ErrorOf([&] { Ops(Replaced(text, "\"LoopCond\" op: \"LoopCond\"", "\"LoopCond\" op: \"Identity\"")); }),
              HasSubstr("enters a loop without LoopCond"));
}

TEST(TensorFlowTest, ListsAreWhatIsPutIntoThem) {
  const std::string list = TfTypeAttr("element_dtype");
  const std::string text =
      TfPlaceholder("x", {3, 4}) + TfIntegersText("shape", {4}) +
      TfNode("list", "TensorListFromTensor", {"x", "shape"}, list) + TfIntegersText("one", {1}, true) +
      TfNode("item", "TensorListGetItem", {"list", "one", "shape"}, list) +
      TfNode("neg", "Neg", {"item"}, TfTypeAttr()) + TfNode("set", "TensorListSetItem", {"list", "one", "neg"}, list) +
      TfNode("stack", "TensorListStack", {"set", "shape"}, list) + TfNode("y", "Exp", {"stack"}, TfTypeAttr());
  const Graph graph = Ops(text);
  EXPECT_THAT(Names(graph), ElementsAre("x", "list", "neg", "stack", "y"));
  EXPECT_EQ(KindOf(graph, "list"), "unstack");
  EXPECT_THAT(Inputs(graph, "neg"), ElementsAre("list:1=16"));
  EXPECT_EQ(KindOf(graph, "stack"), "stack");
  EXPECT_THAT(Inputs(graph, "stack"), ElementsAre("list:0=16", "neg:0=16", "list:2=16"));
  EXPECT_THAT(ErrorOf([&] { Ops(Replaced(text, "int_val: 1 ", "int_val: 3 ")); }),
              HasSubstr("reads element 3 of a list of 3"));
}

TEST(TensorFlowTest, BranchesThatAreKnownAreTaken) {
  const std::string functions =
      DoubleFunction() + TfFunction("minus", {"a"}, TfNode("neg", "Neg", {"a"}, TfTypeAttr()), {{"out", "neg:y:0"}});
  const auto text = [&](const std::string& condition) {
    return TfPlaceholder("x", {4}) + condition +
           TfNode("if", "If", {"c", "x"}, TfCalls("then_branch", "double") + TfCalls("else_branch", "minus")) +
           TfNode("y", "Exp", {"if"}, TfTypeAttr()) + TfLibrary(functions);
  };
  EXPECT_THAT(Names(Ops(text(TfIntegersText("c", {0}, true)))), ElementsAre("x", "if/neg", "y"));
  const Imported open = Import(text(TfPlaceholder("c", {}, "DT_BOOL")));
  EXPECT_THAT(open.notes, Contains(HasSubstr("taken where it depends on data: If \"if\": \"double\"")));
}

TEST(TensorFlowTest, VariablesFromOutsideHaveTheShapeOfTheirUpdates) {
  const std::string text = TfPlaceholder("w", {}, "DT_RESOURCE") + TfPlaceholder("d", {2, 3}) +
                           TfNode("read", "ReadVariableOp", {"w"}, TfTypeAttr("dtype")) +
                           TfNode("y", "Exp", {"read"}, TfTypeAttr()) +
                           TfNode("update", "AssignSubVariableOp", {"w", "d"}, TfTypeAttr("dtype"));
  EXPECT_EQ(FindOp(Ops(text), "w").persistent.count, 24);
  const std::string open = Replaced(text, TfNode("update", "AssignSubVariableOp", {"w", "d"}, TfTypeAttr("dtype")), "");
  EXPECT_THAT(ErrorOf([&] { Ops(open); }),
              HasSubstr("variable \"w\": has no shape in the file: set it, as --input w=64x64"));
  EXPECT_EQ(FindOp(Ops(open, {"w=5x5"}), "w").persistent.count, 100);
}

// ---- Parts

TEST(TensorFlowBodyTest, NodesComeAfterWhatTheyRead) {
  const datasets::TensorFlowFile file = datasets::ReadTensorFlowFile(
      TfNode("b", "Neg", {"a"}, TfTypeAttr()) + TfPlaceholder("a", {4}) + TfNode("c", "f", {"b"}) +
      TfLibrary(TfFunction("f", {"p"}, TfNode("used", "Neg", {"p"}) + TfNode("unused", "Exp", {"p"}),
                           {{"out", "used:y:0"}})));
  const datasets::TfBody body = datasets::BodyOfGraph(file);
  ASSERT_EQ(body.nodes.size(), 3U);
  EXPECT_EQ(body.nodes[0].def->name(), "a");
  EXPECT_EQ(body.nodes[1].inputs.at(0).node, 0);
  const datasets::TfBody function = datasets::BodyOfFunction(file, file.graph.library().function(0));
  ASSERT_EQ(function.nodes.size(), 1U);
  EXPECT_EQ(function.nodes[0].inputs.at(0).node, -1);
  ASSERT_EQ(function.results.size(), 1U);
  EXPECT_EQ(datasets::TraceTensorFlow(file, {}).ops.size(), 3U);
}

tensorflow::NodeDef NodeOf(const std::string& text) { return datasets::ReadTensorFlowFile(text).graph.node(0); }
datasets::TfValue ValueOf(std::vector<std::int64_t> dims, std::optional<std::vector<std::int64_t>> content = {}) {
  datasets::TfValue value;
  value.type = {content ? tensorflow::DT_INT32 : tensorflow::DT_FLOAT, std::move(dims)};
  if (content) {
    auto known = std::make_shared<datasets::TfContent>();
    known->integers = *content;
    value.content = known;
  }
  return value;
}

TEST(TensorFlowValuesTest, AttributesAndTensors) {
  const tensorflow::NodeDef node =
      NodeOf(TfNode("n", "Op", {},
                    TfAttr("i", "i: 3") + TfAttr("b", "b: true") + TfAttr("s", "s: \"text\"") +
                        TfAttr("l", "list { i: 1 i: 2 }") + TfTypeAttr("T", "DT_FLOAT_REF")));
  EXPECT_NE(datasets::FindTfAttr(node, "i"), nullptr);
  EXPECT_EQ(datasets::FindTfAttr(node, "j"), nullptr);
  EXPECT_EQ(datasets::TfInteger(node, "i", 0), 3);
  EXPECT_EQ(datasets::TfInteger(node, "j", 7), 7);
  EXPECT_TRUE(datasets::TfFlag(node, "b"));
  EXPECT_EQ(datasets::TfText(node, "s"), "text");
  EXPECT_THAT(datasets::TfIntegers(node, "l"), ElementsAre(1, 2));
  EXPECT_EQ(datasets::TfDataType(node, "T"), tensorflow::DT_FLOAT);
  EXPECT_EQ(datasets::WithoutReference(tensorflow::DT_BOOL_REF), tensorflow::DT_BOOL);
  EXPECT_TRUE(datasets::IsRealTfType(tensorflow::DT_HALF));
  EXPECT_TRUE(datasets::IsIntegerTfType(tensorflow::DT_BOOL));
  tensorflow::TensorProto tensor;
  tensor.add_int_val(5);
  datasets::TfType type{tensorflow::DT_INT32, std::vector<std::int64_t>{3}};
  EXPECT_THAT(datasets::ContentOfTensor(tensor, type)->integers, ElementsAre(5, 5, 5));
  tensor.set_tensor_content(std::string("\1\0\0\0\2\0\0\0", 8));
  EXPECT_EQ(datasets::ContentOfTensor(tensor, type), nullptr);  // two numbers of three
  type.dims = {2};
  EXPECT_THAT(datasets::ContentOfTensor(tensor, type)->integers, ElementsAre(1, 2));
  tensorflow::TensorShapeProto shape;
  shape.add_dim()->set_size(-1);
  EXPECT_THAT(*datasets::TfDims(shape), ElementsAre(datasets::TfType::kFree));
}

struct ShapeCase {
  std::string node;
  std::vector<datasets::TfValue> inputs;
  std::vector<std::int64_t> expected;  // of the first output
};

TEST(TensorFlowValuesTest, ShapesFollowTheOperators) {
  const auto op = [](const std::string& name, const std::string& attrs = "") {
    return TfNode("n", name, {}, attrs + TfTypeAttr());
  };
  const ShapeCase cases[] = {
      {op("AddV2"), {ValueOf({3, 1, 4}), ValueOf({5, 4})}, {3, 5, 4}},
      {op("MatMul", TfAttr("transpose_b", "b: true")), {ValueOf({2, 3}), ValueOf({4, 3})}, {2, 4}},
      {op("BatchMatMulV2", TfAttr("adj_x", "b: true")), {ValueOf({7, 1, 3, 2}), ValueOf({5, 3, 4})}, {7, 5, 2, 4}},
      {op("Reshape"), {ValueOf({4, 6}), ValueOf({2}, {{-1, 8}})}, {3, 8}},
      {op("Transpose"), {ValueOf({4, 6, 2}), ValueOf({3}, {{2, 0, 1}})}, {2, 4, 6}},
      {op("ConcatV2"), {ValueOf({4, 6}), ValueOf({4, 1}), ValueOf({}, {{-1}})}, {4, 7}},
      {op("Split", TfAttr("num_split", "i: 3")), {ValueOf({}, {{1}}), ValueOf({4, 6})}, {4, 2}},
      {op("Pack", TfAttr("axis", "i: 1")), {ValueOf({4}), ValueOf({4}), ValueOf({4})}, {4, 3}},
      {op("Unpack", TfAttr("num", "i: 4")), {ValueOf({4, 6})}, {6}},
      {op("ExpandDims"), {ValueOf({4, 6}), ValueOf({}, {{-1}})}, {4, 6, 1}},
      {op("Squeeze", TfAttr("squeeze_dims", "list { i: 0 }")), {ValueOf({1, 6, 1})}, {6, 1}},
      {op("Sum", TfAttr("keep_dims", "b: true")), {ValueOf({4, 6}), ValueOf({1}, {{-1}})}, {4, 1}},
      {op("GatherV2"), {ValueOf({9, 6}), ValueOf({2, 3}, {{0, 0, 0, 0, 0, 0}}), ValueOf({}, {{0}})}, {2, 3, 6}},
      {op("Pad"), {ValueOf({4, 6}), ValueOf({2, 2}, {{1, 2, 0, 3}})}, {7, 9}},
      {op("Tile"), {ValueOf({4, 6}), ValueOf({2}, {{2, 3}})}, {8, 18}},
      {op("OneHot"), {ValueOf({5}, {{0, 1, 2, 0, 1}}), ValueOf({}, {{10}}), ValueOf({}), ValueOf({})}, {5, 10}},
      {op("Einsum", TfAttr("equation", "s: \"bij,bjk->bik\"")), {ValueOf({2, 3, 4}), ValueOf({2, 4, 5})}, {2, 3, 5}},
      {op("MaxPool", TfAttr("ksize", "list { i: 1 i: 3 i: 3 i: 1 }") +
                         TfAttr("strides", "list { i: 1 i: 2 i: 2 i: 1 }") + TfAttr("padding", "s: \"VALID\"")),
       {ValueOf({1, 9, 8, 5})},
       {1, 4, 3, 5}},
      {op("DepthwiseConv2dNative",
          TfAttr("strides", "list { i: 1 i: 1 i: 1 i: 1 }") + TfAttr("padding", "s: \"SAME\"")),
       {ValueOf({1, 9, 9, 5}), ValueOf({3, 3, 5, 2})},
       {1, 9, 9, 10}},
      {op("StridedSlice",
          TfAttr("begin_mask", "i: 1") + TfAttr("new_axis_mask", "i: 2") + TfAttr("shrink_axis_mask", "i: 4")),
       {ValueOf({8, 6, 2}), ValueOf({3}, {{0, 0, 1}}), ValueOf({3}, {{-1, 0, 2}}), ValueOf({3}, {{2, 1, 1}})},
       {4, 1, 2}},
      {op("Fill"), {ValueOf({2}, {{3, 4}}), ValueOf({})}, {3, 4}},
      {op("BiasAddGrad", TfAttr("data_format", "s: \"NCHW\"")), {ValueOf({2, 5, 7, 7})}, {5}},
      {op("DepthToSpace", TfAttr("block_size", "i: 2")), {ValueOf({1, 3, 3, 8})}, {1, 6, 6, 2}},
      {op("ResizeBilinear"), {ValueOf({1, 3, 3, 8}), ValueOf({2}, {{9, 7}})}, {1, 9, 7, 8}},
      {op("UnsortedSegmentSum"), {ValueOf({6, 4}), ValueOf({6}, {{0, 0, 0, 0, 0, 0}}), ValueOf({}, {{9}})}, {9, 4}},
  };
  for (const ShapeCase& test : cases) {
    const tensorflow::NodeDef node = NodeOf(test.node);
    const std::vector<datasets::TfType> types = datasets::InferTfTypes(node, test.inputs);
    ASSERT_FALSE(types.empty()) << node.op();
    ASSERT_TRUE(types[0].dims.has_value()) << node.op();
    EXPECT_EQ(*types[0].dims, test.expected) << node.op();
  }
}

TEST(TensorFlowValuesTest, ContradictionsAreRefused) {
  const auto refused = [](const std::string& op, const std::vector<datasets::TfValue>& inputs,
                          const std::string& attrs = "") {
    const tensorflow::NodeDef node = NodeOf(TfNode("n", op, {}, attrs + TfTypeAttr()));
    return ErrorOf([&] { datasets::InferTfTypes(node, inputs); });
  };
  EXPECT_EQ(refused("AddV2", {ValueOf({3}), ValueOf({4})}), "node \"n\": AddV2: sizes 3 and 4 do not broadcast");
  EXPECT_EQ(refused("Reshape", {ValueOf({3}), ValueOf({1}, {{4}})}), "node \"n\": Reshape: 3 elements become [4]");
  EXPECT_EQ(refused("Sum", {ValueOf({3}), ValueOf({1}, {{1}})}), "node \"n\": Sum: axis 1 of 1 dimensions");
  EXPECT_EQ(refused("Conv2D", {ValueOf({1, 4, 4, 3}), ValueOf({3, 3, 2, 5})}),
            "node \"n\": Conv2D: a filter of 2 channels on an image of 3");
  EXPECT_EQ(refused("Split", {ValueOf({}, {{0}}), ValueOf({5})}, TfAttr("num_split", "i: 2")),
            "node \"n\": Split: size 5 in 2 pieces");
  EXPECT_EQ(refused("Unpack", {ValueOf({5})}, TfAttr("num", "i: 99999999")),
            "node \"n\": Unpack: num is 99999999 (at most 65536)");
}

TEST(TensorFlowValuesTest, KnownValuesAreComputed) {
  struct FoldCase {
    std::string node;
    std::vector<datasets::TfValue> inputs;
    std::vector<std::int64_t> expected;
  };
  const auto op = [](const std::string& name, const std::string& attrs = "") {
    return TfNode("n", name, {}, attrs + TfTypeAttr("T", "DT_INT32"));
  };
  const FoldCase cases[] = {
      {op("AddV2"), {ValueOf({2}, {{1, 2}}), ValueOf({}, {{10}})}, {11, 12}},
      {op("FloorDiv"), {ValueOf({}, {{-7}}), ValueOf({}, {{2}})}, {-4}},
      {op("Less"), {ValueOf({}, {{1}}), ValueOf({}, {{2}})}, {1}},
      {op("Shape"), {ValueOf({4, 5})}, {4, 5}},
      {op("Size"), {ValueOf({4, 5})}, {20}},
      {op("Range"), {ValueOf({}, {{1}}), ValueOf({}, {{8}}), ValueOf({}, {{3}})}, {1, 4, 7}},
      {op("Prod"), {ValueOf({3}, {{2, 3, 4}}), ValueOf({1}, {{0}})}, {24}},
      {op("InvertPermutation"), {ValueOf({3}, {{2, 0, 1}})}, {1, 2, 0}},
      {op("GatherV2"), {ValueOf({3}, {{5, 6, 7}}), ValueOf({2}, {{2, 0}}), ValueOf({}, {{0}})}, {7, 5}},
      {op("BroadcastGradientArgs"), {ValueOf({3}, {{2, 1, 4}}), ValueOf({2}, {{3, 4}})}, {1}},
      {op("ConcatOffset"), {ValueOf({}, {{1}}), ValueOf({2}, {{4, 6}}), ValueOf({2}, {{4, 2}})}, {0, 0}},
      {op("SelectV2"), {ValueOf({}, {{0}}), ValueOf({}, {{5}}), ValueOf({}, {{6}})}, {6}},
  };
  for (const FoldCase& test : cases) {
    const tensorflow::NodeDef node = NodeOf(test.node);
    const auto contents = datasets::FoldTf(node, test.inputs, datasets::InferTfTypes(node, test.inputs));
    ASSERT_FALSE(contents.empty()) << node.op();
    ASSERT_NE(contents[0], nullptr) << node.op();
    EXPECT_EQ(contents[0]->integers, test.expected) << node.op();
  }
  // Nothing is divided by zero.
  const tensorflow::NodeDef divides = NodeOf(op("FloorDiv"));
  const std::vector<datasets::TfValue> zero = {ValueOf({}, {{7}}), ValueOf({}, {{0}})};
  EXPECT_EQ(datasets::FoldTf(divides, zero, datasets::InferTfTypes(divides, zero))[0], nullptr);
}

TEST(TensorFlowKindsTest, KindsNeedAllOfTheirInputs) {
  datasets::TfOp op;
  const tensorflow::NodeDef node = NodeOf(TfNode("n", "Mul", {}, TfTypeAttr()));
  op.node = &node;
  op.op = "Mul";
  op.inputs = {ValueOf({4}), ValueOf({4})};
  op.outputs = {op.inputs[0].type};
  op.inputs[0].op = 0;
  EXPECT_EQ(datasets::CataloguedTfKind(op).kind, "");  // the other factor is known
  EXPECT_EQ(datasets::TfKindAsItIs(op).kind, "tf::Mul");
  EXPECT_THAT(datasets::TfKindAsItIs(op).inputs, ElementsAre(0U));
  op.inputs[1].op = 1;
  EXPECT_EQ(datasets::CataloguedTfKind(op).kind, "mul");
}

TEST(OpCatalogTensorFlowTest, KindsAreSortedAndDoTheWorkComputedByHand) {
  const std::span<const OpKind> kinds = TensorFlowKinds();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    EXPECT_TRUE(i == 0 || kinds[i - 1].name < kinds[i].name) << kinds[i].name;
    EXPECT_EQ(FindOpKind(kinds[i].name), &kinds[i]);
  }
  const OutputSpec t = F32({2, 3});
  const OpCase cases[] = {
      {"tf::Exp", {t}, {t}, "", 6, 48},
      {"tf::Sum", {t}, {F32({2})}, "", 6, 32},
      {"tf::MatMul", {F32({3, 2}), F32({3, 4})}, {F32({2, 4})}, R"({"transpose_a":true})", 48, 104},
      {"tf::Einsum", {t, F32({3, 4})}, {F32({2, 4})}, R"({"equation":"ij,jk->ik"})", 48, 104},
      {"tf::MaxPool", {F32({1, 4, 4, 1})}, {F32({1, 2, 2, 1})}, R"({"ksize":[1,2,2,1]})", 16, 80},
      {"tf::MaxPoolGrad",
       {F32({1, 4, 4, 1}), F32({1, 2, 2, 1}), F32({1, 2, 2, 1})},
       {F32({1, 4, 4, 1})},
       R"({"ksize":[1,2,2,1]})",
       16,
       160},
      {"tf::DepthwiseConv2dNative", {F32({1, 4, 4, 2}), F32({3, 3, 2, 1})}, {F32({1, 4, 4, 2})}, "", 2 * 32 * 9, 328},
      {"tf::Slice", {F32({100})}, {t}, "", 0, 48},
      {"tf::Unheard", {t}, {t}, "", 0, 48},
      {"tf::NoOp", {}, {}, "", 0, 0},
  };
  for (const OpCase& test : cases) {
    const OpWork work = WorkOf(test);
    EXPECT_EQ(work.flop, test.flop) << test.kind;
    EXPECT_EQ(work.moved.count, test.moved) << test.kind;
  }
}

// ---- Times and devices

TEST(TensorFlowTimesTest, OpsHaveTheTimesOfTheirNodes) {
  const std::string stats =
      "step_stats { dev_stats { device: \"/job:localhost/replica:0/task:0/device:CPU:0\" "
      "node_stats { node_name: \"loop/body/_7/twice\" all_start_micros: 20 op_start_rel_nanos: 1000 op_end_rel_nanos: "
      "3000 } "
      "node_stats { node_name: \"loop/body/_7/twice\" all_start_micros: 10 op_start_rel_nanos: 1000 op_end_rel_nanos: "
      "6000 } "
      "node_stats { node_name: \"y\" all_start_micros: 30 op_start_rel_micros: 1 op_end_rel_micros: 8 } } }";
  const datasets::TfTimes times = datasets::TimesOfRun(datasets::ReadRunMetadata(stats));
  EXPECT_EQ(times.total_micros, 14);
  const datasets::TensorFlowFile file = datasets::ReadTensorFlowFile(LoopText("While", TfIntegersText("n", {2}, true)));
  const Imported imported = datasets::MakeTensorFlowGraph(file, datasets::TraceTensorFlow(file, {}), &times, nullptr);
  EXPECT_EQ(FindOp(imported.graph, "loop/twice[0]").time_micros, 5);
  EXPECT_EQ(FindOp(imported.graph, "loop/twice[1]").time_micros, 2);
  EXPECT_EQ(FindOp(imported.graph, "y").time_micros, 7);
  EXPECT_THAT(imported.notes, Contains(HasSubstr("times: 3 of 3 ops ran under their own name, 100.0 %")));
  // On a GPU, the kernels count, and not their launches. Without a run, the estimates count.
  const std::string gpu =
      "step_stats { dev_stats { device: \"/device:GPU:0\" node_stats { node_name: \"y\" op_end_rel_micros: 9 } } "
      "dev_stats { device: \"/device:GPU:0/stream:all\" node_stats { node_name: \"y:Neg\" op_end_rel_micros: 4 } } "
      "dev_stats { device: \"/device:GPU:0/stream:14\" node_stats { node_name: \"y:Neg\" op_end_rel_micros: 4 } } }";
  EXPECT_EQ(datasets::TimesOfRun(datasets::ReadRunMetadata(gpu)).total_micros, 4);
  EXPECT_EQ(datasets::TimesOfRun(datasets::ReadRunMetadata("cost_graph { node { name: \"y\" compute_time: 6 } }"))
                .total_micros,
            6);
  EXPECT_EQ(ErrorOf([] { datasets::ReadRunMetadata("\xff\xff"); }), "is not a RunMetadata, or is cut");
  EXPECT_THAT(ErrorOf([] { datasets::ReadRunMetadata(""); }), HasSubstr("has no times"));
}

TEST(TensorFlowDevicesTest, StringsAreDevicesOfTheCluster) {
  const Cluster cluster = datasets::LoadCluster("p2.8xlarge");
  const auto name_of = [&](const std::string& text) -> std::string {
    const auto device = datasets::DeviceOfTfString(text, cluster);
    return device ? std::string(cluster.device(*device).name) : "";
  };
  EXPECT_EQ(name_of("/job:worker/replica:0/task:0/device:GPU:1"), "gpu:1");
  EXPECT_EQ(name_of("/gpu:3"), "gpu:3");
  EXPECT_EQ(name_of("/device:CPU:0"), "cpu:0");
  EXPECT_EQ(name_of("/job:worker/task:0"), "");
  EXPECT_EQ(ErrorOf([&] { name_of("/gpu:8"); }),
            "device \"/gpu:8\": is not in cluster \"p2.8xlarge\" (which has 8 accelerators)");
  EXPECT_EQ(datasets::TfDeviceString(cluster, *datasets::DeviceOfTfString("/gpu:1", cluster)),
            "/job:worker/replica:0/task:0/device:GPU:1");
}

TEST(TensorFlowDevicesTest, PlacementsComeBack) {
  const Cluster cluster = datasets::LoadCluster("p2.8xlarge");
  const Imported imported = Import(TfSample(), {"x=3x8"}, "p2.8xlarge");
  ASSERT_TRUE(imported.placement.has_value());
  const Placement& own = *imported.placement;
  const auto device_of = [&](const std::string& op) { return cluster.device(own[*imported.graph.FindOp(op)]).name; };
  EXPECT_EQ(device_of("scope/product"), "gpu:1");
  EXPECT_EQ(device_of("scope/relu"), "gpu:0");
  EXPECT_EQ(device_of("w"), device_of("update"));
  const std::string text = datasets::WriteTensorFlowDevices(imported.graph, cluster, own);
  EXPECT_THAT(text, HasSubstr(R"("scope/product":"/job:worker/replica:0/task:0/device:GPU:1")"));
  EXPECT_EQ(datasets::ReadTensorFlowDevices(text, "d.json", imported.graph, cluster), own);
  const auto refused = [&](const std::string& from, const std::string& to) {
    return ErrorOf(
        [&] { datasets::ReadTensorFlowDevices(Replaced(text, from, to), "d.json", imported.graph, cluster); });
  };
  EXPECT_EQ(refused("\"loss\"", "\"lost\""), "d.json: \"loss\": has no device");
  EXPECT_THAT(ErrorOf([&] { datasets::ReadTensorFlowDevices(R"({"x":"here"})", "d.json", imported.graph, cluster); }),
              HasSubstr("x: is the text \"here\" (a device such as /job:worker"));
}

TEST(TensorFlowDevicesTest, IterationsAreOneNode) {
  const Graph graph = Ops(LoopText("While", TfIntegersText("n", {2}, true)));
  const Cluster cluster = datasets::LoadCluster("p2.8xlarge");
  Placement placement(graph.num_ops(), MakeId<DeviceId>(1));
  EXPECT_THAT(datasets::WriteTensorFlowDevices(graph, cluster, placement), HasSubstr(R"("loop/twice":)"));
  placement[*graph.FindOp("loop/twice[1]")] = MakeId<DeviceId>(2);
  EXPECT_THAT(ErrorOf([&] { datasets::WriteTensorFlowDevices(graph, cluster, placement); }),
              HasSubstr("TensorFlow has one node for both"));
}

}  // namespace tensorflow_test
}  // namespace emplace::testing
