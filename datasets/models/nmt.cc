#include "datasets/models/nmt.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "datasets/layers.h"
#include "datasets/models/models.h"
#include "datasets/recurrent.h"
#include "datasets/training.h"

namespace emplace::datasets {
namespace {

// Residual connections start at this layer, counted from 0.
constexpr std::int64_t kFirstResidual = 2;

// Runs over all steps, from the last if `reversed`. Returns the hidden states by step; *last is where it ends.
std::vector<Value> RunLayer(NetworkBuilder& net, const std::vector<Value>& inputs, const LstmCell& lstm, bool reversed,
                            const NmtOptions& options, LstmState* last) {
  std::vector<Value> outputs(inputs.size());
  LstmState state = lstm.Start(options.batch);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t t = reversed ? inputs.size() - 1 - i : i;
    const auto scope = net.Within(StepName(static_cast<std::int64_t>(t)));
    state = lstm.Step({inputs[t]}, state);
    outputs[t] = state.hidden;
  }
  *last = state;
  return outputs;
}

// The embedding of each step [batch, hidden].
std::vector<Value> Embed(NetworkBuilder& net, Value ids, const NmtOptions& options) {
  return Unstack(net, Embedding(net, ids, options.vocabulary, options.hidden), 0);
}

// The bottom layer, in both directions: [batch, 2 * hidden] for each step.
std::vector<Value> RunBothWays(NetworkBuilder& net, const std::vector<Value>& inputs, const NmtOptions& options,
                               LstmState* last) {
  std::vector<Value> forward;
  std::vector<Value> backward;
  LstmState unused;
  {
    const auto scope = net.Within("forward");
    forward = RunLayer(net, inputs, LstmCell(net, {options.hidden}, options.hidden, options.granularity), false,
                       options, last);
  }
  {
    const auto scope = net.Within("backward");
    backward = RunLayer(net, inputs, LstmCell(net, {options.hidden}, options.hidden, options.granularity), true,
                        options, &unused);
  }
  std::vector<Value> both;
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    const auto scope = net.Within(StepName(static_cast<std::int64_t>(t)));
    both.push_back(Concat(net, {forward[t], backward[t]}, 1, "both"));
  }
  return both;
}

struct Encoded {
  Value memory;                   // [batch, steps, width of the top layer]
  std::vector<LstmState> finals;  // indexed by layer
};

Encoded Encode(NetworkBuilder& net, Value source, const NmtOptions& options) {
  std::vector<Value> values;
  {
    const auto scope = net.Layer("encoder/embedding");
    values = Embed(net, source, options);
  }
  Encoded encoded;
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const auto scope = net.Layer(fmt::format("encoder/lstm{}", layer));
    LstmState last;
    if (layer == 0) {
      values = RunBothWays(net, values, options, &last);
    } else {
      const LstmCell lstm(net, {net.shape(values.front())[1]}, options.hidden, options.granularity);
      std::vector<Value> outputs = RunLayer(net, values, lstm, false, options, &last);
      for (std::size_t t = 0; layer >= kFirstResidual && t < outputs.size(); ++t) {
        const auto step = net.Within(StepName(static_cast<std::int64_t>(t)));
        outputs[t] = Binary(net, "add", outputs[t], values[t], "residual");
      }
      values = std::move(outputs);
    }
    encoded.finals.push_back(last);
  }
  const auto scope = net.Layer("attention");
  encoded.memory = Stack(net, values, 1, "memory");
  return encoded;
}

// Additive attention: context = sum_s softmax_s(v . tanh(W query + U memory_s)) memory_s.
class DecoderAttention {
 public:
  DecoderAttention(NetworkBuilder& net, Value memory, const NmtOptions& options) : net_(net), memory_(memory) {
    const auto scope = net.Layer("attention");
    query_weights_ = net.Variable("query_weights", {options.hidden, options.hidden});
    const Value memory_weights = net.Variable("memory_weights", {net.shape(memory)[2], options.hidden});
    bias_ = net.Variable("bias", {options.hidden});
    score_weights_ = net.Variable("score_weights", {options.hidden});
    keys_ = BiasAdd(net, MatMul(net, memory, memory_weights, false, "keys"), bias_);
  }

  // query [batch, hidden] to context [batch, width of the memory].
  Value Context(Value query, std::int64_t t) {
    const auto scope = net_.Layer("attention");
    const auto step = net_.Within(StepName(t));
    const std::int64_t batch = net_.shape(query)[0];
    const std::int64_t steps = net_.shape(memory_)[1];
    const Value asked = MatMul(net_, query, query_weights_, false, "query");
    const Value spread = Reshape(net_, asked, {batch, 1, net_.shape(asked)[1]}, "query_rows");
    const Value hidden = Unary(net_, "tanh", Binary(net_, "add", keys_, spread));
    const Value scores = Reduce(net_, "reduce_sum", Binary(net_, "mul", hidden, score_weights_), {2});
    const Value weights = Reshape(net_, Unary(net_, "softmax", scores), {batch, 1, steps}, "weights");
    const Value context = BatchMatMul(net_, weights, memory_, false, "context");
    return Reshape(net_, context, {batch, net_.shape(memory_)[2]}, "context_rows");
  }

