// emplace simulate and inspect.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class SimulateTest : public EmplaceTest {
 protected:
  Ran Simulate(const std::string& more = "") const {
    return Emplace("simulate --graph g.json --cluster c.yaml --placement p.json " + more);
  }
};

TEST_F(SimulateTest, PrintsAResult) {
  // a runs 0-4 on gpu:0, its 2000 bytes travel 4-6, b runs 6-10 on gpu:1; gpu:1 holds 1000 + 2000 bytes then.
  const Ran ran = Simulate("--json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(nlohmann::json::parse(ran.out), nlohmann::json::parse(R"({
    "schema": "emplace.result", "version": 1, "graph": "pair", "cluster": "two", "engine": "fifo",
    "costs": "measured", "step_time_us": 10, "fits_memory": true, "lower_bound_us": 8,
    "lower_bound_method": "critical path", "critical_path_us": 8, "busiest_device_us": 4,
    "best_bound_us": 8, "best_bound_method": "critical path",
    "devices": [
      {"name": "gpu:0", "ops": 1, "busy_us": 4, "sent_bytes": 2000, "peak_bytes": 2000, "memory_bytes": 1073741824},
      {"name": "gpu:1", "ops": 1, "busy_us": 4, "sent_bytes": 0, "peak_bytes": 3000, "memory_bytes": 1073741824}],
    "ops": 2, "tensors_sent": 1, "fallback_ops": 0})"));
  const Ran text = Simulate();
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("step time    10 us\n"), std::string::npos) << text.out;
}

TEST_F(SimulateTest, NotFittingIsAResultNotAnError) {
  // 1e-6 GiB are 1074 bytes.
  ASSERT_EQ(Shell("sed -i 's/memory_gib: 1/memory_gib: 0.000001/' c.yaml").status, 0);
  const Ran ran = Simulate("--json");
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(nlohmann::json::parse(ran.out).at("fits_memory"), false);
  EXPECT_NE(Simulate().out.find("DOES NOT FIT"), std::string::npos);
}

TEST_F(SimulateTest, ReadsGzipAndStandardInput) {
  const std::string plain = Simulate("--json").out;
  ASSERT_EQ(Shell("gzip -k g.json").status, 0);
  EXPECT_EQ(Emplace("simulate --graph g.json.gz --cluster c.yaml --placement p.json --json").out, plain);
  EXPECT_EQ(Shell("cat g.json | $emplace simulate --graph - --cluster c.yaml --placement p.json --json").out, plain);
  EXPECT_EQ(Shell("cat g.json.gz | $emplace simulate --graph - --cluster c.yaml --placement p.json --json").out, plain);
  EXPECT_EQ(Shell("cat p.json | $emplace simulate --graph g.json --cluster c.yaml --placement - --json").out, plain);
  ExpectRefused(Emplace("simulate --graph - --cluster c.yaml --placement - --json"),
                "-: is used for two inputs (one may be standard input)");
}

TEST_F(SimulateTest, CurvesSayWhichOpsTheyTimeAndWhatLimitsThem) {
  ASSERT_EQ(Shell("$emplace generate gpt --set layers=1 --set precision=bf16 -o n.json").status, 0);
  const Ran inspected =
      Emplace("inspect n.json --cluster dgx-h100 --gpus 1 --devices gpu:0 --costs curves --ops --json");
  ASSERT_EQ(inspected.status, 0) << inspected.err;
  const auto json = nlohmann::json::parse(inspected.out);
  EXPECT_EQ(json.at("cluster").at("costs"), "curves");
  EXPECT_NE(json.at("cluster").at("costs_detail").get<std::string>().find(" product"), std::string::npos);
  double longest = 1e18;
  std::size_t products = 0;
  for (const auto& op : json.at("op_times")) {
    EXPECT_LE(op.at("time_us"), longest);
    longest = op.at("time_us");
    if (op.at("source") != "product of h100") continue;
    ++products;
    EXPECT_LE(op.at("roofline_percent"), 250) << "only bytes that stay in the cache move faster than the memory";
    EXPECT_FALSE(op.at("limit").get<std::string>().empty());
  }
  EXPECT_GT(products, 10U);
  const Ran text = Emplace("inspect n.json --cluster dgx-h100 --gpus 1 --devices gpu:0 --costs curves --ops");
  EXPECT_NE(text.out.find("product of h100"), std::string::npos) << text.out;
  ExpectRefused(Emplace("inspect n.json --ops"), "--ops: needs --cluster, whose devices have the times");
}

