#include "datasets/importers/pytorch_et.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "datasets/importers/importers.h"
#include "sim/base/file_io.h"
#include "sim/ops/aten_work.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/reference.h"
#include "tests/testing/trace_text.h"

namespace emplace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

datasets::EtTrace ReadEt(const std::string& text) {
  std::istringstream in(text);
  return datasets::ReadEtTrace(in);
}

datasets::KinetoTrace ReadTimes(const TraceText& text) {
  std::istringstream in(text.str());
  return datasets::ReadKinetoTrace(in);
}

// A node of schema 1.1.0 or later, without tensors unless `inputs` and `outputs` say so.
std::string EtCall(int id, int parent, const std::string& name, const std::string& schema,
                   const std::string& inputs = "", const std::string& outputs = "", const std::string& more = "") {
  const std::string none = R"("values": [], "shapes": [], "types": [])";
  return fmt::format(R"({{"id": {}, "name": "{}", "ctrl_deps": {}, "inputs": {{{}}}, "outputs": {{{}}}, "attrs": [)"
                     R"({{"name": "rf_id", "value": {}}}, {{"name": "op_schema", "value": "{}"}}{}]}})",
                     id, name, parent, inputs.empty() ? none : inputs, outputs.empty() ? none : outputs, id, schema,
                     more);
}

// One tensor of four floats.
std::string FourFloats(int storage) {
  return fmt::format(R"et("values": [[1, {}, 0, 4, 4, "cuda:0"]], "shapes": [[4]], "types": ["Tensor(float)"])et",
                     storage);
}

std::string EtText(const std::vector<std::string>& nodes) {
  std::string text = R"({"schema": "1.1.0-chakra.0.0.4", "nodes": [)";
  for (std::size_t i = 0; i < nodes.size(); ++i) text += (i == 0 ? "" : ", ") + nodes[i];
  return text + "]}";
}

std::vector<std::string> OpsIn(const std::string& text) {
  const datasets::EtTrace trace = ReadEt(text);
  const std::vector<bool> is_op = datasets::OpsOfTree(trace);
  std::vector<std::string> ops;
  for (std::size_t i = 0; i < is_op.size(); ++i) {
    if (is_op[i]) ops.emplace_back(trace.name(i));
  }
  return ops;
}

TEST(MutatedArgumentsTest, AreThoseWithAnExclamationMark) {
  EXPECT_THAT(
      datasets::MutatedArguments("aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"),
      ElementsAre(0));
  EXPECT_THAT(datasets::MutatedArguments("aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"),
              ElementsAre(2));
  EXPECT_THAT(datasets::MutatedArguments("aten::_foreach_add_(Tensor(a!)[] self, Tensor[] other) -> ()"),
              ElementsAre(0));
  EXPECT_THAT(datasets::MutatedArguments("aten::t(Tensor(a) self) -> Tensor(a)"), IsEmpty());
  EXPECT_THAT(datasets::MutatedArguments(""), IsEmpty());
}

TEST(ReadEtTraceTest, OldAndNewSchemasGiveTheSameNodes) {
  const datasets::EtTrace old_schema = ReadEt(kEtSample);
  EXPECT_EQ(old_schema.schema, "1.0.1");
  ASSERT_EQ(old_schema.nodes.size(), 5U);
  const datasets::EtNode& update = old_schema.nodes[4];
  EXPECT_EQ(old_schema.name(4), "aten::sub_");
  EXPECT_EQ(update.rf_id, 4);
  const auto inputs = old_schema.inputs(update);
  ASSERT_EQ(inputs.size(), 2U);
  EXPECT_EQ(inputs[0].storage, 40);
  EXPECT_EQ(inputs[0].bytes, 48);
  EXPECT_EQ(inputs[0].dtype, DType::kF32);
  EXPECT_THAT(old_schema.shapes[inputs[0].shape], ElementsAre(4, 3));
  EXPECT_TRUE(inputs[0].is_mutated);
  EXPECT_FALSE(inputs[1].is_mutated);

  const datasets::EtTrace new_schema =
      ReadEt(EtText({EtCall(7, 2, "aten::relu", "aten::relu(Tensor self) -> Tensor", FourFloats(5), FourFloats(6))}));
  ASSERT_EQ(new_schema.nodes.size(), 1U);
  EXPECT_EQ(new_schema.nodes[0].parent, 2);
  EXPECT_EQ(new_schema.nodes[0].rf_id, 7);
  ASSERT_EQ(new_schema.inputs(new_schema.nodes[0]).size(), 1U);
  EXPECT_EQ(new_schema.inputs(new_schema.nodes[0])[0].storage, 5);
  ASSERT_EQ(new_schema.outputs(new_schema.nodes[0]).size(), 1U);
  EXPECT_EQ(new_schema.outputs(new_schema.nodes[0])[0].storage, 6);
}

