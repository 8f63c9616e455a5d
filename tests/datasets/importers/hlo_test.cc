#include "datasets/importers/hlo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/importers/hlo_expander.h"
#include "datasets/importers/hlo_work.h"
#include "datasets/importers/importers.h"
#include "sim/base/file_io.h"
#include "sim/ops/op_catalog.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What tests/testing/make_hlo.py wrote.
std::string HloFile(const std::string& name) {
  return ReadWholeFile(std::string(EMPLACE_TEST_SOURCE_DIR) + "/datasets/importers/data/hlo/" + name, InputKind::kHlo);
}

datasets::Imported ImportHloText(const std::string& text) {
  return ImportText(datasets::FindImporter("hlo", "", "f"), text, "f");
}

const Op& OpNamed(const Graph& graph, std::string_view name) {
  const auto id = graph.FindOp(name);
  if (!id) throw InputError(std::string(name), "is no op");
  return graph.op(*id);
}

double FlopOf(const Graph& graph) {
  double flop = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) flop += graph.op(MakeId<OpId>(i)).flop;
  return flop;
}

std::size_t CountKind(const Graph& graph, std::string_view kind) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) count += graph.op(MakeId<OpId>(i)).kind == kind ? 1 : 0;
  return count;
}

// Numbers in the outputs of all ops of a kind.
double NumbersOf(const Graph& graph, std::string_view kind) {
  double numbers = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    if (graph.op(id).kind != kind) continue;
    double elements = 1;
    for (const std::int64_t dim : graph.tensor(graph.first_output(id)).shape) elements *= static_cast<double>(dim);
    numbers += elements;
  }
  return numbers;
}

std::string HloProgram(const std::string& body) { return "HloModule m\n\nENTRY main {\n" + body + "}\n"; }

std::string StableHloProgram(const std::string& arguments, const std::string& body) {
  return "module @m {\n  func.func public @main(" + arguments + ") -> tensor<f32> {\n" + body + "  }\n}\n";
}

TEST(HloTest, RecordedProgramsHaveTheFlopOfXlasCostAnalysis) {
  struct Row {
    const char* file;
    double flop;      // those of XLA and its transcendentals; a loop once
    double left_out;  // of the counters of loops, which are worked out
    double trips;     // of the loop that is nearly all of the program
    double numbers;   // in parameters, and in inputs
    std::size_t unrolled;
  };
  // tests/testing/make_hlo.py printed FLOP and parameters.
  const Row rows[] = {
      {"mlp.mlir", 611915, 0, 1, 6922 + 672, 0},
      {"mlp.hlo", 614443, 0, 1, 6922 + 672, 0},
      {"cnn.mlir", 6598032, 0, 1, 4504 + 8 * 16 * 16 * 3 + 80, 0},
      {"lstm.mlir", 52482, 2, 12, 6272 + 12 * 4 * 16, 1},
      {"lstm.pb", 53506, 2, 12, 6272 + 12 * 4 * 16, 1},
      {"attention.mlir", 2510690, 0, 1, 12288 + 1024, 0},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.file);
    const std::string content = HloFile(row.file);
    EXPECT_TRUE(datasets::LooksLikeHlo(content));
    const Graph graph = ImportHloText(content).graph;
    EXPECT_EQ(NumbersOf(graph, "input") + NumbersOf(graph, "variable"), row.numbers);
    EXPECT_NEAR(FlopOf(graph), (row.flop - row.left_out) * row.trips, 0.001 * row.flop);
    for (std::size_t i = 0; i < graph.num_ops(); ++i) {
      EXPECT_NE(FindOpKind(graph.op(MakeId<OpId>(i)).kind), nullptr) << graph.op(MakeId<OpId>(i)).kind;
    }
  }
}

TEST(HloTest, DonatedParametersAreVariables) {
  for (const char* const file : {"mlp.mlir", "mlp.hlo"}) {
    const Graph graph = ImportHloText(HloFile(file)).graph;
    EXPECT_EQ(NumbersOf(graph, "variable"), 6922) << file;
    EXPECT_EQ(CountKind(graph, "input"), 2) << file;
  }
}

