// emplace simulate --schedule.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/samples.h"

namespace emplace::testing {
namespace {

// Two layers, each a device, with forward and backward ops of 1 us and 2 us.
constexpr const char* kPipelineGraph = R"({"schema": "emplace.graph", "version": 1, "name": "pipe",
 "ops": [
  {"name": "f0", "kind": "test", "outputs": [1000], "time_us": 1, "pass": "forward"},
  {"name": "f1", "kind": "test", "inputs": ["f0"], "outputs": [1000], "time_us": 1, "pass": "forward"},
  {"name": "b1", "kind": "test", "inputs": ["f1"], "outputs": [1000], "time_us": 2, "pass": "backward"},
  {"name": "b0", "kind": "test", "inputs": ["b1", "f0"], "outputs": [1000], "time_us": 2, "pass": "backward"},
  {"name": "u0", "kind": "test", "inputs": ["b0"], "time_us": 5, "pass": "update"}]}
)";

class ScheduleCommandTest : public EmplaceTest {
 protected:
  ScheduleCommandTest() {
    Write("g.json", kPipelineGraph);
    Write("p.json", R"({"schema": "emplace.placement", "version": 1,
 "devices": {"f0": "gpu:0", "f1": "gpu:1", "b1": "gpu:1", "b0": "gpu:0", "u0": "gpu:0"}})");
  }
  Ran Simulate(const std::string& more) const {
    return Emplace("simulate --graph g.json --cluster c.yaml --placement p.json " + more);
  }
};

TEST_F(ScheduleCommandTest, PrintsWhatAScheduleTakes) {
  // Each stage takes 3 us, and each transfer 1: 0F 0-1, 1F 2-3, 1B 3-5, 0B 6-8, then u0 of 5.
  const Ran one = Simulate("--schedule 1f1b --micro-batches 1 --json");
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(one.err, "");
  nlohmann::json result = nlohmann::json::parse(one.out);
  EXPECT_EQ(result.at("step_time_us"), 13);
  EXPECT_EQ(result.at("exposed_communication_us"), 2);
  EXPECT_EQ(result.at("max_load_us"), 3);
  EXPECT_EQ(result.at("throughput_steps_per_s"), 1e6 / 13);
  EXPECT_EQ(result.at("bubble_percent"), 100 * 15.0 / 26.0);
  EXPECT_EQ(result.at("schedule"), "1f1b");
  EXPECT_EQ(result.at("micro_batches"), 1);
  EXPECT_EQ(result.count("best_bound_us"), 0U);
  const Ran text = Simulate("--schedule gpipe --micro-batches 4");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("schedule     gpipe, 4 micro-batches: "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("max load     3 us for each micro-batch\n"), std::string::npos) << text.out;
}

TEST_F(ScheduleCommandTest, TheSteadyStateSaysWhatFurtherMicroBatchesTakeLengthy) {
  // A round of the two micro-batches in flight takes 1 + 1 + 1 + 2 + 1 + 2 us; a device works 3 us.
  const Ran json = Simulate("--schedule 1f1b --micro-batches 3 --steady-state --json");
  EXPECT_EQ(json.status, 0) << json.err;
  const nlohmann::json result = nlohmann::json::parse(json.out);
  EXPECT_EQ(result.at("steady_state_us_per_micro_batch"), 4);
  EXPECT_EQ(result.at("steady_state_bottleneck"), "round of 2 micro-batches over gpu:0, gpu:1");
  const auto step = [&](const std::string& micro_batches) {
    const Ran ran = Simulate("--schedule 1f1b --json --micro-batches " + micro_batches);
    return nlohmann::json::parse(ran.out).at("step_time_us").get<double>();
  };
  EXPECT_EQ(step("60") - step("50"), 40);
  const Ran text = Simulate("--schedule gpipe --micro-batches 3 --steady-state");
  EXPECT_NE(text.out.find("steady state 3 us for each further micro-batch: work of gpu:"), std::string::npos)
      << text.out;
  Ran refused = Simulate("--steady-state");
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.err, "--steady-state: is only for a schedule (--schedule 1f1b ..)\n");
  Write("s.csv", "0F0,,0B0\n,1F0,1B0\n");
  refused = Simulate("--schedule s.csv --steady-state");
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.err, "--steady-state: needs a named schedule, because a file defines no further micro-batches\n");
  refused = Simulate("--schedule 1f1b --micro-batches 3 --collectives ring");
  EXPECT_EQ(refused.status, 2);
}

TEST_F(ScheduleCommandTest, WithoutAScheduleNothingChanges) {
  EXPECT_EQ(Simulate("--schedule none --json").out, Simulate("--json").out);
  EXPECT_EQ(Simulate("--schedule none").out, Simulate("").out);
  EXPECT_EQ(nlohmann::json::parse(Simulate("--json").out).count("bubble_percent"), 0U);
}

