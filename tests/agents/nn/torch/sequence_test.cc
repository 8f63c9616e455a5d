// Compares the sequence network in LibTorch with a second implementation of its definition.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "agents/nn/sequence_network.h"
#include "sim/base/rng.h"
#include "tests/agents/nn/plain_rows.h"

namespace emplace {
namespace sequence_torch_test {

using testing::Joined;
using testing::PlainWeights;
using testing::Row;
using testing::Rows;
using testing::Sigmoid;

constexpr std::size_t kGroups = 5;
constexpr std::size_t kCount = 3;

struct Case {
  const char* name;
  agents::SequenceOptions options;
};

std::ostream& operator<<(std::ostream& out, const Case& of) { return out << of.name; }

// Implements the definitions of sequence_network.h.
class PlainSequence {
 public:
  PlainSequence(const agents::SequenceOptions& options, const agents::ParameterSet& parameters)
      : options_(options), weights_(parameters) {}

  // The logits of each group in one placement, whose groups are on `devices`.
  Rows Logits(const Rows& inputs, const std::vector<std::uint32_t>& devices) const {
    Memory forward(options_.hidden);
    Memory backward(options_.hidden);
    Rows states(inputs.size());
    for (std::size_t g = 0; g < inputs.size(); ++g) {
      Step("encoder.forward", inputs[g], &forward);
      states[g] = forward.state;
    }
    for (std::size_t g = inputs.size(); g-- > 0;) {
      Step("encoder.backward", inputs[g], &backward);
      states[g] = Joined(states[g], backward.state);
    }
    Rows logits;
    if (!options_.decoder) {
      for (const Row& state : states) logits.push_back(Bound(weights_.Affine(state, "devices")));
      return logits;
    }
    Rows keys;
    for (const Row& state : states) keys.push_back(weights_.Times(state, "attention.key"));
    const Rows& averaged = options_.attention == agents::AttentionOver::kStates ? states : keys;
    Memory decoder(0);
    decoder.state = Joined(forward.state, backward.state);
    decoder.cell = Joined(forward.cell, backward.cell);
    for (std::size_t g = 0; g < inputs.size(); ++g) {
      Step("decoder", weights_.Of("embedding", g == 0 ? options_.num_devices : devices[g - 1]), &decoder);
      const Row query = weights_.Times(decoder.state, "attention.query");
      Row scores;
      for (const Row& key : keys) {
        scores.push_back(weights_.Times(testing::Each(testing::Sum(query, key), [](double x) { return std::tanh(x); }),
                                        "attention.score")[0]);
      }
      const Row shares = testing::Softmax(scores);
      Row seen(query.size());
      for (std::size_t j = 0; j < keys.size(); ++j) {
        for (std::size_t i = 0; i < seen.size(); ++i) seen[i] += shares[j] * averaged[j][i];
      }
      logits.push_back(Bound(weights_.Times(Joined(decoder.state, seen), "devices")));
    }
    return logits;
  }

 private:
  struct Memory {
    explicit Memory(std::size_t width) : state(width), cell(width) {}
    Row state;
    Row cell;
  };

  // Gates in the order input, forget, cell, output.
  void Step(const std::string& name, const Row& input, Memory* memory) const {
    const std::size_t width = memory->state.size();
    const Row gates = testing::Sum(
        testing::Sum(weights_.Times(input, name + ".input"), weights_.Times(memory->state, name + ".state")),
        weights_.All(name + ".bias"));
    for (std::size_t i = 0; i < width; ++i) {
      memory->cell[i] =
          Sigmoid(gates[width + i]) * memory->cell[i] + Sigmoid(gates[i]) * std::tanh(gates[2 * width + i]);
      memory->state[i] = Sigmoid(gates[3 * width + i]) * std::tanh(memory->cell[i]);
    }
  }

  Row Bound(const Row& logits) const {
    return testing::Each(logits, [this](double l) {
      const double cooled = l / options_.bound.temperature;
      return options_.bound.bound > 0 ? options_.bound.bound * std::tanh(cooled) : cooled;
    });
  }

