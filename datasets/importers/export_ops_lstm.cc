#include <fmt/format.h>

#include "datasets/importers/export_call.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

// Unrolled, a network longer than that has more ops than a search can use.
constexpr std::int64_t kMaxCells = 20'000;

// The weights of one direction of one layer.
struct LstmWeights {
  Value input;   // [4h, inputs]
  Value hidden;  // [4h, h]
  std::optional<Value> input_bias;
  std::optional<Value> hidden_bias;
};

}  // namespace

// lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), without projections. A
// layer multiplies its whole input at once and the state at each step, as the kernels of PyTorch and cuDNN do. Gates
// are sliced and combined one by one.
bool LowerExportLstm(ExportCall& call) {
  if (call.node().target != "torch.ops.aten.lstm.input" || call.num_outputs() != 3) return false;
  Value x = call.Tensor("input");
  const std::vector<Value> states = call.Tensors("hx");
  const std::vector<Value> params = call.Tensors("params");
  const bool biased = call.Flag("has_biases", true);
  const bool batch_first = call.Flag("batch_first", false);
  const std::int64_t directions = call.Flag("bidirectional", false) ? 2 : 1;
  const std::int64_t layers = call.Integer("num_layers", 1);
  const double rate = call.training() || call.Flag("train", false) ? call.Number("dropout").value_or(0) : 0;
  const std::size_t per_layer = biased ? 4 : 2;
  if (call.shape(x).size() != 3 || states.size() != 2 || layers < 1 || layers > 1000 || rate < 0 || rate >= 1)
    return false;
  if (params.size() != static_cast<std::size_t>(layers * directions) * per_layer) return false;
  const std::int64_t steps = call.shape(x)[batch_first ? 1 : 0];
  const std::int64_t batch = call.shape(x)[batch_first ? 0 : 1];
  if (steps < 1 || steps > kMaxCells / (layers * directions) || call.shape(states[0]).size() != 3) return false;
  const std::int64_t hidden = call.shape(states[0])[2];
  if (hidden < 1 || hidden > std::int64_t{1} << 32) return false;
  const Shape state = {layers * directions, batch, hidden};
  if (call.shape(states[0]) != state || call.shape(states[1]) != state) return false;
  std::vector<LstmWeights> weights;
  for (std::size_t i = 0; i < params.size(); i += per_layer) {
    LstmWeights one = {.input = params[i], .hidden = params[i + 1], .input_bias = {}, .hidden_bias = {}};
    const std::int64_t width = static_cast<std::int64_t>(i) < directions * static_cast<std::int64_t>(per_layer)
                                   ? call.shape(x)[2]
                                   : hidden * directions;
    if (call.shape(one.input) != Shape{4 * hidden, width} || call.shape(one.hidden) != Shape{4 * hidden, hidden})
      return false;
    if (biased) {
      one.input_bias = params[i + 2];
      one.hidden_bias = params[i + 3];
      for (const Value bias : {params[i + 2], params[i + 3]}) {
        if (call.shape(bias) != Shape{4 * hidden}) return false;
      }
    }
    weights.push_back(one);
  }
  Shape expected = call.shape(x);
  expected[2] = hidden * directions;
  if (call.out().shape != expected) return false;

  const auto one = [&](std::string_view kind, std::vector<Value> inputs, Shape shape, const std::string& suffix,
                       std::string attrs = {}) {
    return call.EmitOne(kind, std::move(inputs), std::move(shape), std::move(attrs), suffix);
  };
  const auto cells = [&](Value initial, std::string_view name) {  // [layers*directions, batch, hidden] cut
    const std::vector<NetworkBuilder::Output> pieces(static_cast<std::size_t>(layers * directions),
                                                     {.dtype = call.out().dtype, .shape = {batch, hidden}});
    return call.Emit("unstack", {initial}, pieces, R"({"axis":0})", name);
  };
  const std::vector<Value> first_hidden = cells(states[0], "h0");
  const std::vector<Value> first_cell = cells(states[1], "c0");
  const std::string step_axis = fmt::format(R"({{"axis":{}}})", batch_first ? 1 : 0);
  const Shape row = {batch, hidden};
  std::vector<Value> last_hidden;
  std::vector<Value> last_cell;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    std::vector<Value> results;
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const auto at = static_cast<std::size_t>(layer * directions + direction);
      const LstmWeights& w = weights[at];
      const std::string stem = fmt::format("layer{}{}/", layer, direction == 0 ? "" : "_reverse");
      Shape gates = call.shape(x);
      gates[2] = 4 * hidden;
      Value all = one("matmul", {x, w.input}, gates, stem + "inputs", R"({"transpose_b":true})");
      if (w.input_bias) all = one("bias_add", {all, *w.input_bias}, gates, stem + "inputs_bias");
      const std::vector<Value> inputs =
          call.Emit("unstack", {all},
                    std::vector<NetworkBuilder::Output>(static_cast<std::size_t>(steps),
                                                        {.dtype = call.out().dtype, .shape = {batch, 4 * hidden}}),
                    step_axis, stem + "steps");
      Value h = first_hidden[at];
      Value c = first_cell[at];
      std::vector<Value> outputs(inputs.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::size_t step = direction == 0 ? i : inputs.size() - 1 - i;
        const std::string in = stem + fmt::format("step{:02}/", step);
        Value sum = one("matmul", {h, w.hidden}, {batch, 4 * hidden}, in + "state", R"({"transpose_b":true})");
        if (w.hidden_bias) sum = one("bias_add", {sum, *w.hidden_bias}, {batch, 4 * hidden}, in + "state_bias");
        sum = one("add", {sum, inputs[step]}, {batch, 4 * hidden}, in + "sum");
        const std::vector<Value> gate =
            call.Emit("split", {sum}, std::vector<NetworkBuilder::Output>(4, {.dtype = call.out().dtype, .shape = row}),
                      R"({"axis":1})", in + "gates");
        const Value added =
            one("mul", {one("sigmoid", {gate[0]}, row, in + "in"), one("tanh", {gate[2]}, row, in + "candidate")}, row,
                in + "added");
        const Value kept = one("mul", {one("sigmoid", {gate[1]}, row, in + "forget"), c}, row, in + "kept");
        c = one("add", {kept, added}, row, in + "cell");
        h = one("mul", {one("sigmoid", {gate[3]}, row, in + "out"), one("tanh", {c}, row, in + "tanh")}, row,
                in + "hidden");
        outputs[step] = h;
      }
      Shape joined = call.shape(x);
      joined[2] = hidden;
      results.push_back(one("stack", outputs, joined, stem + "outputs", step_axis));
      last_hidden.push_back(h);
      last_cell.push_back(c);
    }
    x = results[0];
    if (directions == 2) x = one("concat", results, expected, fmt::format("layer{}/both", layer), R"({"axis":2})");
    if (rate > 0 && layer + 1 < layers) {
      x = call.Emit("dropout", {x},
                    {{.dtype = call.out().dtype, .shape = call.shape(x)},
                     {.dtype = DType::kBool, .shape = call.shape(x)}},
                    fmt::format(R"({{"rate":{}}})", rate), fmt::format("layer{}/dropout", layer))
              .front();
    }
  }
  call.Set(0, x);
  call.Set(1, one("stack", last_hidden, state, "hn", R"({"axis":0})"));
  call.Set(2, one("stack", last_cell, state, "cn", R"({"axis":0})"));
  return true;
}

}  // namespace emplace::datasets
