#include "datasets/importers/torch_export.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "datasets/importers/export_call.h"
#include "datasets/importers/export_program.h"
#include "sim/ops/aten_work.h"
#include "sim/ops/op_catalog.h"
#include "tests/datasets/importers/pt2_archive.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/graphs.h"
#include "tests/testing/rank_graphs.h"

namespace emplace::testing {
namespace {

using datasets::Imported;
using datasets::ImportOptions;
using datasets::ImportSource;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const datasets::ImporterEntry& TorchExport() { return datasets::FindImporter("torch-export", "", "f"); }

Imported ImportPt2(const std::string& name, const ImportOptions& options = {}) {
  const ImportSource source(Pt2Sample(name));
  return datasets::Import(TorchExport(), {&source, 1}, options);
}

Graph ImportProgram(const std::string& program, const ImportOptions& options = {}) {
  return ImportText(TorchExport(), Pt2Of(program), "f.pt2", options).graph;
}

std::map<std::string, int> KindsOf(const Graph& graph) {
  std::map<std::string, int> kinds;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) ++kinds[std::string(graph.op(MakeId<OpId>(i)).kind)];
  return kinds;
}

// The operations of ops whose kind starts with one of these.
double FlopOf(const Graph& graph, std::initializer_list<std::string_view> kinds, Pass pass = Pass::kForward) {
  double flop = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    for (const std::string_view kind : kinds) {
      if (op.pass == pass && op.kind.starts_with(kind)) flop += op.flop;
    }
  }
  return flop;
}

double VariableElements(const Graph& graph) {
  double bytes = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    if (op.kind == "variable") bytes += static_cast<double>(op.persistent.count);
  }
  return bytes / 4;
}

// torchvision's table: 25,557,032 parameters, 4.09 billion multiply-adds an image. Its 53 convolutions, 53 batch norms,
// 49 activations and 16 sums are those of He et al. 2015, table 1.
TEST(TorchExportTest, Resnet50HasThePublishedSize) {
  const Graph graph = ImportPt2("resnet50", {.inputs = {"x=1x3x224x224"}}).graph;
  EXPECT_EQ(VariableElements(graph), 25'557'032);
  EXPECT_NEAR(FlopOf(graph, {"conv2d", "matmul"}) / 2, 4.09e9, 0.005e9);
  const std::map<std::string, int> kinds = KindsOf(graph);
  EXPECT_EQ(kinds, (std::map<std::string, int>{{"add", 16},
                                               {"batch_norm", 53},
                                               {"bias_add", 1},
                                               {"conv2d", 53},
                                               {"input", 1},
                                               {"matmul", 1},
                                               {"max_pool", 1},
                                               {"reduce_mean", 1},
                                               {"relu", 49},
                                               {"reshape", 1},
                                               {"variable", 161}}));
  EXPECT_EQ(FindOp(graph, "layer4.2.conv3/conv2d_52").layer, "layer4.2.conv3");
  EXPECT_EQ(Inputs(graph, "layer4.2.conv3/conv2d_52"),
            (std::vector<std::string>{"layer4.2.relu/relu__47:0=100352", "layer4.2.conv3.weight:0=4194304"}));
}

TEST(TorchExportTest, OpenSizesFollowFromAnInput) {
  const Imported example = ImportPt2("resnet50");
  EXPECT_THAT(example.notes,
              ::testing::Contains("open sizes are those of the exported example: s0 = 2 (--input sets them)"));
  const Imported larger = ImportPt2("resnet50", {.inputs = {"x=8x3x224x224"}});
  EXPECT_EQ(FlopOf(larger.graph, {"conv2d"}), 4 * FlopOf(example.graph, {"conv2d"}));
  EXPECT_EQ(ShapeOf(larger.graph, "flatten"), (std::vector<std::int64_t>{8, 2048}));
  EXPECT_THAT(larger.notes, ::testing::Each(::testing::Not(HasSubstr("open sizes"))));
}

