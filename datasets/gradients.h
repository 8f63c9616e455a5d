#ifndef EMPLACE_DATASETS_GRADIENTS_H_
#define EMPLACE_DATASETS_GRADIENTS_H_

#include <string_view>
#include <vector>

#include "datasets/builder.h"

namespace emplace::datasets {

// The gradient of the loss with respect to one tensor. That of a table which is read by row number is sparse: `values`
// holds [n, width] and `rows` the n row numbers, so that it costs what was looked up and not the whole table.
struct Gradient {
  Value values;
  Value rows;  // exists() only if sparse
};

struct VariableGradient {
  Value variable;
  Gradient gradient;
};

// Whether AddGradients() knows the kind: what it finds none for must not lie between variables and loss. All kinds with
// a namespace have a rule; if no table lists them, it is that one op reads all inputs.
bool HasGradientRule(std::string_view kind);
// Whether a table lists the kind.
bool HasOwnGradientRule(std::string_view kind);

// Adds the backward ops of everything between the trainable variables and `loss`, a scalar, by reverse-mode
// differentiation: forward ops from the last to the first, each by the rule of its kind; where a tensor is read more
// than once the gradients that meet are added by an explicit `add_n` (sparse ones are joined by `concat`, and by
// `scatter_add` with dense ones). Ops without a trained variable behind them get no gradient, as the first
// convolution's images. Returns the trainable variables that the loss depends on, with their gradients, in the order in
// which they were added. A kind without a rule stops the program.
std::vector<VariableGradient> AddGradients(NetworkBuilder& net, Value loss);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_GRADIENTS_H_
