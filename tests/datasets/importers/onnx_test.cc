#include "datasets/importers/onnx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/importers/importers.h"
#include "sim/ops/op_catalog.h"
#include "tests/datasets/importers/onnx_bytes.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/rank_graphs.h"
#include "tests/testing/reference.h"

namespace emplace::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

datasets::Imported ImportModel(const std::string& bytes, std::vector<std::string> inputs = {}) {
  datasets::ImportOptions options;
  options.inputs = std::move(inputs);
  return ImportText(datasets::FindImporter("onnx", "", "m"), bytes, "m.onnx", options);
}
std::string RefusalOfModel(const std::string& bytes, std::vector<std::string> inputs = {}) {
  return Refusal([&] { ImportModel(bytes, std::move(inputs)); });
}
// A model with one node that reads x and writes y.
std::string OneNode(const std::string& op, const std::vector<std::string>& dims,
                    const std::vector<std::string>& attrs = {}, std::int64_t opset = 13) {
  return OnnxModelBytes({.nodes = {OnnxNodeBytes(op, {"x"}, {"y"}, attrs)},
                         .initializers = {},
                         .inputs = {OnnxValueBytes("x", kOnnxF32, dims)},
                         .outputs = {}},
                        opset);
}

// A model in tests/cases.
datasets::Imported ImportOnnxCase(const std::string& name) {
  const datasets::ImportSource source(std::string(EMPLACE_TEST_SOURCE_DIR) + "/cases/" + name);
  return datasets::Import(datasets::FindImporter("", source.head(), name), {&source, 1});
}
double OnnxFlopOf(const Graph& graph) {
  double flop = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) flop += graph.op(MakeId<OpId>(i)).flop;
  return flop;
}
std::string OnnxAttributed(const datasets::Imported& imported) { return imported.notes.back(); }

TEST(ImportOnnxTest, NodesAreOpsAndWeightsAreVariables) {
  const datasets::Imported imported = ImportModel(kOnnxSample);
  const Graph& graph = imported.graph;
  ASSERT_EQ(graph.num_ops(), 4U);
  EXPECT_EQ(graph.name(), "net");
  EXPECT_EQ(FindOp(graph, "x").kind, "input");
  EXPECT_EQ(FindOp(graph, "w").kind, "variable");
  EXPECT_EQ(FindOp(graph, "w").persistent.count, 48);
  EXPECT_EQ(FindOp(graph, "dense").kind, "matmul");
  EXPECT_EQ(FindOp(graph, "dense").flop, 2 * 2 * 4 * 3);
  EXPECT_THAT(Inputs(graph, "dense"), ElementsAre("x:0=24", "w:0=48"));
  // A node without a name has that of its first output.
  EXPECT_EQ(FindOp(graph, "y").kind, "relu");
  EXPECT_THAT(ShapeOf(graph, "y"), ElementsAre(2, 4));
  EXPECT_EQ(graph.metadata(), R"({"source":"onnx","producer":"test","ir_version":8,"opset":13})");
  // 24 + 48 + 32 + 32 bytes; 48 + 8 FLOP.
  EXPECT_THAT(
      imported.notes,
      ElementsAre("weights: 1 variables, 12 numbers, 0.000 MB; 0.000 GFLOP a run",
                  "attributed: 2 of 2 nodes have shapes (100.0 %), 2 have a kind that roofline knows (100.0 %); "
                  "0.000 MB of tensors; the file has no times"));
}

