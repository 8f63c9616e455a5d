#include "agents/nn/sequence_network.h"

#include <gtest/gtest.h>

#include "tests/testing/errors.h"

namespace emplace {
namespace {

TEST(SequenceNetworkTest, WeightsAreAsManyAsTheShapesSay) {
  // Per direction 4 * 3 * (5 + 3 + 1); attention 2 * 36 + 6; decoder 4 * 6 * (6 + 6 + 1); devices 12 * 2; embedding
  // 3 * 6.
  EXPECT_EQ(agents::SequenceParameters({.features = 5, .num_devices = 2, .hidden = 3}).size(),
            2 * 4 * 3 * (5U + 3 + 1) + 78 + 4 * 6 * 13 + 24 + 18);
  EXPECT_EQ(agents::SequenceParameters({.features = 5, .num_devices = 2, .hidden = 3, .decoder = false}).size(),
            2 * 4 * 3 * (5U + 3 + 1) + 6 * 2 + 2);
}

TEST(SequenceNetworkTest, ForgetGatesStartOpen) {
  const agents::SequenceOptions options = {.features = 5, .num_devices = 2, .hidden = 3};
  agents::ParameterSet parameters = agents::SequenceParameters(options);
  Rng rng(1);
  agents::InitializeSequence(options, rng, &parameters);
  std::size_t checked = 0;
  for (const agents::Parameter& parameter : parameters.parameters()) {
    if (!parameter.is_bias) continue;
    const std::size_t width = parameter.columns / 4;
    for (std::size_t i = 0; i < parameter.columns; ++i) {
      EXPECT_EQ(parameters.values()[parameter.offset + i], i / width == 1 ? 1 : 0) << parameter.name << ' ' << i;
      ++checked;
    }
  }
  EXPECT_EQ(checked, 12 + 12 + 24U);
}

TEST(SequenceNetworkTest, AnUnknownDeviceIsRefused) {
  const agents::ParameterSet parameters = agents::SequenceParameters({.features = 1, .num_devices = 1, .hidden = 1});
  EXPECT_EQ(testing::ErrorOf([&] { agents::MakeSequenceNetwork({.features = 1}, parameters, "tpu"); }),
            "torch device: is \"tpu\" (cpu or cuda)");
}

}  // namespace
}  // namespace emplace
