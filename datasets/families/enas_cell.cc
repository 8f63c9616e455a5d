#include "datasets/families/enas_cell.h"

#include <fmt/format.h>

#include <cmath>

#include "datasets/families/families.h"
#include "datasets/layers.h"
#include "datasets/recurrent.h"
#include "datasets/training.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

Value Activate(NetworkBuilder& net, std::string_view kind, Value x) {
  return kind == "identity" ? x : Unary(net, kind, x, "activation");
}

// A node with a highway connection: c = sigmoid(u), y = old + c (f(v) - old), where [u, v] = sums.
Value Highway(NetworkBuilder& net, Value sums, Value old, std::string_view activation) {
  const std::vector<Value> halves = Split(net, sums, 2, 1);
  const Value carry = Unary(net, "sigmoid", halves[0], "carry");
  const Value difference = Binary(net, "sub", Activate(net, activation, halves[1]), old, "difference");
  return Binary(net, "add", old, Binary(net, "mul", carry, difference, "step"), "node");
}

// The weights of each node, read at every step: [2 hidden, 2 hidden] for node 0, [hidden, 2 hidden] for the others.
std::vector<Value> Weights(NetworkBuilder& net, const EnasCell& cell, std::int64_t hidden) {
  std::vector<Value> weights;
  for (std::size_t node = 0; node < cell.nodes.size(); ++node) {
    weights.push_back(net.Variable(fmt::format("node{}/weights", node), {(node == 0 ? 2 : 1) * hidden, 2 * hidden}));
  }
  return weights;
}

// The next state from a word [batch, hidden] and the state [batch, hidden].
Value Step(NetworkBuilder& net, const EnasCell& cell, const std::vector<Value>& weights, Value word, Value state) {
  std::vector<Value> nodes;
  for (std::size_t i = 0; i < cell.nodes.size(); ++i) {
    const auto scope = net.Within(fmt::format("node{}", i));
    const Value old = i == 0 ? state : nodes[cell.nodes[i].input];
    const Value input = i == 0 ? Concat(net, {word, state}, 1) : old;
    nodes.push_back(
        Highway(net, MatMul(net, input, weights[i]), old, EnasCell::kActivations[cell.nodes[i].activation]));
  }
  std::vector<Value> loose;
  for (const std::size_t node : cell.LooseEnds()) loose.push_back(nodes[node]);
  if (loose.size() == 1) return loose.front();
  return Scale(net, AddN(net, loose, "loose_ends"), 1 / static_cast<double>(loose.size()), "mean");
}

}  // namespace

EnasCell EnasCell::Draw(Rng& rng) {
  EnasCell cell;
  for (std::size_t node = 0; node < kNodes; ++node) {
    const std::size_t input = node == 0 ? 0 : rng.Below(node);
    cell.nodes.push_back({.input = input, .activation = rng.Below(kActivations.size())});
  }
  return cell;
}

std::string EnasCell::Text() const {
  std::string text;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    text.append(text.empty() ? "" : " ").append(kActivations[nodes[node].activation]);
    if (node > 0) text += fmt::format("<{}", nodes[node].input);
  }
  return text;
}

std::vector<std::size_t> EnasCell::LooseEnds() const {
  std::vector<bool> is_read(nodes.size());
  for (std::size_t node = 1; node < nodes.size(); ++node) is_read[nodes[node].input] = true;
  std::vector<std::size_t> loose;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (!is_read[node]) loose.push_back(node);
  }
  return loose;
}

double EnasCell::SpaceSize() {
  return std::pow(static_cast<double>(kActivations.size()), kNodes) * std::tgamma(static_cast<double>(kNodes + 1));
}

Graph BuildEnasLanguageModel(std::string name, const EnasCell& cell, const EnasLanguageModelSizes& sizes) {
  EMPLACE_CHECK(!cell.nodes.empty());
  NetworkBuilder net(std::move(name));
  Value table;
  std::vector<Value> words;
  {
    const auto scope = net.Layer("embedding");
    table = net.Variable("table", {sizes.vocabulary, sizes.hidden});
    const Value ids = net.Input("words", DType::kI32, {sizes.steps, sizes.batch});
    words = Unstack(net, Dropout(net, Gather(net, table, ids)), 0);
  }
  std::vector<Value> states;
  {
    const auto scope = net.Layer("rnn0");
    const std::vector<Value> weights = Weights(net, cell, sizes.hidden);
    Value state = Fill(net, {sizes.batch, sizes.hidden}, "zero_state");
    for (std::size_t t = 0; t < words.size(); ++t) {
      const auto step = net.Within(StepName(static_cast<std::int64_t>(t)));
      state = Step(net, cell, weights, words[t], state);
      states.push_back(state);
    }
  }
  std::vector<Value> labels;
  {
    const auto scope = net.Layer("loss");
    labels = Unstack(net, net.Input("labels", DType::kI32, {sizes.steps, sizes.batch}), 0, "labels_by_step");
  }
  const Value loss = UnrolledLoss(net, states, labels, [&](Value state) {
    return MatMul(net, Dropout(net, state), table, /*transposed=*/true, "logits");
  });
  const auto scope = net.Layer("loss");
  return BuildTrainingGraph(net, loss, {.optimizer = "sgd", .clip_gradients = true});
}

Graph MakePtbMember(Rng& rng, std::string name, std::vector<std::pair<std::string, std::string>>* drawn) {
  EnasLanguageModelSizes sizes;
  sizes.batch = rng.Between(1536, 3072);
  sizes.steps = rng.Between(25, 40);
  const EnasCell cell = EnasCell::Draw(rng);
  *drawn = {{"batch", std::to_string(sizes.batch)}, {"steps", std::to_string(sizes.steps)}, {"cell", cell.Text()}};
  return BuildEnasLanguageModel(std::move(name), cell, sizes);
}

}  // namespace emplace::datasets