TEST(ReadOnnxTest, KnowsTypesAndConstants) {
  std::istringstream in(kOnnxSample);
  const datasets::OnnxModel model = datasets::ReadOnnx(in, {});
  EXPECT_EQ(model.opset, 13);
  EXPECT_EQ(model.nodes.size(), 2U);
  EXPECT_EQ(model.types.at("h").dims, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(model.nodes[1].Integer("absent", 7), 7);
  EXPECT_EQ(datasets::MakeOnnxGraph(model).graph.num_ops(), 4U);
}

TEST(ImportOnnxTest, WeightsInAnotherFileCountByTheirShape) {
  const std::string external = OnnxTensorBytes(
      "w", kOnnxF32, {3, 4}, IntegerField(14, 1) + BytesField(13, BytesField(1, "location") + BytesField(2, "w.bin")));
  const std::string model = OnnxModelBytes({.nodes = {OnnxNodeBytes("MatMul", {"x", "w"}, {"y"})},
                                            .initializers = {external},
                                            .inputs = {OnnxValueBytes("x", kOnnxF32, {"2", "3"})},
                                            .outputs = {}});
  EXPECT_EQ(FindOp(ImportModel(model).graph, "w").persistent.count, 48);
}

TEST(ImportOnnxTest, FreeDimensionsAreSetByName) {
  const auto value = [](const std::string& name, const std::vector<std::string>& dims) {
    return OnnxValueBytes(name, kOnnxF32, dims);
  };
  const std::string model =
      OnnxModelBytes({.nodes = {OnnxNodeBytes("Add", {"a", "b"}, {"y"})},
                      .initializers = {},
                      .inputs = {value("a", {"batch", "3", "-1"}), value("b", {"batch", "1", "5"})},
                      .outputs = {}});
  EXPECT_EQ(RefusalOfModel(model),
            "m.onnx: input \"a\": has free dimensions: 0 (\"batch\"), 2; set its shape, as --input a=1x3x1");
  // The name is the same dimension of b.
  const Graph graph = ImportModel(model, {"a=8x3x5"}).graph;
  EXPECT_THAT(ShapeOf(graph, "b"), ElementsAre(8, 1, 5));
  EXPECT_THAT(ShapeOf(graph, "y"), ElementsAre(8, 3, 5));
  EXPECT_EQ(RefusalOfModel(model, {"c=1"}), "m.onnx: has no input \"c\" for --input (a, b)");
  EXPECT_EQ(RefusalOfModel(model, {"a=8x3"}), "m.onnx: input \"a\": has 3 dimensions, and 2 from --input");
  EXPECT_EQ(RefusalOfModel(model, {"a=8x4x5"}),
            "m.onnx: input \"a\": its dimension 1 is 3 in the file, and 4 in --input (only free ones can be set)");
  EXPECT_EQ(RefusalOfModel(model, {"a=8x3x5", "b=9x1x5"}),
            "m.onnx: input \"b\": its dimension 0 (\"batch\") is 9 in --input, and 8 elsewhere");
  EXPECT_EQ(RefusalOfModel(model, {"a=8x3x5", "a=8x3x5"}), "--input: sets \"a\" twice");
  EXPECT_EQ(Refusal([&] {
              ImportText(datasets::FindImporter("chakra", "", "f"), kChakraSample, "c.et",
                         {.min_attributed_percent = 95, .times = {}, .inputs = {"x=1"}});
            }),
            "--input: cannot be used (the format chakra has no sizes to set)");
}

TEST(ImportOnnxTest, ConstantsAndWhatFollowsFromShapesNeedNoOps) {
  // Reshape to [dim 0 of x, -1], as exporters write it.
  const std::string zero =
      OnnxNodeBytes("Constant", {}, {"zero"}, {BytesField(1, "value_int") + IntegerField(3, 0) + IntegerField(20, 2)});
  const std::string model = OnnxModelBytes(
      {.nodes = {OnnxNodeBytes("Shape", {"x"}, {"s"}), zero, OnnxNodeBytes("Gather", {"s", "zero"}, {"n"}),
                 OnnxNodeBytes("Unsqueeze", {"n", "axes"}, {"n1"}),
                 OnnxNodeBytes("Concat", {"n1", "rest"}, {"shape"}, {OnnxIntBytes("axis", 0)}),
                 OnnxNodeBytes("Reshape", {"x", "shape"}, {"y"}),
                 // As models without weights have them.
                 OnnxNodeBytes("ConstantOfShape", {"w_shape"}, {"w"}), OnnxNodeBytes("MatMul", {"y", "w"}, {"z"})},
       .initializers = {OnnxTensorBytes("axes", kOnnxI64, {1}, Int64Content({0})),
                        OnnxTensorBytes("rest", kOnnxI64, {1}, Int64Content({-1})),
                        OnnxTensorBytes("w_shape", kOnnxI64, {2}, Int64Content({12, 7}))},
       .inputs = {OnnxValueBytes("x", kOnnxF32, {"2", "3", "4"})},
       .outputs = {}});
  const Graph graph = ImportModel(model).graph;
  EXPECT_EQ(graph.num_ops(), 4U);
  EXPECT_THAT(ShapeOf(graph, "y"), ElementsAre(2, 12));
  EXPECT_EQ(FindOp(graph, "w").kind, "variable");
  EXPECT_EQ(FindOp(graph, "w").persistent.count, 12 * 7 * 4);
  EXPECT_THAT(ShapeOf(graph, "z"), ElementsAre(2, 7));
}

TEST(ImportOnnxTest, ShapeArithmeticIsEvaluated) {
  const auto i64 = [](const std::string& name, const std::vector<std::int64_t>& values) {
    return OnnxTensorBytes(name, kOnnxI64, {static_cast<std::int64_t>(values.size())}, Int64Content(values));
  };
  // The shape [2,3,8] of x backwards is [8,3,2]; less [3,0,1] and half of it: [2,1,0]; where it is 0 rather 12.
  const std::string model = OnnxModelBytes(
      {.nodes = {OnnxNodeBytes("Shape", {"x"}, {"s"}),
                 OnnxNodeBytes("Slice", {"s", "last", "first", "axis", "back"}, {"b"}),
                 OnnxNodeBytes("Sub", {"b", "less"}, {"d"}), OnnxNodeBytes("Div", {"d", "two"}, {"h"}),
                 OnnxNodeBytes("Equal", {"h", "none"}, {"q"}), OnnxNodeBytes("Where", {"q", "many", "h"}, {"w"}),
                 OnnxNodeBytes("Mul", {"w", "twice"}, {"t"}), OnnxNodeBytes("Reshape", {"x", "t"}, {"y"})},
       .initializers = {i64("last", {-1}), i64("first", {-100}), i64("axis", {0}), i64("back", {-1}),
                        i64("less", {3, 0, 1}), i64("two", {2}), i64("none", {0}), i64("many", {1, 1, 12}),
                        i64("twice", {1, 2, 1})},
       .inputs = {OnnxValueBytes("x", kOnnxF32, {"2", "3", "8"})},
       .outputs = {}});
  const Graph graph = ImportModel(model).graph;
  EXPECT_EQ(graph.num_ops(), 2U);
  EXPECT_THAT(ShapeOf(graph, "y"), ElementsAre(2, 2, 12));
}

TEST(ImportOnnxTest, OpsWithoutAShapeAreListed) {
  const std::string model =
      OnnxModelBytes({.nodes = {OnnxNodeBytes("NonZero", {"x"}, {"n"}, {}, "find"),
                                OnnxNodeBytes("Fancy", {"x"}, {"f"},
                                              {OnnxIntBytes("level", 3), OnnxIntsBytes("axes", {1})}, "", "my.ops")},
                      .initializers = {},
                      .inputs = {OnnxValueBytes("x", kOnnxF32, {"2", "3"})},
                      .outputs = {}});
  const datasets::Imported imported = ImportModel(model);
  EXPECT_EQ(FindOp(imported.graph, "find").kind, "onnx::NonZero");
  EXPECT_EQ(FindOp(imported.graph, "f").kind, "my.ops::Fancy");
  EXPECT_EQ(FindOp(imported.graph, "f").attrs, R"({"level":3,"axes":[1]})");
  EXPECT_EQ(
      imported.notes[0],
      "2 of 2 nodes (100.0 %) have no shape, and count 0 bytes and 0 FLOP: Fancy \"f\", NonZero \"find\" (libonnx "
      "has no operator Fancy of version 0 in domain \"my.ops\")");
  EXPECT_THAT(imported.notes.back(), HasSubstr("attributed: 0 of 2 nodes have shapes (0.0 %)"));
}

TEST(ImportOnnxTest, OpsWithoutFlopAreListed) {
  // The file states the shape; what the operator does is nowhere. What fits no formula stays without FLOP too.
  const datasets::Imported imported = ImportModel(OnnxModelBytes(
      {.nodes = {OnnxNodeBytes("Fancy", {"x"}, {"f"}, {}, "", "my.ops"), OnnxNodeBytes("Relu", {"f"}, {"r"}),
                 OnnxNodeBytes("Attention", {"x", "x", "x"}, {"a"}, {OnnxIntBytes("q_num_heads", 2)})},
       .initializers = {},
       .inputs = {OnnxValueBytes("x", kOnnxF32, {"2", "3", "5"})},
       .outputs = {OnnxValueBytes("f", kOnnxF32, {"2", "3"}), OnnxValueBytes("a", kOnnxF32, {"2", "3", "5"})}},
      23));
  EXPECT_THAT(imported.notes, ::testing::Contains(StartsWith(
                                  "2 of 3 nodes (66.7 %) have a shape, but count 0 FLOP, as roofline does not know "
                                  "them: my.ops::Fancy, onnx::Attention (a: as an op of kind onnx::Attention, its")));
  EXPECT_THAT(imported.notes.back(), HasSubstr("3 of 3 nodes have shapes (100.0 %), 1 have a kind that roofline"));
  EXPECT_EQ(OnnxFlopOf(imported.graph), 6);
}

TEST(ImportOnnxTest, ConvolutionsWhoseShapesContradictHaveNoFlop) {
  const auto note = [](const std::vector<std::int64_t>& filter, const std::vector<std::string>& attrs) {
    const datasets::Imported imported =
        ImportModel(OnnxModelBytes({.nodes = {OnnxNodeBytes("Conv", {"x", "w"}, {"y"}, attrs)},
                                    .initializers = {OnnxTensorBytes("w", kOnnxF32, filter)},
                                    .inputs = {OnnxValueBytes("x", kOnnxF32, {"1", "4", "8", "8"})},
                                    .outputs = {}}));
    return OnnxFlopOf(imported.graph) > 0 ? "" : imported.notes[0];
  };
  EXPECT_EQ(note({6, 4, 3, 3}, {}), "");
  EXPECT_EQ(note({6, 2, 3, 3}, {OnnxIntBytes("group", 2), OnnxIntsBytes("kernel_shape", {3, 3})}), "");
  EXPECT_THAT(note({6, 3, 3, 3}, {}), HasSubstr("(the filter has as many channels as a group of the data)"));
  EXPECT_THAT(note({6, 4, 3, 3}, {OnnxIntBytes("group", 2)}), HasSubstr("as a group of the data)"));
  EXPECT_THAT(note({5, 2, 3, 3}, {OnnxIntBytes("group", 2)}), HasSubstr("(the filters divide into groups)"));
  EXPECT_THAT(note({6, 4, 3, 3}, {OnnxIntsBytes("kernel_shape", {5, 5})}), HasSubstr("(kernel_shape is that of the"));
}

TEST(ImportOnnxTest, AStatedShapeThatContradictsTheInputsIsAWarning) {
  const auto model = [](const std::string& columns) {
    return OnnxModelBytes({.nodes = {OnnxNodeBytes("Relu", {"x"}, {"y"})},
                           .initializers = {},
                           .inputs = {OnnxValueBytes("x", kOnnxF32, {"2", "3"})},
                           .outputs = {OnnxValueBytes("y", kOnnxF32, {"batch", columns})}});
  };
  const datasets::Imported imported = ImportModel(model("7"));
  EXPECT_EQ(imported.notes[0],
            "warning: the file states another shape than follows from a node's inputs; the inferred one is taken: "
            "\"y\": [2,3], not [?,7]");
  EXPECT_THAT(ShapeOf(imported.graph, "y"), ElementsAre(2, 3));
  EXPECT_THAT(ImportModel(model("3")).notes[0], StartsWith("weights"));
  EXPECT_THAT(ImportModel(model("7"), {"x=2x3"}).notes[0], StartsWith("weights"));
}

// A model that reshapes x to what two integers say, from byte 4 of a file.
std::string ReshapedByFile(const std::vector<std::pair<std::string, std::string>>& entries,
                           std::int32_t element = kOnnxI64) {
  std::string content = IntegerField(14, 1);
  for (const auto& [key, value] : entries) content += BytesField(13, BytesField(1, key) + BytesField(2, value));
  return OnnxModelBytes({.nodes = {OnnxNodeBytes("Reshape", {"x", "s"}, {"y"})},
                         .initializers = {OnnxTensorBytes("s", element, {2}, content)},
                         .inputs = {OnnxValueBytes("x", kOnnxF32, {"2", "3"})},
                         .outputs = {}});
}

class OnnxFilesTest : public ::testing::Test {
 protected:
  OnnxFilesTest() {
    const std::int64_t dims[] = {3, 2};
    std::ofstream(folder_ + "/shapes.bin", std::ios::binary)
        << "skip" << std::string_view(reinterpret_cast<const char*>(dims), sizeof(dims));
  }
  static datasets::OnnxModel Read(const std::string& bytes, const std::string& folder) {
    std::istringstream in(bytes);
    return datasets::ReadOnnx(in, {}, folder);
  }

  std::string folder_ = ::testing::TempDir();
};

TEST_F(OnnxFilesTest, SmallTensorsAreReadFromFilesBesideTheModel) {
  using Dims = std::vector<std::int64_t>;
  const std::string model = ReshapedByFile({{"location", "shapes.bin"}, {"offset", "4"}, {"length", "16"}});
  EXPECT_EQ(Read(model, folder_).types.at("y").dims, (Dims{3, 2}));
  // Tensors of constants and of bodies are read too.
  const std::string constant =
      BytesField(1, "value") +
      BytesField(5, OnnxTensorBytes("", kOnnxI64, {2},
                                    IntegerField(14, 1) +
                                        BytesField(13, BytesField(1, "location") + BytesField(2, "shapes.bin")) +
                                        BytesField(13, BytesField(1, "offset") + BytesField(2, "4")))) +
      IntegerField(20, 4);
  const std::string body = OnnxGraphBytes(
      {.nodes = {OnnxNodeBytes("Constant", {}, {"s"}, {constant}), OnnxNodeBytes("Reshape", {"x", "s"}, {"t"})},
       .initializers = {},
       .inputs = {},
       .outputs = {OnnxValueBytes("t", kOnnxF32, {})}});
  const std::string with_body = OnnxModelBytes(
      {.nodes = {OnnxNodeBytes("If", {"c"}, {"y"},
                               {OnnxGraphAttrBytes("then_branch", body), OnnxGraphAttrBytes("else_branch", body)})},
       .initializers = {},
       .inputs = {OnnxValueBytes("c", kOnnxBool, {}), OnnxValueBytes("x", kOnnxF32, {"2", "3"})},
       .outputs = {}});
  const datasets::OnnxModel inner = Read(with_body, folder_);
  EXPECT_TRUE(std::any_of(inner.types.begin(), inner.types.end(), [](const auto& value) {
    return value.second.dims == Dims{3, 2};
  }));
  EXPECT_EQ(inner.unread, 0U);
}

TEST_F(OnnxFilesTest, WhatCannotBeReadIsToldWhereAShapeIsMissing) {
  const std::string above = "../" + std::filesystem::path(folder_).lexically_normal().parent_path().filename().string();
  using Entries = std::vector<std::pair<std::string, std::string>>;
  const std::vector<Entries> unreadable = {
      {{"location", "shapes.bin"}, {"offset", "5"}},                        // beyond the end
      {{"location", "shapes.bin"}, {"offset", "-4"}},                       // no number
      {{"location", "shapes.bin"}, {"offset", "99999999999999999999999"}},  // none either
      {{"location", "shapes.bin"}, {"offset", "4"}, {"length", "8"}},       // not as many as its shape says
      {{"location", folder_ + "/shapes.bin"}, {"offset", "4"}},             // not below the folder
      {{"location", above + "/shapes.bin"}, {"offset", "4"}},               //
      {{"location", "none.bin"}},                                           //
      {{"location", "."}},                                                  // a folder
  };
  for (const Entries& entries : unreadable) {
    const datasets::OnnxModel model = Read(ReshapedByFile(entries), folder_);
    EXPECT_FALSE(model.types.at("y").HasShape()) << entries[0].second;
    EXPECT_THAT(datasets::MakeOnnxGraph(model).notes,
                ::testing::Contains("warning: the content of 1 small tensor is in files that cannot be read (\"" +
                                    entries[0].second + "\"), so shapes that follow from it are not known"));
  }
  EXPECT_EQ(Read(ReshapedByFile({{"location", "shapes.bin"}}), "").unread, 1U);  // a model without a folder
  EXPECT_EQ(Read(ReshapedByFile({}, kOnnxF32), "").unread, 0U);                  // weights
  EXPECT_EQ(Read(ReshapedByFile({}), folder_).unread_file, "");
}

TEST(ImportOnnxTest, NewerOpsetsThanTheLibrarysAreRead) {
  const auto with = [](const std::vector<std::string>& nodes, const std::vector<std::string>& initializers = {}) {
    return ImportModel(OnnxModelBytes({.nodes = nodes,
                                       .initializers = initializers,
                                       .inputs = {OnnxValueBytes("x", kOnnxF32, {"2", "3", "5"})},
                                       .outputs = {}},
                                      23));
  };
  const datasets::Imported gelu = with({OnnxNodeBytes("Gelu", {"x"}, {"y"}), OnnxNodeBytes("Relu", {"y"}, {"z"})});
  EXPECT_EQ(FindOp(gelu.graph, "y").kind, "gelu");
  EXPECT_THAT(ShapeOf(gelu.graph, "z"), ElementsAre(2, 3, 5));
  EXPECT_THAT(gelu.notes[0], AllOf(StartsWith("opset 23 is newer than libonnx's "),
                                   EndsWith(": operators are taken as they are there, where they did not change")));
  // From opset 18 on axes are an input.
  const datasets::Imported mean =
      with({OnnxNodeBytes("ReduceMean", {"x", "axes"}, {"y"}, {OnnxIntBytes("keepdims", 0)})},
           {OnnxTensorBytes("axes", kOnnxI64, {1}, Int64Content({-1}))});
  EXPECT_THAT(ShapeOf(mean.graph, "y"), ElementsAre(2, 3));
  EXPECT_EQ(FindOp(mean.graph, "y").kind, "reduce_mean");
  EXPECT_EQ(FindOp(mean.graph, "y").attrs, R"({"axes":[-1]})");
  // Pieces of 2, 2 and 1.
  const datasets::Imported split =
      with({OnnxNodeBytes("Split", {"x"}, {"a", "b", "c"}, {OnnxIntBytes("axis", 2), OnnxIntBytes("num_outputs", 3)}),
            OnnxNodeBytes("Relu", {"b"}, {"rb"}), OnnxNodeBytes("Relu", {"c"}, {"rc"})});
  EXPECT_EQ(FindOp(split.graph, "a").kind, "split");
  EXPECT_THAT(ShapeOf(split.graph, "rb"), ElementsAre(2, 3, 2));
  EXPECT_THAT(ShapeOf(split.graph, "rc"), ElementsAre(2, 3, 1));
  const datasets::Imported pad = with({OnnxNodeBytes("Pad", {"x", "pads", "", "axes"}, {"y"})},
                                      {OnnxTensorBytes("axes", kOnnxI64, {1}, Int64Content({1})),
                                       OnnxTensorBytes("pads", kOnnxI64, {2}, Int64Content({4, 6}))});
  EXPECT_THAT(ShapeOf(pad.graph, "y"), ElementsAre(2, 13, 5));
  EXPECT_EQ(FindOp(pad.graph, "y").kind, "pad");
}

TEST(ImportOnnxTest, EinsumHasAShapeFromItsEquation) {
  using Dims = std::vector<std::string>;
  const auto einsum = [](const std::string& equation, const std::vector<Dims>& shapes) {
    std::vector<std::string> names;
    std::vector<std::string> inputs;
    for (const Dims& dims : shapes) {
      names.push_back("x" + std::to_string(names.size()));
      inputs.push_back(OnnxValueBytes(names.back(), kOnnxF32, dims));
    }
    const std::string attr = BytesField(1, "equation") + BytesField(4, equation) + IntegerField(20, 3);
    return ImportModel(OnnxModelBytes({.nodes = {OnnxNodeBytes("Einsum", names, {"y"}, {attr})},
                                       .initializers = {},
                                       .inputs = inputs,
                                       .outputs = {}}));
  };
  const auto shape = [&](const std::string& equation, const std::vector<Dims>& shapes) {
    return ShapeOf(einsum(equation, shapes).graph, "y");
  };
  const Dims x = {"2", "3", "5"};
  EXPECT_THAT(shape("bij -> ijb", {x}), ElementsAre(3, 5, 2));
  EXPECT_THAT(shape("bij,bjk->bik", {x, {"2", "5", "7"}}), ElementsAre(2, 3, 7));
  EXPECT_THAT(shape("bij,bij->b", {x, {"2", "1", "5"}}), ElementsAre(2));
  // Without an arrow: the letters that occur once, in alphabetical order.
  EXPECT_THAT(shape("jbi", {x}), ElementsAre(3, 5, 2));
  EXPECT_THAT(shape("ij,jk", {{"2", "3"}, {"3", "4"}}), ElementsAre(2, 4));
  EXPECT_THAT(shape("ii", {{"4", "4"}}), ElementsAre());
  // Dimensions that are not named come first without an arrow, and are broadcast from the last one on.
  EXPECT_THAT(shape("...ij,...jk", {{"6", "2", "3", "4"}, {"2", "4", "5"}}), ElementsAre(6, 2, 3, 5));
  EXPECT_THAT(shape("b...,...->...b", {x, {"5"}}), ElementsAre(3, 5, 2));
  EXPECT_THAT(shape("...ij->i...", {{"3", "5"}}), ElementsAre(3));
  for (const char* const wrong : {"bi->ib", "bijk->k", "bij->q", "bij->bb", "bbi->i", "bij,bij->b", "bij,", "", "b..j",
                                  "b...->b", "......", "bi1", "b->", "->"}) {
    EXPECT_THAT(einsum(wrong, {x}).notes[0], HasSubstr("have no shape")) << wrong;
  }
  for (const char* const wrong : {"bij", "bij,bjk", "...ij,...", "bij,bij,bij"}) {
    EXPECT_THAT(einsum(wrong, {x, {"2", "7", "5"}}).notes[0], HasSubstr("have no shape")) << wrong;
  }
}

TEST(ImportOnnxTest, APointerOfGitLfsIsNoModel) {
  EXPECT_THAT(Refusal([] { ImportOnnxCase("k20_lfs.onnx"); }),
              EndsWith("k20_lfs.onnx: cannot be read (it is a pointer of Git LFS in place of the file: fetch the file "
                       "with git lfs pull)"));
}

TEST(ImportOnnxTest, ABranchThatIsKnownRuns) {
  const datasets::Imported imported = ImportOnnxCase("o17_const_if.onnx");
  // 2 x 64 x 27 x 224 x 224 of the convolution, and as many comparisons as outputs.
  EXPECT_EQ(OnnxFlopOf(imported.graph), 2.0 * 64 * 27 * 224 * 224 + 64 * 224 * 224);
  EXPECT_THAT(OnnxAttributed(imported), HasSubstr("2 of 2 nodes have shapes (100.0 %), 2 have a kind"));
  EXPECT_EQ(FindOp(imported.graph, "z").kind, "relu");
}

// If of the rank of x, [2,3]: then a product with w of the branch, else x itself. Within the branch another If, of a
// name of the outside.
std::string IfOfRank(std::int64_t rank) {
  const std::string inner_then = OnnxGraphBytes({.nodes = {OnnxNodeBytes("Relu", {"p"}, {"t"})},
                                                 .initializers = {},
                                                 .inputs = {},
                                                 .outputs = {OnnxValueBytes("t", kOnnxF32, {})}});
  const std::string inner_else =
      OnnxGraphBytes({.nodes = {}, .initializers = {}, .inputs = {}, .outputs = {OnnxValueBytes("x", kOnnxF32, {})}});
  const std::string then_branch =
      OnnxGraphBytes({.nodes = {OnnxNodeBytes("MatMul", {"x", "w"}, {"p"}, {}, "product"),
                                OnnxNodeBytes("If", {"is_two"}, {"q"},
                                              {OnnxGraphAttrBytes("then_branch", inner_then),
                                               OnnxGraphAttrBytes("else_branch", inner_else)})},
                      .initializers = {OnnxTensorBytes("w", kOnnxF32, {3, 7})},
                      .inputs = {},
                      .outputs = {OnnxValueBytes("q", kOnnxF32, {})}});
  return OnnxModelBytes(
      {.nodes = {OnnxNodeBytes("Shape", {"x"}, {"s"}), OnnxNodeBytes("Size", {"s"}, {"r"}),
                 OnnxNodeBytes("Equal", {"r", "two"}, {"is_two"}), OnnxNodeBytes("Equal", {"r", "rank"}, {"c"}),
                 OnnxNodeBytes(
                     "If", {"c"}, {"y"},
                     {OnnxGraphAttrBytes("else_branch", inner_else), OnnxGraphAttrBytes("then_branch", then_branch)},
                     "choice"),
                 OnnxNodeBytes("Tanh", {"y"}, {"z"})},
       .initializers = {OnnxTensorBytes("two", kOnnxI64, {}, Int64Content({2})),
                        OnnxTensorBytes("rank", kOnnxI64, {}, Int64Content({rank}))},
       .inputs = {OnnxValueBytes("x", kOnnxF32, {"2", "3"})},
       .outputs = {OnnxValueBytes("z", kOnnxF32, {})}});
}

TEST(ImportOnnxTest, AConditionThatFollowsFromShapesIsKnown) {
  const datasets::Imported product = ImportModel(IfOfRank(2));
  EXPECT_THAT(ShapeOf(product.graph, "z"), ElementsAre(2, 7));
  EXPECT_EQ(FindOp(product.graph, "choice#0/product").flop, 2 * 2 * 3 * 7);
  EXPECT_EQ(FindOp(product.graph, "choice#0/w").persistent.count, 3 * 7 * 4);
  EXPECT_THAT(OnnxAttributed(product), HasSubstr("(100.0 %), "));
  const datasets::Imported other = ImportModel(IfOfRank(3));
  EXPECT_THAT(ShapeOf(other.graph, "z"), ElementsAre(2, 3));
  EXPECT_EQ(OnnxFlopOf(other.graph), 6) << "of the tanh";
}

TEST(ImportOnnxTest, OfAnUnknownConditionTheLargerBranchIsTaken) {
  const auto branch = [](const std::vector<std::string>& nodes) {
    return OnnxGraphBytes({.nodes = nodes,
                           .initializers = {OnnxTensorBytes("b", kOnnxF32, {3})},
                           .inputs = {},
                           .outputs = {OnnxValueBytes("t", kOnnxF32, {"2", "3"})}});
  };
  const std::string model = OnnxModelBytes(
      {.nodes = {OnnxNodeBytes("Relu", {"x"}, {"h"}),
                 OnnxNodeBytes("If", {"c"}, {"y"},
                               {OnnxGraphAttrBytes("then_branch", branch({OnnxNodeBytes("Add", {"h", "b"}, {"t"})})),
                                OnnxGraphAttrBytes("else_branch", branch({OnnxNodeBytes("Mul", {"h", "b"}, {"m"}),
                                                                          OnnxNodeBytes("Exp", {"m"}, {"t"})}))})},
       .initializers = {},
       .inputs = {OnnxValueBytes("c", kOnnxBool, {}), OnnxValueBytes("x", kOnnxF32, {"2", "3"})},
       .outputs = {OnnxValueBytes("y", kOnnxF32, {})}});
  const datasets::Imported imported = ImportModel(model);
  EXPECT_EQ(OnnxFlopOf(imported.graph), 18);
  EXPECT_EQ(
      imported.notes[0],
      "2 of 3 nodes (66.7 %) are of an If or a Loop whose condition could not be worked out from shapes and constants; "
      "taken: the branch with more nodes, all iterations (If \"y\": else)");
}

// Three products, whose sums the scan output holds.
std::string OnnxLoopModel(const std::string& condition, const std::vector<std::string>& initializers) {
  const std::string body =
      OnnxGraphBytes({.nodes = {OnnxNodeBytes("MatMul", {"state", "w"}, {"next"}, {}, "product"),
                                OnnxNodeBytes("ReduceSum", {"next"}, {"sum"}, {OnnxIntBytes("keepdims", 0)}),
                                OnnxNodeBytes("Add", {"i", "one"}, {"count"}),
                                condition.empty() ? OnnxNodeBytes("Less", {"count", "three"}, {"go"})
                                                  : OnnxNodeBytes("Greater", {"sum", condition}, {"go"})},
                      .initializers = {},
                      .inputs = {OnnxValueBytes("i", kOnnxI64, {}), OnnxValueBytes("c", kOnnxBool, {}),
                                 OnnxValueBytes("state", kOnnxF32, {})},
                      .outputs = {OnnxValueBytes("go", kOnnxBool, {}), OnnxValueBytes("next", kOnnxF32, {}),
                                  OnnxValueBytes("sum", kOnnxF32, {})}});
  std::vector<std::string> all = {OnnxTensorBytes("w", kOnnxF32, {4, 4}),
                                  OnnxTensorBytes("one", kOnnxI64, {}, Int64Content({1})),
                                  OnnxTensorBytes("three", kOnnxI64, {}, Int64Content({3})),
                                  OnnxTensorBytes("zero", kOnnxF32, {}, BytesField(4, std::string(4, '\0')))};
  all.insert(all.end(), initializers.begin(), initializers.end());
  return OnnxModelBytes(
      {.nodes = {OnnxNodeBytes("Loop", {"m", "", "x"}, {"y", "sums"}, {OnnxGraphAttrBytes("body", body)}, "turn"),
                 OnnxNodeBytes("Relu", {"y"}, {"z"}), OnnxNodeBytes("Relu", {"sums"}, {"s"})},
       .initializers = all,
       .inputs = {OnnxValueBytes("x", kOnnxF32, {"2", "4"})},
       .outputs = {OnnxValueBytes("z", kOnnxF32, {}), OnnxValueBytes("s", kOnnxF32, {})}});
}

TEST(ImportOnnxTest, IterationsThatAreKnownRun) {
  const auto times = [](std::int64_t count) { return OnnxTensorBytes("m", kOnnxI64, {}, Int64Content({count})); };
  const auto products = [](const datasets::Imported& imported) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < imported.graph.num_ops(); ++i) {
      count += imported.graph.op(MakeId<OpId>(i)).kind == "matmul" ? 1 : 0;
    }
    return count;
  };
  // As the condition says; the weights are there once.
  const datasets::Imported conditioned = ImportModel(OnnxLoopModel("", {times(1LL << 62)}));
  EXPECT_EQ(products(conditioned), 3U);
  EXPECT_THAT(ShapeOf(conditioned.graph, "z"), ElementsAre(2, 4));
  EXPECT_THAT(ShapeOf(conditioned.graph, "s"), ElementsAre(3));
  EXPECT_EQ(FindOp(conditioned.graph, "w").persistent.count, 64);
  EXPECT_THAT(OnnxAttributed(conditioned), HasSubstr("nodes have shapes (100.0 %)"));
  // As the count says, where the condition depends on data.
  const datasets::Imported counted = ImportModel(OnnxLoopModel("zero", {times(5)}));
  EXPECT_EQ(products(counted), 5U);
  EXPECT_THAT(counted.notes[0], HasSubstr("all iterations (Loop \"turn\": 5 iterations)"));
  // Neither: one op, whose carried value keeps its shape.
  const datasets::Imported unknown = ImportModel(OnnxLoopModel("zero", {times(1LL << 62)}));
  EXPECT_EQ(products(unknown), 0U);
  EXPECT_EQ(FindOp(unknown.graph, "turn").kind, "onnx::Loop");
  EXPECT_THAT(ShapeOf(unknown.graph, "z"), ElementsAre(2, 4));
  EXPECT_THAT(
      unknown.notes,
      ::testing::Contains("1 of 3 nodes (33.3 %) have subgraphs that run an unknown number of times, or as more than "
                          "20,000 nodes: one op each, of 0 FLOP; nodes inside: onnx::Loop (4)"));
}

