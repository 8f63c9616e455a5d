// emplace profile and emplace validate, on the cores of this machine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kProfile = "profile --devices cpu:0 --samples 3 ";

class ProfileTest : public EmplaceTest {
 protected:
  ProfileTest() {
    Write("tiny.json", R"({"schema": "emplace.graph", "version": 1, "name": "tiny", "ops": [
      {"name": "x", "kind": "input", "outputs": [{"dtype": "f32", "shape": [32, 64]}]},
      {"name": "w", "kind": "variable", "outputs": [{"dtype": "f32", "shape": [64, 64]}], "persistent_bytes": 16384},
      {"name": "y", "kind": "matmul", "inputs": ["x", "w"], "outputs": [{"dtype": "f32", "shape": [32, 64]}]},
      {"name": "z", "kind": "relu", "inputs": ["y"], "outputs": [{"dtype": "f32", "shape": [32, 64]}]},
      {"name": "t", "kind": "relu", "inputs": ["z"], "outputs": [{"dtype": "f32", "shape": [32, 64]}]}]})");
    Write("more.json", R"({"schema": "emplace.graph", "version": 1, "name": "more", "ops": [
      {"name": "y", "kind": "input", "outputs": [{"dtype": "f32", "shape": [32, 64]}]},
      {"name": "z", "kind": "relu", "inputs": ["y"], "outputs": [{"dtype": "f32", "shape": [32, 64]}]},
      {"name": "u", "kind": "tanh", "inputs": ["z"], "outputs": [{"dtype": "f32", "shape": [32, 64]}]}]})");
  }
  nlohmann::json Json(const std::string& name) const { return nlohmann::json::parse(Read(name)); }
  std::vector<std::string> Folders(const std::string& parent) const {
    std::istringstream lines(Shell("ls -d " + parent + "/*/").out);
    std::vector<std::string> folders;
    for (std::string line; std::getline(lines, line);) folders.push_back(line);
    return folders;
  }
  std::set<std::string> Signatures(const std::string& name) const {
    std::set<std::string> signatures;
    const nlohmann::json profile = Json(name);
    for (const auto& op : profile["ops"]) signatures.insert(op["signature"].get<std::string>());
    return signatures;
  }
};

TEST_F(ProfileTest, EachDistinctOpIsMeasuredOnceAndASecondGraphOnlyWhereItIsNewLengthy) {
  const Ran first = Emplace(std::string(kProfile) + "--graph tiny.json -o prof.json");
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.out, StartsWith("cpu-core: 2 ops measured, 0 known before\n"));
  EXPECT_EQ(Signatures("prof.json"), (std::set<std::string>{"matmul(f32[32,64],f32[64,64])", "relu(f32[32,64])"}));
  const nlohmann::json before = Json("prof.json");
  for (const auto& op : before["ops"]) {
    EXPECT_EQ(op["device"], "cpu-core");
    EXPECT_GE(op["samples"], 3);
    EXPECT_GT(op["median_us"], 0);
  }
  EXPECT_EQ(before["devices"][0]["backend"], "clock");
  EXPECT_GT(before["devices"][0]["op_gap_us"], 0);
  EXPECT_FALSE(before["host"]["torch"].get<std::string>().empty());
  const Ran second = Emplace(std::string(kProfile) + "--graph more.json -o prof.json");
  EXPECT_THAT(second.out, StartsWith("cpu-core: 1 ops measured, 1 known before\n")) << second.err;
  EXPECT_EQ(Signatures("prof.json").count("tanh(f32[32,64])"), 1U);
  EXPECT_EQ(Json("prof.json")["ops"][0], before["ops"][0]);  // existing entries are unchanged
}