TEST(ReadEtTraceTest, ListsOfTensorsAreTensors) {
  const datasets::EtTrace trace = ReadEt(EtText(
      {EtCall(7, 2, "aten::cat", "aten::cat(Tensor[] tensors, int dim=0) -> Tensor",
              R"et("values": [[[1, 5, 0, 4, 2, "cpu"], [2, 6, 0, 4, 8, "cpu"]], 0], "shapes": [[[4], [2, 2]], []],)et"
              R"et( "types": ["GenericList[Tensor(c10::Half),Tensor(long int)]", "Int"])et")}));
  const auto inputs = trace.inputs(trace.nodes[0]);
  ASSERT_EQ(inputs.size(), 2U);
  EXPECT_EQ(inputs[0].dtype, DType::kF16);
  EXPECT_EQ(inputs[1].dtype, DType::kI64);
  EXPECT_THAT(trace.shapes[inputs[1].shape], ElementsAre(2, 2));
}

TEST(ReadEtTraceTest, FaultsNameTheirPlace) {
  EXPECT_EQ(Refusal([] { ReadEt("{}"); }), "schema: is missing (such as \"1.0.1\" or \"1.1.0-chakra.0.0.4\")");
  EXPECT_EQ(Refusal([] { ReadEt(R"({"schema": "1.0.1"})"); }), "nodes: is missing (a list of nodes)");
  EXPECT_EQ(Refusal([] { ReadEt(R"({"schema": "1.0.1", "nodes": [{"id": 1}]})"); }),
            "nodes[0].name: is missing (a string)");
  EXPECT_EQ(Refusal([] { ReadEt(R"({"schema": "1.0.1", "nodes": [{"name": "a"}]})"); }),
            "nodes[0].id: is missing (an integer)");
  EXPECT_EQ(Refusal([] {
              ReadEt(EtText({EtCall(7, 2, "a", ""), EtCall(7, 2, "b", "")}));
            }),
            "nodes: the id 7 is that of two nodes (each id once)");
  EXPECT_THAT(Refusal([] { ReadEt(Edited(kEtSample, "[3, 30, 0, 6, 4, \"cuda:0\"]", "[3, 30]")); }),
              HasSubstr("nodes[1].inputs[0]"));
}

TEST(OpsOfTreeTest, CompositesAreReplacedByTheirParts) {
  EXPECT_THAT(OpsIn(kEtSample), ElementsAre("aten::mm", "aten::sub_"));
}

