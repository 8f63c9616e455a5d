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

// A network that reads a sequence of groups and returns logits over the devices for each.
struct SequenceOptions {
  std::size_t features = 0;  // of a group
  std::size_t num_devices = 0;
  std::size_t hidden = 256;  // of each direction of the encoder; the decoder has twice as many units
  // True: an LSTM decodes, with the previous group's device as input. False: a linear layer on each group's encoding.
  bool decoder = true;
  double temperature = 1;  // T
  double bound = 0;        // C: a logit is C tanh(l / T); 0: l / T
};

// The weights, all 0: encoder.{forward,backward}.{input,state,bias}, attention.{key,query,score}, decoder.{input,
// state,bias}, devices, embedding [num_devices + 1, 2 hidden], whose last row is the input before the first group.
// Without a decoder only encoder.* and devices.{weight,bias}. LSTM gates are in the order input, forget, cell, output.
ParameterSet SequenceParameters(const SequenceOptions& options);

// Glorot initialisation, except forget gate biases, which start at 1. Source: Jozefowicz et al. 2015, section 5.
void InitializeSequence(const SequenceOptions& options, Rng& rng, ParameterSet* parameters);

// Bi-directional LSTM over the groups. Its final states initialise the decoder, an LSTM. In each step the decoder reads
// the embedding of the last group's device and attends to all groups' encodings by additive attention. It returns
// logits over the devices. Several placements of the same groups are decoded in parallel. Source: Mirhoseini et al.
// 2018 (Hierarchical Planner), section 2 and figure 1; Bahdanau et al. 2015 for the attention.
class SequenceNetwork {
 public:
  virtual ~SequenceNetwork() = default;

  // Reads the logits of a group in each placement, [count, num_devices], and writes its devices, [count].
  using Chooser = std::function<void(std::size_t group, const Matrix& logits, std::span<std::uint32_t> devices)>;
  // Decodes `count` placements of the groups, with devices from `choose`. inputs: [num_groups, features].
  virtual void Decode(const Matrix& inputs, std::size_t count, const Chooser& choose) = 0;
  // Logits of given placements: devices and result are [num_groups * count, ...], row group * count + placement. Equal
  // to the logits in Decode() up to rounding. Valid until the next call.
  virtual const Matrix& Forward(const Matrix& inputs, std::size_t count, std::span<const std::uint32_t> devices) = 0;
  // Adds the gradient of a loss to `gradients`. `d_logits`: its gradient with respect to the last Forward's logits.
  virtual void Backward(const Matrix& d_logits, std::span<float> gradients) = 0;
};

// Keeps a reference to `parameters`, whose values are read in each call. `device`: cpu or cuda. Throws InputError like
// MakeAutogradNetwork.
std::unique_ptr<SequenceNetwork> MakeSequenceNetwork(const SequenceOptions& options, const ParameterSet& parameters,
                                                     const std::string& device);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_SEQUENCE_NETWORK_H_