// x has 2*s2 rows, in two halves; y has s1. Joined they have s1 + 2*s2.
TEST(TorchExportTest, SizesThatAreComputedAreSolved) {
  const Graph graph = ImportPt2("doubled", {.inputs = {"x=6x6", "y=9x6"}}).graph;
  EXPECT_EQ(ShapeOf(graph, "cat"), (std::vector<std::int64_t>{15, 4}));
  EXPECT_EQ(ShapeOf(graph, "linear/linear"), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(ShapeOf(graph, "new_zeros"), (std::vector<std::int64_t>{3, 3}));
  // One input given: the other keeps the example's size, 5.
  const Imported one = ImportPt2("doubled", {.inputs = {"x=6x6"}});
  EXPECT_EQ(ShapeOf(one.graph, "cat"), (std::vector<std::int64_t>{11, 4}));
  EXPECT_THAT(one.notes, ::testing::Contains(HasSubstr("s1 = 5")));
}

// The two layers, for 4 * 16 tokens: projections 2*64*64*192 and 2*64*64*64, the wide part 2 * 2*64*64*128; the head
// 2*4*64*10. Attention is one op, whose products are scores and values, 2 * 2*4*4*16*16*16.
TEST(TorchExportTest, AnEncoderIsProductsOfTheCatalogueAndFusedAttention) {
  const Imported imported = ImportPt2("encoder");
  EXPECT_EQ(FlopOf(imported.graph, {"matmul"}), 2 * (1'572'864 + 524'288 + 2 * 1'048'576) + 5120);
  EXPECT_EQ(FlopOf(imported.graph, {"aten::"}), 2 * 2 * 131'072);
  EXPECT_EQ(imported.notes.front(),
            "74 of 76 operators are kinds of the op catalogue; others keep their own: "
            "aten::_scaled_dot_product_flash_attention_for_cpu (2)");
  EXPECT_EQ(FindOp(imported.graph, "tokens").attrs, R"({"bound":1000})");
  const std::map<std::string, int> kinds = KindsOf(imported.graph);
  EXPECT_FALSE(kinds.contains("softmax"));
  EXPECT_EQ(kinds.at("dropout"), 6);  // three in each layer; attention has its own
  EXPECT_EQ(kinds.at("layer_norm"), 4);
  EXPECT_EQ(kinds.at("gather"), 1);
}

// Inputs of all 6 steps at once: 2*24*32*192 and 2*24*48*192; states 2*4*48*192 in each of 2 * 6 steps; the decoder
// 2*24*48*1000.
TEST(TorchExportTest, AnLstmIsUnrolled) {
  const Graph graph = ImportPt2("word_model").graph;
  EXPECT_EQ(FlopOf(graph, {"matmul"}), 294'912 + 442'368 + 12 * 73'728 + 2'304'000);
  EXPECT_EQ(KindsOf(graph).at("tanh"), 2 * 2 * 6);
  EXPECT_EQ(KindsOf(graph).at("softmax_cross_entropy"), 1);
  EXPECT_EQ(FindOp(graph, "lstm/getitem/layer1/step05/hidden").layer, "lstm");
  // Each step waits for the one before it.
  EXPECT_THAT(Inputs(graph, "lstm/getitem/layer0/step01/state"),
              ElementsAre("lstm/getitem/layer0/step00/hidden:0=768", "lstm.weight_hh_l0:0=36864"));
}

TEST(TorchExportTest, WhatTheCatalogueLacksKeepsItsKindAndArguments) {
  const Imported imported = ImportPt2("branches");
  const Graph& graph = imported.graph;
  EXPECT_EQ(imported.notes[0],
            "11 of 15 operators are kinds of the op catalogue; others keep their own: aten::add_.Scalar, aten::argmax, "
            "aten::convolution, aten::group_norm");
  EXPECT_THAT(imported.notes, ::testing::Contains("6 parameters with 240 numbers (960 bytes), 1 buffers (32 bytes)"));
  EXPECT_EQ(FindOp(graph, "norm/group_norm").attrs, R"({"args":["%0",2,"%1","%2"]})");
  // Two groups of 2 input channels, 8*8 places, 3*3 taps.
  EXPECT_EQ(FindOp(graph, "conv/conv2d/convolution").kind, "aten::convolution");
  EXPECT_EQ(FindOp(graph, "conv/conv2d/convolution").flop, 2.0 * 2 * 8 * 64 * 2 * 9);
}

// sigmoid_() writes to what linear made; mul reads that. add_() writes to a part of mul; mul_1 reads another part of
// it, by a view that was made before.
TEST(TorchExportTest, WritesInPlaceComeBeforeLaterReaders) {
  const Graph graph = ImportPt2("branches").graph;
  EXPECT_THAT(Inputs(graph, "mul"), ElementsAre("sigmoid_:0=64", "more_scale:0=64"));
  EXPECT_THAT(Inputs(graph, "mul_1"), ElementsAre("slice_4:0=32"));
  const auto waits = graph.control_inputs(graph.FindOp("mul_1").value());
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(graph.op(waits[0]).name, "add_");
  EXPECT_TRUE(graph.FindOp("argmax").has_value());  // inside of torch.no_grad()
}

TEST(TorchExportTest, HalfPrecisionIsHalfTheBytes) {
  const Graph graph = ImportPt2("half_linear", {.training = "sgd"}).graph;
  for (std::size_t i = 0; i < graph.num_tensors(); ++i) {
    EXPECT_EQ(graph.tensor(MakeId<TensorId>(i)).dtype, DType::kBf16) << i;
  }
  EXPECT_EQ(FindOp(graph, "0.weight").persistent.count, 2 * 16 * 32);
  EXPECT_EQ(FindOp(graph, "0/linear").layer, "0");
}

// Each convolution has a gradient of its filter, each but the first of its images; each parameter an update, colocated,
// with Adam's two moments.
TEST(TorchExportTest, ATrainingStepHasGradientsAndUpdates) {
  const Graph graph = ImportPt2("resnet50", {.inputs = {"x=1x3x224x224"}, .training = "adam"}).graph;
  const std::map<std::string, int> kinds = KindsOf(graph);
  EXPECT_EQ(kinds.at("conv2d_grad_filter"), 53);
  EXPECT_EQ(kinds.at("conv2d_grad_input"), 52);
  EXPECT_EQ(kinds.at("batch_norm_grad"), 53);
  EXPECT_EQ(kinds.at("adam"), 161);
  const double first = FindOp(graph, "conv1/conv2d").flop;
  EXPECT_EQ(FlopOf(graph, {"conv2d_grad"}, Pass::kBackward), 2 * FlopOf(graph, {"conv2d"}) - first);
  const Op& update = FindOp(graph, "update/fc.weight/adam");
  EXPECT_EQ(update.pass, Pass::kUpdate);
  EXPECT_EQ(update.persistent.count, 2 * 4 * 2048 * 1000);
  EXPECT_EQ(graph.colocation_class(graph.FindOp("update/fc.weight/adam").value()),
            graph.colocation_class(graph.FindOp("fc.weight").value()));
}

TEST(TorchExportTest, TrainingDropsAndLooksUpSparsely) {
  const Graph words = ImportPt2("word_model", {.training = "sgd"}).graph;
  EXPECT_TRUE(words.FindOp("update/embedding.weight/sparse_sgd").has_value());
  EXPECT_EQ(KindsOf(words).at("sgd"), 10);
  const Graph encoder = ImportPt2("encoder", {.training = "momentum"}).graph;
  EXPECT_EQ(KindsOf(encoder).at("dropout_grad"), 6);
  EXPECT_EQ(KindsOf(encoder).at("momentum"), 26);
  EXPECT_EQ(KindsOf(encoder).at("sparse_momentum"), 1);
}

// The loss is the sum of all real outputs that depend on a parameter: gated, both of the list; best are whole numbers.
TEST(TorchExportTest, KindsOfTheirOwnHaveGeneralGradients) {
  const Imported imported = ImportPt2("branches", {.training = "sgd"});
  const Graph& graph = imported.graph;
  EXPECT_EQ(KindsOf(graph).at("sgd"), 6);
  const Op& convolution = FindOp(graph, "gradients/conv/conv2d/convolution/convolution_backward");
  EXPECT_EQ(convolution.flop, FindOp(graph, "conv/conv2d/convolution").flop);  // the image needs no gradient
  EXPECT_EQ(convolution.attrs, R"({"args":["%0","%1","%2",null,[2,2],[1,1],[1,1],false,[0,0],2,[false,true,false]]})");
  EXPECT_TRUE(graph.FindOp("loss/add_2").has_value());
}

// Every op can be timed by its shapes: what catalogue kinds and ATen's operators need is there.
TEST(TorchExportTest, RooflineKnowsEveryOp) {
  for (const char* const name : {"resnet50", "encoder", "word_model", "doubled", "half_linear"}) {
    const Graph graph = ImportPt2(name, {.training = "adam"}).graph;
    for (std::size_t i = 0; i < graph.num_ops(); ++i) {
      const OpId id = MakeId<OpId>(i);
      if (graph.op(id).kind.starts_with("aten::")) {
        std::string why;
        EXPECT_TRUE(FindAtenWork(graph, id, &why).has_value()) << name << ": " << why;
        continue;
      }
      const OpKind* const kind = FindOpKind(graph.op(id).kind);
      ASSERT_NE(kind, nullptr) << name << ": " << graph.op(id).kind;
      EXPECT_EQ(kind->work(graph, id).flop, graph.op(id).flop) << name << ": " << graph.op(id).name;
    }
  }
}

// PyTorch 2.7 and newer write the same program elsewhere, with the name of each node and the kind of each argument.
TEST(TorchExportTest, TheNewerLayoutIsTheSameGraph) {
  auto program = nlohmann::json::parse(Pt2Program("encoder"));
  program["schema_version"]["minor"] = 14;
  program["guards_code"] = nlohmann::json::array();
  for (auto& node : program["graph_module"]["graph"]["nodes"]) {
    node["name"] = "unused";
    for (auto& input : node["inputs"]) input["kind"] = 1;
  }
  const std::string old = GraphText(ImportText(TorchExport(), Pt2Of(Pt2Program("encoder")), "f").graph);
  for (const std::string folder : {"", "encoder/"}) {
    const std::string archive = ZipOf({{folder + "archive_format", "pt2"},
                                       {folder + "models/model.json", program.dump()},
                                       {folder + "data/weights/weight_0", "0000"},
                                       {folder + "data/weights/model_weights_config.json", "{}"}});
    EXPECT_EQ(GraphText(ImportText(TorchExport(), archive, "f").graph), old);
  }
}

// The FLOP of kinds that PyTorch's counter counts too.
double ProductFlop(const Graph& graph, Pass pass) {
  return FlopOf(graph,
                {"matmul", "batch_matmul", "conv2d", "depthwise_conv2d", "aten::convolution",
                 "aten::_scaled_dot_product", "aten::_grouped_mm", "transformers::grouped_mm_fallback"},
                pass);
}

struct StepCase {
  const char* name;
  int forward;  // ops
  int backward;
  int updates;
  double forward_flop;  // of products
  double backward_flop;
  double parameters;
};

// FLOP are those of torch.utils.flop_counter in forward and backward pass of the program, run by PyTorch 2.13, but for
// what that counter is known to get wrong: it misses fused attention on CPUs (decomp_empty, sdpa, sdpa_memory, mixtral)
// and the products of experts (mixtral), counts four products instead of five in the gradient of attention in parts
// (deepseek_v3, swin), and multiplies the filter gradients of grouped convolutions by the groups (grouped_conv, mamba).
TEST(TorchExportTest, ProgramsOfPyTorch213AreStepsOfTheSizeThatPyTorchCounts) {
  constexpr double kMixtral = 4 * 2 * 2 * 16 * 16 * 8 + 2 * 64 * 16 * 64 + 2 * 64 * 32 * 16;
  constexpr double kSdpa = 4.0 * 2 * 256 * 256 * 16;
  constexpr double kSdpaMemory = 4.0 * 4 * 1024 * 1024 * 16;
  constexpr StepCase kCases[] = {
      {"acts", 88, 71, 2, 139264, 139264, 272},
      {"adaptive_avg_pool1d", 8, 6, 2, 8192, 8192, 272},
      {"adaptive_avg_pool3d", 8, 6, 2, 49152, 49152, 272},
      {"autocast", 10, 6, 4, 1024, 1024, 304},
      {"bn", 12, 8, 4, 32768, 32768, 304},
      {"ckpt", 11, 8, 4, 8192, 12288, 2128},
      {"cumsum", 7, 5, 2, 8192, 8192, 272},
      {"decomp_core", 67, 38, 4, 6144, 8192, 304},
      {"decomp_empty", 16, 12, 4, 4096 + 2048, 4096 + 2.5 * 2048, 304},
      {"deepseek_v3", 159, 129, 15, 434176, 868352 + 40960, 6608},
      {"dynamic", 7, 7, 2, 2048, 2048, 272},
      {"einsum3", 14, 12, 2, 20736, 24832, 272},
      {"frozen", 10, 4, 2, 2048, 1024, 544},
      {"gather_max_sort", 44, 38, 2, 65536, 65536, 272},
      {"grouped_conv", 10, 6, 4, 19072, 21760, 336},
      {"losses", 42, 32, 2, 65536, 65536, 272},
      {"mamba", 256, 303, 12, 2332672, 2 * 2332672, 36864},
      {"matmul_vec", 10, 5, 2, 8704, 8704, 272},
      {"max_pool2d_ceil", 7, 5, 2, 49152, 49152, 272},
      {"mixtral", 156, 117, 12, 118784 + kMixtral, 2 * (118784 + kMixtral) + 0.5 * 32768, 9072},
      {"pow_scalar_base", 7, 5, 2, 49152, 49152, 272},
      {"repeat_interleave", 8, 8, 2, 8192, 8192, 272},
      {"sdpa", 5, 5, 1, 262144 + kSdpa, 262144 + 2.5 * kSdpa, 256},
      {"sdpa_memory", 14, 12, 2, 25165824 + kSdpaMemory, 25165824 + 2.5 * kSdpaMemory, 12480},
      {"swin", 174, 134, 45, 17695104, 34210560 + 589824, 42008},
      {"tied", 6, 9, 1, 2048, 4096, 128},
      {"topk", 7, 5, 2, 8192, 8192, 272},
  };
  for (const StepCase& expected : kCases) {
    const Imported imported = ImportPt2("2.13/" + std::string(expected.name), {.training = "sgd"});
    std::map<Pass, int> ops;
    for (std::size_t i = 0; i < imported.graph.num_ops(); ++i) ++ops[imported.graph.op(MakeId<OpId>(i)).pass];
    EXPECT_EQ(ops[Pass::kForward], expected.forward) << expected.name;
    EXPECT_EQ(ops[Pass::kBackward], expected.backward) << expected.name;
    EXPECT_EQ(ops[Pass::kUpdate], expected.updates) << expected.name;
    EXPECT_EQ(ProductFlop(imported.graph, Pass::kForward), expected.forward_flop) << expected.name;
    EXPECT_EQ(ProductFlop(imported.graph, Pass::kBackward), expected.backward_flop) << expected.name;
    EXPECT_THAT(imported.notes, ::testing::Contains(HasSubstr(fmt::format(" with {} numbers", expected.parameters))))
        << expected.name;
  }
}

// The output of [1, 4, 1024, 16] and a row statistic each stay for the backward op; no tensor has 1024 * 1024 elements.
TEST(TorchExportTest, FusedAttentionKeepsItsOutputAndRowStatistics) {
  const Graph graph = ImportPt2("2.13/sdpa_memory", {.training = "sgd"}).graph;
  const OpId op = graph.FindOp("scaled_dot_product_attention").value();
  EXPECT_EQ(graph.op(op).kind, "aten::_scaled_dot_product_flash_attention_for_cpu");
  EXPECT_EQ(graph.op(op).attrs, R"({"args":["%0","%1","%2",0,true]})");
  ASSERT_EQ(graph.num_outputs(op), 2U);
  EXPECT_EQ(
      Inputs(graph,
             "gradients/scaled_dot_product_attention/"
             "_scaled_dot_product_flash_attention_for_cpu_backward"),
      (std::vector<std::string>{"gradients/sum_1/reduce_sum_grad:0=262144", "transpose:0=262144",
                                "transpose_1:0=262144", "transpose_2:0=262144", "scaled_dot_product_attention:0=262144",
                                "scaled_dot_product_attention:1=16384"}));
  for (std::size_t i = 0; i < graph.num_tensors(); ++i) {
    EXPECT_LT(graph.tensor(MakeId<TensorId>(i)).size.count, 4 * 1024 * 1024) << i;
  }
}

// What PyTorch saves: sort and topk their positions, logsumexp input and result, cumsum nothing.
TEST(TorchExportTest, BackwardOpsReadWhatPyTorchSaves) {
  const Graph graph = ImportPt2("2.13/gather_max_sort", {.training = "sgd"}).graph;
  const auto inputs = [](const Graph& of, const std::string& op) {
    std::vector<std::string> names = Inputs(of, "gradients/" + op);
    names.erase(names.begin());  // dy
    return names;
  };
  EXPECT_THAT(inputs(graph, "getitem/sort_backward"), ElementsAre("getitem:1=2048"));
  EXPECT_THAT(inputs(graph, "logsumexp/logsumexp_backward"), ElementsAre("w/linear_4:0=1024", "logsumexp:0=64"));
  EXPECT_THAT(inputs(graph, "gather/gather_backward"), ElementsAre("zeros:0=384"));
  EXPECT_THAT(inputs(graph, "var/var_backward"), ElementsAre("w/linear_6:0=1024"));
  EXPECT_THAT(inputs(ImportPt2("2.13/cumsum", {.training = "sgd"}).graph, "cumsum/cumsum_backward"), ElementsAre());
}

// The program has both passes: 67 forward ops of 109, and the gradients of its four parameters.
TEST(TorchExportTest, AProgramWithItsBackwardPassKeepsIt) {
  const Imported imported = ImportPt2("2.13/joint_fb");
  EXPECT_THAT(imported.notes, ::testing::Contains("has its backward pass: 46 operators of 113, with the gradients of 4 "
                                                  "parameters"));
  EXPECT_EQ(ProductFlop(imported.graph, Pass::kForward), 6144);
  EXPECT_EQ(ProductFlop(imported.graph, Pass::kBackward), 4096 + 2.5 * 2048);
  EXPECT_EQ(FindOp(imported.graph, "div").pass, Pass::kForward);  // the loss
  EXPECT_EQ(FindOp(imported.graph, "full_like_1").pass, Pass::kBackward);
  const auto tied = [&](const std::string& op, const std::string& variable) {
    return imported.graph.colocation_class(imported.graph.FindOp(op).value()) ==
               imported.graph.colocation_class(imported.graph.FindOp(variable).value()) &&
           FindOp(imported.graph, op).layer == FindOp(imported.graph, variable).layer;
  };
  EXPECT_TRUE(tied("mm", "a.weight"));  // the gradient is its transpose of the same shape
  EXPECT_TRUE(tied("view_13", "a.bias"));
  EXPECT_TRUE(tied("sum_6", "b.weight"));
  EXPECT_TRUE(tied("sum_7", "b.bias"));
  const Imported step = ImportPt2("2.13/joint_fb", {.training = "adam"});
  EXPECT_THAT(step.notes,
              ::testing::Contains("is a training step already: --training keeps its backward pass and adds 4 "
                                  "updates"));
  EXPECT_EQ(KindsOf(step.graph).at("adam"), 4);
  EXPECT_THAT(Inputs(step.graph, "update/b.weight/adam"), ElementsAre("b.weight:0=64", "sum_6:0=64"));
  EXPECT_EQ(step.graph.num_ops(), imported.graph.num_ops() + 4);
}

TEST(TorchExportTest, OperatorsOfOthersAreReadAndTheirCostIsUnknown) {
  const std::string text = Edited(kTorchExportProgram, "aten.relu.default", "mylib.twice.default");
  const Imported imported = ImportText(TorchExport(), Pt2Of(text), "f.pt2", {.training = "sgd"});
  EXPECT_THAT(imported.notes, ::testing::Contains("the cost of mylib::twice is unknown: 0 FLOP, and no time by --costs "
                                                  "roofline (profiles have times)"));
  EXPECT_THAT(imported.notes,
              ::testing::Contains("the gradients of mylib::twice are taken to be one op each, which reads "
                                  "the inputs: no rule is known"));
  EXPECT_EQ(FindOp(imported.graph, "gradients/y/twice_backward").kind, "mylib::twice_backward");
}

// add_() writes to columns of gated; the loss reads all of it.
TEST(TorchExportTest, AWholeHasWhatIsWrittenToItsParts) {
  const Graph graph = ImportPt2("branches", {.training = "sgd"}).graph;
  EXPECT_THAT(Inputs(graph, "mul/written"), ElementsAre("mul:0=64", "add_:0=32"));
  EXPECT_EQ(FindAtenWork(graph, graph.FindOp("mul/written").value())->work.op_class, OpClass::kNone);
  EXPECT_TRUE(graph.FindOp("gradients/mul/written/slice_scatter_backward").has_value());
}

// The two products of bij,bkj,bk->bi, each a batch of 2: 2*8*8*16 and 2*8*8.
TEST(TorchExportTest, EinsumIsProductsFromLeftToRight) {
  const Graph graph = ImportPt2("2.13/einsum3").graph;
  EXPECT_EQ(FindOp(graph, "einsum/step0/product").kind, "batch_matmul");
  EXPECT_EQ(FindOp(graph, "einsum/step0/product").attrs, R"({"transpose_b":true})");
  EXPECT_EQ(FindOp(graph, "einsum/step0/product").flop, 2.0 * 2 * 8 * 8 * 16);
  EXPECT_EQ(FindOp(graph, "einsum/step1/product").flop, 2.0 * 2 * 8 * 8);
}

TEST(TorchExportTest, PythonsInfiniteNumbersAreRead) {
  const std::string text =
      Edited(Edited(kTorchExportProgram, "aten.relu.default", "aten.clamp.default"),
             R"({"name":"self","arg":{"as_tensor":{"name":"a"}}})",
             R"({"name":"self","arg":{"as_tensor":{"name":"a"}}},{"name":"min","arg":{"as_float":-Infinity}})");
  EXPECT_EQ(FindOp(ImportProgram(text), "y").attrs, R"({"args":["%0",{"float":"-inf"}]})");
}

TEST(TorchExportTest, WrongInputsAreRefused) {
  const auto refusal = [](const std::vector<std::string>& inputs) {
    return Refusal([&] { ImportProgram(kTorchExportProgram, {.inputs = inputs}); });
  };
  EXPECT_EQ(refusal({"x=8x3"}), "accepted");
  EXPECT_EQ(refusal({"x=8"}), "f.pt2: --input x: has 1 dimensions (this input has 2)");
  EXPECT_EQ(refusal({"x=8x4"}), "f.pt2: --input x: dimension 1 is 4 (it is always 3 in this program)");
  EXPECT_EQ(refusal({"w=3"}), "f.pt2: --input w: is not an input of this program (x)");
  EXPECT_EQ(refusal({"x=1x3"}), "f.pt2: --input: makes s0 = 1 (the program was exported for 2 to 64)");
  EXPECT_EQ(refusal({"x=8x3", "x=8x3"}), "f.pt2: --input: sets \"x\" twice");
  for (const char* const text : {"x", "=8x3", "x=8x", "x=axb"}) {
    EXPECT_EQ(refusal({text}), "f.pt2: --input: \"" + std::string(text) +
                                   "\" is not NAME=DIMS, such as x=1x3x224x224 (sizes up to 2^31)");
  }
}

TEST(TorchExportTest, WhatIsNoProgramIsRefused) {
  const auto refusal = [](const std::vector<std::pair<std::string, std::string>>& entries) {
    return Refusal([&] { ImportText(TorchExport(), ZipOf(entries), "f.pt2"); });
  };
  EXPECT_EQ(refusal({{"version", "8.2"}}),
            "f.pt2: holds no serialized_exported_program.json and no models/NAME.json (a file of torch.export.save)");
  EXPECT_EQ(refusal({{"m/archive_format", "pt2"}, {"m/data/aotinductor/model/model.so", ""}}),
            "f.pt2: is a package of AOTInductor, compiled code without a graph (a file of torch.export.save)");
  EXPECT_THAT(refusal({{"net/data.pkl", ""}}), HasSubstr("is a file of torch.save or torch.jit.save"));
  EXPECT_THAT(refusal({{"serialized_exported_program.json", "{"}}),
              HasSubstr("f.pt2: serialized_exported_program.json: line 1, column 2"));
  EXPECT_EQ(refusal({{"serialized_exported_program.json", "{}"}}),
            "f.pt2: serialized_exported_program.json: schema_version: is missing (the schema's version)");
  const std::string whole = Pt2Of(kTorchExportProgram);
  EXPECT_THAT(Refusal([&] { ImportText(TorchExport(), whole.substr(0, whole.size() - 30), "f.pt2"); }),
              ::testing::StartsWith("f.pt2: cannot be read as a zip file ("));  // the reason is libzip's
}

TEST(TorchExportTest, ProgramsThatMakeNoSenseAreRefused) {
  const auto refusal = [](std::string_view from, std::string_view to, const ImportOptions& options = {}) {
    const std::string error = Refusal([&] { ImportProgram(Edited(kTorchExportProgram, from, to), options); });
    const std::string place = "f.pt2: serialized_exported_program.json: ";
    return error.starts_with(place) ? error.substr(place.size()) : error;
  };
  EXPECT_EQ(refusal(R"("major":8)", R"("major":9)"),
            "schema_version.major: is 9, by PyTorch 2.6.0 (schemas 5 to 8 of torch.export are read)");
  EXPECT_EQ(refusal(R"("minor":2)", R"("minor":99)"), "accepted");
  EXPECT_EQ(refusal(R"("dtype":7,"sizes":[{"as_int":3}])", R"("dtype":77,"sizes":[{"as_int":3}])"),
            "graph_module.graph.tensor_values.w.dtype: is the number 77 (the number of a scalar type, 1 to 13 or 28 to "
            "32)");
  EXPECT_EQ(refusal(R"("hint":{"as_int":5})", R"("hint":null)"),
            "graph_module.graph.tensor_values.x.sizes[0]: size s0 depends on data, or nothing says what s0 is");
  EXPECT_EQ(refusal(R"({"expr_str":"s0"})", R"({"expr_str":"s0 -"})"),
            "graph_module.graph.tensor_values.a.sizes[0]: size \"s0 -\" is not a size (numbers, symbols, + - * / // % "
            "**)");
  EXPECT_EQ(refusal(R"({"expr_str":"s0"})", R"({"expr_str":"s0 - 9"})"),
            "graph_module.graph.tensor_values.a.sizes[0]: is -4 (0 or more)");
  EXPECT_EQ(
      refusal(R"("self","arg":{"as_tensor":{"name":"x"}})", R"("self","arg":{"as_tensor":{"name":"y"}})"),
      "graph_module.graph.nodes[0]: reads \"y\", which only nodes[1] writes (each node before those that read its "
      "results, so that there is no cycle)");
  EXPECT_EQ(refusal(R"("self","arg":{"as_tensor":{"name":"x"}})", R"("self","arg":{"as_tensor":{"name":"z"}})"),
            "graph_module.graph.nodes[0]: reads \"z\", which nothing writes");
  EXPECT_EQ(refusal(R"("outputs":[{"as_tensor":{"name":"a"}}])", R"("outputs":[{"as_tensor":{"name":"x"}}])"),
            "graph_module.graph.nodes[0]: writes \"x\", which is there already");
  EXPECT_EQ(
      refusal(R"("other","arg":{"as_tensor":{"name":"w"}})", R"("other","arg":{"as_graph":{"name":"g","graph":{}}})"),
      "graph_module.graph.nodes[0]: calls \"torch.ops.aten.add.Tensor\", which runs a graph inside of the graph "
      "(conditions and loops are not read)");
  EXPECT_EQ(refusal("aten.relu.default", "aten.cumsum.default", {.training = "sgd"}), "accepted");
  EXPECT_EQ(refusal(R"("requires_grad":true)", R"("requires_grad":false)", {.training = "sgd"}),
            "no output depends on a parameter that requires a gradient (--training)");
  EXPECT_EQ(refusal("8", "8", {.training = "lion"}), "f.pt2: --optimizer: is \"lion\" (sgd, momentum, rmsprop, adam)");
}

TEST(ExportKindTest, DefaultOverloadsHaveNoName) {
  EXPECT_EQ(datasets::ExportKind("torch.ops.aten.silu.default", true), "aten::silu");
  EXPECT_EQ(datasets::ExportKind("torch.ops.aten.add.Tensor", true), "aten::add.Tensor");
  EXPECT_EQ(datasets::ExportKind("torch.ops.aten.add.Tensor", false), "aten::add");
  EXPECT_EQ(datasets::ExportKind("_operator.mul", true), "_operator.mul");
}

TEST(IsContiguousTest, SizesOfOneHaveAnyStride) {
  EXPECT_TRUE(datasets::IsContiguous({.dtype = DType::kF32, .shape = {2, 1, 3}, .strides = {3, 99, 1}}));
  EXPECT_FALSE(datasets::IsContiguous({.dtype = DType::kF32, .shape = {2, 3}, .strides = {1, 2}}));
  EXPECT_TRUE(datasets::IsContiguous({.dtype = DType::kF32, .shape = {2, 0}, .strides = {7, 7}}));
}

}  // namespace
}  // namespace emplace::testing
