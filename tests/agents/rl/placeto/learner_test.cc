#include "agents/rl/placeto/learner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "agents/rl/categorical.h"
#include "agents/rl/placeto/returns.h"
#include "agents/saved_state.h"
#include "sim/base/check.h"
#include "tests/testing/graphs.h"
#include "tests/testing/networks.h"
#include "tests/testing/observations.h"

namespace emplace {
namespace learner_test {

struct Fixture {
  Fixture() : seen(testing::MakeObservation(Make(), testing::MakeCluster(3))), view(seen, {}) {
    view.allowed.assign(seen.num_groups(), {1, 1, 1});
    Rng rng(4);
    episode.start = Placement(seen.num_groups());
    for (std::size_t n = 0; n < seen.num_groups(); ++n) {
      agents::EpisodeStep step{.group = static_cast<std::uint32_t>(n),
                               .device = MakeId<DeviceId>(rng.Below(3)),
                               .starts = std::vector<double>(seen.num_groups()),
                               .peaks = {},
                               .step_micros = 10,
                               .seed = rng.Next()};
      for (double& start : step.starts) start = 10 * rng.Uniform();
      episode.steps.push_back(step);
      advantages.push_back(2 * rng.Uniform() - 1);
    }
  }
  static Graph Make() {
    Rng rng(3);
    return testing::RandomDag(rng, {.num_ops = 11});
  }
  static agents::Learner MakeLearner(bool autograd) {
    agents::Learner learner({.features = 8, .num_devices = 3}, autograd, "cpu");
    Rng rng(5);
    learner.network().parameters().InitializeGlorot(rng);
    learner.network().Pack();
    return learner;
  }
  // The loss, computed state by state.
  double Loss(agents::Learner& learner) const {
    agents::PlacementState state{.placement = episode.start,
                                 .done = std::vector<std::uint32_t>(seen.num_groups()),
                                 .starts = {},
                                 .peaks = {},
                                 .step_micros = 10};
    double loss = 0;
    for (std::size_t t = 0; t < episode.steps.size(); ++t) {
      const agents::EpisodeStep& step = episode.steps[t];
      state.starts = step.starts;
      agents::StateBatch states;
      states.topology = &view.topology;
      states.sample = &sample;
      states.features.Reset(seen.num_groups(), 8);
      states.currents = {step.group};
      states.seeds = {step.seed};
      view.features.Fill(state, step.group, [&](std::size_t n) { return states.features.row(n); });
      std::vector<double> p(3);
      agents::Softmax(learner.network().Forward(states).values(0), view.allowed[step.group], p);
      loss += agents::StepLoss(p, Index(step.device), advantages[t], 0.2);
      state.placement[MakeId<OpId>(step.group)] = step.device;
      ++state.done[step.group];
    }
    return loss;
  }
  agents::Observation seen;
  agents::GraphView view;
  agents::GraphSample sample;
  agents::Episode episode;
  std::vector<double> advantages;
};

TEST(LearnerTest, TheGradientOfAnEpisodeIsThatOfItsStepsOneByOne) {
  const Fixture fixture;
  for (const bool autograd : {false, true}) {
    agents::Learner learner = Fixture::MakeLearner(autograd);
    learner.AddEpisode(fixture.view, fixture.sample, fixture.episode, fixture.advantages, 0.2, "test");
    const std::vector<float> gradient(learner.pending().begin(), learner.pending().end());
    double squares = 0;
    for (const float value : gradient) squares += static_cast<double>(value) * value;
    // Along the gradient the loss changes by step * |gradient|^2.
    double least_error = 1;
    agents::ParameterSet& parameters = learner.network().parameters();
    const std::vector<float> weights(parameters.values().begin(), parameters.values().end());
    for (const double length : {1e-2, 1e-3, 1e-4}) {
      const double step = length / std::sqrt(squares);
      const auto moved = [&](double by) {
        for (std::size_t i = 0; i < weights.size(); ++i) {
          parameters.values()[i] = static_cast<float>(weights[i] + by * gradient[i]);
        }
        learner.network().Pack();
        return fixture.Loss(learner);
      };
      least_error = std::min(least_error, std::abs((moved(step) - moved(-step)) / (2 * step * squares) - 1));
    }
    EXPECT_LT(least_error, 0.02) << (autograd ? "LibTorch" : "kernels");
  }
}

TEST(LearnerTest, AnUpdateLowersTheLossAndLeavesNothingPending) {
  const Fixture fixture;
  agents::Learner learner = Fixture::MakeLearner(false);
  const double before = fixture.Loss(learner);
  learner.AddEpisode(fixture.view, fixture.sample, fixture.episode, fixture.advantages, 0.2, "test");
  learner.Update(1.25, 1e-3);
  EXPECT_LT(fixture.Loss(learner), before);
  for (const float value : learner.pending()) EXPECT_EQ(value, 0);
}

TEST(LearnerTest, SavedAndLoadedItLearnsOnAlike) {
  const Fixture fixture;
  agents::Learner learner = Fixture::MakeLearner(false);
  learner.AddEpisode(fixture.view, fixture.sample, fixture.episode, fixture.advantages, 0.2, "test");
  learner.Update(1.25, 1e-3);
  learner.AddEpisode(fixture.view, fixture.sample, fixture.episode, fixture.advantages, 0.2, "test");
  std::stringstream saved;
  agents::SaveState(saved, learner);  // with a gradient pending
  agents::Learner loaded({.features = 8, .num_devices = 3}, false, "cpu");
  agents::LoadState(saved, &loaded);
  learner.Update(1.25, 1e-3);
  loaded.Update(1.25, 1e-3);
  EXPECT_TRUE(std::equal(learner.network().parameters().values().begin(), learner.network().parameters().values().end(),
                         loaded.network().parameters().values().begin()));
}

TEST(LearnerTest, ANumberThatIsNotFiniteStopsWithItsStepAndTensor) {
  Fixture fixture;
  agents::Learner learner = Fixture::MakeLearner(false);
  const auto refusal = [&] {
    try {
      learner.AddEpisode(fixture.view, fixture.sample, fixture.episode, fixture.advantages, 0.2, "placeto, episode 7");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("went on");
  };
  fixture.advantages[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal(), "placeto, episode 7: step 3: tensor loss is NaN");
  fixture.advantages[3] = 0;
  // No ReLU may hide a NaN, neither in the first layer, nor in an aggregator, nor in the last.
  for (const std::string_view name : {"transform.0.bias", "parents.aggregate.0.weight", "forward.message.1.bias"}) {
    const std::vector<float> weights(learner.network().parameters().values().begin(),
                                     learner.network().parameters().values().end());
    for (const agents::Parameter& parameter : learner.network().parameters().parameters()) {
      if (parameter.name != name) continue;
      learner.network().parameters().values()[parameter.offset] = std::numeric_limits<float>::quiet_NaN();
    }
    learner.network().Pack();
    EXPECT_NE(refusal().find("tensor logits holds nan"), std::string::npos) << name << ": " << refusal();
    std::copy(weights.begin(), weights.end(), learner.network().parameters().values().begin());
  }
  learner.network().parameters().values().back() = std::numeric_limits<float>::infinity();
  learner.network().Pack();
  EXPECT_NE(refusal().find("placeto, episode 7: step 0: tensor logits holds inf"), std::string::npos) << refusal();
}

}  // namespace learner_test
}  // namespace emplace