TEST(OpsOfTreeTest, OpsThatOnlyAllocateOrConvertOnTheWayAreTakenWhole) {
  const std::string schema = "aten::x(Tensor self) -> Tensor";
  EXPECT_THAT(OpsIn(EtText({EtCall(3, 1, "aten::sum", schema), EtCall(4, 3, "aten::to", schema),
                            EtCall(5, 4, "aten::_to_copy", schema), EtCall(6, 5, "aten::copy_", schema),
                            EtCall(7, 3, "aten::as_strided", schema)})),
              ElementsAre("aten::sum"));
  // But a conversion is nothing else.
  EXPECT_THAT(OpsIn(EtText({EtCall(4, 1, "aten::to", schema), EtCall(5, 4, "aten::_to_copy", schema),
                            EtCall(6, 5, "aten::copy_", schema)})),
              ElementsAre("aten::copy_"));
  EXPECT_THAT(OpsIn(EtText({EtCall(4, 1, "aten::convolution_backward", schema), EtCall(5, 4, "aten::sum", schema)})),
              ElementsAre("aten::convolution_backward"));
  EXPECT_THAT(OpsIn(EtText({EtCall(4, 1, "annotation", ""), EtCall(5, 4, "aten::view", schema)})), IsEmpty());
}

TEST(ImportEtTest, DataFollowsStoragesThroughViewsAndWritesInPlace) {
  const datasets::Imported imported = ImportText(datasets::FindImporter("pytorch-et", "", ""), kEtSample, "e.json");
  const Graph& graph = imported.graph;
  std::vector<std::string> ops;
  for (const OpId id : graph.file_order()) ops.emplace_back(graph.op(id).name);
  // Storage 40 is written in place later: a variable. `mm` reads it through a view.
  EXPECT_THAT(ops, ElementsAre("0000000 input 30", "0000001 variable 40", "0000002 aten.mm", "0000003 aten.sub_"));
  EXPECT_THAT(Inputs(graph, "0000002 aten.mm"), ElementsAre("0000000 input 30:0=24", "0000001 variable 40:0=48"));
  EXPECT_THAT(Inputs(graph, "0000003 aten.sub_"), ElementsAre("0000001 variable 40:0=48", "0000002 aten.mm:0=32"));
  EXPECT_EQ(FindOp(graph, "0000002 aten.mm").kind, "aten::mm");
  const Tensor& product = graph.tensor(graph.first_output(graph.FindOp("0000002 aten.mm").value()));
  EXPECT_EQ(product.dtype, DType::kF32);
  EXPECT_EQ(std::vector<std::int64_t>(product.shape.begin(), product.shape.end()), (std::vector<std::int64_t>{2, 4}));
  EXPECT_THAT(imported.notes, ElementsAre("schema 1.0.1: 2 of 5 nodes are ops; 2 tensors were there before"));
}

// Cost models need the shapes of the call: here `mm` reads its second factor through a view, as [3,4] of [4,3].
TEST(ImportEtTest, OpsKeepWhatTheirCallsWereGiven) {
  const datasets::Imported imported = ImportText(datasets::FindImporter("pytorch-et", "", ""), kEtSample, "e.json");
  const Graph& graph = imported.graph;
  const AtenCall product = ReadAtenCall(graph, *graph.FindOp("0000002 aten.mm"));
  ASSERT_EQ(product.arguments.size(), 2U);
  EXPECT_THAT(product.tensor(0)->shape, ElementsAre(2, 3));
  EXPECT_THAT(product.tensor(1)->shape, ElementsAre(3, 4));
  ASSERT_EQ(product.outputs.size(), 1U);
  EXPECT_THAT(product.outputs[0].shape, ElementsAre(2, 4));
  EXPECT_FALSE(product.is_view);
  const auto work = FindAtenWork(graph, *graph.FindOp("0000002 aten.mm"));
  ASSERT_TRUE(work);
  EXPECT_EQ(work->work.flop, 48);
}