TEST(ImportOnnxTest, AScanRunsOnceForEachPart) {
  const std::string body =
      OnnxGraphBytes({.nodes = {OnnxNodeBytes("Add", {"h", "part"}, {"sum"}), OnnxNodeBytes("Tanh", {"sum"}, {"out"})},
                      .initializers = {},
                      .inputs = {OnnxValueBytes("h", kOnnxF32, {}), OnnxValueBytes("part", kOnnxF32, {})},
                      .outputs = {OnnxValueBytes("out", kOnnxF32, {}), OnnxValueBytes("sum", kOnnxF32, {})}});
  const Graph graph =
      ImportModel(
          OnnxModelBytes({.nodes = {OnnxNodeBytes(
                              "Scan", {"h0", "x"}, {"last", "all"},
                              {OnnxGraphAttrBytes("body", body), OnnxIntBytes("num_scan_inputs", 1),
                               OnnxIntsBytes("scan_input_axes", {1}), OnnxIntsBytes("scan_output_axes", {1})})},
                          .initializers = {OnnxTensorBytes("h0", kOnnxF32, {2, 3})},
                          .inputs = {OnnxValueBytes("x", kOnnxF32, {"2", "5", "3"})},
                          .outputs = {OnnxValueBytes("all", kOnnxF32, {}), OnnxValueBytes("last", kOnnxF32, {})}}))
          .graph;
  EXPECT_EQ(OnnxFlopOf(graph), 5 * 2 * 6);
  EXPECT_THAT(ShapeOf(graph, "Scan#0/all"), ElementsAre(2, 5, 3));
}