TEST(HloTest, ParametersNamedAsWeightsAreVariables) {
  const Graph graph =
      ImportHloText(HloProgram("  a = f32[2] parameter(0), metadata={op_name=\"state.params[\\'w\\']\"}\n"
                               "  b = f32[2] parameter(1), metadata={op_name=\"paramount\"}\n"
                               "  ROOT c = f32[2] add(a, b)\n"))
          .graph;
  EXPECT_EQ(OpNamed(graph, "state.params['w']").kind, "variable");
  EXPECT_EQ(OpNamed(graph, "state.params['w']").persistent, Bytes{8});
  EXPECT_EQ(OpNamed(graph, "paramount").kind, "input");
}

TEST(HloTest, InstructionsAreOpsWithTypesFlopAndKinds) {
  const Graph graph =
      ImportHloText(HloProgram("  a = bf16[2,3]{1,0:T(8,128)} parameter(0)\n"
                               "  b = bf16[3,4]{1,0} parameter(1)\n"
                               "  c = bf16[2,4]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                               "  t = bf16[4,2]{1,0} transpose(c), dimensions={1,0}\n"
                               "  e = bf16[4,2]{1,0} exponential(t), control-predecessors={c}\n"
                               "  k = c64[4,2]{1,0} complex(e, e)\n"
                               "  ROOT r = (bf16[4,2]{1,0}, c64[4,2]{1,0}) tuple(e, k)\n"))
          .graph;
  ASSERT_EQ(graph.num_ops(), 6);
  EXPECT_EQ(OpNamed(graph, "c").kind, "matmul");
  EXPECT_EQ(OpNamed(graph, "c").flop, 2 * 2 * 3 * 4);
  EXPECT_EQ(OpNamed(graph, "t").kind, "transpose");
  EXPECT_EQ(OpNamed(graph, "e").kind, "hlo::exponential");
  EXPECT_EQ(OpNamed(graph, "e").flop, 8);
  EXPECT_THAT(graph.control_inputs(*graph.FindOp("e")), ElementsAre(*graph.FindOp("c")));
  const Tensor& product = graph.tensor(graph.first_output(*graph.FindOp("c")));
  EXPECT_EQ(product.dtype, DType::kBf16);
  EXPECT_EQ(product.size, Bytes{16});
  EXPECT_EQ(graph.tensor(graph.first_output(*graph.FindOp("k"))).size, Bytes{64});
}

TEST(HloTest, ABroadcastThatOnlyAddsDimensionsIsAView) {
  const auto kind = [](const std::string& shape, const std::string& dims) {
    const Graph graph = ImportHloText(HloProgram("  x = f32[2,3] parameter(0)\n  ROOT y = " + shape +
                                                 " broadcast(x), dimensions={" + dims + "}\n"))
                            .graph;
    return std::string(OpNamed(graph, "y").kind);
  };
  EXPECT_EQ(kind("f32[2,1,3]", "0,2"), "reshape");
  EXPECT_EQ(kind("f32[2,4,3]", "0,2"), "hlo::broadcast_in_dim");
  EXPECT_EQ(kind("f32[3,1,2]", "2,0"), "hlo::broadcast_in_dim");
}

