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
        for (std::size_t i = 0; i < seen.size(); ++i) seen[i] += shares[j] * keys[j][i];
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
      return options_.bound > 0 ? options_.bound * std::tanh(l / options_.temperature) : l / options_.temperature;
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

  // The sum of the logits, each with a different weight.
  double Loss() {
    const agents::Matrix& logits = network_->Forward(inputs_, kCount, devices_);
    double loss = 0;
    for (std::size_t row = 0; row < logits.rows(); ++row) {
      for (std::size_t d = 0; d < logits.width(); ++d) loss += Weight(row, d) * logits.row(row)[d];
    }
    return loss;
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
  std::size_t expected = 0;
  network_->Decode(inputs_, kCount,
                   [&](std::size_t group, const agents::Matrix& logits, std::span<std::uint32_t> devices) {
                     EXPECT_EQ(group, expected++);
                     ASSERT_EQ(logits.rows(), kCount);
                     for (std::size_t row = 0; row < kCount; ++row) {
                       seen.emplace_back(logits.values(row).begin(), logits.values(row).end());
                       devices[row] = devices_[group * kCount + row];
                     }
                   });
  const agents::Matrix& logits = network_->Forward(inputs_, kCount, devices_);
  ASSERT_EQ(logits.rows(), seen.size());
  for (std::size_t row = 0; row < logits.rows(); ++row) {
    for (std::size_t d = 0; d < logits.width(); ++d) EXPECT_NEAR(logits.row(row)[d], seen[row][d], 1e-5);
  }
}

TEST_P(SequenceTorchTest, LogitsAreThoseOfTheDefinition) {
  const PlainSequence plain(GetParam().options, parameters_);
  Rows inputs;
  for (std::size_t g = 0; g < kGroups; ++g) inputs.emplace_back(inputs_.values(g).begin(), inputs_.values(g).end());
  const agents::Matrix& logits = network_->Forward(inputs_, kCount, devices_);
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
  std::vector<float> gradients(parameters_.size());
  const agents::Matrix& logits = network_->Forward(inputs_, kCount, devices_);
  agents::Matrix d_logits(logits.rows(), logits.width());
  d_logits.Reset(logits.rows(), logits.width());
  for (std::size_t row = 0; row < logits.rows(); ++row) {
    for (std::size_t d = 0; d < logits.width(); ++d) d_logits.row(row)[d] = static_cast<float>(Weight(row, d));
  }
  network_->Backward(d_logits, gradients);
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
  const auto first = [&] { return network_->Forward(inputs_, kCount, devices_).row(0)[0]; };
  const float before = first();
  inputs_.row(kGroups - 1)[0] += 1;
  EXPECT_NE(first(), before);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, SequenceTorchTest,
    ::testing::Values(Case{"Attention", {.features = 4, .num_devices = 3, .hidden = 8, .temperature = 2, .bound = 5}},
                      Case{"Unbounded", {.features = 4, .num_devices = 3, .hidden = 16}},
                      Case{"Encoder", {.features = 4, .num_devices = 3, .hidden = 4, .decoder = false}}),
    [](const auto& of) { return of.param.name; });

}  // namespace sequence_torch_test
}  // namespace emplace