// A step of PyTorch's operators: z reads a view of what y made, and an update reads z.
TEST_F(ProfileTest, ACapturedGraphIsSampledWithinWholeStepsLengthy) {
  Write("step.json", R"({"schema": "emplace.graph", "version": 1, "name": "step", "ops": [
    {"name": "x", "kind": "input", "outputs": [{"dtype": "f32", "shape": [32, 64]}]},
    {"name": "w", "kind": "variable", "outputs": [{"dtype": "f32", "shape": [64, 64]}], "persistent_bytes": 16384},
    {"name": "m", "kind": "variable", "outputs": [{"dtype": "f32", "shape": [64, 64]}], "persistent_bytes": 16384},
    {"name": "y", "kind": "aten::mm", "inputs": ["x", "w"], "attrs": {"args": ["%0", "%1"]},
     "outputs": [{"dtype": "f32", "shape": [32, 64]}]},
    {"name": "z", "kind": "aten::mm", "inputs": ["y", "x"],
     "attrs": {"args": ["%0", "%1"], "input_views": [[[64, 32], [1, 64], 0], null]},
     "outputs": [{"dtype": "f32", "shape": [64, 64]}]},
    {"name": "w/momentum", "kind": "aten::_fused_sgd_", "inputs": ["w", "z", "m"], "pass": "update",
     "attrs": {"args": [["%0"], ["%1"], ["%2"]]}}]})");
  const Ran steps = Emplace(std::string(kProfile) + "--no-links --graph step.json -o steps.json");
  EXPECT_EQ(steps.status, 0) << steps.err;
  EXPECT_THAT(steps.out, StartsWith("cpu-core: 3 ops measured within whole steps, 0 known before\n"));
  const Ran ops = Emplace(std::string(kProfile) + "--no-links --sampling ops --graph step.json -o ops.json");
  EXPECT_THAT(ops.out, StartsWith("cpu-core: 3 ops measured, 0 known before\n")) << ops.err;
  EXPECT_EQ(Signatures("steps.json"), Signatures("ops.json"));
  const nlohmann::json profile = Json("steps.json");
  for (const auto& op : profile["ops"]) EXPECT_GT(op["median_us"], 0) << op;
  EXPECT_THAT(Emplace(std::string(kProfile) + "--no-links --sampling steps --graph tiny.json -o tiny-steps.json").out,
              StartsWith("cpu-core: 2 ops measured within whole steps, 0 known before\n"));
}

// A user's model on the user's machine.
TEST_F(ProfileTest, FromATorchScriptFileToAValidatedPlacementInFourCommandsLengthy) {
  const auto succeeds = [this](const std::string& command) {
    const Ran ran = Emplace(command);
    EXPECT_EQ(ran.status, 0) << command << "\n" << ran.err;
    return ran.out;
  };
  succeeds("profile --torchscript " EMPLACE_TEST_SOURCE_DIR
           "/profiler/data/recurrent.pt --input i64:3x2:20 --backward --graph-out model.json --devices cpu:0,cpu:1 "
           "--samples 3 --seconds 0.001 --patience 0 -o profile.json");
  succeeds(
      "place --graph model.json --cluster cluster.yaml --profile profile.json --agent annealing --evaluations 50 -o "
      "placement.json");
  const nlohmann::json simulated = nlohmann::json::parse(succeeds(
      "simulate --graph model.json --cluster cluster.yaml --profile profile.json --placement placement.json --json"));
  const nlohmann::json validated = nlohmann::json::parse(
      succeeds("validate --graph model.json --profile profile.json --placement placement.json --devices cpu:0,cpu:1 "
               "--steps 3 --warmups 1 --patience 0 --json"));
  EXPECT_GT(Json("model.json").at("ops").size(), 100U);
  ASSERT_EQ(validated.at("cases").size(), 1U);
  EXPECT_EQ(validated.at("cases")[0].at("simulated_us"), simulated.at("step_time_us"));
  EXPECT_GT(validated.at("cases")[0].at("measured_us"), 0);
}

TEST_F(ProfileTest, TheClusterBesideItHasTheDevicesAndSimulatesLengthy) {
  ASSERT_EQ(Emplace(std::string(kProfile) + "--graph tiny.json -o prof.json").status, 0);
  EXPECT_THAT(Read("cluster.yaml"), HasSubstr("cpu:0"));
  const Ran placed =
      Emplace("place --graph tiny.json --cluster cluster.yaml --profile prof.json --agent single_device -o q.json");
  EXPECT_EQ(placed.status, 0) << placed.err;
  const Ran simulated =
      Emplace("simulate --graph tiny.json --cluster cluster.yaml --profile prof.json --placement q.json --json");
  EXPECT_EQ(simulated.status, 0) << simulated.err;
  EXPECT_GT(nlohmann::json::parse(simulated.out)["step_time_us"], 0);
}

