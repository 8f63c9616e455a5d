#include "agents/rl/doppler/dual_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace::agents {
namespace {

constexpr std::size_t kDevices = 3;

struct Setting {
  const char* name;
  DualPolicyOptions options;
};
std::ostream& operator<<(std::ostream& out, const Setting& setting) { return out << setting.name; }

// A random graph, policy, episode, and coefficients of a loss that is linear in all outputs.
class DualPolicyTest : public ::testing::TestWithParam<Setting> {
 protected:
  DualPolicyTest()
      : rng_(11),
        seen_(testing::MakeObservation(testing::RandomDag(rng_, {.num_ops = 14, .memory = true, .fractional = true}),
                                       testing::MakeCluster(kDevices))),
        problem_(seen_, false),
        policy_(GetParam().options) {
    policy_.parameters().InitializeGlorot(rng_);
    // Biases away from 0, where a ReLU has no gradient.
    for (const Parameter& parameter : policy_.parameters().parameters()) {
      if (!parameter.is_bias) continue;
      for (float& value : policy_.parameters().values().subspan(parameter.offset, parameter.size())) value = Small();
    }
    policy_.Pack();
    PartialSchedule schedule(seen_, problem_);
    while (!schedule.ready().empty()) {
      const std::uint32_t group = schedule.ready()[rng_.Below(schedule.ready().size())];
      schedule.Consider(group);
      const std::size_t device = rng_.Below(kDevices);
      schedule.Assign(group, device);
      episode_.groups.push_back(group);
      episode_.devices.push_back(static_cast<std::uint32_t>(device));
    }
    const std::size_t steps = episode_.groups.size();
    episode_.features.Reset(steps * kDevices, kAssignmentDeviceFeatures);
    for (std::size_t row = 0; row < steps * kDevices; ++row) {
      for (float& value : episode_.features.values(row)) value = 2 * Small();
    }
    for (std::size_t group = 0; group < steps; ++group) d_scores_.push_back(Small());
    d_logits_.Reset(steps, kDevices);
    for (std::size_t t = 0; t < steps; ++t) {
      for (float& value : d_logits_.values(t)) value = Small();
    }
  }

  float Small() { return static_cast<float>(rng_.Uniform() - 0.5); }

  // The logits of all steps, computed step by step as in an episode.
  Matrix Logits() {
    Matrix logits(episode_.groups.size(), kDevices);
    Matrix features(kDevices, kAssignmentDeviceFeatures);
    policy_.BeginEpisode(kDevices);
    for (std::size_t t = 0; t < episode_.groups.size(); ++t) {
      std::copy_n(episode_.features.row(t * kDevices), kDevices * features.stride(), features.row(0));
      const std::span<const float> of_step = policy_.DeviceLogits(episode_.groups[t], features);
      std::copy(of_step.begin(), of_step.end(), logits.row(t));
      policy_.Assign(episode_.groups[t], episode_.devices[t]);
    }
    return logits;
  }

  double Loss() {
    policy_.Pack();
    policy_.Embed(problem_);
    double loss = 0;
    for (std::size_t group = 0; group < d_scores_.size(); ++group) {
      loss += static_cast<double>(d_scores_[group]) * static_cast<double>(policy_.node_scores()[group]);
    }
    const Matrix logits = Logits();
    for (std::size_t t = 0; t < logits.rows(); ++t) {
      for (std::size_t d = 0; d < kDevices; ++d) {
        loss += static_cast<double>(d_logits_.row(t)[d]) * static_cast<double>(logits.row(t)[d]);
      }
    }
    return loss;
  }