TEST(ImportOnnxTest, ListsOfTensorsThatAreKnownAreNoOps) {
  const datasets::Imported imported = ImportModel(OnnxModelBytes(
      {.nodes = {OnnxNodeBytes("SplitToSequence", {"x", "sizes"}, {"list"}, {OnnxIntBytes("axis", 1)}),
                 OnnxNodeBytes("SequenceAt", {"list", "last"}, {"part"}), OnnxNodeBytes("Relu", {"part"}, {"r"}),
                 OnnxNodeBytes("SequenceInsert", {"list", "r"}, {"longer"}),
                 OnnxNodeBytes("ConcatFromSequence", {"longer"}, {"y"}, {OnnxIntBytes("axis", 1)}),
                 OnnxNodeBytes("Tanh", {"y"}, {"z"})},
       .initializers = {OnnxTensorBytes("sizes", kOnnxI64, {2}, Int64Content({4, 6})),
                        OnnxTensorBytes("last", kOnnxI64, {}, Int64Content({-1}))},
       .inputs = {OnnxValueBytes("x", kOnnxF32, {"2", "10"})},
       .outputs = {OnnxValueBytes("z", kOnnxF32, {})}}));
  EXPECT_THAT(ShapeOf(imported.graph, "r"), ElementsAre(2, 6));
  EXPECT_THAT(ShapeOf(imported.graph, "z"), ElementsAre(2, 16));
  EXPECT_THAT(OnnxAttributed(imported), HasSubstr("(100.0 %), "));
}

