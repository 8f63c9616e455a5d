#include "experiments/validation/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emplace {
namespace {

using experiments::MeanOfRounds;
using experiments::ValidationCase;
using experiments::ValidationSummary;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

ValidationCase Measured(const std::string& label, double simulated, const MeanOfRounds& speed_up) {
  ValidationCase one;
  one.label = label;
  one.simulated.micros = simulated;
  one.measured.result.step_time_micros = simulated;
  one.speed_up = speed_up;
  return one;
}

ValidationSummary Summary(double spearman, double own_spearman) {
  ValidationSummary summary;
  summary.compared = 3;
  summary.reference = "everything on cpu:0";
  summary.simulated_reference_micros = 150;
  summary.counted_steps = 100;
  summary.simulated.step = {
      .median = 0.05, .p90 = 0.1, .largest = 0.2, .mean_signed = 0, .spearman = spearman, .pearson = spearman};
  summary.ceiling = experiments::StepErrors{
      .median = 0.02, .p90 = 0.04, .largest = 0.1, .mean_signed = 0, .spearman = own_spearman, .pearson = own_spearman};
  return summary;
}

std::string First(const MeanOfRounds& speed_up) {
  const std::vector<ValidationCase> cases = {Measured("slow", 200, {.mean = 0.7, .interval = {{0.6, 0.8}}}),
                                             Measured("best", 100, speed_up)};
  return experiments::Verdict(cases, Summary(0.9, 0.99))[0];
}

TEST(VerdictTest, SaysWhetherTheBestIsFasterForReal) {
  EXPECT_EQ(
      First({.mean = 1.4, .interval = {{1.3, 1.5}}}),
      "best, the best in the simulator, is faster than everything on cpu:0 for real: 1.40 times as fast (95 %: 1.30 "
      "to 1.50; the simulator says 1.50)");
  EXPECT_THAT(First({.mean = 0.9, .interval = {{0.85, 0.95}}}),
              HasSubstr("is slower than everything on cpu:0 for real: 0.90"));
  EXPECT_THAT(First({.mean = 1.1, .interval = {{0.9, 1.3}}}), HasSubstr("is neither faster nor slower"));
  EXPECT_THAT(First({.mean = 1.1}), HasSubstr("too few rounds"));
}

std::string OfTheOrder(double spearman, double own) {
  return experiments::Verdict(std::vector<ValidationCase>(), Summary(spearman, own))[0];
}

TEST(VerdictTest, SaysWhetherTheOrderIsKeptBesideWhatTheMachineKeeps) {
  EXPECT_EQ(
      OfTheOrder(-0.3, 0.95),
      "the order is reversed: what the simulator calls faster is slower (Spearman -0.300; odd against even rounds "
      "0.950)");
  EXPECT_THAT(OfTheOrder(0.98, 0.99), StartsWith("the order is kept: "));
  EXPECT_THAT(OfTheOrder(0.92, 0.93), StartsWith("the order is kept, as well as the machine itself keeps it: "));
  EXPECT_THAT(OfTheOrder(0.85, 0.99), StartsWith("the order is mostly kept: "));
  EXPECT_THAT(OfTheOrder(0.5, 0.99), StartsWith("the order is kept in part: "));
  EXPECT_THAT(OfTheOrder(0.1, 0.99), StartsWith("the order is lost: "));
  EXPECT_THAT(OfTheOrder(0.1, 0.2), StartsWith("the machine does not keep the order of these placements itself"));
}

TEST(VerdictTest, SaysHowNearTheSimulatorIsAndWhatDisturbed) {
  ValidationSummary summary = Summary(0.9, 0.99);
  EXPECT_EQ(
      experiments::Verdict({}, summary)[1],
      "the simulator is off by 5.0 % in the median and 10.0 % in nine of ten; odd rounds are off from even ones by "
      "2.0 % and 4.0 %");
  summary.rerun = experiments::StepErrors{
      .median = 0.03, .p90 = 0.08, .largest = 0.1, .mean_signed = 0, .spearman = {}, .pearson = {}};
  EXPECT_THAT(experiments::Verdict({}, summary)[1],
              HasSubstr("2.0 % and 4.0 %; the earlier run is off from this one by 3.0 % and 8.0 %"));
  summary.simulated.step.median = 0.01;
  EXPECT_THAT(experiments::Verdict({}, summary)[1], HasSubstr("it is as near as the machine is to itself"));
  EXPECT_EQ(experiments::Verdict({}, summary).size(), 2U);
  summary.disturbed_steps = 40;
  summary.load_advice = "other programs kept 0.90 of 2 cores busy meanwhile";
  EXPECT_EQ(experiments::Verdict({}, summary)[2],
            "other programs disturbed 40 of 100 steps: run it again when the machine is idle");
  EXPECT_EQ(experiments::Verdict({}, summary)[3], summary.load_advice);
  EXPECT_THAT(experiments::Verdict({}, ValidationSummary()), IsEmpty());
}

}  // namespace
}  // namespace emplace
