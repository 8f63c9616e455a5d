#include "experiments/validation/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/bounds.h"
#include "tests/testing/fake_hardware.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::FakeDevice;
using ::emplace::testing::FakeLog;
using ::emplace::testing::FakeOp;

TEST(CorrelationTest, RanksAreComparedNotValues) {
  const std::vector<double> a = {1, 2, 3, 10};
  const std::vector<double> b = {1, 4, 9, 1000};
  EXPECT_DOUBLE_EQ(*experiments::SpearmanCorrelation(a, b), 1);
  EXPECT_LT(*experiments::PearsonCorrelation(a, b), 1);
  const std::vector<double> reversed = {4, 3, 2, 1};
  EXPECT_DOUBLE_EQ(*experiments::SpearmanCorrelation(a, reversed), -1);
}

// Ranks of (1, 2, 2, 4) are 1, 2.5, 2.5, 4; ranks of (1, 3, 2, 4) are 1, 3, 2, 4. Deviations from 2.5: -1.5, 0, 0, 1.5
// and -1.5, 0.5, -0.5, 1.5. Sum of products 4.5, sums of squares 4.5 and 5: 4.5 / sqrt(22.5).
TEST(CorrelationTest, EqualValuesShareTheMeanOfTheirRanks) {
  const std::vector<double> a = {1, 2, 2, 4};
  const std::vector<double> b = {1, 3, 2, 4};
  EXPECT_NEAR(*experiments::SpearmanCorrelation(a, b), 4.5 / std::sqrt(22.5), 1e-12);
}

TEST(CorrelationTest, ThereIsNoneOfFewOrEqualValues) {
  const std::vector<double> two = {1, 2};
  const std::vector<double> equal = {5, 5, 5};
  const std::vector<double> three = {1, 2, 3};
  EXPECT_FALSE(experiments::SpearmanCorrelation(two, two));
  EXPECT_FALSE(experiments::PearsonCorrelation(equal, three));
}

struct Bench {
  FakeLog log;
  FakeDevice first{"cpu:0", "test-gpu", &log};
  FakeDevice second{"cpu:1", "test-gpu", &log};
  Graph graph = Build({FakeOp("a"), FakeOp("b", {"a"}), FakeOp("c", {"b"}, "tanh")});
  Cluster cluster = Cluster::Uniform(
      "two", {{.name = "cpu:0", .kind = "test-gpu", .memory = {}}, {.name = "cpu:1", .kind = "test-gpu", .memory = {}}},
      {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0});
  CostTable costs = testing::MeasuredCosts(graph, cluster);
  Simulator simulator{graph, cluster, costs};
  profiler::HardwareRunner hardware{graph, cluster, {&first, &second}, {.warmups = 0, .steps = 2}};
  experiments::Validator validator{graph, cluster, costs, simulator, hardware};
};

TEST(ValidatorTest, OnePlacementIsAskedOfBoth) {
  Bench bench;
  const experiments::ValidationCase one = bench.validator.Check("all on one", Placement(3));
  EXPECT_EQ(one.label, "all on one");
  EXPECT_DOUBLE_EQ(one.simulated.micros, 3);  // three ops of 1 us
  EXPECT_DOUBLE_EQ(one.simulated.busy[0], 3);
  EXPECT_DOUBLE_EQ(one.simulated.busy[1], 0);
  EXPECT_DOUBLE_EQ(one.simulated.start[2], 2);
  EXPECT_TRUE(one.Compared());
  EXPECT_EQ(one.measured.step_micros.size(), 2U);
  EXPECT_EQ(one.measured_busy[1], 0);
  EXPECT_GT(one.measured_op[0], 0);
}

