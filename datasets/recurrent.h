#ifndef EMPLACE_DATASETS_RECURRENT_H_
#define EMPLACE_DATASETS_RECURRENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/builder.h"
#include "sim/base/options.h"

namespace emplace::datasets {

// How finely the ops of an LSTM step are cut.
enum class Granularity {
  kFused,  // one product of all inputs and all gates, as frameworks do it
  kGate,   // a product for each input and each gate
  kSlice,  // a product for each gate of each slice of the hidden units, as tensor-parallel programs cut them
};
inline constexpr std::int64_t kSlices = 4;  // slices with Granularity::kSlice

// Declares option "granularity" (fused, gate, slice).
Granularity ReadGranularity(OptionReader& reader);
// Throws InputError(OWNER) if the hidden units cannot be cut so.
void CheckSlices(std::string_view owner, std::int64_t hidden, Granularity granularity);

// "step07"
std::string StepName(std::int64_t step);

// The mean loss [] of a model that says a word at every step: logits of tops[t] [batch, vocabulary] by `project`, under
// layer "projection", compared with labels[t] [batch] under layer "loss", and added up over the steps.
Value UnrolledLoss(NetworkBuilder& net, const std::vector<Value>& tops, const std::vector<Value>& labels,
                   const std::function<Value(Value top)>& project);

struct LstmState {
  std::vector<Value> cells;  // one for each slice, [batch, hidden / slices]
  Value hidden;              // [batch, hidden]
};

// One layer of long short-term memory, whose weights are read at every step: gates i, f, o and candidate j,
// c' = f c + i j, h' = o tanh(c').
// Source: Hochreiter and Schmidhuber 1997, with the forget gates of Gers et al. 2000; no peepholes.
class LstmCell {
 public:
  // Adds the variables under the current scopes. Inputs of a step are [batch, input_widths[i]]. Requires: `hidden` is
  // a multiple of kSlices if cut in slices.
  LstmCell(NetworkBuilder& net, const std::vector<std::int64_t>& input_widths, std::int64_t hidden,
           Granularity granularity);

  // Zeros.
  LstmState Start(std::int64_t batch) const;
  LstmState Step(const std::vector<Value>& inputs, const LstmState& state) const;

 private:
  static constexpr std::size_t kNumGates = 4;
  // Weights of one gate (of all of them together if fused), by input; the last is the state's.
  struct Gate {
    std::vector<Value> kernels;  // [inputs, units]
    Value bias;                  // [units]
  };
  struct Gated {
    Value cell;
    Value hidden;
  };

  Value Sum(const Gate& gate, const std::vector<Value>& inputs) const;
  // `sums`: in, candidate, forget, out.
  Gated Update(const std::vector<Value>& sums, Value cell) const;

  NetworkBuilder& net_;
  Granularity granularity_;
  std::int64_t hidden_;
  std::vector<std::vector<Gate>> slices_;  // gates of each slice, in the order of Update
};

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_RECURRENT_H_
