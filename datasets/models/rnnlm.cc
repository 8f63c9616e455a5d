#include <fmt/format.h>

#include <string>
#include <vector>

#include "datasets/layers.h"
#include "datasets/models/models.h"
#include "datasets/recurrent.h"
#include "datasets/training.h"

namespace emplace::datasets {
namespace {

struct RnnlmOptions {
  std::int64_t layers = 2;
  std::int64_t batch = 64;
  std::int64_t hidden = 2048;
  std::int64_t vocabulary = 10000;
  std::int64_t steps = 35;
  bool dropout = true;
  Granularity granularity = Granularity::kFused;
};

// The input of layer `layer` at step t: dropout acts between layers, not between steps.
Value Below(NetworkBuilder& net, Value x, bool dropout) { return dropout ? Dropout(net, x) : x; }

// [batch, hidden] of each step, through all layers.
std::vector<Value> RunLayers(NetworkBuilder& net, std::vector<Value> values, const RnnlmOptions& options) {
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const auto scope = net.Layer(fmt::format("lstm{}", layer));
    const LstmCell lstm(net, {options.hidden}, options.hidden, options.granularity);
    LstmState state = lstm.Start(options.batch);
    for (std::size_t t = 0; t < values.size(); ++t) {
      const auto step = net.Within(StepName(static_cast<std::int64_t>(t)));
      state = lstm.Step({Below(net, values[t], options.dropout)}, state);
      values[t] = state.hidden;
    }
  }
  return values;
}

Value Loss(NetworkBuilder& net, const std::vector<Value>& tops, const std::vector<Value>& labels,
           const RnnlmOptions& options) {
  Value kernel;
  Value bias;
  {
    const auto scope = net.Layer("projection");
    kernel = net.Variable("kernel", {options.hidden, options.vocabulary});
    bias = net.Variable("bias", {options.vocabulary});
  }
  return UnrolledLoss(net, tops, labels, [&](Value top) {
    return BiasAdd(net, MatMul(net, Below(net, top, options.dropout), kernel), bias);
  });
}

}  // namespace

Graph MakeRnnlm(OptionReader& reader) {
  RnnlmOptions options;
  TrainingOptions training = {.optimizer = "sgd", .clip_gradients = true, .average_variables = false};
  reader.Read("layers", &options.layers, 1, 64, "LSTM layers");
  reader.Read("batch", &options.batch, 1, 65536, "sequences in a step");
  reader.Read("hidden", &options.hidden, 1, 65536, "width of embeddings and LSTM states");
  reader.Read("vocabulary", &options.vocabulary, 1, 10000000, "words");
  reader.Read("steps", &options.steps, 1, 1024, "words of a sequence, over which the model is unrolled");
  reader.Read("dropout", &options.dropout, "apply dropout between layers");
  options.granularity = ReadGranularity(reader);
  ReadTrainingOptions(reader, &training);
  reader.Finish();
  CheckSlices("rnnlm", options.hidden, options.granularity);

  NetworkBuilder net("rnnlm");
  std::vector<Value> words;
  {
    const auto scope = net.Layer("embedding");
    const Value ids = net.Input("words", DType::kI32, {options.steps, options.batch});
    words = Unstack(net, Embedding(net, ids, options.vocabulary, options.hidden), 0);
  }
  const std::vector<Value> tops = RunLayers(net, words, options);
  std::vector<Value> labels;
  {
    const auto scope = net.Layer("loss");
    labels = Unstack(net, net.Input("labels", DType::kI32, {options.steps, options.batch}), 0, "labels_by_step");
  }
  const Value loss = Loss(net, tops, labels, options);
  const auto scope = net.Layer("loss");
  return BuildTrainingGraph(net, loss, training);
}

}  // namespace emplace::datasets