TEST(ImportOnnxTest, AttentionIsTwoProducts) {
  const datasets::Imported imported = ImportOnnxCase("o18_attention23.onnx");
  // Four heads of 16 by 16 positions and a size of 16; then a matrix of 64 by 64.
  EXPECT_EQ(FindOp(imported.graph, "a").flop, 2 * (2.0 * 4 * 16 * 16 * 16));
  EXPECT_THAT(ShapeOf(imported.graph, "a"), ElementsAre(1, 16, 64));
  EXPECT_EQ(FindOp(imported.graph, "y").flop, 2.0 * 16 * 64 * 64);
  EXPECT_THAT(OnnxAttributed(imported), HasSubstr("2 of 2 nodes have shapes (100.0 %), 2 have a kind"));
}

TEST(ImportOnnxTest, AnOutputThatIsLeftOutHidesNoFlop) {
  const Graph graph =
      ImportModel(
          OnnxModelBytes(
              {.nodes = {OnnxNodeBytes("LSTM", {"x", "w", "r"}, {"", "h"}, {OnnxIntBytes("hidden_size", 4)}, "cell")},
               .initializers = {OnnxTensorBytes("w", kOnnxF32, {1, 16, 3}), OnnxTensorBytes("r", kOnnxF32, {1, 16, 4})},
               .inputs = {OnnxValueBytes("x", kOnnxF32, {"5", "2", "3"})},
               .outputs = {OnnxValueBytes("h", kOnnxF32, {})}}))
          .graph;
  EXPECT_EQ(FindOp(graph, "cell").flop, 2.0 * 10 * (48 + 64));
  EXPECT_THAT(ShapeOf(graph, "cell"), ElementsAre(1, 2, 4));
}

