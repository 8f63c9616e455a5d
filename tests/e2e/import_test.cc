// emplace import and generate.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"
#include "tests/testing/trace_text.h"

namespace emplace::testing {
namespace {

class ImportTest : public EmplaceTest {};

// Two layers: 1 ms and 2 ms forward, 3 and 4 ms backward.
constexpr const char* kPipeDream =
    "node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, "
    "parameter_size=0.000\n"
    "node2 -- Linear -- forward_compute_time=1.000, backward_compute_time=3.000, activation_size=4000.0, "
    "parameter_size=800.000\n"
    "node3 -- Linear -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=40.0, "
    "parameter_size=80.000\n"
    "\tnode1 -- node2\n"
    "\tnode2 -- node3\n";

// What PyTorch 2.6 wrote (tests/testing/make_pt2.py).
std::string TorchExportFile(const std::string& name) {
  return std::string(EMPLACE_TEST_SOURCE_DIR) + "/datasets/importers/data/" + name + ".pt2";
}

TEST_F(ImportTest, ATorchExportProgramIsPlacedByRooflineTimesLengthy) {
  const Ran ran = Emplace("import " + TorchExportFile("resnet50") +
                          " --input x=32x3x224x224 --training --optimizer momentum -o r.json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.err, ::testing::HasSubstr("161 parameters with 25557032 numbers (102228128 bytes)"));
  const std::string costs = " --graph r.json --cluster dgx-h100 --gpus 2 --costs roofline";
  const Ran placed = Emplace("place" + costs + " --agent single_device -o best.json --json");
  ASSERT_EQ(placed.status, 0) << placed.err;
  const Ran simulated = Emplace("simulate" + costs + " --placement best.json --json");
  ASSERT_EQ(simulated.status, 0) << simulated.err;
  EXPECT_EQ(nlohmann::json::parse(simulated.out).at("step_time_us"),
            nlohmann::json::parse(placed.out).at("step_time_us"));
  // Three times 4.09 billion multiply-adds an image, at no more than 67 TFLOP/s.
  EXPECT_GT(nlohmann::json::parse(simulated.out).at("step_time_us"), 32 * 3 * 2 * 4.05e9 / 67e12 * 1e6);
}

TEST_F(ImportTest, ATopologyOfNcclsBecomesAClusterOnWhichLinksAreSharedLengthy) {
  Write("topo.xml", R"(<system version="1"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="80"/></pci>
      <pci busid="0000:03:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="1" sm="80"/></pci>
      <pci busid="0000:04:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="200000"/></nic></pci></pci></cpu></system>)");
  const Ran ran = Emplace("import topo.xml --nodes 2 -o c.yaml");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.err, ::testing::HasSubstr("topo.xml: 6 devices, 7 switches, 24 links read as nccl\n"));
  ASSERT_EQ(Emplace("generate rnnlm --set steps=4 -o g.json").status, 0);
  const std::string on = " --graph g.json --cluster c.yaml --costs roofline --devices gpu:0,gpu:1,gpu:2,gpu:3";
  ASSERT_EQ(Emplace("place" + on + " --agent round_robin -o p.json").status, 0);
  const auto step = [&](const std::string& engine) {
    const Ran simulated = Emplace("simulate" + on + " --placement p.json --json --engine " + engine);
    EXPECT_EQ(simulated.status, 0) << simulated.err;
    return nlohmann::json::parse(simulated.out).at("step_time_us").get<double>();
  };
  EXPECT_GT(step("flow"), step("fifo"));
  ExpectRefused(Emplace("import topo.xml --cluster-out d.yaml -o e.yaml"),
                "--cluster-out: cannot be used (format nccl is a cluster alone: -o)");
  EXPECT_EQ(Emplace("import none.xml -o e.yaml").status, 2);
  Write("g.txt", kPipeDream);
  ExpectRefused(Emplace("import g.txt --nodes 2 -o e.json"),
                "--nodes: is for the topology of a node (format nccl, not pipedream)");
  EXPECT_EQ(Shell("ls d.yaml e.yaml e.json 2>/dev/null").out, "");
}

TEST_F(ImportTest, TorchExportOptionsAreChecked) {
  const std::string file = TorchExportFile("resnet50");
  EXPECT_EQ(Emplace("import " + file + " --input x=3 -o r.json").status, 2);
  EXPECT_EQ(Emplace("import " + file + " --training --optimizer lion -o r.json").status, 2);
  ExpectRefused(Emplace("import " + file + " --optimizer sgd -o r.json"),
                "--optimizer: needs --training (a training step to be made)");
  const Ran ran = Emplace("import " + file + " --input x=8x3x224x224 --input y=1 -o r.json");
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.err, file + ": --input y: is no input of this program (x)\n");
  EXPECT_EQ(Shell("ls r.json 2>/dev/null").out, "");
}

TEST_F(ImportTest, APipeDreamProfileBecomesAGraphThatCanBePlaced) {
  Write("graph.txt", kPipeDream);
  const Ran ran = Emplace("import graph.txt -o i.json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(Emplace("import graph.txt --from pipedream -o - 2>/dev/null").out, Read("i.json"));
  EXPECT_EQ(Shell("cat graph.txt | $emplace import - -o - 2>/dev/null").out, Read("i.json"));
  // On one GPU of that kind the step takes the sum of all times: 1 + 3 + 2 + 4 ms.
  ASSERT_EQ(Shell("sed -i 's/kind: k80/kind: pipedream-gpu/' c.yaml").status, 0);
  const Ran placed = Emplace("place --graph i.json --cluster c.yaml --agent single_device -o best.json --json");
  ASSERT_EQ(placed.status, 0) << placed.err;
  EXPECT_EQ(nlohmann::json::parse(placed.out).at("step_time_us"), 10'000);
}

TEST_F(ImportTest, ATraceBecomesAStepThatSimulatesToWhatWasMeasuredLengthy) {
  TraceText trace;
  trace.Op("aten::mm", 0, 20).Call("cudaLaunchKernel", 2, 8, 1).Kernel("gemm", 13, 40, 1);
  Write("t.json", trace.Call("cudaDeviceSynchronize", 30, 28, 2).str());
  const Ran ran = Emplace("import t.json -o t.g.json --cluster-out t.c.yaml --placement-out t.p.json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.err,
              ::testing::HasSubstr("t.json: attributed: 100.0 % of the step's 0.040 ms of device time to a call"));
  const Ran simulated = Emplace("simulate --graph t.g.json --cluster t.c.yaml --placement t.p.json --json");
  ASSERT_EQ(simulated.status, 0) << simulated.err;
  EXPECT_EQ(nlohmann::json::parse(simulated.out).at("step_time_us"), 58);
  EXPECT_EQ(nlohmann::json::parse(Read("t.g.json")).at("metadata").at("measured").at("step_time_us"), 58);

  const Ran replayed = Emplace("replay t.json --json");
  ASSERT_EQ(replayed.status, 0) << replayed.err;
  EXPECT_EQ(nlohmann::json::parse(replayed.out).at("step_time_us"), 58);
  EXPECT_THAT(Emplace("replay t.json").out, ::testing::HasSubstr("step time      58 us     58 us  +0.00 %"));
  Write("other.json", Read("t.json"));
  EXPECT_EQ(Emplace("replay t.json other.json").status, 0);  // two ranks
  ExpectRefused(Emplace("replay t.json t.json"), "t.json: is given twice (each file once)");
  ExpectRefused(Emplace("replay t.json --roofline"),
                "t.json: has no operator with a measured time that roofline knows (a trace with shapes: "
                "record_shapes=True)");
}

TEST_F(ImportTest, WhatAReplayDoesNotExplainIsSaidAndGoesWithTheGraph) {
  // The GPU is idle for 900 us, and the trace does not say why.
  TraceText trace;
  trace.Op("aten::mm", 0, 20).Call("cudaLaunchKernel", 2, 8, 1).Kernel("gemm", 913, 40, 1);
  Write("t.json", trace.Call("cudaDeviceSynchronize", 30, 928, 2).str());
  const Ran ran = Emplace("replay t.json");
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.out, ::testing::StartsWith("warning: the simulated step takes "));
  EXPECT_THAT(ran.out, ::testing::HasSubstr(" of GPU idle time that nothing in the trace accounts for"));
  EXPECT_THAT(ran.out, ::testing::HasSubstr("The critical path"));
  EXPECT_EQ(Emplace("replay t.json --max-error 99").status, 0);
  const Ran json = Emplace("replay t.json --json");
  EXPECT_EQ(json.status, 1);
  const double percent = nlohmann::json::parse(json.out).at("unexplained_percent");
  EXPECT_GT(percent, 90);

  const Ran imported = Emplace("import t.json -o t.g.json --cluster-out t.c.yaml --placement-out t.p.json");
  EXPECT_EQ(imported.status, 0);
  EXPECT_THAT(imported.err, ::testing::HasSubstr("t.json: warning: simulated: "));
  EXPECT_EQ(nlohmann::json::parse(Read("t.g.json")).at("metadata").at("measured").at("unexplained_percent"), percent);
  const Ran simulated = Emplace("simulate --graph t.g.json --cluster t.c.yaml --placement t.p.json");
  EXPECT_THAT(simulated.err, ::testing::StartsWith("t.g.json: of the trace that it was imported from, warning: "));
  // The graph is for its own threads and streams: no other costs help.
  for (const std::string costs : {"measured", "roofline"}) {
    const Ran placed = Emplace("place --graph t.g.json --cluster dgx-h100 --costs " + costs + " -o x.json");
    EXPECT_EQ(placed.status, 2);
    EXPECT_THAT(placed.err, ::testing::HasSubstr("run the graph of this Kineto trace on its own threads and streams"));
  }
}

TEST_F(ImportTest, AStepOfATraceIsChosen) {
  const std::string trace = std::string(EMPLACE_TEST_SOURCE_DIR) + "/cases/k14_three_steps.json";
  const auto steps = [&](const std::string& options) {
    return nlohmann::json::parse(Emplace("replay " + trace + " --json " + options).out);
  };
  EXPECT_EQ(steps("").at("steps"), 3);
  EXPECT_EQ(steps("").at("step"), "11");
  EXPECT_EQ(steps("--step 12").at("step"), "12");
  EXPECT_EQ(steps("--step mean").at("step_time_us"), 990);
  EXPECT_GT(steps("--step all").at("step_time_us"), 2500);
  EXPECT_EQ(Emplace("import " + trace + " --step 10 -o t.json").status, 0);
  for (const char* const step : {"1.5", "some", "99"}) {
    EXPECT_EQ(Emplace("replay " + trace + " --step " + step).status, 2) << step;
  }
  EXPECT_EQ(Emplace("import " + trace + " --step mean -o t.json").status, 2);
}

TEST_F(ImportTest, WhatCannotBeReplayedIsRefused) {
  Write("graph.txt", kPipeDream);
  Write("cut.json", R"({"traceEvents": [{"ph": "X")");
  Write("cpu.json", TraceText().Op("a", 0, 1).str());
  for (const char* const arguments : {"replay graph.txt", "replay none.json", "replay cut.json", "replay cpu.json",
                                      "replay", "replay cpu.json --min-attributed 101", "replay cpu.json --from x"}) {
    const Ran ran = Emplace(arguments);
    EXPECT_EQ(ran.status, 2) << arguments;
    EXPECT_EQ(ran.out, "") << arguments;
    EXPECT_TRUE(IsOneLine(ran.err)) << arguments << ran.err;
  }
}

TEST_F(ImportTest, AnotherFormatThanNamedIsRefusedLengthy) {
  Write("graph.txt", kPipeDream);
  for (const char* const arguments :
       {"import graph.txt --from dnn-partitioning -o x.json", "import graph.txt --from onnx -o x.json",
        "import none.txt -o x.json", "import graph.txt --cluster-out c2.yaml -o x.json",
        "import graph.txt --placement-out p2.json -o x.json", "import graph.txt --expert e.json -o x.json",
        "import graph.txt -o graph.txt", "import graph.txt -o x.json --cluster-out x.json"}) {
    const Ran ran = Emplace(arguments);
    EXPECT_EQ(ran.status, 2) << arguments;
    EXPECT_TRUE(IsOneLine(ran.err)) << arguments;
    EXPECT_EQ(Names(), "c.yaml g.json graph.txt p.json ") << arguments;
  }
}

TEST_F(ImportTest, ContentThatIsNoKnownFormatIsRefused) {
  Write("noise.txt", "hello\n");
  Write("empty.txt", "");
  for (const std::string file : {"noise.txt", "empty.txt"}) {
    const Ran ran = Emplace("import " + file + " -o x.json");
    EXPECT_EQ(ran.status, 2);
    EXPECT_TRUE(IsOneLine(ran.err));
    EXPECT_NE(ran.err.find(file), std::string::npos) << ran.err;
    EXPECT_FALSE(Exists("x.json"));
  }
}

TEST_F(ImportTest, AGraphOfOursIsReadAndWrittenAgain) {
  ASSERT_EQ(Emplace("import g.json -o i.json").status, 0);
  ASSERT_EQ(Emplace("import i.json -o j.json.gz").status, 0);
  EXPECT_EQ(Shell("gzip -dc j.json.gz | cmp - i.json").status, 0);
}

TEST_F(ImportTest, GenerateWritesTheSameBytesEachTimeLengthy) {
  for (const std::string model : {"inception_v3", "nmt"}) {
    const Ran ran = Emplace("generate " + model + " -o 1.json");
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out, "");
    ASSERT_EQ(Emplace("generate " + model + " -o 2.json.gz").status, 0);
    ASSERT_EQ(Emplace("generate " + model + " -o 3.json.gz").status, 0);
    EXPECT_EQ(Shell("gzip -dc 2.json.gz | cmp - 1.json && cmp 2.json.gz 3.json.gz").status, 0) << model;
  }
}

TEST_F(ImportTest, GenerateTakesSettingsAndRefusesBadOnesLengthy) {
  const auto ops = [this](const std::string& settings) {
    return nlohmann::json::parse(Emplace("generate nmt " + settings + " -o -").out).at("ops").size();
  };
  EXPECT_LT(ops("--set layers=1"), ops("--set layers=2"));
  for (const char* const arguments :
       {"generate vgg -o x.json", "generate nmt --set layers=0 -o x.json", "generate nmt --set layers=two -o x.json",
        "generate nmt --set color=red -o x.json", "generate nmt --set layers -o x.json"}) {
    const Ran ran = Emplace(arguments);
    EXPECT_EQ(ran.status, 2) << arguments;
    EXPECT_TRUE(IsOneLine(ran.err)) << arguments;
    EXPECT_FALSE(Exists("x.json")) << arguments;
  }
}

}  // namespace
}  // namespace emplace::testing
