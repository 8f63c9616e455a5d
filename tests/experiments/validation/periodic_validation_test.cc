#include "experiments/validation/periodic_validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "sim/simulator.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace {
namespace {

using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeSearch;
using experiments::Hardware;
using experiments::HardwareRun;
using experiments::PeriodicValidation;
using experiments::TimeCorrection;

// A graph on three devices whose real links are four times as slow as the search believes.
class PeriodicValidationTest : public ::testing::Test {
 protected:
  PeriodicValidationTest() {
    Rng rng(3);
    spec_ = MakeSearch(testing::RandomDag(rng, {.num_ops = 60}), believed_, "multilevel_search");
    spec_->evaluations = 600;
  }
  const Graph& graph() const { return spec_->problem.graph; }
  const CostTable& costs() const { return spec_->problem.costs; }
  CostTable RealCosts() const { return costs().WithFactors(std::vector<double>(graph().num_ops(), 2)); }
  Hardware Real(double noise = 0) const {
    return experiments::SimulatedHardware(graph(), real_, RealCosts(), noise, 7);
  }
  PeriodicValidation Make(const Hardware& hardware, std::size_t every = 50) const {
    return PeriodicValidation(graph(), believed_, costs(), {}, every, hardware);
  }
  double TrueMicros(const Placement& placement) const {
    const CostTable table = RealCosts();
    return Simulator(graph(), real_, table).Run(placement).step_time_micros;
  }
  Placement Spread() const {
    Placement placement(graph().num_ops());
    for (std::size_t i = 0; i < graph().num_ops(); ++i) placement[MakeId<OpId>(i)] = MakeId<DeviceId>(i % 3);
    return placement;
  }