TEST_F(ProfileTest, AClusterThatSomebodyWroteIsNotLostLengthy) {
  Write("cluster.yaml", "name: mine\n");
  const Ran ran = Emplace(std::string(kProfile) + "--graph tiny.json -o prof.json");
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.err,
            "cluster.yaml: would be written over, but emplace profile has not written it (--cluster-out with another "
            "name)\n");
  EXPECT_EQ(Read("cluster.yaml"), "name: mine\n");
  EXPECT_EQ(Emplace(std::string(kProfile) + "--graph tiny.json -o prof.json --cluster-out c2.yaml").status, 0);
}

TEST_F(ProfileTest, BadInputIsOneLineLengthy) {
  const auto fails = [&](const std::string& arguments, const std::string& line) {
    const Ran ran = Emplace(arguments);
    EXPECT_EQ(ran.status, 2) << arguments;
    EXPECT_EQ(ran.err, line + "\n");
  };
  fails("profile -o prof.json", "a model is missing (--graph or --torchscript)");
  fails("profile --graph no.json -o prof.json", "no.json: cannot be read (No such file or directory)");
  fails("profile --graph tiny.json --devices gpu:0 -o prof.json",
        "--devices: gpu:0: is not a device (cpu:N or cuda:N)");
  fails("profile --graph tiny.json --devices cpu:0,cpu:0 -o prof.json",
        "--devices: \"cpu:0\" is named twice (each device once)");
  fails("profile --graph tiny.json --backward -o prof.json", "--backward: can only be used with --torchscript");
  Write("strange.json", R"({"schema": "emplace.graph", "version": 1, "ops": [
    {"name": "a", "kind": "mystery", "outputs": [{"dtype": "f32", "shape": [2]}]}]})");
  const Ran strange = Emplace("profile --graph strange.json -o prof.json");
  EXPECT_EQ(strange.status, 2);
  EXPECT_THAT(strange.err, HasSubstr("strange.json: a: "));
  EXPECT_THAT(strange.err, HasSubstr("mystery"));
  Write("sizes.json", R"({"schema": "emplace.graph", "version": 1, "ops": [
    {"name": "a", "kind": "relu", "outputs": [64]}]})");
  fails("profile --graph sizes.json -o prof.json",
        "sizes.json: a: output 0 has no dtype and shape (what has only a size cannot be run)");
  EXPECT_FALSE(Exists("prof.json"));
}

// Killed once a second of samples is in the file beside the profile; the number of samples is so large that it cannot
// have ended. The samples are made longer then, to be known again.
TEST_F(ProfileTest, KilledItKeepsItsSamplesLengthy) {
  const std::string command = "profile --devices cpu:0 --graph tiny.json -o prof.json --seconds 60 --samples ";
  Shell("$emplace " + command +
        "100000 2>/dev/null & pid=$!; until grep -q us prof.json.samples 2>/dev/null || "
        "[ ! -d /proc/$pid ]; do sleep 0.02; done; kill -s KILL $pid; wait");
  EXPECT_FALSE(Exists("prof.json"));
  ASSERT_TRUE(Exists("prof.json.samples"));
  Shell("sed -i 's/\"us\":[0-9.e+-]*/\"us\":777777/; s/\"slowdown\":[0-9.e+-]*/\"slowdown\":1/' prof.json.samples");
  const Ran ran = Emplace(command + "50");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr(" samples of a run that was stopped count too (prof.json.samples)\n"));
  EXPECT_FALSE(Exists("prof.json.samples"));
  const auto profile = Json("prof.json");
  EXPECT_EQ(profile["ops"].size(), 2U);
  for (const auto& op : profile["ops"]) {
    EXPECT_EQ(op["samples"], 50);
    EXPECT_EQ(op["median_us"], 777777);
  }
  Write("damaged.json.samples", "[]\n");
  const Ran damaged = Emplace("profile --devices cpu:0 --graph tiny.json -o damaged.json");
  EXPECT_EQ(damaged.status, 2);
  EXPECT_THAT(damaged.err, StartsWith("damaged.json.samples: line 1: "));
  EXPECT_FALSE(Exists("damaged.json"));
}