  Rng rng_;
  Observation seen_;
  AssignmentProblem problem_;
  DualPolicy policy_;
  AssignmentEpisode episode_;
  std::vector<float> d_scores_;
  Matrix d_logits_;
};

TEST_P(DualPolicyTest, GradientsOfBothPoliciesEqualFiniteDifferences) {
  Loss();
  std::vector<float> gradients(policy_.parameters().size());
  policy_.AddDeviceLoss(episode_, d_logits_, gradients);
  policy_.Backward(d_scores_, gradients);
  const double loss = Loss();
  std::size_t checked = 0;
  for (const Parameter& parameter : policy_.parameters().parameters()) {
    for (std::size_t k = 0; k < 6; ++k) {
      const std::size_t at = parameter.offset + rng_.Below(parameter.size());
      constexpr float kStep = 1e-3F;
      float& weight = policy_.parameters().values()[at];
      const float before = weight;
      weight = before + kStep;
      const double up = Loss() - loss;
      weight = before - kStep;
      const double down = loss - Loss();
      weight = before;
      // The loss is linear in each weight, except where a ReLU begins.
      if (std::abs(up - down) > 1e-5) continue;
      EXPECT_NEAR(gradients[at], (up + down) / (2 * static_cast<double>(kStep)), 5e-3)
          << parameter.name << " at " << at;
      ++checked;
    }
    const std::span<const float> of_part = std::span(gradients).subspan(parameter.offset, parameter.size());
    EXPECT_TRUE(std::ranges::any_of(of_part, [](float value) { return value != 0; })) << parameter.name;
  }
  EXPECT_GT(checked, 4 * policy_.parameters().parameters().size());
}

// Two episodes at once give the sum of their gradients, with one pass through the embeddings.
TEST_P(DualPolicyTest, GradientsOfEpisodesAdd) {
  Loss();
  std::vector<float> once(policy_.parameters().size());
  policy_.AddDeviceLoss(episode_, d_logits_, once);
  policy_.Backward(d_scores_, once);
  Loss();
  std::vector<float> twice(policy_.parameters().size());
  policy_.AddDeviceLoss(episode_, d_logits_, twice);
  policy_.AddDeviceLoss(episode_, d_logits_, twice);
  for (float& value : d_scores_) value *= 2;
  policy_.Backward(d_scores_, twice);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(twice[i], 2 * once[i], 1e-4 + 1e-4 * std::abs(once[i]));
}

INSTANTIATE_TEST_SUITE_P(Settings, DualPolicyTest,
                         ::testing::Values(Setting{"NoRounds", {.width = 6, .rounds = 0}},
                                           Setting{"OneRound", {.width = 16, .rounds = 1}},
                                           Setting{"ThreeRounds", {.width = 9, .rounds = 3}}),
                         [](const auto& of) { return of.param.name; });

// The scores by plain loops, of one round.
TEST(DualPolicyDefinitionTest, ScoresAreTheHeadsOfOwnAndPathVectors) {
  const Observation seen = testing::MakeObservation(testing::MakeChain(3, 1, 1000), testing::MakeCluster(2));
  const AssignmentProblem problem(seen, false);
  Rng rng(2);
  DualPolicy policy({.width = 4, .rounds = 1});
  policy.parameters().InitializeGlorot(rng);
  policy.Pack();
  policy.Embed(problem);
  const auto layer = [&](const std::string& name, const std::vector<double>& x, bool relu) {
    std::vector<double> y;
    for (const Parameter& parameter : policy.parameters().parameters()) {
      if (parameter.name != name + ".weight") continue;
      for (std::size_t j = 0; j < parameter.columns; ++j) {
        double sum = 0;  // biases are 0
        for (std::size_t i = 0; i < parameter.rows; ++i) {
          sum += x[i] * static_cast<double>(policy.parameters().values()[parameter.offset + i * parameter.columns + j]);
        }
        y.push_back(relu ? std::max(sum, 0.0) : sum);
      }
    }
    return y;
  };
  std::vector<std::vector<double>> z(3);
  std::vector<std::vector<double>> h(3);
  for (std::size_t v = 0; v < 3; ++v) {
    const auto x = problem.features.values(v);
    z[v] = layer("select.node.0", {x.begin(), x.end()}, true);
  }
  const auto mean = [](const std::vector<std::vector<double>>& rows, const std::vector<std::size_t>& of) {
    std::vector<double> sum(4);
    for (const std::size_t v : of) {
      for (std::size_t f = 0; f < 4; ++f) sum[f] += rows[v][f] / static_cast<double>(of.size());
    }
    return sum;
  };
  const auto append = [](std::vector<double> a, const std::vector<double>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  h[0] = layer("select.round0.0", append(z[0], mean(z, {1})), true);
  h[1] = layer("select.round0.0", append(z[1], mean(z, {0, 2})), true);
  h[2] = layer("select.round0.0", append(z[2], mean(z, {1})), true);
  // The middle group's path to the exit is 1, 2 and that from the entry 0, 1.
  const std::vector<double> input = append(append(append(z[1], h[1]), mean(h, {1, 2})), mean(h, {0, 1}));
  EXPECT_NEAR(policy.node_scores()[1], layer("select.head.1", layer("select.head.0", input, true), false)[0], 1e-5);
}

}  // namespace
}  // namespace emplace::agents
