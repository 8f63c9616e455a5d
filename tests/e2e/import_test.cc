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

// A file of PyTorch 2.6 (tests/testing/make_pt2.py).
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

TEST_F(ImportTest, WhatAFrameworkWasToldIsAPlanOrAPlacement) {
  Write("plan.json", R"({"schema": "emplace.plan", "version": 1, "pp": 2, "tp": 2, "dp": 2, "stages": [[0, 1], [2]]})");
  ASSERT_EQ(Emplace("export --plan plan.json --to megatron -o flags.txt").status, 0);
  const Ran read = Emplace("import flags.txt --from megatron --cluster dgx-h100 -o again.json");
  EXPECT_EQ(read.err, "flags.txt: read as a plan of 8 devices\n");
  ASSERT_EQ(Emplace("export --plan again.json --to megatron -o flags2.txt").status, 0);
  EXPECT_EQ(Shell("cmp flags.txt flags2.txt").status, 0);
  ExpectRefused(Emplace("import flags.txt --from megatron -o x.json"),
                "flags.txt: needs the number of devices, which Megatron-LM's flags do not say");
  ExpectRefused(Emplace("import flags.txt --from device-map -o x.json"),
                "--graph: is missing (device-map says where the graph's modules are)");
  ExpectRefused(Emplace("import flags.txt --from megatron --graph flags2.txt -o x.json"),
                "--graph: cannot be used (megatron is a plan, not a placement)");
  ExpectRefused(Emplace("import flags.txt --from vllm --training -o x.json"),
                "--training: cannot be used (format vllm)");
  EXPECT_FALSE(Exists("x.json"));
}

TEST_F(ImportTest, TorchExportOptionsAreChecked) {
  const std::string file = TorchExportFile("resnet50");
  EXPECT_EQ(Emplace("import " + file + " --input x=3 -o r.json").status, 2);
  EXPECT_EQ(Emplace("import " + file + " --training --optimizer lion -o r.json").status, 2);
  ExpectRefused(Emplace("import " + file + " --optimizer sgd -o r.json"),
                "--optimizer: needs --training (a training step to be made)");
  const Ran ran = Emplace("import " + file + " --input x=8x3x224x224 --input y=1 -o r.json");
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.err, file + ": --input y: is not an input of this program (x)\n");
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
  EXPECT_EQ(Emplace("replay cpu.json").status, 0);  // a trace of a CPU alone
  for (const char* const arguments : {"replay graph.txt", "replay none.json", "replay cut.json", "replay",
                                      "replay cpu.json --min-attributed 101", "replay cpu.json --from x"}) {
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

// A small input that shows a fault of old.
std::string Case(const std::string& name) { return std::string(EMPLACE_TEST_SOURCE_DIR) + "/cases/" + name; }

class CasesTest : public EmplaceTest {
 protected:
  // The step of an imported trace, in us; what the import says in err().
  double StepOf(const std::string& files) {
    const Ran import = Emplace("import " + files + " -o i.json --cluster-out i.yaml --placement-out ip.json");
    EXPECT_EQ(import.status, 0) << import.err;
    return Simulated("--graph i.json --cluster i.yaml --placement ip.json");
  }
  double Simulated(const std::string& arguments) {
    const Ran ran = Emplace("simulate --json " + arguments);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return ran.status == 0 ? nlohmann::json::parse(ran.out).at("step_time_us").get<double>() : -1;
  }
};

TEST_F(CasesTest, AByteOrderMarkChangesNothing) {
  EXPECT_EQ(StepOf(Case("k08_bom.json")), 327);
  const std::string pipeline = "--graph " + Case("p4.json") + " --cluster " + Case("p4.yaml") + " --placement " +
                               Case("p4p.json") + " --schedule ";
  EXPECT_EQ(Simulated(pipeline + Case("s_bom.csv")), 900);
  EXPECT_EQ(Simulated(pipeline + Case("s_nobom.csv")), 900);
  // Files of every kind that a command reads as text.
  Write("x.yaml", R"(schema: emplace.experiment
version: 1
name: marked
graphs: {files: [g.json]}
cluster: {file: c.yaml}
agent: {name: random}
)");
  Write("groups.json", R"({"schema": "emplace.grouping", "version": 1, "groups": {"a": 0, "b": 1}})");
  ASSERT_EQ(Emplace("place --graph g.json --cluster c.yaml --agent random --grouping groups.json -o q.json").status, 0);
  ASSERT_EQ(
      Shell("for file in g.json c.yaml p.json x.yaml groups.json; do printf '\\357\\273\\277' | cat - $file >m && "
            "mv m $file; done")
          .status,
      0);
  EXPECT_GT(Simulated("--graph g.json --cluster c.yaml --placement p.json"), 0);
  EXPECT_EQ(Emplace("place --graph g.json --cluster c.yaml --agent random --grouping groups.json -o q2.json").status,
            0);
  EXPECT_EQ(Read("q.json"), Read("q2.json"));
  EXPECT_EQ(Emplace("sweep x.yaml -o r --dry-run").status, 0);
  // UTF-16, as PowerShell writes it.
  for (const char* const name : {"wide.json", "wide.csv"}) Write(name, std::string("\xff\xfe{\0", 4));
  for (const char* const command :
       {"import wide.json -o x.json", "inspect wide.json", "sweep wide.json --dry-run",
        "simulate --graph g.json --cluster wide.json --placement p.json",
        "simulate --graph g.json --cluster c.yaml --placement wide.json",
        "simulate --graph g.json --cluster c.yaml --placement p.json --schedule wide.csv"}) {
    const Ran ran = Emplace(command);
    EXPECT_EQ(ran.status, 2) << command;
    EXPECT_THAT(ran.err,
                ::testing::MatchesRegex(".*wide\\.(json|csv): is text in UTF-16 or UTF-32 \\(text in UTF-8\\)\n"))
        << command;
  }
}

TEST_F(CasesTest, ChakraTracesOfSeveralRanks) {
  EXPECT_EQ(StepOf(Case("c2_id0.0.et")), 150);
  EXPECT_EQ(StepOf(Case("c8_groups.*.et")), 1150);
  Write("groups.json", R"({"tp0": [0, 1, 2, 3], "tp1": [2, 3]})");
  const Ran other = Emplace("import " + Case("c8_groups.*.et") + " --comm-groups groups.json -o i.json");
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_THAT(other.err, ::testing::HasSubstr("the ranks of 1 process groups have different numbers of collectives"));
  ExpectRefused(Emplace("import " + Case("n1_self.xml") + " --comm-groups groups.json -o i.json"),
                "--comm-groups: is for traces of ranks (format chakra, not nccl)");
}

TEST_F(CasesTest, AWorkloadTakesItsTimesFromTheCluster) {
  const Ran none = Emplace("import " + Case("c4_flop.0.et") + " -o i.json --cluster-out i.yaml");
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, ::testing::HasSubstr("nodes without times: --cluster names one whose rates time them"));
  for (int rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(Shell("cp " + Case("c4_flop.0.et") + " step." + std::to_string(rank) + ".et").status, 0);
  }
  const std::string import = "import step.*.et -o i.json --cluster dgx-h100 --placement-out ip.json";
  const Ran ran = Emplace(import);
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.err, ::testing::HasSubstr("8 nodes have work and no duration: --costs roofline times them"));
  const std::string problem = "--graph i.json --cluster dgx-h100 --placement ip.json ";
  // 2 TFLOP at 990 TFLOP/s and less take above 2 ms; 1.5 x 100 MB at 370 GB/s above 0.4 ms.
  const double step = Simulated(problem + "--costs roofline");
  EXPECT_GT(step, 2400);
  EXPECT_LT(step, 8000);
  const Ran measured = Emplace("simulate " + problem + "--costs measured");
  EXPECT_EQ(measured.status, 2);
  EXPECT_THAT(measured.err, ::testing::HasSubstr("has no time on any device"));
  // The trace of one rank alone does not show what its collective takes.
  ASSERT_EQ(Emplace("import step.0.et -o i.json --cluster dgx-h100 --placement-out ip.json").status, 0);
  EXPECT_THAT(Emplace("simulate " + problem + "--costs roofline").err,
              ::testing::HasSubstr("import the traces of all ranks"));
}