TEST_F(ProfileTest, AProfileOfAnotherMachineIsNotExtendedLengthy) {
  Write("prof.json", R"({"schema": "emplace.profile", "version": 1, "host": {"cpu": "abacus"}})");
  const Ran ran = Emplace(std::string(kProfile) + "--graph tiny.json -o prof.json");
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, StartsWith("prof.json: was measured with cpu abacus, this machine has "));
}

// Begins each test with the profile that the first one of the process measured.
class ValidateTest : public ProfileTest {
 protected:
  ValidateTest() {
    static const std::pair<std::string, std::string> measured = [this] {
      Emplace(std::string(kProfile) + "--graph tiny.json -o prof.json");
      return std::pair(Read("prof.json"), Read("cluster.yaml"));
    }();
    Write("prof.json", measured.first);
    Write("cluster.yaml", measured.second);
  }
};

TEST_F(ValidateTest, RunsPlacementsAndComparesThemLengthy) {
  const Ran ran = Emplace("validate --graph tiny.json --random 3 --devices cpu:0 --profile prof.json --json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["schema"], "emplace.validation");
  EXPECT_EQ(json["summary"]["compared"], 3);
  ASSERT_EQ(json["cases"].size(), 3U);
  for (const auto& one : json["cases"]) {
    EXPECT_GT(one["measured_us"], 0);
    EXPECT_EQ(one["measured_steps_us"].size(), 10U);  // rounds
    EXPECT_GT(one["speed_up"], 0);
  }
  EXPECT_EQ(json["summary"]["reference"], "everything on cpu:0");
  Write("first.json", ran.out);
  const Ran again = Emplace(
      "validate --graph tiny.json --random 3 --devices cpu:0 --profile prof.json --rounds 2 --rerun-of first.json");
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("the machine itself, the earlier run against this one: median error "));
  EXPECT_THAT(again.out, HasSubstr("\nthe simulator is off by "));
  const Ran at_once =
      Emplace("validate --graph tiny.json --random 1 --devices cpu:0 --profile prof.json --rounds 0 --json");
  EXPECT_EQ(at_once.status, 0) << at_once.err;
  const auto one = nlohmann::json::parse(at_once.out)["cases"][0];
  EXPECT_EQ(one["measured_steps_us"].size(), 5U);
  EXPECT_FALSE(one.contains("speed_up"));
}

TEST_F(ValidateTest, PastItsTimeLimitItReportsOnWhatWasRunLengthy) {
  const std::string command =
      "validate --graph tiny.json --devices cpu:0 --profile prof.json --time-limit 1e-9 --json ";
  const Ran rounds = Emplace(command + "--random 3");
  EXPECT_EQ(rounds.status, 0) << rounds.err;
  EXPECT_THAT(rounds.err, HasSubstr("validate: 1 of 10 rounds were run until --time-limit 1e-09 s was over\n"));
  const Ran ran = Emplace(command + "--random 30 --rounds 0");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("validate: 1 of 30 placements were run until --time-limit 1e-09 s was over\n"));
  EXPECT_EQ(nlohmann::json::parse(ran.out)["cases"].size(), 1U);
}

// Interrupted in the first of a thousand rounds, of which there are two hundred steps each, it ends with that. Before
// the program catches SIGINT (bit 1 of SigCgt), the shell has it ignored in what runs behind.
TEST_F(ValidateTest, AnInterruptEndsItAfterTheRoundLengthy) {
  const Ran ran = Shell(
      "$emplace validate --graph tiny.json --devices cpu:0 --profile prof.json --random 3 --rounds 1000 --warmups 0 "
      "--steps 200 --json --timeline t.json 2>err.txt >out.json & pid=$!; "
      "until grep -q '^emplace$' /proc/$pid/comm && grep -q 'SigCgt.*[2367abef]$' /proc/$pid/status || "
      "[ ! -d /proc/$pid ]; do sleep 0.05; done; "
      "sleep 0.5; kill -INT $pid; wait $pid");
  EXPECT_EQ(ran.status, 0) << Read("err.txt");
  EXPECT_THAT(Read("err.txt"), HasSubstr(" of 1000 rounds were run until it was interrupted\n"));
  const nlohmann::json json = Json("out.json");
  EXPECT_EQ(json["cases"].size(), 3U);
  EXPECT_LT(json["summary"]["rounds"], 1000);
}

