#include <fmt/format.h>

#include <algorithm>

#include "datasets/importers/export_call.h"
#include "sim/base/check.h"

// LSTM, GRU and plain recurrent networks, one cell a step.
namespace emplace::datasets {
namespace {

// Unrolled, a network longer than that has more ops than a search can use.
constexpr std::int64_t kMaxCells = 20'000;

// A kind of cell: rows of its weights for each number of its state, and states that it hands on.
struct CellKind {
  std::string_view name;  // of the operator of a whole network
  std::int64_t gates;
  std::size_t states;
};
constexpr CellKind kCellKinds[] = {{"lstm", 4, 2}, {"gru", 3, 1}, {"rnn_tanh", 1, 1}, {"rnn_relu", 1, 1}};

// The weights of one direction of one layer.
struct CellWeights {
  Value input;   // [gates * h, inputs]
  Value hidden;  // [gates * h, h]
  std::optional<Value> input_bias;
  std::optional<Value> hidden_bias;
};

// Emits the ops of cells, whose gates are sliced and combined one by one.
class CellWriter {
 public:
  CellWriter(ExportCall& call, const CellKind& kind, std::int64_t batch, std::int64_t hidden)
      : call_(call), kind_(kind), row_{batch, hidden}, gates_{batch, kind.gates * hidden} {}

  Value One(std::string_view kind, std::vector<Value> inputs, Shape shape, const std::string& suffix,
            std::string attrs = {}) {
    return call_.EmitOne(kind, std::move(inputs), std::move(shape), std::move(attrs), suffix);
  }
  // inputs times a matrix [n, inputs], and a bias [n].
  Value Projection(Value x, Value weight, std::optional<Value> bias, const Shape& shape, const std::string& suffix) {
    Value y = One("matmul", {x, weight}, shape, suffix, R"({"transpose_b":true})");
    if (bias) y = One("bias_add", {y, *bias}, shape, suffix + "_bias");
    return y;
  }

  // The states behind a step. `input` is the projected input of the step, `in` the front of the ops' names.
  std::vector<Value> Step(Value input, const std::vector<Value>& states, const CellWeights& w, const std::string& in) {
    const Value state = Projection(states[0], w.hidden, w.hidden_bias, gates_, in + "state");
    if (kind_.name == "gru") return {GruStep(input, state, states[0], in)};
    const Value sum = One("add", {state, input}, gates_, in + "sum");
    if (kind_.name == "lstm") return LstmStep(sum, states[1], in);
    return {One(kind_.name == "rnn_relu" ? "relu" : "tanh", {sum}, row_, in + "hidden")};
  }

 private:
  std::vector<Value> Gates(Value sum, const std::string& suffix) {
    return call_.Emit("split", {sum},
                      std::vector<NetworkBuilder::Output>(static_cast<std::size_t>(kind_.gates),
                                                          {.dtype = call_.out().dtype, .shape = row_}),
                      R"({"axis":1})", suffix);
  }

  std::vector<Value> LstmStep(Value sum, Value c, const std::string& in) {
    const std::vector<Value> gate = Gates(sum, in + "gates");
    const Value added =
        One("mul", {One("sigmoid", {gate[0]}, row_, in + "in"), One("tanh", {gate[2]}, row_, in + "candidate")}, row_,
            in + "added");
    const Value kept = One("mul", {One("sigmoid", {gate[1]}, row_, in + "forget"), c}, row_, in + "kept");
    c = One("add", {kept, added}, row_, in + "cell");
    const Value h = One("mul", {One("sigmoid", {gate[3]}, row_, in + "out"), One("tanh", {c}, row_, in + "tanh")}, row_,
                        in + "hidden");
    return {h, c};
  }

  // h' = n + z * (h - n), n = tanh(x_n + r * h_n)
  Value GruStep(Value input, Value state, Value h, const std::string& in) {
    const std::vector<Value> x = Gates(input, in + "input_gates");
    const std::vector<Value> s = Gates(state, in + "gates");
    const Value reset = One("sigmoid", {One("add", {x[0], s[0]}, row_, in + "reset_sum")}, row_, in + "reset");
    const Value update = One("sigmoid", {One("add", {x[1], s[1]}, row_, in + "update_sum")}, row_, in + "update");
    const Value kept = One("mul", {reset, s[2]}, row_, in + "kept");
    const Value fresh = One("tanh", {One("add", {x[2], kept}, row_, in + "candidate_sum")}, row_, in + "candidate");
    const Value step = One("mul", {update, One("sub", {h, fresh}, row_, in + "change")}, row_, in + "step");
    return One("add", {fresh, step}, row_, in + "hidden");
  }