TEST(ValidatorTest, InRoundsEveryPlacementHasARatioToTheReference) {
  Bench bench;
  Placement apart(3);
  apart[MakeId<OpId>(1)] = MakeId<DeviceId>(1);
  const std::vector<experiments::SampledPlacement> placements = {{"one", Placement(3)}, {"apart", apart}};
  std::size_t visits = 0;
  const experiments::CheckedInRounds checked = bench.validator.CheckInRounds(
      placements, {"everything on cpu:0", Placement(3)}, {.rounds = 4}, [] { return true; },
      [&](std::size_t done, double micros) {
        EXPECT_EQ(done, ++visits);
        EXPECT_GT(micros, 0);
      });
  EXPECT_EQ(visits, 8U);
  ASSERT_EQ(checked.cases.size(), 2U);
  EXPECT_EQ(checked.reference, "everything on cpu:0");
  EXPECT_GT(checked.reference_micros, 0);
  EXPECT_DOUBLE_EQ(checked.simulated_reference_micros, 3);
  for (const experiments::ValidationCase& one : checked.cases) {
    ASSERT_TRUE(one.speed_up);
    EXPECT_GT(one.speed_up->mean, 0);
    EXPECT_EQ(one.measured.step_micros.size(), 4U);
    EXPECT_GT(one.measured_op[0], 0);
    EXPECT_EQ(one.measured.result.start_micros.size(), 3U);
  }
  EXPECT_EQ(checked.cases[0].measured_busy[1], 0);
  EXPECT_GT(checked.cases[1].measured_busy[1], 0);
  const experiments::ValidationSummary summary = bench.validator.Summarise(checked);
  EXPECT_EQ(summary.rounds, 4U);
  EXPECT_EQ(summary.counted_steps, 16U);  // two placements, four rounds, two steps each
  ASSERT_TRUE(summary.ceiling);
  EXPECT_GE(summary.ceiling->p90, summary.ceiling->median);
  std::ostringstream out;
  experiments::WriteValidation(out, bench.graph, bench.cluster, checked.cases, summary);
  const nlohmann::json json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json.at("summary").at("reference"), "everything on cpu:0");
  EXPECT_EQ(json.at("summary").at("rounds"), 4);
  EXPECT_GE(json.at("summary").at("ceiling").at("median_step_error"), 0);
  EXPECT_EQ(json.at("cases")[0].at("speed_up_95").size(), 2U);
  EXPECT_GE(json.at("verdict").size(), 3U);
}

// Op times measured between the steps, 2, 3 and 4 us, replace 1 us each. With them too, a copy beside a busy neighbour
// takes twice its time alone.
TEST(ValidatorTest, OtherOpTimesAreSimulatedWithAllElseAsItWas) {
  Bench bench;
  const profiler::OpSampler::Times times = {.alone = {2, 3, 4}, .beside = {}};
  const experiments::PredictedStep step =
      experiments::SimulateWithTimes(bench.graph, bench.cluster, bench.costs, {}, times, Placement(3));
  EXPECT_DOUBLE_EQ(step.micros, 9);
  EXPECT_EQ(step.busy, (std::vector<double>{9, 0}));
  EXPECT_EQ(step.start, (std::vector<double>{0, 2, 5}));
  const Graph copies = Build({FakeOp("a", {}, "concat"), FakeOp("b", {}, "concat")});
  Placement apart(2);
  apart[MakeId<OpId>(1)] = MakeId<DeviceId>(1);
  const CostTable contended = testing::ContendedCosts(copies, bench.cluster, {{OpClass::kCopy, 2}});
  EXPECT_DOUBLE_EQ(
      experiments::SimulateWithTimes(copies, bench.cluster, contended, {}, {.alone = {5, 3}, .beside = {}}, apart)
          .micros,
      6);
}