TEST_F(ScheduleCommandTest, AFileIsASchedule) {
  Write("s.csv", "0F0,0F1,,0B0,0B1\n,1F0,1B0,1F1,1B1\n");
  const Ran file = Simulate("--schedule s.csv --json");
  EXPECT_EQ(file.status, 0) << file.err;
  nlohmann::json of_file = nlohmann::json::parse(file.out);
  nlohmann::json of_name = nlohmann::json::parse(Simulate("--schedule 1f1b --micro-batches 2 --json").out);
  EXPECT_EQ(of_file.at("schedule"), "s.csv");
  of_file.erase("schedule");
  of_name.erase("schedule");
  EXPECT_EQ(of_file, of_name);
  ASSERT_EQ(Shell("gzip -k s.csv").status, 0);
  EXPECT_EQ(Simulate("--schedule s.csv.gz --json").status, 0);
  EXPECT_EQ(Shell("cat s.csv | $emplace simulate --graph g.json --cluster c.yaml --placement p.json --schedule - "
                  "--micro-batches 2")
                .status,
            0);
  // Ranks in another order are the same devices.
  Write("t.csv", "1F0,1B0,1F1,1B1\n0F0,0F1,0B0,0B1\n");
  EXPECT_EQ(nlohmann::json::parse(Simulate("--schedule t.csv --json").out).at("step_time_us"),
            of_file.at("step_time_us"));
}

TEST_F(ScheduleCommandTest, WrongAndMissingFilesAreNamed) {
  const std::string names = Names();
  ExpectRefused(Simulate("--schedule none.csv"), "none.csv: cannot be read (No such file or directory)");
  ExpectRefused(Simulate("--schedule g.json"),
                "--schedule: unknown schedule \"g.json\" (gpipe, 1f1b, interleaved, zb-h1, zb-v)");
  EXPECT_EQ(Names(), names);
  Write("s.csv", "0F0,0B0\n1F0,1Q0\n");
  ExpectRefused(Simulate("--schedule s.csv"),
                "s.csv: line 2, cell 2: \"1Q0\" is not an action (stage, F, B, I or W, and micro-batch, as in 0F3)");
  Write("s.csv", "0B0,0F0\n1F0,1B0\n");
  ExpectRefused(
      Simulate("--schedule s.csv"),
      "s.csv: line 1, cell 1: deadlock: 0B0 (line 1, cell 1) waits for 0F0 (line 1, cell 2) (a line runs from "
      "left to right)");
  Write("s.csv", "0F0,0B0\n");
  ExpectRefused(Simulate("--schedule s.csv"),
                "p.json: s.csv: needs stages (1) on devices in the order 0 (the placement has them on gpu:0 gpu:1)");
  Write("s.csv", "0F0,0B0\n1F0,1B0\n");
  ExpectRefused(Simulate("--schedule s.csv --micro-batches 2"),
                "--micro-batches: is 2, but s.csv has 1 (leave it out)");
}

TEST_F(ScheduleCommandTest, OptionsThatDoNotFitAreRefusedLengthy) {
  ExpectRefused(Simulate("--schedule gpipe"), "--micro-batches: is missing (how many gpipe is to run)");
  ExpectRefused(Simulate("--micro-batches 2"), "--micro-batches: is used without a schedule (--schedule gpipe ..)");
  ExpectRefused(Simulate("--schedule gpipe --micro-batches 2 --engine placeto-reference"),
                "--engine: \"placeto-reference\" runs no schedules (fifo)");
  ExpectRefused(Simulate("--schedule gpipe --micro-batches 4000000"),
                "--schedule gpipe: has too many actions (4000000 at most, of 2 stages and 4000000 micro-batches)");
  ExpectRefused(Simulate("--schedule interleaved --micro-batches 4"),
                "--schedule: is \"interleaved\" (interleaved:V, with V stages on each device, 2 to 1000)");
  ExpectRefused(Simulate("--schedule interleaved:2 --micro-batches 3"),
                "--schedule interleaved:2: needs a multiple of 2 micro-batches, the number of devices, not 3");
  ExpectRefused(Simulate("--schedule interleaved:2 --micro-batches 4"),
                "p.json: interleaved:2: needs stages (4) on devices in the order 0 1 0 1 (the placement has them on "
                "gpu:0 gpu:1)");
  EXPECT_EQ(Simulate("--schedule gpipe --micro-batches 0").status, 2);
}

TEST_F(ScheduleCommandTest, APlacementThatGoesBackIsRefused) {
  ASSERT_EQ(Shell(R"(sed -i 's/"b0": "gpu:0"/"b0": "gpu:1"/; s/"b1": "gpu:1"/"b1": "gpu:0"/' p.json)").status, 0);
  ExpectRefused(
      Simulate("--schedule gpipe --micro-batches 2"),
      "p.json: devices[\"b0\"]: is on gpu:1 and reads \"b1\" on gpu:0, which comes before it in the pipeline (the "
      "backward pass goes from the last stage to the first)");
}