TEST_F(ValidateTest, PastABoundItSaysNoLengthy) {
  const std::string command = "validate --graph tiny.json --random 1 --devices cpu:0 --profile prof.json --max-error ";
  EXPECT_EQ(Emplace(command + "1000000").status, 0);
  const Ran over = Emplace(command + "0");
  EXPECT_EQ(over.status, 1);
  EXPECT_THAT(over.err, HasSubstr("over --max-error 0 %"));
}

TEST_F(ValidateTest, ReadsPlacementsAndWritesBothTimelinesLengthy) {
  ASSERT_EQ(
      Emplace("place --graph tiny.json --cluster cluster.yaml --profile prof.json --agent single_device -o q.json")
          .status,
      0);
  const Ran ran = Emplace(
      "validate --graph tiny.json --placement q.json --devices cpu:0 --profile prof.json --timeline real.json "
      "--simulated-timeline simulated.json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("q.json"));
  for (const char* const file : {"real.json", "simulated.json"}) {
    std::set<std::string> names;
    const nlohmann::json trace = Json(file);
    for (const auto& event : trace["traceEvents"]) names.insert(event.value("name", ""));
    EXPECT_EQ(names.count("y"), 1U) << file;
  }
}

TEST_F(ValidateTest, BadInputIsOneLineLengthy) {
  const Ran none = Emplace("validate --graph tiny.json --devices cpu:0 --profile prof.json");
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(none.err, "a placement is missing (--placement, --random or --agent)\n");
  const Ran unprofiled = Emplace("validate --graph more.json --random 1 --devices cpu:0 --profile prof.json");
  EXPECT_EQ(unprofiled.status, 2);
  EXPECT_THAT(unprofiled.err, StartsWith("more.json: op \"u\": has no time on any device"));
  const Ran missing = Emplace("validate --graph tiny.json --placement no.json --devices cpu:0 --profile prof.json");
  EXPECT_EQ(missing.status, 2);
  EXPECT_EQ(missing.err, "no.json: cannot be read (No such file or directory)\n");
  const Ran nowhere =
      Emplace("validate --graph tiny.json --random 1 --mostly cuda:7 --devices cpu:0 --profile prof.json");
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_EQ(nowhere.err, "--mostly: \"cuda:7\" is not a device of \"this machine\"\n");
  const Ran no_run =
      Emplace("validate --graph tiny.json --random 1 --devices cpu:0 --profile prof.json --rerun-of tiny.json");
  EXPECT_EQ(no_run.status, 2);
  EXPECT_EQ(no_run.err, "tiny.json: schema: is the text \"emplace.graph\" (\"emplace.validation\")\n");
  const Ran broken = Emplace("validate --graph tiny.json --random 1 --devices cpu:0 --profile tiny.json");
  EXPECT_EQ(broken.status, 2);
  EXPECT_EQ(broken.err, "tiny.json: schema: is the text \"emplace.graph\" (\"emplace.profile\")\n");
}

// A search whose rewards, or whose best placements, are measured on one core.
constexpr const char* kRealRewards = R"(# Does the search find the same with real rewards?
schema: emplace.experiment
version: 1
name: real
graphs: {files: [tiny.json]}
cluster: {file: cluster.yaml}
costs: {profile: prof.json}
agent: {name: random_walk}
budget: {evaluations: 6}
seeds: [1]
validate_every: 1
hardware: {share: 0.5, warmups: 0, steps: 1}
sweep:
  reward_source: [simulator, mixed, hardware]
)";

TEST_F(ValidateTest, ASweepTakesItsRewardsFromWhereItIsToldLengthy) {
  Write("real.yaml", kRealRewards);
  const Ran several = Emplace("sweep real.yaml -o runs --jobs 2");
  EXPECT_EQ(several.status, 2);
  EXPECT_EQ(several.err, "--jobs: is 2, but trials of real run on real devices (1)\n");
  const Ran ran = Emplace("sweep real.yaml -o runs");
  EXPECT_EQ(ran.status, 0) << ran.err;
  std::map<std::string, std::size_t> checks;
  for (const std::string& folder : Folders("runs/real")) {
    const nlohmann::json spec = Json(folder + "/spec.json");
    const nlohmann::json hardware = Json(folder + "/timing.json")["hardware"];
    checks[spec["hardware"]["reward_source"]] = hardware["checks"].size();
    EXPECT_GT(hardware["best_step_time_us"], 0);
    for (const auto& check : hardware["checks"]) EXPECT_GT(check["measured_us"], 0);
  }
  // Simulated rewards: a placement before the first of six evaluations, and the best after episodes. Mixed ones: all
  // six.
  EXPECT_GE(checks["simulator"], 2U);
  EXPECT_EQ(checks["mixed"], 6U);
  EXPECT_EQ(checks["hardware"], 6U);
}