TEST_F(SimulateTest, CurvesReplaceTheTimesOfCollectivesInANode) {
  ASSERT_EQ(Shell("$emplace generate gpt --set layers=1 --set precision=bf16 -o n.json && "
                  "$emplace transform n.json --data-parallel 2 -o d.json && "
                  "$emplace place d.json --cluster dgx-h100 --gpus 2 --agent expert --costs roofline -o d.p.json")
                .status,
            0);
  const Ran ran =
      Emplace("simulate --graph d.json --cluster dgx-h100 --gpus 2 --placement d.p.json --costs curves --json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json.at("costs"), "curves");
  EXPECT_THAT(json.at("costs_detail").get<std::string>(), HasSubstr("no curves, so roofline, on cpu-core"));
}

// measured, else curves, else roofline; each answer begins with which, and how many ops it times.
TEST_F(SimulateTest, TheDefaultOfCostsIsTheBestThatAllAcceleratorsHave) {
  ASSERT_EQ(Shell("$emplace generate gpt --set layers=1 --set precision=bf16 -o n.json && "
                  "$emplace place n.json --cluster dgx-h100 --gpus 2 --agent expert -o n.p.json")
                .status,
            0);
  const std::string on = " n.json --cluster dgx-h100 --gpus 2 ";
  constexpr const char* kFirst =
      "gpt on dgx-h100, engine fifo, costs curves\ncosts +[0-9]+ elementwise.*product.*; by roofline [0-9]+";
  EXPECT_THAT(Emplace("place" + on + "--agent single_device -o -").err, ContainsRegex(kFirst));
  for (const std::string command : {"simulate", "explain", "what-if --bandwidth 2", "diff n.p.json"}) {
    const bool is_diff = command.starts_with("diff");
    const Ran ran =
        is_diff ? Emplace("diff n.p.json n.p.json --graph" + on) : Emplace(command + on + "--placement n.p.json");
    EXPECT_THAT(ran.out, ContainsRegex(kFirst)) << command << ran.err;
  }
  EXPECT_THAT(Emplace("bound" + on).out, ContainsRegex(kFirst));
  EXPECT_THAT(Emplace("compare" + on + "--agents single_device").out + Emplace("inspect" + on).out,
              ContainsRegex("costs +curves"));
  // Kinds without curves: none of the ops has them.
  const Ran old = Emplace("inspect n.json --cluster p2.8xlarge --gpus 1");
  EXPECT_THAT(old.out, ContainsRegex("costs +roofline: no curves of k80"));
  EXPECT_THAT(Emplace("what-if" + on + "--placement n.p.json --kind h100=k80").out, HasSubstr("costs roofline"));
  EXPECT_THAT(Emplace("inspect" + on + "--costs roofline").out, ContainsRegex("costs +roofline\n"));
}

TEST_F(SimulateTest, WithRooflineADeviceKindNeedsRates) {
  ASSERT_EQ(Shell("$emplace generate inception_v3 -o n.json && sed -i 's/kind: [^,}]*/kind: rtx4090/' c.yaml").status,
            0);
  const Ran refused = Emplace("place --graph n.json --cluster c.yaml --agent heft --costs roofline -o n_p.json");
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.err.rfind("c.yaml: kind \"rtx4090\": has no rates, so roofline has no time for any op on it", 0),
            0U)
      << refused.err;
  const Ran inspected = Emplace("inspect n.json --cluster c.yaml --costs roofline");
  EXPECT_EQ(inspected.status, 2);
  EXPECT_EQ(inspected.out, "") << "an error in the cluster comes before anything is printed";
}

TEST_F(SimulateTest, ATimelineIsNoOtherPictureThanSvg) {
  ExpectRefused(Simulate("--timeline t.png"),
                "--timeline: t.png is not a timeline (.svg, a picture, or .json, trace events) (see emplace simulate "
                "--help)");
}

TEST_F(SimulateTest, MissingAndWrongFilesAreNamed) {
  ExpectRefused(Emplace("simulate --graph none.json --cluster c.yaml --placement p.json"),
                "none.json: cannot be read (No such file or directory)");
  ExpectRefused(Emplace("simulate --graph g.json --cluster c.yaml --placement none.json"),
                "none.json: cannot be read (No such file or directory)");
  const Ran swapped = Emplace("simulate --graph p.json --cluster c.yaml --placement p.json");
  EXPECT_EQ(swapped.status, 2);
  EXPECT_TRUE(IsOneLine(swapped.err));
  EXPECT_EQ(swapped.err.rfind("p.json: schema: ", 0), 0U) << swapped.err;
  const Ran folder = Emplace("simulate --graph . --cluster c.yaml --placement p.json");
  EXPECT_EQ(folder.status, 2);
  EXPECT_TRUE(IsOneLine(folder.err));
}