  ExportCall& call_;
  const CellKind& kind_;
  Shape row_;
  Shape gates_;
};

const CellKind* FindCellKind(std::string_view name) {
  const auto* const kind = std::find_if(std::begin(kCellKinds), std::end(kCellKinds),
                                        [&](const CellKind& row) { return "aten::" + std::string(row.name) == name; });
  return kind == std::end(kCellKinds) ? nullptr : kind;
}

// Whether they are those of a cell with that many inputs.
bool Fits(const ExportCall& call, const CellWeights& w, std::int64_t rows, std::int64_t inputs, std::int64_t hidden) {
  if (call.shape(w.input) != Shape{rows, inputs} || call.shape(w.hidden) != Shape{rows, hidden}) return false;
  for (const std::optional<Value>& bias : {w.input_bias, w.hidden_bias}) {
    if (bias && call.shape(*bias) != Shape{rows}) return false;
  }
  return true;
}

// lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), without projections, and
// gru, rnn_tanh, rnn_relu, whose hx is one tensor. A layer multiplies its whole input at once and the state at each
// step, as the kernels of PyTorch and cuDNN do.
bool LowerNetwork(ExportCall& call) {
  const CellKind* const kind = FindCellKind(ExportKind(call.node().target, false));
  if (kind == nullptr || !call.node().target.ends_with(".input") || call.num_outputs() != 1 + kind->states)
    return false;
  Value x = call.Tensor("input");
  const std::vector<Value> states = kind->states == 1 ? std::vector<Value>{call.Tensor("hx")} : call.Tensors("hx");
  const std::vector<Value> params = call.Tensors("params");
  const bool biased = call.Flag("has_biases", true);
  const bool batch_first = call.Flag("batch_first", false);
  const std::int64_t directions = call.Flag("bidirectional", false) ? 2 : 1;
  const std::int64_t layers = call.Integer("num_layers", 1);
  const double rate = call.training() || call.Flag("train", false) ? call.Number("dropout").value_or(0) : 0;
  const std::size_t per_layer = biased ? 4 : 2;
  if (call.shape(x).size() != 3 || states.size() != kind->states || layers < 1 || layers > 1000 || rate < 0 ||
      rate >= 1) {
    return false;
  }
  if (params.size() != static_cast<std::size_t>(layers * directions) * per_layer) return false;
  const std::int64_t steps = call.shape(x)[batch_first ? 1 : 0];
  const std::int64_t batch = call.shape(x)[batch_first ? 0 : 1];
  if (steps < 1 || steps > kMaxCells / (layers * directions) || call.shape(states[0]).size() != 3) return false;
  const std::int64_t hidden = call.shape(states[0])[2];
  if (hidden < 1 || hidden > std::int64_t{1} << 32) return false;
  const Shape state = {layers * directions, batch, hidden};
  for (const Value given : states) {
    if (call.shape(given) != state) return false;
  }
  std::vector<CellWeights> weights;
  for (std::size_t i = 0; i < params.size(); i += per_layer) {
    CellWeights one = {.input = params[i], .hidden = params[i + 1], .input_bias = {}, .hidden_bias = {}};
    if (biased) {
      one.input_bias = params[i + 2];
      one.hidden_bias = params[i + 3];
    }
    const std::int64_t width = static_cast<std::int64_t>(i) < directions * static_cast<std::int64_t>(per_layer)
                                   ? call.shape(x)[2]
                                   : hidden * directions;
    if (!Fits(call, one, kind->gates * hidden, width, hidden)) return false;
    weights.push_back(one);
  }
  Shape expected = call.shape(x);
  expected[2] = hidden * directions;
  if (call.out().shape != expected) return false;

  CellWriter write(call, *kind, batch, hidden);
  const auto cells = [&](Value initial, std::string_view name) {  // [layers*directions, batch, hidden] cut
    const std::vector<NetworkBuilder::Output> pieces(static_cast<std::size_t>(layers * directions),
                                                     {.dtype = call.out().dtype, .shape = {batch, hidden}});
    return call.Emit("unstack", {initial}, pieces, R"({"axis":0})", name);
  };
  std::vector<std::vector<Value>> first;  // of each state, for each layer and direction
  for (std::size_t i = 0; i < states.size(); ++i) first.push_back(cells(states[i], i == 0 ? "h0" : "c0"));
  const std::string step_axis = fmt::format(R"({{"axis":{}}})", batch_first ? 1 : 0);
  std::vector<std::vector<Value>> last(states.size());
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    std::vector<Value> results;
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const auto at = static_cast<std::size_t>(layer * directions + direction);
      const CellWeights& w = weights[at];
      const std::string stem = fmt::format("layer{}{}/", layer, direction == 0 ? "" : "_reverse");
      Shape gates = call.shape(x);
      gates[2] = kind->gates * hidden;
      const Value all = write.Projection(x, w.input, w.input_bias, gates, stem + "inputs");
      const std::vector<Value> inputs = call.Emit(
          "unstack", {all},
          std::vector<NetworkBuilder::Output>(static_cast<std::size_t>(steps),
                                              {.dtype = call.out().dtype, .shape = {batch, kind->gates * hidden}}),
          step_axis, stem + "steps");
      std::vector<Value> now;
      now.reserve(first.size());
      for (const std::vector<Value>& initial : first) now.push_back(initial[at]);
      std::vector<Value> outputs(inputs.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::size_t step = direction == 0 ? i : inputs.size() - 1 - i;
        now = write.Step(inputs[step], now, w, stem + fmt::format("step{:02}/", step));
        outputs[step] = now[0];
      }
      Shape joined = call.shape(x);
      joined[2] = hidden;
      results.push_back(write.One("stack", outputs, joined, stem + "outputs", step_axis));
      for (std::size_t i = 0; i < now.size(); ++i) last[i].push_back(now[i]);
    }
    x = results[0];
    if (directions == 2) {
      x = write.One("concat", results, expected, fmt::format("layer{}/both", layer), R"({"axis":2})");
    }
    if (rate > 0 && layer + 1 < layers) {
      x = call.Emit("dropout", {x},
                    {{.dtype = call.out().dtype, .shape = call.shape(x)},
                     {.dtype = DType::kBool, .shape = call.shape(x)}},
                    fmt::format(R"({{"rate":{}}})", rate), fmt::format("layer{}/dropout", layer))
              .front();
    }
  }
  call.Set(0, x);
  for (std::size_t i = 0; i < last.size(); ++i) {
    call.Set(1 + i, write.One("stack", last[i], state, i == 0 ? "hn" : "cn", R"({"axis":0})"));
  }
  return true;
}

// lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh), and gru_cell, rnn_tanh_cell, rnn_relu_cell, whose hx is one tensor.
bool LowerCell(ExportCall& call) {
  std::string name = ExportKind(call.node().target, false);
  name.resize(name.size() - std::string_view("_cell").size());
  const CellKind* const kind = FindCellKind(name);
  if (kind == nullptr || call.num_outputs() != kind->states) return false;
  const Value x = call.Tensor("input");
  const std::vector<Value> states = kind->states == 1 ? std::vector<Value>{call.Tensor("hx")} : call.Tensors("hx");
  CellWeights w = {.input = call.Tensor("w_ih"), .hidden = call.Tensor("w_hh"), .input_bias = {}, .hidden_bias = {}};
  if (call.IsTensor("b_ih")) w.input_bias = call.Tensor("b_ih");
  if (call.IsTensor("b_hh")) w.hidden_bias = call.Tensor("b_hh");
  if (states.size() != kind->states || call.shape(x).size() != 2 || call.shape(states[0]).size() != 2) return false;
  const std::int64_t batch = call.shape(x)[0];
  const std::int64_t hidden = call.shape(states[0])[1];
  if (hidden < 1 || hidden > std::int64_t{1} << 32) return false;
  for (const Value given : states) {
    if (call.shape(given) != Shape{batch, hidden}) return false;
  }
  if (!Fits(call, w, kind->gates * hidden, call.shape(x)[1], hidden) || call.out().shape != Shape{batch, hidden}) {
    return false;
  }
  CellWriter write(call, *kind, batch, hidden);
  const Value input = write.Projection(x, w.input, w.input_bias, {batch, kind->gates * hidden}, "inputs");
  const std::vector<Value> after = write.Step(input, states, w, "");
  for (std::size_t i = 0; i < after.size(); ++i) call.Set(i, after[i]);
  return true;
}

constexpr ExportRule kRecurrentRules[] = {
    {"aten::lstm", LowerNetwork},       {"aten::gru", LowerNetwork},        {"aten::rnn_tanh", LowerNetwork},
    {"aten::rnn_relu", LowerNetwork},   {"aten::lstm_cell", LowerCell},     {"aten::gru_cell", LowerCell},
    {"aten::rnn_tanh_cell", LowerCell}, {"aten::rnn_relu_cell", LowerCell},
};

}  // namespace

std::span<const ExportRule> ExportRecurrentRules() { return kRecurrentRules; }

}  // namespace emplace::datasets