// Alone a and c take 4 us and b 10. First b takes 2 % longer beside a busy device, which counts as noise; then b and c
// take half as long again.
TEST(ValidatorTest, TimesBesideBusyDevicesAreTheContention) {
  Bench bench;
  const Graph ops = Build({FakeOp("a"), FakeOp("b", {}, "tanh"), FakeOp("c", {"a"})});
  const CostTable costs = testing::MeasuredCosts(ops, bench.cluster);
  Placement apart(3);
  apart[MakeId<OpId>(1)] = MakeId<DeviceId>(1);
  const auto simulate = [&](const std::vector<double>& beside) {
    return experiments::SimulateWithTimes(ops, bench.cluster, costs, {}, {.alone = {4, 10, 4}, .beside = beside},
                                          apart);
  };
  const experiments::PredictedStep quiet = simulate({4, 10.2, 4});
  EXPECT_DOUBLE_EQ(quiet.busy[0], 8);
  EXPECT_DOUBLE_EQ(quiet.busy[1], 10.1);  // the mean of both
  const experiments::PredictedStep busy = simulate({4, 15, 6});
  EXPECT_DOUBLE_EQ(busy.busy[0], 4 + 6);  // a is first, c starts while b runs
  EXPECT_DOUBLE_EQ(busy.busy[1], 15);     // starts at 0 too, after a
}

// The reference simulator's step time includes the gap after the last op.
TEST(ValidatorTest, ThePredictedStepTimeIsTheEnginesOwn) {
  Bench bench;
  const Cluster gaps = testing::MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 5);
  const CostTable costs = testing::MeasuredCosts(bench.graph, gaps);
  const SimOptions options{.engine = "placeto-reference"};
  const double step_time = Simulator(bench.graph, gaps, costs, options).Run(Placement(3)).step_time_micros;
  const profiler::OpSampler::Times times = {.alone = {1, 1, 1}, .beside = {}};
  const experiments::PredictedStep step =
      experiments::SimulateWithTimes(bench.graph, gaps, costs, options, times, Placement(3));
  EXPECT_DOUBLE_EQ(step.micros, step_time);
  EXPECT_GT(step.micros, step.start[2] + 1);
}

// A made-up measurement: all ops on device 0, one after the other, with equal times.
experiments::ValidationCase Case(double simulated_each, double measured_each) {
  experiments::ValidationCase one;
  one.simulated = {.micros = 3 * simulated_each, .busy = {3 * simulated_each, 0}, .start = {}};
  one.measured_busy = {3 * measured_each, 0};
  one.measured.result.step_time_micros = 3 * measured_each;
  one.measured.step_micros = {3 * measured_each, 3.3 * measured_each};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto at = static_cast<double>(i);
    one.simulated.start.push_back(at * simulated_each);
    one.measured.result.start_micros.push_back(at * measured_each);
    one.measured_op.push_back(measured_each);
    one.measured.timeline.ops.push_back({.op = MakeId<OpId>(i),
                                         .device = {},
                                         .start_micros = at * measured_each,
                                         .end_micros = (at + 1) * measured_each});
  }
  return one;
}

// Two ops of 1 us in the costs, without contention there; measured 10 and 20 us alone, 15 and 30 beside.
TEST(ValidatorTest, ContentionIsSummedOverAllOps) {
  Bench bench;
  std::vector<experiments::ValidationCase> cases = {Case(1, 2), Case(1, 3)};
  for (experiments::ValidationCase& one : cases) {
    one.interleaved = {.micros = 9, .busy = {9, 0}, .start = {0, 3, 6}};
    one.measured.op_times = {.alone = {10, 10, 20}, .beside = {}};
  }
  EXPECT_FALSE(bench.validator.Summarise(cases).contention);
  cases[1].measured.op_times.beside = {15, 15, 30};
  const experiments::ValidationSummary summary = bench.validator.Summarise(cases);
  ASSERT_TRUE(summary.contention);
  EXPECT_DOUBLE_EQ(summary.contention->measured, 1.5);
  EXPECT_DOUBLE_EQ(summary.contention->costs, 1);
  EXPECT_EQ(summary.op_samples, 2U);
  std::ostringstream out;
  experiments::WriteValidation(out, bench.graph, bench.cluster, cases, summary);
  const nlohmann::json json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json.at("summary").at("contention").at("measured"), 1.5);
  EXPECT_EQ(json.at("summary").at("op_samples"), 2);
  EXPECT_EQ(json.at("ops")[0].at("beside_us"), 10 + 15);
}