TEST_F(CasesTest, ATopologyBecomesAClusterThatIsRead) {
  const std::string copy = "--graph " + Case("t1.json") + " --cluster n.yaml --placement " + Case("t2p.json");
  for (const std::string name : {"n1_self.xml", "n2_template.xml", "n5_speed.xml"}) {
    ASSERT_EQ(Emplace("import " + Case(name) + " -o n.yaml").status, 0) << name;
    EXPECT_EQ(Emplace("inspect " + Case("t1.json") + " --cluster n.yaml").status, 0) << name;
  }
  ASSERT_EQ(Emplace("import " + Case("n2_template.xml") + " -o n.yaml --nvlink h100").status, 0);
  EXPECT_NEAR(Simulated(copy), 1e9 / 370.8e9 * 1e6, 5);
  ASSERT_EQ(Emplace("import " + Case("n2_template.xml") + " -o n.yaml --nodes 2").status, 0);
  EXPECT_EQ(Emplace("inspect " + Case("t1.json") + " --cluster n.yaml").status, 0);
  // A cluster.yaml has at most 1,024 devices.
  std::string nodes;
  for (int i = 0; i < 1100; ++i) {
    nodes += (i == 0 ? "" : ",") + std::string("{\"Id\": ") + std::to_string(i) +
             ", \"NodeType\": 4, \"runtime\": 1, \"tid\": " + std::to_string(i) + "}";
  }
  Write("wide.json", "{\"workload_graph\": [" + nodes + "]}");
  const Ran large = Emplace("import wide.json -o i.json --cluster-out large.yaml");
  EXPECT_EQ(large.status, 2);
  EXPECT_THAT(large.err, ::testing::StartsWith("wide.json: makes a cluster that cannot be read: "));
  EXPECT_FALSE(Exists("large.yaml"));
}

}  // namespace
}  // namespace emplace::testing
