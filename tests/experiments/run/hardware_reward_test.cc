#include "experiments/run/hardware_reward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;
using ::testing::ElementsAre;

// Returns the given times one after the other; a negative one means that the placement does not fit.
class Scripted : public Evaluator {
 public:
  explicit Scripted(std::vector<double> micros) : micros_(std::move(micros)) {}
  StepResult Run(const Placement&) const override {
    StepResult result;
    result.step_time_micros = micros_.at(calls_++);
    result.fits_memory = result.step_time_micros >= 0;
    return result;
  }
  std::size_t calls() const { return calls_; }

 private:
  std::vector<double> micros_;
  mutable std::size_t calls_ = 0;
};

std::vector<double> Answers(const experiments::RewardEvaluator& evaluator, std::size_t count) {
  std::vector<double> micros;
  for (std::size_t i = 0; i < count; ++i) micros.push_back(evaluator.Run(Placement(1)).step_time_micros);
  return micros;
}

TEST(RewardEvaluatorTest, FromHardwareEveryAnswerIsMeasured) {
  const Scripted simulator({10, 20});
  const Scripted hardware({11, 22});
  agents::SearchSettings choice;
  choice.reward_source = "hardware";
  const experiments::RewardEvaluator evaluator(simulator, hardware, choice);
  EXPECT_THAT(Answers(evaluator, 2), ElementsAre(11, 22));
  ASSERT_EQ(evaluator.checks().size(), 2U);
  EXPECT_EQ(evaluator.checks()[1].evaluation, 2U);
  EXPECT_EQ(evaluator.checks()[1].simulated_micros, 20);
  EXPECT_EQ(evaluator.checks()[1].measured_micros, 22.0);
}

// A share of 0.4: floor(0.4 i) grows at i = 3, 5, 8, 10.
TEST(RewardEvaluatorTest, MixedMeasuresTheShareEvenlySpread) {
  const Scripted simulator({10, 10, 10, 10, 10, 10, 10, 10, 10, 10});
  const Scripted hardware({1, 2, 3, 4});
  agents::SearchSettings choice;
  choice.reward_source = "mixed";
  choice.share = 0.4;
  const experiments::RewardEvaluator evaluator(simulator, hardware, choice);
  EXPECT_THAT(Answers(evaluator, 10), ElementsAre(10, 10, 1, 10, 2, 10, 10, 3, 10, 4));
}

TEST(RewardEvaluatorTest, MixedAlsoLearnsOfTheEvaluationsThatAreValidated) {
  const Scripted simulator({50, 40, 30});
  const Scripted hardware({44, -1});
  agents::SearchSettings choice;
  choice.reward_source = "mixed";
  choice.share = 0.1;
  choice.validate_every = 2;
  ASSERT_TRUE(choice.NeedsHardware());
  EXPECT_FALSE(choice.Validates());
  EXPECT_THAT(Answers(experiments::RewardEvaluator(simulator, hardware, choice), 3), ElementsAre(50, 44, 30));
}

TEST(RewardEvaluatorTest, FromTheSimulatorNothingIsMeasured) {
  const Scripted simulator({50, 40});
  const Scripted hardware({});
  const experiments::RewardEvaluator evaluator(simulator, hardware, {});
  EXPECT_THAT(Answers(evaluator, 2), ElementsAre(50, 40));
  EXPECT_TRUE(evaluator.checks().empty());
}

TEST(RewardEvaluatorTest, WhatWasSavedGoesOnWhereItWas) {
  agents::SearchSettings choice;
  choice.reward_source = "mixed";
  choice.share = 0.4;
  choice.validate_every = 2;
  const Scripted simulator({10, 9, 8, 7, 6});
  const Scripted hardware({1, -1, 3, 4});
  experiments::RewardEvaluator whole(simulator, hardware, choice);
  Answers(whole, 2);  // the 2nd result is validated
  std::stringstream saved;
  whole.Save(saved);
  const std::vector<double> rest = Answers(whole, 3);  // so are the 3rd and 5th, for the share, and the 4th
  const Scripted later_simulator({8, 7, 6});
  const Scripted later_hardware({-1, 3, 4});
  experiments::RewardEvaluator resumed(later_simulator, later_hardware, choice);
  resumed.Load(saved);
  EXPECT_EQ(resumed.checks().size(), 1U);
  EXPECT_EQ(Answers(resumed, 3), rest);
  ASSERT_EQ(resumed.checks().size(), whole.checks().size());
  for (std::size_t i = 0; i < whole.checks().size(); ++i) {
    EXPECT_EQ(resumed.checks()[i].evaluation, whole.checks()[i].evaluation);
    EXPECT_EQ(resumed.checks()[i].simulated_micros, whole.checks()[i].simulated_micros);
    EXPECT_EQ(resumed.checks()[i].measured_micros, whole.checks()[i].measured_micros);
  }
}

TEST(RewardEvaluatorTest, WhatIsBrokenIsNotLoaded) {
  const Scripted simulator({10});
  const Scripted hardware({});
  experiments::RewardEvaluator evaluator(simulator, hardware, {});
  std::istringstream broken("5 1 0 ");
  EXPECT_EQ(ErrorOf([&] { evaluator.Load(broken); }), "is broken or of another program (expected a number)");
  EXPECT_THAT(Answers(evaluator, 1), ElementsAre(10));
}

}  // namespace
}  // namespace emplace