TEST(ValidatorTest, InterleavedOpTimesMakeASecondPrediction) {
  Bench bench;
  const profiler::HardwareRunner interleaving(bench.graph, bench.cluster, {&bench.first, &bench.second},
                                              {.warmups = 0, .steps = 3, .interleave = true});
  const experiments::Validator validator(bench.graph, bench.cluster, bench.costs, bench.simulator, interleaving);
  const experiments::ValidationCase one = validator.Check("all on one", Placement(3));
  ASSERT_EQ(one.measured.op_times.alone.size(), 3U);
  double sum = 0;
  for (const double micros : one.measured.op_times.alone) sum += micros;
  ASSERT_TRUE(one.interleaved);
  EXPECT_NEAR(one.interleaved->micros, sum, 0.0015);  // each is rounded to ns
  std::vector<experiments::ValidationCase> cases = {Case(1, 2), Case(1, 3), Case(1, 4)};
  EXPECT_FALSE(bench.validator.Summarise(cases).interleaved);
  for (experiments::ValidationCase& each : cases) {
    const double measured = each.measured.result.step_time_micros;
    each.interleaved = {.micros = 1.5 * measured, .busy = {1.2 * measured, 0.1 * measured}, .start = {0, 0, 0}};
  }
  const experiments::ValidationSummary summary = bench.validator.Summarise(cases);
  ASSERT_TRUE(summary.interleaved);
  EXPECT_NEAR(summary.interleaved->step.median, 0.5, 1e-12);
  EXPECT_NEAR(*summary.interleaved->step.spearman, 1, 1e-12);
  EXPECT_NEAR(summary.interleaved->median_busy, 0.15, 1e-12);      // 0.2 and 0.1, three times
  EXPECT_NEAR(summary.interleaved->median_start, 1.0 / 3, 1e-12);  // 0, 1/3 and 2/3, three times
  EXPECT_NEAR(summary.interleaved->p90_busy, 0.2, 1e-12);
  EXPECT_NEAR(summary.interleaved->p90_start, 2.0 / 3, 1e-12);
}

// Simulated 3 us each time; measured 2.5, 3 and 6: errors +20 %, 0 and -50 %.
TEST(ValidatorTest, ErrorsAreOfEachMetricByItself) {
  Bench bench;
  std::vector<experiments::ValidationCase> cases = {Case(1, 2.5 / 3), Case(1, 1), Case(1, 2)};
  cases[1].measured.disturbed = 1;
  const experiments::ValidationSummary summary = bench.validator.Summarise(cases);
  EXPECT_EQ(summary.compared, 3U);
  EXPECT_EQ(summary.counted_steps, 6U);
  EXPECT_EQ(summary.disturbed_steps, 1U);
  EXPECT_NEAR(summary.simulated.step.median, 0.2, 1e-12);
  EXPECT_NEAR(summary.simulated.step.largest, 0.5, 1e-12);
  EXPECT_NEAR(summary.simulated.step.p90, 0.2 + 0.8 * 0.3, 1e-12);  // position 1.8 of 0, 0.2, 0.5
  EXPECT_NEAR(summary.simulated.step.mean_signed, (0.2 + 0 - 0.5) / 3, 1e-12);
  EXPECT_FALSE(summary.simulated.step.spearman);  // all simulated values are equal
  EXPECT_NEAR(summary.median_step_spread, 0.1, 1e-12);
  // Busy: 0.2, 0, 0.5 of the step, and three times 0 for the idle device: sorted 0 0 0 0 0.2 0.5.
  EXPECT_NEAR(summary.simulated.median_busy, 0, 1e-12);
  EXPECT_NEAR(summary.simulated.p90_busy, 0.35, 1e-12);  // position 4.5
  // a and b are relu(): 6 runs of 1 us against 2 * (0.833 + 1 + 2). c is a tanh: 3 against 3.833.
  ASSERT_EQ(summary.ops.size(), 3U);  // a has no input, b has one, c is of another kind
  for (const experiments::OpError& op : summary.ops) {
    EXPECT_EQ(op.runs, 3U);
    EXPECT_DOUBLE_EQ(op.simulated_micros, 3);
    EXPECT_NEAR(op.measured_micros, 2.5 / 3 + 1 + 2, 1e-12);
  }
  EXPECT_EQ(bench.validator.Summarise(cases, 1).ops.size(), 1U);
}