TEST(ImportOnnxTest, QuantisedProductsHaveTheirFlop) {
  const datasets::Imported imported = ImportOnnxCase("o19_quantised.onnx");
  EXPECT_EQ(FindOp(imported.graph, "y").flop, 2.0 * 8 * 72 * 56 * 56);
  EXPECT_EQ(FindOp(imported.graph, "c").flop, 2.0 * 64 * 64 * 64);
  EXPECT_THAT(ShapeOf(imported.graph, "y"), ElementsAre(1, 8, 56, 56));
  // Elements of 8 bits, and sums of 32.
  EXPECT_THAT(Inputs(imported.graph, "c"), ElementsAre("a:0=4096", "b:0=4096"));
  EXPECT_THAT(OnnxAttributed(imported), HasSubstr("2 of 2 nodes have shapes (100.0 %), 2 have a kind"));
}

TEST(ImportOnnxTest, NumbersOfFourBitsShareBytes) {
  constexpr std::int32_t kInt4 = 22;
  constexpr std::int32_t kFloat8 = 17;
  const datasets::Imported imported = ImportModel(
      OnnxModelBytes({.nodes = {OnnxNodeBytes("DequantizeLinear", {"w", "s"}, {"d"}, {OnnxIntBytes("block_size", 32)}),
                                OnnxNodeBytes("MatMul", {"x", "d"}, {"y"}),
                                OnnxNodeBytes("Cast", {"y"}, {"z"}, {OnnxIntBytes("to", kFloat8)})},
                      .initializers = {OnnxTensorBytes("w", kInt4, {64, 5}), OnnxTensorBytes("s", kOnnxF32, {2, 5})},
                      .inputs = {OnnxValueBytes("x", kOnnxF32, {"3", "64"})},
                      .outputs = {OnnxValueBytes("z", kFloat8, {})}},
                     21));
  EXPECT_THAT(Inputs(imported.graph, "d"), ElementsAre("w:0=160", "s:0=40"));
  EXPECT_EQ(FindOp(imported.graph, "d").flop, 2 * 64 * 5);
  EXPECT_EQ(FindOp(imported.graph, "y").flop, 2 * 3 * 64 * 5);
  EXPECT_THAT(ShapeOf(imported.graph, "z"), ElementsAre(3, 5));
  EXPECT_THAT(OnnxAttributed(imported), HasSubstr("3 of 3 nodes have shapes (100.0 %), 3 have a kind"));
}

