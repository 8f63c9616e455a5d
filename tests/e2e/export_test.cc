// emplace export.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

class ExportTest : public EmplaceTest {};

TEST_F(ExportTest, AStepComesBackFromItsTracesAsLongAsItWas) {
  const Ran simulated = Emplace("simulate --graph g.json --cluster c.yaml --placement p.json --json");
  ASSERT_EQ(simulated.status, 0) << simulated.err;
  const Ran ran = Emplace("export --to chakra --graph g.json --cluster c.yaml --placement p.json --out step");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, ::testing::HasSubstr("step.1.et: 2 nodes of gpu:1\n"));
  const Ran imported = Emplace("import step.1.et step.0.et -o i.json --cluster-out i.yaml --placement-out ip.json");
  ASSERT_EQ(imported.status, 0) << imported.err;
  EXPECT_THAT(imported.err, ::testing::HasSubstr("1 messages join 2 ranks"));
  const Ran again = Emplace("simulate --graph i.json --cluster i.yaml --placement ip.json --json");
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(nlohmann::json::parse(again.out).at("step_time_us"),
            nlohmann::json::parse(simulated.out).at("step_time_us"));
}

TEST_F(ExportTest, ADeviceWithoutOpsIsARankToo) {
  ASSERT_EQ(Shell("sed 's/gpu:0/gpu:1/' p.json > q.json").status, 0);
  ASSERT_EQ(Emplace("export --to chakra --graph g.json --cluster c.yaml --placement q.json --out s").status, 0);
  const Ran imported = Emplace("import s.0.et s.1.et -o i.json --cluster-out i.yaml --placement-out ip.json");
  ASSERT_EQ(imported.status, 0) << imported.err;
  const Ran again = Emplace("simulate --graph i.json --cluster i.yaml --placement ip.json --json");
  const Ran before = Emplace("simulate --graph g.json --cluster c.yaml --placement q.json --json");
  EXPECT_EQ(nlohmann::json::parse(again.out).at("step_time_us"), nlohmann::json::parse(before.out).at("step_time_us"));
}

TEST_F(ExportTest, TracesOfMoreDevicesUnderThePrefixAreRefused) {
  const std::string command = "export --to chakra --graph g.json --cluster c.yaml --placement p.json --out old";
  ASSERT_EQ(Emplace(command).status, 0);
  ASSERT_EQ(Emplace(command).status, 0);
  ASSERT_EQ(Shell("mv old.1.et old.2.et && rm old.0.et").status, 0);
  ExpectRefused(
      Emplace(command),
      "old.2.et: is of a step on more than 2 devices (remove it and those after it, or choose another --out)");
  EXPECT_EQ(Shell("ls *.et").out, "old.2.et\n");
}

TEST_F(ExportTest, IssueLanesAreLeftOutWithANote) {
  ASSERT_EQ(Shell("sed 's/count: 2/count: 2, issue: {host_us: 1}/' c.yaml > fed.yaml").status, 0);
  const auto run = [&](const std::string& cluster, const std::string& out) {
    return Emplace("export --to chakra --graph g.json --cluster " + cluster + " --placement p.json --out " + out);
  };
  ASSERT_EQ(run("c.yaml", "plain").status, 0);
  const Ran fed = run("fed.yaml", "fed");
  EXPECT_EQ(fed.status, 0);
  EXPECT_NE(fed.err.find("without the cluster's issue lanes"), std::string::npos) << fed.err;
  EXPECT_EQ(Shell("cmp plain.0.et fed.0.et && cmp plain.1.et fed.1.et").status, 0);
}

TEST_F(ExportTest, BadInputWritesNothing) {
  const std::string problem = " --graph g.json --cluster c.yaml --placement p.json";
  ExpectRefused(
      Emplace("export --to astra" + problem + " --out s"),
      "--to: unknown format \"astra\" (chakra, plan, device-map, split-spec, stages, schedule-csv, schedule-comms-csv, "
      "fsdp, torchtitan, megatron, deepspeed, onnxruntime, tensorflow, vllm, llama.cpp) (see emplace export --help)");
  ExpectRefused(Emplace("export --to chakra" + problem + " --out -"),
                "--out: \"-\" is not a prefix of files (PREFIX.0.et, PREFIX.1.et, ...)");
  EXPECT_EQ(Emplace("export --to chakra" + problem + " --out none/s").status, 2);
  EXPECT_EQ(Emplace("export --to chakra --graph none.json --cluster c.yaml --placement p.json --out s").status, 2);
  EXPECT_EQ(Shell("ls *.et 2>/dev/null").out, "");
  ASSERT_EQ(Shell("cp p.json s.1.et").status, 0);
  ExpectRefused(Emplace("export --to chakra --graph g.json --cluster c.yaml --placement s.1.et --out s"),
                "s.1.et: would be overwritten, but is also read (another name)");
  EXPECT_EQ(Shell("ls *.et && cmp p.json s.1.et").out, "s.1.et\n");
}

}  // namespace
}  // namespace emplace::testing