  agents::SequenceOptions options_;
  PlainWeights weights_;
};

class SequenceTorchTest : public ::testing::TestWithParam<Case> {
 protected:
  SequenceTorchTest() : parameters_(agents::SequenceParameters(GetParam().options)), inputs_(kGroups, 4) {
    Rng rng(11);
    agents::InitializeSequence(GetParam().options, rng, &parameters_);
    for (float& value : parameters_.values()) value += static_cast<float>(0.2 * (rng.Uniform() - 0.5));
    inputs_.Reset(kGroups, 4);
    for (std::size_t g = 0; g < kGroups; ++g) {
      for (float& value : inputs_.values(g)) value = static_cast<float>(2 * rng.Uniform() - 1);
    }
    network_ = agents::MakeSequenceNetwork(GetParam().options, parameters_, "cpu");
    for (std::size_t i = 0; i < kGroups * kCount; ++i) devices_.push_back(static_cast<std::uint32_t>(rng.Below(3)));
  }

  // The sum of the logits, each with a different weight, and the excess of raw logits.
  double Loss() {
    network_->Refresh();
    const auto course = network_->Forward(inputs_, kCount, devices_);
    const agents::Matrix& logits = course->logits;
    double loss = kPenalty * agents::ExcessOfLogits(GetParam().options.bound, course->raw);
    for (std::size_t row = 0; row < logits.rows(); ++row) {
      for (std::size_t d = 0; d < logits.width(); ++d) loss += Weight(row, d) * logits.row(row)[d];
    }
    return loss;
  }
  static constexpr double kPenalty = 30;
  // The gradients of Loss() from a course.
  std::vector<float> Gradients(const agents::SequenceCourse& course) {
    std::vector<float> gradients(parameters_.size());
    agents::Matrix d_logits(kGroups * kCount, 3);
    for (std::size_t row = 0; row < d_logits.rows(); ++row) {
      for (std::size_t d = 0; d < 3; ++d) d_logits.row(row)[d] = static_cast<float>(Weight(row, d));
    }
    network_->Backward(course, d_logits, kPenalty, gradients);
    return gradients;
  }
  // Decodes the placements of devices_.
  std::unique_ptr<agents::SequenceCourse> Decoded(std::vector<std::vector<float>>* seen) {
    std::size_t expected = 0;
    const auto choose = [&](std::size_t group, const agents::Matrix& logits, std::span<std::uint32_t> devices) {
      EXPECT_EQ(group, expected++);
      ASSERT_EQ(logits.rows(), kCount);
      for (std::size_t row = 0; row < kCount; ++row) {
        seen->emplace_back(logits.values(row).begin(), logits.values(row).end());
        devices[row] = devices_[group * kCount + row];
      }
    };
    return network_->Decode(inputs_, kCount, choose, true);
  }
  static double Weight(std::size_t row, std::size_t d) { return std::sin(1.0 + static_cast<double>(3 * row + d)); }