TEST(ImportEtTest, WhatReturnsItsArgumentIsAViewAndCopiesFromTheHostAreMarked) {
  const std::string on_host =
      R"et("values": [[1, 7, 0, 4, 4, "cuda:0"], [2, 8, 0, 4, 4, "cpu"], true], "shapes": [[4], [4], []],)et"
      R"et( "types": ["Tensor(float)", "Tensor(float)", "Bool"])et";
  const datasets::Imported imported = datasets::MakeEtGraph(
      ReadEt(
          EtText({EtCall(3, 1, "aten::flatten", "aten::flatten(Tensor self) -> Tensor", FourFloats(4), FourFloats(4)),
                  EtCall(4, 1, "aten::copy_", "aten::copy_(Tensor(a!) self, Tensor src, bool b) -> Tensor(a!)", on_host,
                         FourFloats(7))})),
      nullptr, 95);
  for (std::size_t i = 0; i < imported.graph.num_ops(); ++i) {
    const AtenCall call = ReadAtenCall(imported.graph, MakeId<OpId>(i));
    EXPECT_EQ(call.is_view, call.name == "aten::flatten") << call.name;
    EXPECT_EQ(call.crosses_devices, call.name == "aten::copy") << call.name;
    if (call.name != "aten::copy") continue;
    EXPECT_EQ(call.flag(2), true);
  }
}

TEST(ImportEtTest, ACompiledKernelWritesWhatNobodyHasWritten) {
  const std::string kernel =
      R"et("values": [[1, 5, 0, 4, 4, "cuda:0"], [2, 9, 0, 4, 4, "cuda:0"], 16], "shapes": [[4], [4], []],)et"
      R"et( "types": ["Tensor(float)", "Tensor(float)", "Int"])et";
  const datasets::Imported imported = datasets::MakeEtGraph(
      ReadEt(EtText(
          {EtCall(3, 1, "aten::relu", "aten::relu(Tensor self) -> Tensor", FourFloats(4), FourFloats(5)),
           EtCall(4, 1, "triton_poi_fused_0", "", kernel, "", R"(, {"name": "kernel_backend", "value": "triton"})"),
           EtCall(5, 1, "aten::cos", "aten::cos(Tensor self) -> Tensor", FourFloats(9), FourFloats(10))})),
      nullptr, 95);
  EXPECT_THAT(Inputs(imported.graph, "0000002 triton_poi_fused_0"), ElementsAre("0000001 aten.relu:0=16"));
  EXPECT_THAT(Inputs(imported.graph, "0000003 aten.cos"), ElementsAre("0000002 triton_poi_fused_0:0=16"));
}

TEST(ImportEtTest, CallsAroundAnOpTellItsPass) {
  const std::string schema = "aten::relu(Tensor self) -> Tensor";
  const datasets::Imported imported = datasets::MakeEtGraph(
      ReadEt(EtText({EtCall(3, 1, "aten::relu", schema, FourFloats(4), FourFloats(5)),
                     EtCall(4, 1, "autograd::engine::evaluate_function: ReluBackward0", ""),
                     EtCall(5, 4, "aten::threshold_backward", schema, FourFloats(5), FourFloats(6)),
                     EtCall(6, 1, "Optimizer.step#SGD.step", ""),
                     EtCall(7, 6, "aten::add_", schema, FourFloats(6), FourFloats(7))})),
      nullptr, 95);
  EXPECT_EQ(FindOp(imported.graph, "0000001 aten.relu").pass, Pass::kForward);
  EXPECT_EQ(FindOp(imported.graph, "0000002 aten.threshold_backward").pass, Pass::kBackward);
  EXPECT_EQ(FindOp(imported.graph, "0000003 aten.add_").pass, Pass::kUpdate);
}

// The Kineto trace of the sample's step, `steps` times; with Record function ids if `ids`.
TraceText TimesOfSample(int steps, bool ids) {
  TraceText text;
  for (int s = 0; s < steps; ++s) {
    const int at = 1000 * s;
    const auto id = [&](int record) { return ids ? fmt::format("\"Record function id\": {}", record) : std::string(); };
    text.Op("aten::linear", at, 100, 1, id(1)).Op("aten::t", at + 1, 5, 1, id(2));
    text.Op("aten::mm", at + 10, 50, 1, id(3)).Op("aten::sub_", at + 200, 50, 1, id(4));
    text.Call("cudaLaunchKernel", at + 20, 5, 10 * s + 1).Kernel("gemm", at + 30, 40 + 2 * s, 10 * s + 1);
    text.Call("cudaLaunchKernel", at + 210, 5, 10 * s + 2).Kernel("sub", at + 230, 7, 10 * s + 2);
  }
  return text;
}

