#ifndef EMPLACE_AGENTS_NN_SEQUENCE_NETWORK_H_
#define EMPLACE_AGENTS_NN_SEQUENCE_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "agents/nn/kernel.h"
#include "agents/nn/logit_bound.h"
#include "agents/nn/parameters.h"

namespace emplace::agents {

// The vectors that the decoder's attention averages into its context.
enum class AttentionOver : std::uint8_t {
  kStates,  // the encoder's states. Source: Bahdanau et al. 2015, equation 5
  kKeys,    // their projections, which scores are computed from; as in the code of Mirhoseini et al. 2018
};

// A network that reads a sequence of groups and returns logits over the devices for each.
struct SequenceOptions {
  std::size_t features = 0;  // features of a group
  std::size_t num_devices = 0;
  std::size_t hidden = 256;  // units of each direction of the encoder; the decoder has twice as many
  // True: an LSTM decodes, with the previous group's device as input. False: a linear layer on each group's encoding.
  bool decoder = true;
  AttentionOver attention = AttentionOver::kStates;
  LogitBound bound = {};
  bool autograd = false;  // LibTorch's autograd on a CPU too, instead of our kernels: their reference in tests
};

// The weights, all 0: encoder.{forward,backward}.{input,state,bias}, attention.{key,query,score}, decoder.{input,
// state,bias}, devices, embedding [num_devices + 1, 2 hidden], whose last row is the input before the first group.
// Without a decoder only encoder.* and devices.{weight,bias}. LSTM gates are in the order input, forget, cell, output.
ParameterSet SequenceParameters(const SequenceOptions& options);

// Glorot initialisation, except forget gate biases, which start at 1. Source: Jozefowicz et al. 2015, section 5.
void InitializeSequence(const SequenceOptions& options, Rng& rng, ParameterSet* parameters);

// The logits of a pass and the activations that its gradients need.
struct SequenceCourse {
  SequenceCourse() = default;
  SequenceCourse(const SequenceCourse&) = delete;
  SequenceCourse& operator=(const SequenceCourse&) = delete;
  virtual ~SequenceCourse() = default;
  Matrix raw;     // [num_groups * count, num_devices], row group * count + placement: before the bound
  Matrix logits;  // the same, bounded
};

// Bi-directional LSTM over the groups. Its final states initialise the decoder, an LSTM. In each step the decoder reads
// the embedding of the last group's device and attends to all groups' encodings by additive attention. It returns
// logits over the devices. Several placements of the same groups are decoded in parallel. Source: Mirhoseini et al.
// 2018 (Hierarchical Planner), section 2 and figure 1; Bahdanau et al. 2015 for the attention.
class SequenceNetwork {
 public:
  virtual ~SequenceNetwork() = default;

  // Must be called after the weights have changed.
  virtual void Refresh() = 0;
  // Reads the logits of a group in each placement, [count, num_devices], and writes its devices, [count].
  using Chooser = std::function<void(std::size_t group, const Matrix& logits, std::span<std::uint32_t> devices)>;
  // Decodes `count` placements of the groups, with devices from `choose`. inputs: [num_groups, features]. With `keep`
  // returns the course, so that learning from these placements needs no Forward(); null if the network cannot keep it.
  virtual std::unique_ptr<SequenceCourse> Decode(const Matrix& inputs, std::size_t count, const Chooser& choose,
                                                 bool keep) = 0;
  // The course of given placements: devices are [num_groups * count], row group * count + placement. Its logits equal
  // those in Decode() up to rounding.
  virtual std::unique_ptr<SequenceCourse> Forward(const Matrix& inputs, std::size_t count,
                                                  std::span<const std::uint32_t> devices) = 0;
  // Adds the gradient of a loss to `gradients`. `d_logits`: its gradient with respect to the course's bounded logits.
  // `penalty`: as in UnboundGradient(). At most once for a course, with the weights that it was computed with.
  void Backward(const SequenceCourse& course, const Matrix& d_logits, double penalty, std::span<float> gradients);

 protected:
  explicit SequenceNetwork(const LogitBound& bound) : bound_(bound) {}
  // The same, from the gradient with respect to raw logits.
  virtual void BackwardRaw(const SequenceCourse& course, const Matrix& d_raw, std::span<float> gradients) = 0;

  LogitBound bound_;

 private:
  Matrix d_raw_;
};

// Keeps a reference to `parameters`, whose values are read by Refresh(). Refreshed at first. `device`: cpu or cuda.
// Throws InputError like MakeAutogradNetwork.
std::unique_ptr<SequenceNetwork> MakeSequenceNetwork(const SequenceOptions& options, const ParameterSet& parameters,
                                                     const std::string& device);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_SEQUENCE_NETWORK_H_
