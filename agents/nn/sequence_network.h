#ifndef EMPLACE_AGENTS_NN_SEQUENCE_NETWORK_H_
#define EMPLACE_AGENTS_NN_SEQUENCE_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "agents/nn/kernel.h"
#include "agents/nn/parameters.h"

namespace emplace::agents {

// A network that reads a sequence of groups and says of each where it goes.
struct SequenceOptions {
  std::size_t features = 0;  // of a group
  std::size_t num_devices = 0;
  std::size_t hidden = 256;  // of each direction of the encoder; the decoder has twice as many
  // True: an LSTM decodes, and hears where the groups before went. False: a linear layer on each group's encoding.
  bool decoder = true;
  double temperature = 1;  // T
  double bound = 0;        // C: a logit is C tanh(l / T); 0: l / T
};

// Its weights, all 0: encoder.{forward,backward}.{input,state,bias}, attention.{key,query,score}, decoder.{input,
// state,bias}, devices, embedding [num_devices + 1, 2 hidden] whose last row comes before the first group; without a
// decoder encoder.* and devices.{weight,bias} alone. Gates of an LSTM stand in the order input, forget, cell, output.
ParameterSet SequenceParameters(const SequenceOptions& options);

// Glorot, but for the biases of forget gates, which start at 1. Source: Jozefowicz et al. 2015, section 5.
void InitializeSequence(const SequenceOptions& options, Rng& rng, ParameterSet* parameters);

// Bi-directional LSTM over the groups; its final states begin the decoder, an LSTM that in each step gets the embedding
// of the last group's device, looks at all groups' encodings by additive attention, and gives logits over the devices.
// Several placements of the same groups are decoded side by side. Source: Mirhoseini et al. 2018 (Hierarchical
// Planner), section 2 and figure 1; Bahdanau et al. 2015 for the attention.
class SequenceNetwork {
 public:
  virtual ~SequenceNetwork() = default;

  // Takes the logits of a group in each placement, [count, num_devices], and writes where it goes, [count].
  using Chooser = std::function<void(std::size_t group, const Matrix& logits, std::span<std::uint32_t> devices)>;
  // Decodes `count` placements of the groups, inputs [num_groups, features], as `choose` says.
  virtual void Decode(const Matrix& inputs, std::size_t count, const Chooser& choose) = 0;
  // Logits of placements that are known: devices and result [num_groups * count, ...], row group * count + placement.
  // Equal to those that Decode() showed up to rounding. Valid until the next call.
  virtual const Matrix& Forward(const Matrix& inputs, std::size_t count, std::span<const std::uint32_t> devices) = 0;
  // Adds the gradient of a loss whose gradient by the last Forward's logits is `d_logits`.
  virtual void Backward(const Matrix& d_logits, std::span<float> gradients) = 0;
};

// Keeps a reference to `parameters`, whose values it reads in each call. `device`: cpu or cuda. Throws InputError as
// MakeAutogradNetwork does.
std::unique_ptr<SequenceNetwork> MakeSequenceNetwork(const SequenceOptions& options, const ParameterSet& parameters,
                                                     const std::string& device);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_SEQUENCE_NETWORK_H_