TEST(JoinTimesTest, ByRecordFunctionId) {
  const datasets::EtTimes times = datasets::JoinTimes(ReadEt(kEtSample), ReadTimes(TimesOfSample(1, true)));
  EXPECT_EQ(times.joined, 4U);
  EXPECT_THAT(times.micros, ElementsAre(-1, 0, 0, 40, 7));
  EXPECT_EQ(times.total_micros, 47);
  EXPECT_EQ(times.device_kind, "h100");
}

TEST(JoinTimesTest, ByOrderOverSeveralSteps) {
  const datasets::EtTimes times = datasets::JoinTimes(ReadEt(kEtSample), ReadTimes(TimesOfSample(2, false)));
  EXPECT_THAT(times.micros, ElementsAre(-1, 0, 0, 41, 7));
  EXPECT_EQ(times.total_micros, 48);
}

TEST(ImportEtTest, TimesOfPartsBelongToTheOpAndLittleIsRefused) {
  const datasets::KinetoTrace times = ReadTimes(TimesOfSample(1, true));
  const datasets::Imported imported = datasets::MakeEtGraph(ReadEt(kEtSample), &times, 95);
  EXPECT_EQ(imported.graph.MeasuredMicros(*imported.graph.FindOp("0000002 aten.mm"), "h100"), 40);
  EXPECT_EQ(imported.attributed_percent, 100);
  // A kernel outside of every op of the trace.
  TraceText text = TimesOfSample(1, true);
  text.Op("other", 400, 20).Call("cudaLaunchKernel", 402, 5, 90).Kernel("k", 420, 53, 90);
  const datasets::KinetoTrace more = ReadTimes(text);
  EXPECT_EQ(Refusal([&] { datasets::MakeEtGraph(ReadEt(kEtSample), &more, 95); }),
            "nodes: only 47.0 % of the 0.100 ms of device time belong to an op, 4 of 5 nodes joined (at least 95 %; "
            "--min-attributed lowers that)");
}

TEST(ImportEtTest, TimesComeFromAFile) {
  const std::string file = ::testing::TempDir() + "/et_times.json";
  WriteFile(file, [](std::ostream& out) { out << TimesOfSample(1, false).str(); });
  const datasets::ImportSource source("e.json", kEtSample);
  const datasets::Imported imported = datasets::ImportPyTorchEt({&source, 1}, {.times = file});
  EXPECT_THAT(imported.notes[1], HasSubstr("attributed: 100.0 % of 0.047 ms of device time; 2 of 2 ops have a time"));
  EXPECT_THAT(Refusal([&] {
                datasets::ImportPyTorchEt({&source, 1}, {.times = "none.json"});
              }),
              HasSubstr("none.json"));
}

TEST(ImportEtTest, TracesAreRecognised) {
  EXPECT_TRUE(datasets::LooksLikePyTorchEt(kEtSample));
  EXPECT_FALSE(datasets::LooksLikePyTorchEt(kKinetoSample));
  EXPECT_FALSE(datasets::LooksLikePyTorchEt(kDnnPartitioningSample));
}

TEST(ImportEtTest, PublicTracesAreGraphs) {
  const std::string folder = ReferenceFolder("facebookresearch+param");
  if (folder.empty()) GTEST_SKIP() << "no facebookresearch+param in EMPLACE_REFERENCE_DATA";
  for (const auto& [file, least] : {std::pair("linear_et.json.gz", 100U), std::pair("resnet_et.json.gz", 1000U)}) {
    const datasets::ImportSource source(folder + "/" + file);
    const datasets::ImporterEntry& importer = datasets::FindImporter("", source.head(), file);
    EXPECT_EQ(importer.name, "pytorch-et") << file;
    EXPECT_GT(datasets::Import(importer, {&source, 1}).graph.num_ops(), least) << file;
  }
}

}  // namespace
}  // namespace emplace::testing