TEST_F(SimulateTest, UnknownWordsAreRefusedWithTheKnownOnes) {
  ExpectRefused(Simulate("--engine steam"), "--engine: unknown engine \"steam\" (fifo, flow, placeto-reference)");
  const Ran costs = Simulate("--costs guess");
  EXPECT_EQ(costs.status, 2);
  EXPECT_TRUE(costs.err.starts_with("--costs: unknown cost model \"guess\" (measured, roofline")) << costs.err;
  ExpectRefused(Simulate("--devices gpu:7"), "--devices: unknown device \"gpu:7\" (cluster two has gpu:0, gpu:1)");
  ExpectRefused(Simulate("--gpus 3"), "--gpus: cluster two has 2 accelerators, not 3");
  const Ran cluster = Emplace("simulate --graph g.json --cluster nowhere --placement p.json");
  EXPECT_EQ(cluster.status, 2);
  EXPECT_TRUE(IsOneLine(cluster.err));
  EXPECT_NE(cluster.err.find("p2.8xlarge"), std::string::npos) << cluster.err;
}

TEST_F(SimulateTest, APlacementOverAPairWithoutALinkIsRefused) {
  ASSERT_EQ(Shell("sed -i '/^link:/d' c.yaml").status, 0);
  const Ran ran = Simulate();
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(IsOneLine(ran.err));
  EXPECT_EQ(ran.err.rfind("p.json: devices", 0), 0U) << ran.err;
  EXPECT_NE(ran.err.find("no link"), std::string::npos) << ran.err;
  // On one device no link is needed.
  ASSERT_EQ(Shell("sed -i 's/gpu:1/gpu:0/' p.json").status, 0);
  EXPECT_EQ(Simulate().status, 0);
}

TEST_F(SimulateTest, AnOpWithoutATimeIsNamed) {
  ASSERT_EQ(Shell("sed -i '/\"b\"/s/, \"time_us\": 4//' g.json").status, 0);
  const Ran ran = Simulate();
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(IsOneLine(ran.err));
  EXPECT_EQ(ran.err.rfind("g.json: ", 0), 0U) << ran.err;
  EXPECT_NE(ran.err.find("\"b\""), std::string::npos) << ran.err;
}

TEST_F(SimulateTest, WritesATimelineAndAPicture) {
  EXPECT_EQ(Simulate("--timeline t.json").status, 0);
  EXPECT_EQ(nlohmann::json::parse(Read("t.json")).at("traceEvents").size() > 3, true);
  EXPECT_EQ(Simulate("--timeline t.json.gz").status, 0);
  EXPECT_EQ(Shell("gzip -dc t.json.gz | cmp - t.json").status, 0);
  EXPECT_EQ(Simulate("--timeline t.svg").status, 0);
  EXPECT_EQ(Read("t.svg").rfind("<svg ", 0), 0U);
  const Ran piped = Simulate("--timeline -");
  EXPECT_EQ(piped.out, Read("t.json"));
}

TEST_F(SimulateTest, NothingIsWrittenOverAnInputOrIntoNowhere) {
  ExpectRefused(Simulate("--timeline g.json"), "g.json: would be overwritten, but is also read (another name)");
  ExpectRefused(Simulate("--timeline ./p.json"), "./p.json: would be overwritten, but is also read (another name)");
  ExpectRefused(Simulate("--timeline no/t.json"), "no/t.json: cannot be written (there is no folder no)");
  ExpectRefused(Simulate("--timeline ."), ".: cannot be written (it is a folder)");
  EXPECT_EQ(Read("g.json"), kGraph);
  EXPECT_EQ(Names(), "c.yaml g.json p.json ");
}

TEST_F(SimulateTest, PlacetoReferenceRefusesClustersThatItCannotAnswerFor) {
  ASSERT_EQ(Shell("sed -i 's/latency_us: 0/latency_us: 1/' c.yaml").status, 0);
  EXPECT_EQ(Simulate().status, 0);
  const Ran ran = Simulate("--engine placeto-reference");
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(IsOneLine(ran.err));
  EXPECT_EQ(ran.err.rfind("c.yaml: ", 0), 0U) << ran.err;
}