 private:
  NetworkBuilder& net_;
  Value memory_;
  Value keys_;
  Value query_weights_;
  Value bias_;
  Value score_weights_;
};

struct ProjectionWeights {
  Value kernel;
  Value bias;
};

// The loss of each sentence at one step [batch].
Value StepLoss(NetworkBuilder& net, const ProjectionWeights& projection, Value top, Value labels, std::int64_t t) {
  Value logits;
  {
    const auto scope = net.Layer("projection");
    const auto step = net.Within(StepName(t));
    logits = BiasAdd(net, MatMul(net, top, projection.kernel), projection.bias);
  }
  const auto scope = net.Layer("loss");
  const auto step = net.Within(StepName(t));
  return SoftmaxCrossEntropy(net, logits, labels);
}

std::vector<Value> Decode(NetworkBuilder& net, const Encoded& encoded, Value target, Value labels,
                          const NmtOptions& options) {
  std::vector<Value> embedded;
  {
    const auto scope = net.Layer("decoder/embedding");
    embedded = Embed(net, target, options);
  }
  DecoderAttention attention(net, encoded.memory, options);
  const std::int64_t context_width = net.shape(encoded.memory)[2];
  std::vector<LstmCell> lstms;
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const auto scope = net.Layer(fmt::format("decoder/lstm{}", layer));
    lstms.emplace_back(net, std::vector<std::int64_t>{options.hidden, context_width}, options.hidden,
                       options.granularity);
  }
  ProjectionWeights projection;
  {
    const auto scope = net.Layer("projection");
    projection = {.kernel = net.Variable("kernel", {options.hidden, options.vocabulary}),
                  .bias = net.Variable("bias", {options.vocabulary})};
  }
  std::vector<Value> label_steps;
  {
    const auto scope = net.Layer("loss");
    label_steps = Unstack(net, labels, 0, "labels_by_step");
  }

  std::vector<LstmState> states = encoded.finals;
  std::vector<Value> losses;
  for (std::int64_t t = 0; t < options.steps; ++t) {
    const auto at = static_cast<std::size_t>(t);
    const Value context = attention.Context(states.front().hidden, t);
    Value x = embedded[at];
    for (std::size_t layer = 0; layer < lstms.size(); ++layer) {
      const auto scope = net.Layer(fmt::format("decoder/lstm{}", layer));
      const auto step = net.Within(StepName(t));
      states[layer] = lstms[layer].Step({x, context}, states[layer]);
      const bool residual = static_cast<std::int64_t>(layer) >= kFirstResidual;
      x = residual ? Binary(net, "add", states[layer].hidden, x, "residual") : states[layer].hidden;
    }
    losses.push_back(StepLoss(net, projection, x, label_steps[at], t));
  }
  return losses;
}

}  // namespace

Graph MakeNmt(OptionReader& reader) {
  NmtOptions options;
  reader.Read("layers", &options.layers, 1, 64, "LSTM layers of the encoder, and of the decoder");
  reader.Read("batch", &options.batch, 1, 65536, "sentence pairs in a step");
  reader.Read("hidden", &options.hidden, 1, 65536, "width of embeddings, LSTM states and attention");
  reader.Read("vocabulary", &options.vocabulary, 1, 10000000, "words of either language");
  reader.Read("steps", &options.steps, 1, 1024, "words of a sentence, in either language");
  options.granularity = ReadGranularity(reader);
  options.precision = ReadPrecision(reader);
  options.training.f32_masters = options.precision != DType::kF32;
  ReadTrainingOptions(reader, &options.training);
  reader.Finish();
  CheckSlices("nmt", options.hidden, options.granularity);
  return BuildNmt("nmt", options);
}

Graph BuildNmt(std::string name, const NmtOptions& options) {
  NetworkBuilder net(std::move(name), options.precision);
  Value source;
  Value target;
  Value labels;
  {
    const auto encoder = net.Layer("encoder/embedding");
    source = net.Input("source", DType::kI32, {options.steps, options.batch});
  }
  {
    const auto decoder = net.Layer("decoder/embedding");
    target = net.Input("target", DType::kI32, {options.steps, options.batch});
  }
  {
    const auto scope = net.Layer("loss");
    labels = net.Input("labels", DType::kI32, {options.steps, options.batch});
  }
  const std::vector<Value> losses = Decode(net, Encode(net, source, options), target, labels, options);
  const auto scope = net.Layer("loss");
  const Value loss = Reduce(net, "reduce_mean", AddN(net, losses), {0});
  return BuildTrainingGraph(net, loss, options.training);
}

}  // namespace emplace::datasets