TEST(ValidatorTest, WhatDoesNotFitIsCountedAndNotCompared) {
  Bench bench;
  experiments::ValidationCase does_not = Case(1, 1);
  does_not.measured.result.fits_memory = false;
  experiments::ValidationCase neither = does_not;
  neither.simulated_fits = false;
  const experiments::ValidationSummary summary =
      bench.validator.Summarise(std::vector<experiments::ValidationCase>{does_not, neither});
  EXPECT_EQ(summary.placements, 2U);
  EXPECT_EQ(summary.compared, 0U);
  EXPECT_EQ(summary.fit_disagrees, 1U);
  EXPECT_TRUE(summary.ops.empty());
}

}  // namespace
}  // namespace emplace

namespace emplace {
namespace {

TEST(ValidationJsonTest, HoldsSummaryOpsAndEveryPlacement) {
  experiments::ValidationCase fits;
  fits.label = "random 0";
  fits.simulated = {.micros = 12, .busy = {10, 2}, .start = {}};
  fits.measured.result.step_time_micros = 10;
  fits.measured.step_micros = {9.5, 10, 11};
  fits.measured_busy = {8, 1};
  experiments::ValidationCase does_not;
  does_not.label = "random 1";
  does_not.measured.result.fits_memory = false;
  does_not.measured.failure = "no room";
  experiments::ValidationSummary summary;
  summary.placements = 2;
  summary.compared = 1;
  summary.simulated.step.median = 0.2;
  summary.interleaved = {
      .step = {.median = 0.1, .spearman = 0.5, .pearson = 0.4}, .median_busy = 0.05, .p90_start = 0.3};
  fits.interleaved = experiments::PredictedStep{.micros = 11, .busy = {9, 2}, .start = {}};
  summary.ops = {
      {.signature = "relu(f32[1])", .device_kind = "cpu-core", .runs = 3, .simulated_micros = 1, .measured_micros = 2}};
  std::ostringstream out;
  experiments::WriteValidation(out, testing::MakeChain(2, 1, 0), testing::TwoDevices(), std::vector{fits, does_not},
                               summary);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["schema"], "emplace.validation");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["devices"], nlohmann::json({"gpu:0", "gpu:1"}));
  EXPECT_EQ(json["summary"]["median_step_error"], 0.2);
  EXPECT_TRUE(json["summary"]["spearman"].is_null());
  EXPECT_EQ(json["summary"]["interleaved"]["median_step_error"], 0.1);
  EXPECT_EQ(json["summary"]["interleaved"]["spearman"], 0.5);
  EXPECT_EQ(json["summary"]["interleaved"]["median_busy_error"], 0.05);
  EXPECT_EQ(json["summary"]["interleaved"]["p90_start_error"], 0.3);
  EXPECT_EQ(json["cases"][0]["interleaved_us"], 11.0);
  EXPECT_EQ(json["ops"][0]["measured_us"], 2.0);
  EXPECT_EQ(json["cases"][0]["measured_steps_us"], nlohmann::json({9.5, 10.0, 11.0}));
  EXPECT_EQ(json["cases"][1]["failure"], "no room");
  EXPECT_FALSE(json["cases"][1].contains("measured_us"));
}

}  // namespace
}  // namespace emplace