  agents::ParameterSet parameters_;
  agents::Matrix inputs_;
  std::unique_ptr<agents::SequenceNetwork> network_;
  std::vector<std::uint32_t> devices_;
};

TEST_P(SequenceTorchTest, WhatIsDecodedHasTheLogitsThatForwardGivesIt) {
  // Learning must use the log-probability of the placement that was measured.
  std::vector<std::vector<float>> seen;
  Decoded(&seen);
  const auto course = network_->Forward(inputs_, kCount, devices_);
  const agents::Matrix& logits = course->logits;
  ASSERT_EQ(logits.rows(), seen.size());
  for (std::size_t row = 0; row < logits.rows(); ++row) {
    for (std::size_t d = 0; d < logits.width(); ++d) EXPECT_NEAR(logits.row(row)[d], seen[row][d], 1e-5);
  }
}

TEST_P(SequenceTorchTest, ADecodingThatIsKeptHasTheGradientsOfAForwardPass) {
  std::vector<std::vector<float>> seen;
  const auto decoded = Decoded(&seen);
  const auto forward = network_->Forward(inputs_, kCount, devices_);
  if (GetParam().options.autograd) {
    EXPECT_EQ(decoded, nullptr);
    return;
  }
  ASSERT_NE(decoded, nullptr);
  EXPECT_EQ(Gradients(*decoded), Gradients(*forward));
  const auto ignore = [](std::size_t, const agents::Matrix&, std::span<std::uint32_t>) {};
  EXPECT_EQ(network_->Decode(inputs_, kCount, ignore, false), nullptr);
}

TEST_P(SequenceTorchTest, LogitsAreThoseOfTheDefinition) {
  const PlainSequence plain(GetParam().options, parameters_);
  Rows inputs;
  for (std::size_t g = 0; g < kGroups; ++g) inputs.emplace_back(inputs_.values(g).begin(), inputs_.values(g).end());
  const auto course = network_->Forward(inputs_, kCount, devices_);
  const agents::Matrix& logits = course->logits;
  for (std::size_t placement = 0; placement < kCount; ++placement) {
    std::vector<std::uint32_t> devices;
    for (std::size_t g = 0; g < kGroups; ++g) devices.push_back(devices_[g * kCount + placement]);
    const Rows expected = plain.Logits(inputs, devices);
    for (std::size_t g = 0; g < kGroups; ++g) {
      for (std::size_t d = 0; d < 3; ++d) {
        EXPECT_NEAR(logits.row(g * kCount + placement)[d], expected[g][d], 2e-5) << placement << ' ' << g;
      }
    }
  }
}

TEST_P(SequenceTorchTest, GradientsAreFiniteDifferences) {
  // Two courses at once, as an update from several groupings has them: their gradients are added.
  const auto first = network_->Forward(inputs_, kCount, devices_);
  const auto second = network_->Forward(inputs_, kCount, devices_);
  std::vector<float> gradients = Gradients(*first);
  const std::vector<float> same = Gradients(*second);
  for (std::size_t i = 0; i < same.size(); ++i) ASSERT_NEAR(gradients[i], same[i], 1e-5);
  constexpr float kStep = 1.0F / 128;
  double largest = 0;
  for (const agents::Parameter& parameter : parameters_.parameters()) {
    for (std::size_t i = 0; i < parameter.size(); i += 1 + parameter.size() / 7) {
      float& value = parameters_.values()[parameter.offset + i];
      const float before = value;
      value = before + kStep;
      const double up = Loss();
      value = before - kStep;
      const double down = Loss();
      value = before;
      const double slope = (up - down) / (2 * kStep);
      EXPECT_NEAR(gradients[parameter.offset + i], slope, 2e-3 * std::max(1.0, std::abs(slope)))
          << parameter.name << ' ' << i;
      largest = std::max(largest, std::abs(slope));
    }
  }
  EXPECT_GT(largest, 0.1);
}

TEST_P(SequenceTorchTest, AGroupHearsOfAllOthers) {
  const auto first = [&] { return network_->Forward(inputs_, kCount, devices_)->logits.row(0)[0]; };
  const float before = first();
  inputs_.row(kGroups - 1)[0] += 1;
  EXPECT_NE(first(), before);
}

agents::SequenceOptions Attending(agents::AttentionOver over, bool autograd) {
  return {.features = 4,
          .num_devices = 3,
          .hidden = 8,
          .attention = over,
          .bound = {.temperature = 0.5, .bound = 5},
          .autograd = autograd};
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, SequenceTorchTest,
    ::testing::Values(Case{"OverStates", Attending(agents::AttentionOver::kStates, false)},
                      Case{"OverKeys", Attending(agents::AttentionOver::kKeys, false)},
                      Case{"OverStatesByAutograd", Attending(agents::AttentionOver::kStates, true)},
                      Case{"OverKeysByAutograd", Attending(agents::AttentionOver::kKeys, true)},
                      Case{"Unbounded", {.features = 4, .num_devices = 3, .hidden = 16}},
                      Case{"Encoder", {.features = 4, .num_devices = 3, .hidden = 4, .decoder = false}},
                      Case{"EncoderByAutograd",
                           {.features = 4, .num_devices = 3, .hidden = 4, .decoder = false, .autograd = true}}),
    [](const auto& of) { return of.param.name; });

}  // namespace sequence_torch_test
}  // namespace emplace