TEST_F(SimulateTest, AProfileGivesTimesAndTheFallbackIsCounted) {
  // b reads 2000 bytes of unknown shape; the profile has a, and the graph's own times are used for b.
  Write("f.json", R"json({"schema": "emplace.profile", "version": 1, "created": "2026-01-01T00:00:00Z", "host": {},
    "devices": [{"kind": "k80", "backend": "made up", "op_gap_us": 0}],
    "ops": [{"signature": "test()", "device": "k80", "samples": 1, "median_us": 7}], "links": []})json");
  const Ran without = Simulate("--profile f.json");
  EXPECT_EQ(without.status, 2);
  EXPECT_TRUE(IsOneLine(without.err));
  const Ran with = Simulate("--profile f.json --costs measured --json");
  ASSERT_EQ(with.status, 0) << with.err;
  const auto result = nlohmann::json::parse(with.out);
  EXPECT_EQ(result.at("step_time_us"), 13);  // a 0-7, its tensor 7-9, b 9-13
  EXPECT_EQ(result.at("fallback_ops"), 1);
}

TEST_F(SimulateTest, InspectDescribesAGraph) {
  const Ran ran = Emplace("inspect g.json --cluster c.yaml");
  EXPECT_EQ(ran.status, 0) << ran.err;
  for (const char* const line :
       {"ops                2\n", "edges              1 data, 0 control\n", "depth              1 edges",
        "ops without time   0\n", "critical path      8 us\n", "lower bound        8 us"}) {
    EXPECT_NE(ran.out.find(line), std::string::npos) << line << ran.out;
  }
  ASSERT_EQ(Shell("sed -i '/\"b\"/s/, \"time_us\": 4//' g.json").status, 0);
  EXPECT_NE(Emplace("inspect g.json --cluster c.yaml").out.find("ops without time   1 (the first: b)"),
            std::string::npos);
}

TEST_F(SimulateTest, InspectPrintsAllOfItAsJson) {
  const auto inspect = [&](const std::string& more) {
    const Ran ran = Emplace("inspect g.json --json " + more);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return nlohmann::json::parse(ran.out);
  };
  const nlohmann::json graph = inspect("");
  EXPECT_EQ(graph.at("schema"), "emplace.inspection");
  EXPECT_EQ(graph.at("ops"), 2);
  EXPECT_EQ(graph.at("tensors"), 1);
  EXPECT_EQ(graph.at("largest_tensor_bytes"), 2000);
  EXPECT_EQ(graph.at("data_edges"), 1);
  EXPECT_EQ(graph.at("depth"), 1);
  EXPECT_EQ(graph.at("persistent_bytes"), 1000);
  EXPECT_EQ(graph.at("time_us").at("ops_with_one_time"), 2);
  EXPECT_EQ(graph.at("passes").at(0).at("name"), "none");
  EXPECT_EQ(graph.at("kinds"), nlohmann::json::parse(R"([{"name": "test", "ops": 2, "flop": 0.0,
                                                           "persistent_bytes": 1000}])"));
  EXPECT_FALSE(graph.contains("cluster"));
  const nlohmann::json cluster = inspect("--cluster c.yaml").at("cluster");
  EXPECT_EQ(cluster.at("devices"), 2);
  EXPECT_EQ(cluster.at("critical_path_us"), 8);
  EXPECT_EQ(cluster.at("lower_bound_us"), 8);
  ASSERT_EQ(Shell("sed -i '/\"b\"/s/, \"time_us\": 4//' g.json").status, 0);
  const nlohmann::json untimed = inspect("--cluster c.yaml").at("cluster");
  EXPECT_EQ(untimed.at("ops_without_time"), 1);
  EXPECT_EQ(untimed.at("first_op_without_time"), "b");
  EXPECT_FALSE(untimed.contains("lower_bound_us"));
  ExpectRefused(Emplace("inspect g.json --json --dot -"),
                "-: is used for both --dot and --json (one may be standard output)");
}

TEST_F(SimulateTest, InspectDrawsSmallGraphs) {
  EXPECT_EQ(Emplace("inspect g.json --dot g.dot").status, 0);
  EXPECT_EQ(Emplace("inspect g.json --dot -").out, Read("g.dot"));
  EXPECT_EQ(Emplace("inspect g.json --dot g.svg").status, 0);
  EXPECT_NE(Read("g.svg").find("</svg>"), std::string::npos);
  const Ran without = Shell("PATH=/nowhere $emplace inspect g.json --dot h.png");
  EXPECT_EQ(without.status, 2);
  EXPECT_NE(without.err.find("h.png: cannot be drawn"), std::string::npos) << without.err;
  EXPECT_NE(Read("g.dot").find("n0 -> n1 [label=\"2000 B\"];"), std::string::npos);
}

}  // namespace
}  // namespace emplace::testing
