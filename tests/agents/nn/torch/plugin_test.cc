// The code that LibTorch's networks share, tested with one of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agents/nn/autograd.h"
#include "agents/nn/sequence_network.h"

namespace emplace {
namespace {

TEST(TorchNetworksTest, ReadTheWeightsAnewWhenRefreshed) {
  for (const bool autograd : {false, true}) {
    const agents::SequenceOptions options = {
        .features = 2, .num_devices = 2, .hidden = 8, .decoder = false, .autograd = autograd};
    agents::ParameterSet parameters = agents::SequenceParameters(options);
    const auto network = agents::MakeSequenceNetwork(options, parameters, "cpu");
    agents::Matrix inputs(3, 2);
    inputs.Reset(3, 2);
    inputs.row(0)[0] = 1;
    const std::vector<std::uint32_t> devices(3);
    EXPECT_THAT(network->Forward(inputs, 1, devices)->logits.values(0), ::testing::ElementsAre(0, 0));
    // Changes the bias of device 1, then assigns a set with a different array.
    parameters.values()[parameters.size() - 1] = 3;
    network->Refresh();
    EXPECT_THAT(network->Forward(inputs, 1, devices)->logits.values(2), ::testing::ElementsAre(0, 3));
    agents::ParameterSet other = agents::SequenceParameters(options);
    other.values()[other.size() - 2] = 5;
    parameters = other;
    network->Refresh();
    EXPECT_THAT(network->Forward(inputs, 1, devices)->logits.values(1), ::testing::ElementsAre(5, 0));
  }
}

TEST(TorchNetworksTest, AProductTakesSomeTime) { EXPECT_GT(agents::MatrixProductGflops(64), 0); }

}  // namespace
}  // namespace emplace