TEST_F(ValidateTest, PlaceMeasuresItsBestPeriodicallyLengthy) {
  const std::string place =
      "place --graph tiny.json --cluster cluster.yaml --profile prof.json --agent random --evaluations 4 -o v.json ";
  const Ran ran = Emplace(place + "--validate-every 2 --json");
  EXPECT_EQ(ran.status, 0) << ran.err;
  const nlohmann::json validation = nlohmann::json::parse(ran.out)["validation"];
  EXPECT_GE(validation["measurements"], 2);  // a random placement, and the best after all four: one batch
  EXPECT_EQ(validation["placements"], 1);    // one device
  EXPECT_GT(validation["measured_step_time_us"], 0);
  EXPECT_GT(validation["hardware_s"], 0);
  EXPECT_FALSE(validation["corrections"].empty());
  const Ran refused = Emplace(place + "--validate-every 2 --max-error 0");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("tiny.json: the simulator cannot be believed here"));
  EXPECT_THAT(refused.out, HasSubstr("validation: "));
  const Ran unused = Emplace(place + "--max-error 5");
  EXPECT_EQ(unused.status, 2);
  EXPECT_EQ(unused.err, "--max-error: is used without --validate-every (--validate-every N)\n");
  const Ran compared = Emplace(
      "compare --graph tiny.json --cluster cluster.yaml --profile prof.json --agents random,single_device "
      "--evaluations 4 --validate-every 2 --json");
  EXPECT_EQ(compared.status, 0) << compared.err;
  const nlohmann::json rows = nlohmann::json::parse(compared.out)["results"];
  for (const auto& row : rows) {
    EXPECT_GE(row["validation"]["measurements"], 1) << row["agent"];
  }
}

TEST_F(ValidateTest, ASweepOnDevicesThatAreNotHereIsRefusedBeforeItsFirstTrial) {
  std::string text = kRealRewards;
  text.replace(text.find("{file: cluster.yaml}"), 20, "{name: p2.8xlarge, gpus: 2}");
  text.replace(text.find("{profile: prof.json}"), 20, "roofline");
  Write("elsewhere.yaml", text);
  const Ran ran = Emplace("sweep elsewhere.yaml --dry-run");
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.err, "elsewhere.yaml: cluster: device cpu:0 is of kind xeon-e5-2686v4, the real one is cpu-core\n");
  EXPECT_EQ(Emplace("sweep elsewhere.yaml -o runs").err, ran.err);
  EXPECT_EQ(Emplace("sweep elsewhere.yaml -o planned --plan").status, 0);  // for workers on the machine that has them
}

TEST_F(ValidateTest, TrialsOnHardwareRunInTheOrderOfTheirIdsLengthy) {
  std::string text = kRealRewards;
  text.replace(text.find("seeds: [1]"), 10, "seeds: [1, 2, 3]");
  Write("real.yaml", text);
  const Ran ran = Emplace("sweep real.yaml -o runs");
  EXPECT_EQ(ran.status, 0) << ran.err;
  std::size_t at = 0;
  bool as_planned = true;
  std::string last;
  for (const std::string& folder : Folders("runs/real")) {  // sorted
    const nlohmann::json spec = Json(folder + "/spec.json");
    const std::string key =
        spec["hardware"]["reward_source"].get<std::string>() + std::to_string(spec["seed"].get<int>());
    const std::size_t found = ran.err.find("reward_source " + spec["hardware"]["reward_source"].get<std::string>() +
                                           ", tiny, seed " + std::to_string(spec["seed"].get<int>()));
    ASSERT_NE(found, std::string::npos) << ran.err;
    EXPECT_GT(found, at) << key;
    at = found;
    as_planned = as_planned && key > last;
    last = key;
  }
  EXPECT_FALSE(as_planned);  // otherwise the comparison is meaningless
}

}  // namespace
}  // namespace emplace::testing