TEST(HloTest, ProductsInTheOrderOfTheCatalogueAreItsKinds) {
  const auto kind = [](const std::string& a, const std::string& b, const std::string& y, const std::string& dims) {
    const Graph graph = ImportHloText(HloProgram("  a = " + a + " parameter(0)\n  b = " + b +
                                                 " parameter(1)\n  ROOT y = " + y + " dot(a, b), " + dims + "\n"))
                            .graph;
    const Op& op = OpNamed(graph, "y");
    return std::string(op.kind) + " " + std::string(op.attrs) + " " + std::to_string(static_cast<int>(op.flop));
  };
  EXPECT_EQ(kind("f32[3,2]", "f32[4,3]", "f32[2,4]", "lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
            "matmul {\"transpose_a\":true,\"transpose_b\":true} 48");
  EXPECT_EQ(kind("f32[5,2,3]", "f32[3,4]", "f32[5,2,4]", "lhs_contracting_dims={2}, rhs_contracting_dims={0}"),
            "matmul  240");
  EXPECT_EQ(kind("f32[5,2,3]", "f32[5,4,3]", "f32[5,2,4]",
                 "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={2}"),
            "batch_matmul {\"transpose_b\":true} 240");
  EXPECT_EQ(kind("f32[2,5,3]", "f32[5,3]", "f32[2]", "lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}"),
            "hlo::dot_general  60");
  EXPECT_EQ(kind("f32[3]", "f32[3]", "f32[]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
            "hlo::dot_general  6");
}

TEST(HloTest, ConvolutionsLeaveTheirPaddingOut) {
  const auto flop = [](const std::string& x, const std::string& w, const std::string& y, const std::string& rest) {
    return FlopOf(ImportHloText(HloProgram("  x = " + x + " parameter(0)\n  w = " + w +
                                           " parameter(1)\n  ROOT y = " + y + " convolution(x, w), " + rest + "\n"))
                      .graph);
  };
  // Along each dimension 10 of the 4 x 3 pairs of a position and a tap read the image.
  EXPECT_EQ(
      flop("f32[1,4,4,2]", "f32[3,3,2,5]", "f32[1,4,4,5]", "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
      2 * 2 * 5 * 10 * 10);
  EXPECT_EQ(flop("f32[1,4,4,2]", "f32[3,3,1,6]", "f32[1,4,4,6]",
                 "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=2"),
            2 * 1 * 6 * 10 * 10);
  // A gradient, whose input has a hole after each number: output 4 of input 2, 6 of the 12 pairs without one.
  EXPECT_EQ(
      flop("f32[1,2,1]", "f32[3,1,1]", "f32[1,4,1]", "window={size=3 pad=2_1 lhs_dilate=2}, dim_labels=b0f_0io->b0f"),
      2 * 5);
}

TEST(HloTest, AFusionIsOneOpThatReadsPartsWhereItsInstructionsDo) {
  const std::string fusion =
      "HloModule m\n\nfused {\n  p = f32[10,4] parameter(0)\n  i = s32[] parameter(1)\n  z = s32[] constant(0)\n"
      "  s = f32[1,4] dynamic-slice(p, i, z), dynamic_slice_sizes={1,4}\n  ROOT e = f32[1,4] exponential(s)\n}\n\n"
      "ENTRY main {\n  x = f32[10,4] parameter(0)\n  n = s32[] parameter(1)\n"
      "  ROOT f = f32[1,4] fusion(x, n), kind=kLoop, calls=fused\n}\n";
  const Graph graph = ImportHloText(fusion).graph;
  EXPECT_EQ(OpNamed(graph, "f").kind, "hlo::fusion");
  EXPECT_EQ(OpNamed(graph, "f").flop, 4);
  const OpId id = *graph.FindOp("f");
  EXPECT_EQ(FindOpKind("hlo::fusion")->work(graph, id).moved, Bytes{16 + 16 + 4});
}

// A loop of StableHLO that counts from 0 while it is below `limit`.
std::string CountingLoop(const std::string& limit) {
  return StableHloProgram(
      "%arg0: tensor<2x2xf32>, %arg1: tensor<i32>",
      "    %c = stablehlo.constant dense<0> : tensor<i32>\n"
      "    %0:2 = stablehlo.while(%i = %c, %x = %arg0) : tensor<i32>, tensor<2x2xf32>\n"
      "    cond {\n"
      "      %n = stablehlo.constant dense<3> : tensor<i32>\n"
      "      %1 = stablehlo.compare LT, %i, " +
          limit +
          ", SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
          "      stablehlo.return %1 : tensor<i1>\n"
          "    } do {\n"
          "      %1 = stablehlo.constant dense<1> : tensor<i32>\n"
          "      %2 = stablehlo.add %i, %1 : tensor<i32>\n"
          "      %3 = stablehlo.tanh %x : tensor<2x2xf32>\n"
          "      stablehlo.return %2, %3 : tensor<i32>, tensor<2x2xf32>\n"
          "    }\n"
          "    %1 = stablehlo.constant dense<0.0> : tensor<f32>\n"
          "    %2 = stablehlo.reduce(%0#1 init: %1) applies stablehlo.add across dimensions = [0, 1] : "
          "(tensor<2x2xf32>, tensor<f32>) -> tensor<f32>\n"
          "    return %2 : tensor<f32>\n");
}

TEST(HloTest, ALoopOfKnownLengthIsInPlace) {
  const datasets::Imported imported = ImportHloText(CountingLoop("%n"));
  EXPECT_EQ(CountKind(imported.graph, "tanh"), 3);
  EXPECT_EQ(OpNamed(imported.graph, "while.0/2/tanh.3").flop, 4);
  EXPECT_EQ(OpNamed(imported.graph, "reduce.2").kind, "reduce_sum");
  EXPECT_THAT(imported.notes, Contains("loops in place: while.0 (3 times)"));
}

TEST(HloTest, ALoopOfUnknownLengthIsOneOpThatSaysSo) {
  const datasets::Imported imported = ImportHloText(CountingLoop("%arg1"));
  EXPECT_EQ(CountKind(imported.graph, "tanh"), 0);
  const Op& loop = OpNamed(imported.graph, "while.0");
  EXPECT_EQ(loop.kind, "hlo::while");
  EXPECT_EQ(loop.flop, 4 + 1 + 1);                                                // an iteration and a comparison
  EXPECT_EQ(imported.graph.inputs(*imported.graph.FindOp("while.0")).size(), 2);  // and what its condition reads
  EXPECT_THAT(imported.notes, Contains(HasSubstr("where the number is unknown: while.0")));
}

std::string HloLoop(const std::string& config) {
  return "HloModule m\n\nbody {\n  t = (s32[], f32[2]) parameter(0)\n  i = s32[] get-tuple-element(t), index=0\n"
         "  x = f32[2] get-tuple-element(t), index=1\n  y = f32[2] tanh(x)\n"
         "  ROOT r = (s32[], f32[2]) tuple(i, y)\n}\n\n"
         "cond {\n  t = (s32[], f32[2]) parameter(0)\n  i = s32[] get-tuple-element(t), index=0\n"
         "  n = s32[] custom-call(i), custom_call_target=\"limit\"\n  ROOT c = pred[] compare(i, n), "
         "direction=LT\n}\n\n"
         "ENTRY main {\n  a = s32[] parameter(0)\n  x = f32[2] parameter(1)\n  t = (s32[], f32[2]) tuple(a, x)\n"
         "  ROOT w = (s32[], f32[2]) while(t), condition=cond, body=body" +
         config + "\n}\n";
}

TEST(HloTest, TheFileMayKnowHowOftenALoopRuns) {
  const datasets::Imported imported = ImportHloText(HloLoop(", backend_config={\"known_trip_count\":{\"n\":\"4\"}}"));
  EXPECT_EQ(CountKind(imported.graph, "tanh"), 4);
  EXPECT_EQ(CountKind(ImportHloText(HloLoop("")).graph, "hlo::while"), 1);
  const datasets::Imported longest =
      ImportHloText(HloLoop(", backend_config={\"known_trip_count\":{\"n\":\"1000000\"}}"));
  EXPECT_EQ(OpNamed(longest.graph, "w").flop, 3e6);  // as one op: tanh of two numbers and a comparison
  EXPECT_THAT(longest.notes, Contains(HasSubstr("w (1000000 times)")));
}

std::string CaseOf(const std::string& index) {
  return StableHloProgram(
      "%arg0: tensor<4xf32>, %arg1: tensor<i32>",
      "    %c = stablehlo.constant dense<0> : tensor<i32>\n"
      "    %s = stablehlo.constant dense<0.0> : tensor<f32>\n"
      "    %0 = \"stablehlo.case\"(" +
          index +
          ") ({\n"
          "      %1 = stablehlo.sine %arg0 : tensor<4xf32>\n"
          "      stablehlo.return %1 : tensor<4xf32>\n"
          "    }, {\n"
          "      %1 = stablehlo.cosine %arg0 : tensor<4xf32>\n"
          "      %2 = stablehlo.cosine %1 : tensor<4xf32>\n"
          "      stablehlo.return %2 : tensor<4xf32>\n"
          "    }) : (tensor<i32>) -> tensor<4xf32>\n"
          "    %1 = stablehlo.reduce(%0 init: %s) applies stablehlo.maximum across dimensions = [0] : "
          "(tensor<4xf32>, tensor<f32>) -> tensor<f32>\n"
          "    return %1 : tensor<f32>\n");
}

TEST(HloTest, ACaseIsTheBranchThatRunsOrTheOneWithMostFlop) {
  EXPECT_EQ(CountKind(ImportHloText(CaseOf("%c")).graph, "hlo::sine"), 1);
  const datasets::Imported imported = ImportHloText(CaseOf("%arg1"));
  EXPECT_EQ(CountKind(imported.graph, "hlo::cosine"), 2);
  EXPECT_THAT(imported.graph.control_inputs(*imported.graph.FindOp("case.0/cosine.1")),
              ElementsAre(*imported.graph.FindOp("arg1")));
  EXPECT_THAT(imported.notes, Contains(HasSubstr("the branch with the most FLOP: case.0")));
}

TEST(HloTest, TheGenericFormIsReadAsThePrettyOne) {
  const Graph graph =
      ImportHloText("#loc1 = loc(\"jit(f)/jvp(Dense_0)/dot_general\"(#loc))\n" +
                    StableHloProgram(
                        "%arg0: tensor<2x3xf32> {jax.buffer_donor = true} loc(\"w\"), %arg1: tensor<3xf32>",
                        "    %0 = \"stablehlo.dot_general\"(%arg0, %arg1) <{dot_dimension_numbers = "
                        "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : "
                        "(tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32> loc(#loc1)\n"
                        "    %1 = \"stablehlo.compare\"(%0, %0) <{comparison_direction = "
                        "#stablehlo<comparison_direction LT>}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>\n"
                        "    %c = \"stablehlo.constant\"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>\n"
                        "    %2 = \"stablehlo.reduce\"(%0, %c) <{dimensions = array<i64: 0>}> ({\n"
                        "    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
                        "      %3 = stablehlo.add %a, %b : tensor<f32>\n"
                        "      stablehlo.return %3 : tensor<f32>\n"
                        "    }) : (tensor<2xf32>, tensor<f32>) -> tensor<f32>\n"
                        "    return %2 : tensor<f32>\n"))
          .graph;
  EXPECT_EQ(OpNamed(graph, "w").kind, "variable");
  EXPECT_EQ(OpNamed(graph, "dot_general.0").flop, 12);
  EXPECT_EQ(OpNamed(graph, "dot_general.0").layer, "Dense_0");
  EXPECT_EQ(OpNamed(graph, "dot_general.0").pass, Pass::kForward);
  EXPECT_EQ(OpNamed(graph, "compare.1").flop, 2);
  EXPECT_EQ(OpNamed(graph, "reduce.2").flop, 1);
}

TEST(HloTest, CallsAreInPlaceAndTuplesDisappear) {
  const Graph graph =
      ImportHloText(
          "module {\n  func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {\n"
          "    %0 = call @f(%arg0) : (tensor<2xf32>) -> tensor<2xf32>\n"
          "    %1:2 = stablehlo.optimization_barrier %0, %arg0 : tensor<2xf32>, tensor<2xf32>\n"
          "    %2 = stablehlo.tuple %1#0, %1#1 : tuple<tensor<2xf32>, tensor<2xf32>>\n"
          "    %3 = stablehlo.get_tuple_element %2[1] : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>\n"
          "    %4 = stablehlo.add %1#0, %3 : tensor<2xf32>\n"
          "    return %4 : tensor<2xf32>\n  }\n"
          "  func.func private @f(%arg0: tensor<2xf32>) -> tensor<2xf32> {\n"
          "    %0 = stablehlo.tanh %arg0 : tensor<2xf32>\n    return %0 : tensor<2xf32>\n  }\n}\n")
          .graph;
  ASSERT_EQ(graph.num_ops(), 3);
  const OpId sum = *graph.FindOp("add.4");
  EXPECT_EQ(graph.op(sum).kind, "add");
  EXPECT_EQ(graph.tensor(graph.inputs(sum)[0]).producer, *graph.FindOp("f.0/tanh.0"));
  EXPECT_EQ(graph.tensor(graph.inputs(sum)[1]).producer, *graph.FindOp("arg0"));
}

TEST(HloTest, LargeConstantsAreVariablesAndUnknownOperationsAreNoted) {
  const datasets::Imported imported =
      ImportHloText(HloProgram("  x = f32[100] parameter(0)\n  c = f32[100] constant({...})\n"
                               "  a = f32[100] add(x, c)\n  u = f32[100] unheard-of(a)\n"
                               "  ROOT k = f32[100] custom-call(u), custom_call_target=\"lapack_spotrf_ffi\"\n"));
  EXPECT_EQ(OpNamed(imported.graph, "c").kind, "variable");
  EXPECT_EQ(OpNamed(imported.graph, "u").kind, "hlo::unheard_of");
  EXPECT_EQ(OpNamed(imported.graph, "k").attrs, "{\"target\":\"lapack_spotrf_ffi\"}");
  EXPECT_THAT(imported.notes,
              Contains("the FLOP of custom_call \"lapack_spotrf_ffi\", hlo::unheard_of are unknown, and "
                       "count as 0"));
  EXPECT_THAT(imported.notes, Contains(HasSubstr("attributed: 1 of 3 ops have FLOP that are known (33.3 %)")));
}

TEST(HloTest, CustomCallsOfProductsAreKnown) {
  const Graph graph =
      ImportHloText(HloProgram("  a = f32[2,8,3] parameter(0)\n  b = f32[2,3,4] parameter(1)\n"
                               "  ROOT y = f32[2,8,4] custom-call(a, b), custom_call_target=\"__onednn$matmul\"\n"))
          .graph;
  EXPECT_EQ(OpNamed(graph, "y").kind, "hlo::dot_general");
  EXPECT_NEAR(OpNamed(graph, "y").flop, 2 * 2 * 8 * 3 * 4, 1e-9);
  EXPECT_EQ(datasets::HloCustomCall("__cudnn$convForward"), "convolution");
  EXPECT_EQ(datasets::HloCustomCall("Sharding"), "identity");
  EXPECT_EQ(datasets::HloCustomCall("lapack_spotrf_ffi"), "");
}

TEST(HloTest, AnHloProtoHoldsTheModule) {
  const std::string module = HloFile("lstm.pb");
  const std::size_t size = module.size();
  const std::string length = {static_cast<char>((size & 127) | 128), static_cast<char>(size >> 7)};
  const std::string proto = "\x0a" + length + module;
  EXPECT_EQ(GraphText(ImportHloText(proto).graph), GraphText(ImportHloText(module).graph));
  EXPECT_TRUE(datasets::LooksLikeHlo(proto));
}

TEST(HloTest, IntegersAreWorkedOut) {
  const auto fold = [](std::string opcode, std::string text, const std::vector<std::int64_t>& operands) {
    datasets::HloInstruction instruction;
    instruction.opcode = std::move(opcode);
    instruction.text = std::move(text);
    return datasets::FoldHlo(instruction, operands);
  };
  EXPECT_EQ(fold("add", "", {2, 3}), 5);
  EXPECT_EQ(fold("divide", "", {7, 2}), 3);
  EXPECT_EQ(fold("divide", "", {7, 0}), std::nullopt);
  EXPECT_EQ(fold("compare", "GE", {7, 7}), 1);
  EXPECT_EQ(fold("select", "", {0, 1, 2}), 2);
  EXPECT_EQ(fold("clamp", "", {0, 9, 5}), 5);
  EXPECT_EQ(fold("tanh", "", {1}), std::nullopt);
}

TEST(HloTest, LayersAreTheModulesInJaxsNames) {
  EXPECT_EQ(datasets::HloLayer("jit(step)/transpose(jvp(encoder))/dense/dot_general"), "encoder/dense");
  EXPECT_EQ(datasets::HloLayer("jit(f)/while/body/closed_call/jit(relu)/max"), "");
  EXPECT_EQ(datasets::HloLayer("jit(f)/jvp(bhts,bshd->bthd)/dot_general"), "");
  EXPECT_EQ(datasets::HloLayer(""), "");
}

// Each of 40 functions calls the next one twice.
std::string Doubling() {
  std::string text = "HloModule m\n\nf0 {\n  p = f32[2] parameter(0)\n  ROOT r = f32[2] tanh(p)\n}\n\n";
  for (int i = 1; i <= 40; ++i) {
    const std::string called = "to_apply=f" + std::to_string(i - 1) + "\n";
    text += (i == 40 ? "ENTRY main" : "f" + std::to_string(i)) +
            " {\n  p = f32[2] parameter(0)\n  q = f32[2] call(p), " + called + "  ROOT r = f32[2] call(q), " + called +
            "}\n\n";
  }
  return text;
}

TEST(HloTest, WhatDoesNotFitIsRefusedInOneLine) {
  const auto entry = [](const std::string& body) { return HloProgram("  x = f32[2] parameter(0)\n" + body); };
  const auto main = [](const std::string& body) { return StableHloProgram("%arg0: tensor<2xf32>", body); };
  const std::pair<std::string, std::string> rows[] = {
      {"HloModule m\n\nENTRY main {\n  x = f32[2] parameter(0)\n", "line 4: the file ends within \"main\""},
      {"HloModule m\n", "has no computation that starts with ENTRY"},
      {entry("  ROOT y = f32[2] tanh(z)\n"), "line 5: reads \"z\", which no instruction above gives"},
      {entry("  ROOT y = f32[3] tanh(x)\n"), "main: y: the shapes f32[2] and f32[3] differ"},
      {entry("  ROOT y = f33[2] tanh(x)\n"), "line 5: \"f33\" is not a type of elements (such as f32)"},
      {entry("  ROOT y = f32[-2] tanh(x)\n"), "line 5: -2 is not a size of a tensor"},
      {entry("  ROOT y = f32[2] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"),
       "main: y: the product of f32[2] and f32[2] has shape [] (the file says [2])"},
      {entry("  ROOT y = f32[2] dot(x, x), lhs_contracting_dims={3}, rhs_contracting_dims={0}\n"),
       "has no dimension 3"},
      {entry("  ROOT y = f32[2] call(x), to_apply=f\n"), "line 5: runs \"f\", which the file does not have"},
      {entry("  ROOT y = f32[2] call(x), to_apply=main\n"), "main: calls itself"},
      {entry("  ROOT y = f32[2] get-tuple-element(x), index=0\n"), "main: y: f32[2] has no element 0"},
      {entry("  ROOT x = f32[2] tanh(x)\n"), "line 5: \"x\" is there already"},
      {entry("  ROOT y = f32[2] tanh(x\n"), "line 5: the operands are cut off"},
      {main("    %0 = stablehlo.tanh %7 : tensor<2xf32>\n"), "line 3: reads \"%7\", which no operation above gives"},
      {main("    %0 = stablehlo.tanh %arg0 : tensor<2xf99>\n"), "line 3: \"f99\" is not a type of elements"},
      {main("    %0 = stablehlo.tanh %arg0 : tensor<?xf32>\n"), "line 3: a size of a tensor is open"},
      {main("    %0 = stablehlo.tanh %arg0 : tensor<3xf32>\n"), "the shapes f32[2] and f32[3] differ"},
      {main("    %0:2 = stablehlo.tanh %arg0 : (tensor<2xf32>) -> tensor<2xf32>\n"),
       "line 3: stablehlo.tanh has 2 results, and 1 types of results"},
      {main("    %0 = call @g(%arg0) : (tensor<2xf32>) -> tensor<2xf32>\n"),
       "line 3: calls \"@g\", which the file does not have"},
      {main("    %0 = call @main(%arg0) : (tensor<2xf32>) -> tensor<2xf32>\n"), "main: calls itself"},
      {"module @m {\n  func.func @main(%arg0: tensor<2xf32>) {\n    %0 = stablehlo.tanh %arg0",
       "line 3: stablehlo.tanh has 1 results, and 0 types of results"},
      {"module @m {\n  func.func @main(%arg0: tensor<2xf32>) {\n", "line 3: the file ends (} expected)"},
      {"module @m {\n  func.func @main(%arg0: tensor<2xf32", "line 2: an angle bracket is not closed"},
      {"module @m {\n// mhlo.x\n}\n", "has no function (func.func)"},
      {HloFile("lstm.pb").substr(0, 9000), "cut off or is no protobuf message"},
      {"no program", "is no program of XLA"},
      {Doubling(), "main: runs "},
  };
  for (const auto& row : rows) {
    const std::string refusal = Refusal([&] { ImportHloText(row.first); });
    EXPECT_THAT(refusal, HasSubstr(row.second)) << row.first;
    EXPECT_EQ(refusal.substr(0, 3), "f: ");
  }
}

}  // namespace
}  // namespace emplace::testing