TEST(ImportOnnxTest, OperatorsOfOnnxRuntimeHaveShapesAndFlop) {
  const auto node = [](const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
                       const std::vector<std::string>& attrs) {
    return OnnxNodeBytes(op, inputs, {output}, attrs, "", "com.microsoft");
  };
  constexpr std::int32_t kUint8 = 2;
  const datasets::Imported imported = ImportModel(OnnxModelBytes(
      {.nodes = {node("MatMulNBits", {"x", "b", "scales"}, "p",
                      {OnnxIntBytes("K", 64), OnnxIntBytes("N", 96), OnnxIntBytes("bits", 4)}),
                 node("GroupQueryAttention", {"p", "", "", "past", "past", "length", "total"}, "a",
                      {OnnxIntBytes("num_heads", 4), OnnxIntBytes("kv_num_heads", 1)}),
                 node("SkipLayerNormalization", {"a", "x", "g"}, "n", {}),
                 node("FusedMatMul", {"n", "n"}, "y", {OnnxIntBytes("transB", 1)})},
       .initializers = {OnnxTensorBytes("b", kUint8, {96, 2, 16}), OnnxTensorBytes("scales", kOnnxF32, {192}),
                        OnnxTensorBytes("g", kOnnxF32, {64}), OnnxTensorBytes("length", kOnnxI64, {1}),
                        OnnxTensorBytes("total", kOnnxI64, {})},
       .inputs = {OnnxValueBytes("x", kOnnxF32, {"2", "10", "64"}),
                  OnnxValueBytes("past", kOnnxF32, {"2", "1", "6", "16"})},
       .outputs = {OnnxValueBytes("y", kOnnxF32, {})}}));
  EXPECT_EQ(FindOp(imported.graph, "p").flop, 2.0 * 20 * 64 * 96);
  // Ten queries look at ten keys and at six of the past.
  EXPECT_EQ(FindOp(imported.graph, "a").flop, 2 * (2.0 * 2 * 4 * 10 * 16 * 16));
  EXPECT_THAT(ShapeOf(imported.graph, "a"), ElementsAre(2, 10, 64));
  EXPECT_THAT(ShapeOf(imported.graph, "y"), ElementsAre(2, 10, 10));
  EXPECT_EQ(FindOp(imported.graph, "y").flop, 2.0 * 2 * 10 * 10 * 64);
  EXPECT_THAT(OnnxAttributed(imported), HasSubstr("4 of 4 nodes have shapes (100.0 %), 4 have a kind"));
}

TEST(ImportOnnxTest, ModelsInTextAreRead) {
  const std::string text = R"(# A product.
ir_version: 8
graph {
  node { input: "x" input: "w" output: "y" op_type: "MatMul" }
  name: "net"
  initializer { dims: 3 dims: 4 data_type: 1 name: "w" }
  input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } dim { dim_value: 3 } } } } }
}
opset_import { version: 13 }
)";
  EXPECT_EQ(datasets::FindImporter("", text, "m").name, "onnx");
  const Graph graph = ImportModel(text).graph;
  EXPECT_THAT(ShapeOf(graph, "y"), ElementsAre(2, 4));
  EXPECT_EQ(FindOp(graph, "y").flop, 48);
  EXPECT_THAT(RefusalOfModel("ir_version: 8\ngraph { nodes }"),
              AllOf(StartsWith("m.onnx: is not an ONNX model in protobuf's text format (line 2, "), EndsWith(")")));
}

// An attribute that a call leaves out is that of the function, in both formats.
TEST(ImportOnnxTest, FunctionsHaveDefaultAttributes) {
  const std::string text = R"(ir_version: 9
graph {
  node { input: "x" output: "y" op_type: "Twice" domain: "mine" }
  input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } dim { dim_value: 3 } } } } }
}
opset_import { version: 18 }
opset_import { domain: "mine" version: 1 }
functions {
  name: "Twice" domain: "mine" input: "a" output: "b"
  node { input: "a" input: "a" output: "b" op_type: "Concat"
         attribute { name: "axis" ref_attr_name: "along" type: INT } }
  opset_import { version: 18 }
  attribute_proto { name: "along" i: 1 type: INT }
}
)";
  EXPECT_THAT(ShapeOf(ImportModel(text).graph, "Twice#0/Concat"), ElementsAre(2, 6));
  const std::string along = BytesField(1, "axis") + BytesField(21, "along") + IntegerField(20, 2);
  const std::string function = BytesField(1, "Twice") + BytesField(4, "a") + BytesField(5, "b") +
                               BytesField(7, OnnxNodeBytes("Concat", {"a", "a"}, {"b"}, {along})) +
                               BytesField(9, IntegerField(2, 18)) + BytesField(10, "mine") +
                               BytesField(11, OnnxIntBytes("along", 1));
  const Graph graph = ImportModel(OnnxModelBytes({.nodes = {OnnxNodeBytes("Twice", {"x"}, {"y"}, {}, "", "mine")},
                                                  .initializers = {},
                                                  .inputs = {OnnxValueBytes("x", kOnnxF32, {"2", "3"})},
                                                  .outputs = {}},
                                                 18, BytesField(25, function)))
                          .graph;
  EXPECT_THAT(ShapeOf(graph, "Twice#0/Concat"), ElementsAre(2, 6));
}

// What PyTorch 2.2's dynamo exporter writes: functions of functions, with If of ranks inside. A ResNet-18 has 1.81e9
// multiply-adds (He et al. 2016, table 1: 1.8e9).
TEST(ImportOnnxTest, ARealModelOfFunctionsAndBranchesHasAllItsProducts) {
  const std::string folder = ReferenceFolder("onnx+ir-py");
  if (folder.empty()) GTEST_SKIP() << "no onnx+ir-py in EMPLACE_REFERENCE_DATA";
  const datasets::ImportSource source(folder + "/resnet18_dynamo.textproto");
  const datasets::Imported imported = datasets::Import(datasets::FindImporter("", source.head(), "f"), {&source, 1});
  EXPECT_NEAR(OnnxFlopOf(imported.graph), 3.63e9, 0.02e9);
  EXPECT_THAT(OnnxAttributed(imported), HasSubstr("nodes have shapes (100.0 %)"));
  const Graph& graph = imported.graph;
  EXPECT_THAT(ShapeOf(graph, std::string(graph.op(graph.file_order().back()).name)), ElementsAre(1, 1000));
}

TEST(ImportOnnxTest, FunctionsOfTheModelAreExpanded) {
  const std::string function = BytesField(1, "Twice") + BytesField(4, "a") + BytesField(5, "b") +
                               BytesField(7, OnnxNodeBytes("Relu", {"a"}, {"t"})) +
                               BytesField(7, OnnxNodeBytes("Tanh", {"t"}, {"b"})) + BytesField(9, IntegerField(2, 13)) +
                               BytesField(10, "mine");
  const OnnxGraphParts parts = {.nodes = {OnnxNodeBytes("Twice", {"x"}, {"y"}, {}, "first", "mine"),
                                          OnnxNodeBytes("Twice", {"y"}, {"z"}, {}, "second", "mine")},
                                .initializers = {},
                                .inputs = {OnnxValueBytes("x", kOnnxF32, {"4"})},
                                .outputs = {}};
  const Graph graph = ImportModel(OnnxModelBytes(parts, 13, BytesField(25, function))).graph;
  ASSERT_EQ(graph.num_ops(), 5U);
  EXPECT_EQ(FindOp(graph, "first#0/Relu").kind, "relu");
  EXPECT_THAT(Inputs(graph, "second#1/Tanh"), ElementsAre("second#1/Relu:0=16"));
  const std::string endless = BytesField(1, "Twice") + BytesField(4, "a") + BytesField(5, "b") +
                              BytesField(7, OnnxNodeBytes("Twice", {"a"}, {"b"}, {}, "", "mine")) +
                              BytesField(10, "mine");
  EXPECT_EQ(RefusalOfModel(OnnxModelBytes(parts, 13, BytesField(25, endless))),
            "m.onnx: function \"Twice\" calls itself, or calls are nested more than 32 deep");
}

