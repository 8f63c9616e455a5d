#include "agents/nn/sequence_network.h"

#include "agents/nn/torch_plugin.h"

namespace emplace::agents {

ParameterSet SequenceParameters(const SequenceOptions& options) {
  ParameterSet parameters;
  const std::size_t state = 2 * options.hidden;
  const auto add_lstm = [&](const std::string& name, std::size_t in, std::size_t width) {
    parameters.Add(name + ".input", in, 4 * width, false);
    parameters.Add(name + ".state", width, 4 * width, false);
    parameters.Add(name + ".bias", 1, 4 * width, true);
  };
  add_lstm("encoder.forward", options.features, options.hidden);
  add_lstm("encoder.backward", options.features, options.hidden);
  if (!options.decoder) {
    parameters.Add("devices.weight", state, options.num_devices, false);
    parameters.Add("devices.bias", 1, options.num_devices, true);
    return parameters;
  }
  parameters.Add("attention.key", state, state, false);
  parameters.Add("attention.query", state, state, false);
  parameters.Add("attention.score", state, 1, false);
  add_lstm("decoder", state, state);
  parameters.Add("devices", 2 * state, options.num_devices, false);
  parameters.Add("embedding", options.num_devices + 1, state, false);
  return parameters;
}

void InitializeSequence(const SequenceOptions& options, Rng& rng, ParameterSet* parameters) {
  parameters->InitializeGlorot(rng);
  for (const Parameter& parameter : parameters->parameters()) {
    if (!parameter.is_bias || parameter.name == "devices.bias") continue;
    const std::size_t width = parameter.name == "decoder.bias" ? 2 * options.hidden : options.hidden;
    for (std::size_t i = width; i < 2 * width; ++i) parameters->values()[parameter.offset + i] = 1;
  }
}

void SequenceNetwork::Backward(const SequenceCourse& course, const Matrix& d_logits, double penalty,
                               std::span<float> gradients) {
  UnboundGradient(bound_, course.raw, d_logits, penalty, &d_raw_);
  BackwardRaw(course, d_raw_, gradients);
}

std::unique_ptr<SequenceNetwork> MakeSequenceNetwork(const SequenceOptions& options, const ParameterSet& parameters,
                                                     const std::string& device) {
  CheckTorchDevice(device);
  return std::unique_ptr<SequenceNetwork>(LoadTorch().make_sequence(options, parameters, device));
}

}  // namespace emplace::agents