TEST_F(ScheduleCommandTest, EachRankHasAnIssueLaneOfItsOwn) {
  // A lane that the file gives to several devices is one for each rank: frameworks run a process for each.
  ASSERT_EQ(Shell("sed -i 's/count: 2/count: 2, issue: {host_us: 1}/' c.yaml").status, 0);
  const Ran own = Simulate("--schedule gpipe --micro-batches 2");
  EXPECT_EQ(own.status, 0) << own.err;
  ASSERT_EQ(Shell("sed -i 's/host_us: 1/host_us: 1, lane: one/' c.yaml").status, 0);
  EXPECT_EQ(Simulate("--schedule gpipe --micro-batches 2").out, own.out);
}

TEST_F(ScheduleCommandTest, WritesATimelineOfActions) {
  const Ran ran = Simulate("--schedule gpipe --micro-batches 1 --timeline -");
  EXPECT_EQ(ran.status, 0) << ran.err;
  std::string slices;
  const nlohmann::json trace = nlohmann::json::parse(ran.out);
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    slices += event.at("name").get<std::string>() + " " + event.at("pid").dump() + " " + event.at("ts").dump() + " " +
              event.at("dur").dump() + "; ";
  }
  EXPECT_EQ(slices, "0F0 0 0 1; 0B0 0 6 2; 1F0 1 2 1; 1B0 1 3 2; u0 0 8 5; ");
}

TEST_F(ScheduleCommandTest, DrawsATimelineOfActions) {
  ASSERT_EQ(Simulate("--schedule gpipe --micro-batches 2 --timeline t.svg").status, 0);
  EXPECT_EQ(Read("t.svg").rfind("<svg ", 0), 0U);
  EXPECT_NE(Read("t.svg").find("<title>1B1</title>"), std::string::npos) << Read("t.svg");
  ASSERT_EQ(Emplace("place --graph g.json --cluster c.yaml --schedule gpipe --micro-batches 2 --evaluations 5 "
                    "--timeline placed.svg -o placed.json")
                .status,
            0);
  EXPECT_NE(Read("placed.svg").find("2 micro-batches"), std::string::npos);
}

TEST_F(ScheduleCommandTest, ExplainsAStep) {
  // 0F0 0-1, sent until 2, 1F0 2-3, 1B0 3-5, sent until 6, 0B0 6-8, u0 8-13: all of it is the chain.
  const std::string explain = "explain --graph g.json --cluster c.yaml --placement p.json --schedule gpipe ";
  const Ran ran = Emplace(explain + "--micro-batches 1 --json");
  ASSERT_EQ(ran.status, 0) << ran.err;
  const nlohmann::json json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json.at("schema"), "emplace.explanation");
  EXPECT_EQ(json.at("schedule"), "gpipe");
  EXPECT_EQ(json.at("step_time_us"), 13);
  EXPECT_EQ(json.at("chain").at("forward_us"), 2);
  EXPECT_EQ(json.at("chain").at("transfer_us"), 2);
  EXPECT_EQ(json.at("chain").at("update_us"), 5);
  EXPECT_EQ(json.at("chain").at("parts").at(1),
            nlohmann::json::parse(R"({"kind": "transfer", "start_us": 1.0, "duration_us": 1.0, "action": "0F0",
                                      "device": "gpu:0", "to": "gpu:1"})"));
  EXPECT_EQ(json.at("chain").at("parts").at(6).at("op"), "u0");
  EXPECT_EQ(json.at("devices").at(1).at("idle_us"), 8);
  EXPECT_EQ(json.at("devices").at(1).at("waiting_for_devices_us"), 1);
  EXPECT_EQ(json.at("devices").at(1).at("waiting_for_transfers_us"), 1);
  EXPECT_EQ(json.at("actions").size(), 4U);
  EXPECT_EQ(json.at("final_ops").at(0).at("slack_us"), 0);
  // Transfers of 1000 bytes at 1 GB/s take half a us with twice the bandwidth.
  EXPECT_EQ(json.at("what_if").at(0).at("step_time_us"), 12);
  EXPECT_EQ(json.at("what_if").at(1).at("gain_us"), 0);
  EXPECT_EQ(json.at("what_if").at(2).at("change"), "ops 10 % faster on gpu:0");
  EXPECT_EQ(json.at("what_if").at(2).at("gain_us"), 0.8);
  const Ran text = Emplace(explain + "--micro-batches 3");
  EXPECT_NE(text.out.find("The critical chain, which takes the whole step"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("twice the bandwidth"), std::string::npos);
  ExpectRefused(Emplace(explain + "--micro-batches 1 --moves 3"),
                "--moves: is not for a schedule, for which no moves are simulated");
  ExpectRefused(Emplace(explain + "--micro-batches 1 -o x.html"), "--output: is not for a schedule (--json)");
  ExpectRefused(Emplace(explain), "--micro-batches: is missing (how many gpipe is to run)");
}

TEST_F(ScheduleCommandTest, ListsSchedules) {
  const Ran ran = Emplace("list schedules");
  EXPECT_EQ(ran.status, 0);
  EXPECT_NE(ran.out.find("zb-v "), std::string::npos) << ran.out;
}

}  // namespace
}  // namespace emplace::testing