TEST(ImportOnnxTest, NamesThatGraphsDoNotAllowAreChanged) {
  const std::string model = OnnxModelBytes({.nodes = {OnnxNodeBytes("Relu", {"x:0"}, {"a"}, {}, "/block/act"),
                                                      OnnxNodeBytes("Tanh", {"a"}, {"b"}, {}, "/block/act"),
                                                      OnnxNodeBytes("Tanh", {"b"}, {"c"}, {}, "^x.0")},
                                            .initializers = {},
                                            .inputs = {OnnxValueBytes("x:0", kOnnxF32, {"4"})},
                                            .outputs = {}});
  const Graph graph = ImportModel(model).graph;
  EXPECT_EQ(FindOp(graph, "x.0").kind, "input");
  EXPECT_EQ(FindOp(graph, "block/act").kind, "relu");
  EXPECT_EQ(FindOp(graph, "block/act").layer, "block");
  EXPECT_EQ(FindOp(graph, "block/act#2").kind, "tanh");
  EXPECT_EQ(FindOp(graph, "x.0#2").kind, "tanh");
}

TEST(ImportOnnxTest, WrongModelsAreRefusedInOneLine) {
  const auto model = [](const std::vector<std::string>& nodes, const std::vector<std::string>& initializers = {}) {
    return OnnxModelBytes({.nodes = nodes,
                           .initializers = initializers,
                           .inputs = {OnnxValueBytes("x", kOnnxF32, {"4"})},
                           .outputs = {}});
  };
  EXPECT_EQ(RefusalOfModel(model({OnnxNodeBytes("Add", {"x", "w"}, {"y"}, {}, "sum")})),
            "m.onnx: node 0 (Add \"sum\"): its input \"w\" is nowhere (no node writes it, and it is not an input or "
            "initializer)");
  EXPECT_EQ(RefusalOfModel(model({OnnxNodeBytes("Relu", {"x"}, {"y"}), OnnxNodeBytes("Tanh", {"x"}, {"y"})})),
            "m.onnx: node 1 (Tanh \"\"): its output \"y\" is written elsewhere too (each name once)");
  EXPECT_EQ(RefusalOfModel(model({OnnxNodeBytes("Relu", {"x"}, {"x"})})),
            "m.onnx: node 0 (Relu \"\"): its output \"x\" is written elsewhere too (each name once)");
  const std::string w = OnnxTensorBytes("w", kOnnxF32, {4});
  EXPECT_EQ(RefusalOfModel(model({OnnxNodeBytes("Add", {"x", "w"}, {"y"})}, {w, w})),
            "m.onnx: initializer \"w\": there is another of that name");
  EXPECT_EQ(RefusalOfModel(model({OnnxNodeBytes("Add", {"x", "w"}, {"y"})}, {OnnxTensorBytes("w", kOnnxF32, {-4})})),
            "m.onnx: initializer \"w\": its dimension is -4");
  // Sizes beyond 62 bits.
  EXPECT_THAT(RefusalOfModel(model({OnnxNodeBytes("Add", {"x", "w"}, {"y"})},
                                   {OnnxTensorBytes("w", kOnnxF32, {1LL << 40, 1LL << 40})})),
              HasSubstr("m.onnx: variable \"w\": "));
  // A cycle, with the ops on it.
  EXPECT_THAT(
      RefusalOfModel(
          model({OnnxNodeBytes("Add", {"x", "b"}, {"a"}, {}, "one"), OnnxNodeBytes("Relu", {"a"}, {"b"}, {}, "two"),
                 OnnxNodeBytes("Relu", {"x"}, {"c"}, {}, "apart")})),
      ::testing::AllOf(HasSubstr("m.onnx: "), HasSubstr("one"), HasSubstr("two"), ::testing::Not(HasSubstr("apart"))));
  EXPECT_EQ(RefusalOfModel(model({})), "m.onnx: holds no graph with nodes");
  EXPECT_EQ(RefusalOfModel("hello"),
            "m.onnx: byte 3: the file is cut, damaged or no ONNX model (fields of a ModelProto expected)");
  EXPECT_EQ(RefusalOfModel(model({OnnxNodeBytes("Relu", {"x"}, {"\xff\xfe"})})),
            "m.onnx: node 0: has a name that is not valid UTF-8");
}

TEST(ImportOnnxTest, AttributesThatLibonnxWouldDivideByAreNoShapes) {
  const datasets::Imported imported = ImportModel(OneNode(
      "MaxPool", {"1", "2", "8", "8"}, {OnnxIntsBytes("kernel_shape", {2, 2}), OnnxIntsBytes("strides", {0, 2})}));
  EXPECT_EQ(FindOp(imported.graph, "y").kind, "onnx::MaxPool");
  EXPECT_THAT(imported.notes[0], HasSubstr("attribute strides is 0"));
}

// Facts known of the networks: parameters (He et al. 2016, Simonyan and Zisserman 2015, Huang et al. 2017;
// torchvision's model pages), and multiply-adds of a forward pass of one image of 224 x 224.
TEST(ImportOnnxTest, RealModelsHaveTheParametersAndProductsThatAreKnown) {
  const std::string folder = ReferenceFolder("onnx+onnx");
  if (folder.empty()) GTEST_SKIP() << "no onnx+onnx in EMPLACE_REFERENCE_DATA";
  struct Known {
    const char* name;
    double parameters;     // running means and variances included
    double multiply_adds;  // multiply-adds of convolutions and products
  };
  // densenet121: 7,978,856 and twice 83,648 channels of batch normalization. resnet50: 25,557,032 and twice 26,560.
  const Known models[] = {{"densenet121", 7978856 + 2 * 83648, 2.83e9},
                          {"inception_v1", 6998552, 1.43e9},
                          {"resnet50", 25557032 + 2 * 26560, 4.09e9},
                          {"shufflenet", 0, 0},
                          {"squeezenet", 1235496, 0.35e9},
                          {"vgg19", 143667240, 19.63e9}};
  for (const Known& known : models) {
    SCOPED_TRACE(known.name);
    const datasets::ImportSource source(folder + "/light_" + known.name + ".onnx");
    EXPECT_EQ(datasets::FindImporter("", source.head(), "f").name, "onnx");
    const Graph graph = datasets::Import(datasets::FindImporter("onnx", "", "f"), {&source, 1}).graph;
    double parameters = 0;
    double products = 0;
    for (std::size_t i = 0; i < graph.num_ops(); ++i) {
      const OpId id = MakeId<OpId>(i);
      const OpKind* const kind = FindOpKind(graph.op(id).kind);
      ASSERT_NE(kind, nullptr) << graph.op(id).kind;
      // Every op has all that roofline needs.
      kind->work(graph, id);
      EXPECT_NE(graph.tensor(graph.first_output(id)).dtype, DType::kNone) << graph.op(id).name;
      if (kind->name == "variable")
        parameters += static_cast<double>(graph.tensor(graph.first_output(id)).size.count) / 4;
      if (kind->op_class == OpClass::kConvolution || kind->op_class == OpClass::kMatrixProduct) {
        products += graph.op(id).flop / 2;
      }
    }
    if (known.parameters > 0) {
      EXPECT_EQ(parameters, known.parameters);
      EXPECT_NEAR(products, known.multiply_adds, 0.01 * known.multiply_adds);
    }
  }
}

}  // namespace
}  // namespace emplace::testing