  Cluster believed_ = MakeCluster(3, {.bandwidth_gb_per_s = 4, .latency_micros = 1});
  Cluster real_ = believed_.WithChanges({.bandwidth = 0.25});
  std::optional<agents::SearchSpec> spec_;
};

TEST(TimeCorrectionTest, IsDrawnTowardsThePriorAsByFurtherRuns) {
  const TimeCorrection sum{.runs = 6, .predicted_micros = 10, .measured_micros = 80};
  EXPECT_NEAR(sum.Factor(1, 3), 4, 1e-12);  // 8^(6/9)
  EXPECT_NEAR(sum.Factor(2, 3), std::exp((6 * std::log(8) + 3 * std::log(2)) / 9), 1e-12);
  EXPECT_EQ(TimeCorrection().Factor(1.5, 3), 1.5);
}

TEST_F(PeriodicValidationTest, OneRunOfAllOpsCorrectsTimesOfOpsAndLinks) {
  PeriodicValidation validation = Make(Real());
  const Placement spread = Spread();
  const double before = validation.evaluator().Run(spread).step_time_micros;
  validation.Measure(spread, 0);
  ASSERT_EQ(validation.measurements().size(), 1U);
  EXPECT_EQ(validation.measurements()[0].predicted_micros, before);
  EXPECT_NEAR(*validation.measurements()[0].measured_micros, TrueMicros(spread), 1e-6);
  const OpId op = MakeId<OpId>(graph().num_ops() - 1);
  EXPECT_GT(validation.costs().KindMicros(op, 0), 1.5 * costs().KindMicros(op, 0));
  EXPECT_LE(validation.costs().KindMicros(op, 0), 2 * costs().KindMicros(op, 0));
  EXPECT_LT(validation.cluster().link(DeviceId{0}, DeviceId{1}).bandwidth_gb_per_s, 2);
  const experiments::ValidationSummaryOfSearch summary = validation.Summarise();
  EXPECT_EQ(summary.placements, 1U);
  EXPECT_GT(*summary.error_before, 0.4);
  EXPECT_LT(*summary.error_after, 0.2);
  // The last factors are those of the links, four times as long.
  const PeriodicValidation::NamedFactor link = validation.Factors().back();
  EXPECT_EQ(link.what, "gpu:2 to gpu:1");
  EXPECT_GT(link.factor, 2.5);
  EXPECT_LE(link.factor, 4.0001);
  std::ostringstream text;
  PrintValidation(text, validation, 0.1);
  EXPECT_THAT(text.str(), ::testing::HasSubstr("validation: 1 measurements of 1 placements, "));
}

TEST_F(PeriodicValidationTest, ASearchByAWrongSimulatorEndsNearTheTruth) {
  const double without = TrueMicros(*agents::RunSearch(*spec_).best);
  agents::SearchSpec truth = *spec_;
  truth.problem.cluster = real_;
  truth.problem.costs = RealCosts();
  const double least = TrueMicros(*agents::RunSearch(truth).best);
  for (const double noise : {0.0, 0.2}) {
    PeriodicValidation validation = Make(Real(noise));
    agents::SearchSpec spec = *spec_;
    spec.validation = &validation;
    const agents::SearchResult result = agents::RunSearch(spec);
    ASSERT_TRUE(result.best);
    EXPECT_EQ(*result.best, validation.Measured().front());
    EXPECT_LE(TrueMicros(*result.best), 1.03 * std::min(least, without)) << noise;
    EXPECT_GE(validation.measurements().size(), 12U);
    EXPECT_LE(result.evaluations, 600U);
  }
}

TEST_F(PeriodicValidationTest, WhatLostForRealIsNotTheAnswer) {
  const Placement believed = *agents::RunSearch(*spec_).best;
  const Hardware honest = experiments::SimulatedHardware(graph(), believed_, costs(), 0, 1);
  PeriodicValidation validation = Make([&](const Placement& placement) {
    HardwareRun run = honest(placement);
    if (placement == believed) run.result.step_time_micros *= 10;  // for a reason that no correction explains
    return run;
  });
  validation.Measure(believed, 0);
  validation.Measure(Spread(), 1);
  EXPECT_EQ(validation.Measured().front(), Spread());
  EXPECT_EQ(validation.PredictionWeight(), 1);
  // Measurements repeat, and predictions are far off.
  validation.Measure(believed, 2);
  EXPECT_NEAR(validation.PredictionWeight(), 0.1, 1e-9);
  EXPECT_EQ(validation.Measured().front(), Spread());
}

TEST_F(PeriodicValidationTest, WhatDoesNotFitForRealDoesNotFit) {
  PeriodicValidation validation = Make([](const Placement&) {
    HardwareRun run;
    run.result.fits_memory = false;
    return run;
  });
  validation.Measure(Spread(), 0);
  EXPECT_FALSE(validation.evaluator().Run(Spread()).fits_memory);
  EXPECT_TRUE(validation.Measured().empty());
  EXPECT_FALSE(validation.Summarise().error_after);
  EXPECT_EQ(validation.Summarise().failed, 1U);
}

TEST_F(PeriodicValidationTest, AnInterruptedSearchKeepsItsMeasurements) {
  for (const char* const agent : {"multilevel_search", "annealing", "random"}) {
    agents::SearchSpec spec = *spec_;
    spec.agent = agent;
    PeriodicValidation whole = Make(Real());
    spec.validation = &whole;
    const agents::SearchResult expected = agents::RunSearch(spec);
    spec.checkpoint = ::testing::TempDir() + "/validated.bin";
    std::filesystem::remove(spec.checkpoint);
    PeriodicValidation first = Make(Real());
    spec.validation = &first;
    std::size_t asked = 0;
    spec.interrupt = [&asked] { return ++asked > 20; };
    EXPECT_THROW(agents::RunSearch(spec), agents::SearchInterrupted) << agent;
    PeriodicValidation second = Make(Real());
    spec.validation = &second;
    spec.interrupt = {};
    const agents::SearchResult resumed = agents::RunSearch(spec);
    EXPECT_EQ(resumed.best, expected.best) << agent;
    EXPECT_EQ(resumed.evaluations, expected.evaluations) << agent;
    EXPECT_EQ(second.measurements().size(), whole.measurements().size()) << agent;
    std::filesystem::remove(spec.checkpoint);
  }
}

TEST_F(PeriodicValidationTest, NoisyMeasurementsCountLessThanGoodPredictions) {
  PeriodicValidation validation = Make(Real(0.5));
  Placement placement = Spread();
  for (std::size_t i = 0; i < 40; ++i) {
    placement[OpId{0}] = MakeId<DeviceId>(i % 3);  // the first op hardly matters
    validation.Measure(placement, i);
  }
  EXPECT_EQ(validation.Summarise().placements, 3U);
  EXPECT_GT(validation.PredictionWeight(), 3);
}

TEST_F(PeriodicValidationTest, MeasurementsOfAnotherProblemAreNotLoaded) {
  PeriodicValidation validation = Make(Real());
  validation.Measure(Spread(), 0);
  std::stringstream saved;
  validation.Save(saved);
  const Graph other = testing::MakeChain(4, 10, 0);
  PeriodicValidation of_chain(other, believed_, testing::MeasuredCosts(other, believed_), {}, 5, Real());
  EXPECT_THAT(testing::ErrorOf([&] { of_chain.Load(saved); }), ::testing::HasSubstr("measurements of another problem"));
  EXPECT_TRUE(of_chain.measurements().empty());
}

}  // namespace
}  // namespace emplace
