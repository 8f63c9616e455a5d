// The LibTorch part of sequence_network.h.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "agents/nn/lstm.h"
#include "agents/nn/tanh_scores.h"
#include "agents/nn/torch/makers.h"

namespace emplace::agents {
namespace {

using Array = torch::Tensor;  // the project's Tensor is a different type
using torch::indexing::Slice;

// scores[r, j] = v . tanh(queries[r] + keys[j]), by our kernel on a CPU, elsewhere in slices of the rows. The
// intermediate values, far larger than the rest of the network, are recomputed in the backward pass.
class AdditiveScores : public torch::autograd::Function<AdditiveScores> {
 public:
  static Array forward(torch::autograd::AutogradContext* context, const Array& queries, const Array& keys,
                       const Array& v) {
    context->save_for_backward({queries, keys, v});
    if (!queries.is_cpu()) {
      std::vector<Array> slices;
      for (const Array& slice : queries.split(kSlice)) slices.push_back(Inner(slice, keys).matmul(v));
      return torch::cat(slices);
    }
    Array scores = torch::empty({queries.size(0), keys.size(0)});
    TanhScores(queries.data_ptr<float>(), Size(queries, 0), keys.data_ptr<float>(), Size(keys, 0), v.data_ptr<float>(),
               Size(v, 0), scores.data_ptr<float>());
    return scores;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& d_results) {
    const auto saved = context->get_saved_variables();
    const Array& queries = saved[0];
    const Array& keys = saved[1];
    const Array& v = saved[2];
    Array d_queries = torch::zeros_like(queries);
    Array d_keys = torch::zeros_like(keys);
    Array d_v = torch::zeros_like(v);
    const Array d_scores = d_results[0].contiguous();
    if (queries.is_cpu()) {
      TanhScoresBackward(queries.data_ptr<float>(), Size(queries, 0), keys.data_ptr<float>(), Size(keys, 0),
                         v.data_ptr<float>(), Size(v, 0), d_scores.data_ptr<float>(), d_queries.data_ptr<float>(),
                         d_keys.data_ptr<float>(), d_v.data_ptr<float>());
      return {d_queries, d_keys, d_v};
    }
    for (std::int64_t first = 0; first < queries.size(0); first += kSlice) {
      const Slice rows(first, std::min(first + kSlice, queries.size(0)));
      const Array inner = Inner(queries.index({rows}), keys);
      const Array change = d_scores.index({rows}).unsqueeze(2);
      d_v += (change * inner).sum(torch::IntArrayRef({0, 1}));
      const Array outer = change * v * (1 - inner * inner);
      d_queries.index_put_({rows}, outer.sum(1));
      d_keys += outer.sum(0);
    }
    return {d_queries, d_keys, d_v};
  }

 private:
  static constexpr std::int64_t kSlice = 64;
  static std::size_t Size(const Array& array, int dimension) { return static_cast<std::size_t>(array.size(dimension)); }
  static Array Inner(const Array& queries, const Array& keys) { return torch::tanh(queries.unsqueeze(1) + keys); }
};

// The states of an LSTM, [steps, rows, width], and its last cell, [rows, width], by our kernels: lstm.h. `packed`: the
// weights.
class LstmSteps : public torch::autograd::Function<LstmSteps> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const Array& inputs,
                                                const Array& weights, const Array& state, const Array& cell,
                                                const PackedMatrix* packed) {
    const LstmShape shape = ShapeOf(inputs);
    const std::vector<std::int64_t> sizes = {inputs.size(0), inputs.size(1), inputs.size(2) / 4};
    const Array gates = torch::empty_like(inputs);
    const Array cells = torch::empty(sizes);
    const Array states = torch::empty(sizes);
    LstmForward(shape, inputs.data_ptr<float>(), *packed, state.data_ptr<float>(), cell.data_ptr<float>(),
                {gates.data_ptr<float>(), cells.data_ptr<float>(), states.data_ptr<float>()});
    context->save_for_backward({weights, state, cell, gates, cells, states});
    return {states, cells[-1].clone()};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& d_results) {
    const auto saved = context->get_saved_variables();
    const Array& weights = saved[0];
    const Array& gates = saved[3];
    const Array& states = saved[5];
    const LstmShape shape = ShapeOf(gates);
    const Array d_states = d_results[0].contiguous();
    const Array d_last_cell = d_results[1].contiguous();
    Array d_inputs = torch::empty_like(gates);
    Array d_state = torch::empty_like(saved[1]);
    Array d_cell = torch::empty_like(saved[2]);
    LstmBackward(shape, {gates.data_ptr<float>(), saved[4].data_ptr<float>(), states.data_ptr<float>()},
                 weights.data_ptr<float>(), saved[2].data_ptr<float>(), d_states.data_ptr<float>(),
                 d_last_cell.data_ptr<float>(), d_inputs.data_ptr<float>(), d_state.data_ptr<float>(),
                 d_cell.data_ptr<float>());
    const Array before = torch::cat({saved[1].unsqueeze(0), states.index({Slice(0, -1)})});
    const Array d_weights = before.view({-1, before.size(2)}).t().matmul(d_inputs.view({-1, d_inputs.size(2)}));
    return {d_inputs, d_weights, d_state, d_cell, Array()};
  }

 private:
  static LstmShape ShapeOf(const Array& gates) {
    return {.steps = static_cast<std::size_t>(gates.size(0)),
            .rows = static_cast<std::size_t>(gates.size(1)),
            .width = static_cast<std::size_t>(gates.size(2)) / 4};
  }
};

class TorchSequence : public SequenceNetwork {
 public:
  TorchSequence(const SequenceOptions& options, const ParameterSet& parameters, const std::string& device)
      : options_(options), device_(OpenTorchDevice(device)), weights_(parameters, device_) {}

  void Decode(const Matrix& inputs, std::size_t count, const Chooser& choose) override {
    const torch::NoGradGuard no_gradients;
    weights_.Refresh();
    const Encoding encoding = Encode(ToTorch(inputs, device_));
    std::vector<std::uint32_t> devices(count);
    Matrix logits;
    if (!options_.decoder) {
      const Array all = Bound(weights_.Affine("devices", encoding.states));
      for (std::size_t group = 0; group < inputs.rows(); ++group) {
        FromTorch(all[static_cast<std::int64_t>(group)].repeat({static_cast<std::int64_t>(count), 1}), &logits);
        choose(group, logits, devices);
      }
      return;
    }
    const auto rows = static_cast<std::int64_t>(count);
    const Array keys = Keys(encoding);
    Array h = encoding.h.repeat({rows, 1});
    Array c = encoding.c.repeat({rows, 1});
    const Array of_device = OfDevice();
    const std::optional<PackedMatrix> packed = Packed("decoder");
    std::vector<std::int64_t> before(count, static_cast<std::int64_t>(options_.num_devices));
    for (std::size_t group = 0; group < inputs.rows(); ++group) {
      const Array input = of_device.index_select(0, torch::tensor(before, torch::kInt64).to(device_));
      const std::vector<Array> next = RunLstm("decoder", packed, input.unsqueeze(0), h, c);
      h = next[0][0];
      c = next[1];
      FromTorch(Attend(h, keys), &logits);
      choose(group, logits, devices);
      std::copy(devices.begin(), devices.end(), before.begin());
    }
  }

  const Matrix& Forward(const Matrix& inputs, std::size_t count, std::span<const std::uint32_t> devices) override {
    weights_.Refresh();
    const auto rows = static_cast<std::int64_t>(count);
    const auto groups = static_cast<std::int64_t>(inputs.rows());
    const Encoding encoding = Encode(ToTorch(inputs, device_));
    if (!options_.decoder) {
      const Array all = Bound(weights_.Affine("devices", encoding.states));
      return logits_.Keep(all.unsqueeze(1).expand({groups, rows, all.size(1)}).reshape({groups * rows, all.size(1)}),
                          /*backward=*/true);
    }
    // The device before each group; before the first, the last row of the embedding.
    std::vector<std::int64_t> before(count, static_cast<std::int64_t>(options_.num_devices));
    before.insert(before.end(), devices.begin(), devices.end() - static_cast<std::ptrdiff_t>(count));
    const Array inputs_of =
        OfDevice().index_select(0, torch::tensor(before, torch::kInt64).to(device_)).view({groups, rows, -1});
    const Array states =
        RunLstm("decoder", Packed("decoder"), inputs_of, encoding.h.repeat({rows, 1}), encoding.c.repeat({rows, 1}))[0];
    return logits_.Keep(Attend(states.reshape({groups * rows, -1}), Keys(encoding)), /*backward=*/true);
  }

  void Backward(const Matrix& d_logits, std::span<float> gradients) override {
    logits_.Backward(d_logits, weights_, gradients);
  }

 private:
  struct Encoding {
    Array states;  // [groups, 2 hidden]
    Array h;       // [1, 2 hidden]: the final states of both directions
    Array c;
  };

  // Contribution of each previous device, or none, to the decoder's gates. There are few, so it is computed once.
  Array OfDevice() const { return weights_["embedding"].matmul(weights_["decoder.input"]) + weights_["decoder.bias"]; }

  // The packed weights of RunLstm's steps, if our kernels run them.
  std::optional<PackedMatrix> Packed(const std::string& name) const {
    const Array weights = weights_[name + ".state"].contiguous();
    if (!weights.is_cpu()) return std::nullopt;
    return PackedMatrix(weights.data_ptr<float>(), static_cast<std::size_t>(weights.size(0)),
                        static_cast<std::size_t>(weights.size(1)));
  }

  // States and last cell. `inputs`: contribution of the inputs to the gates, [steps, rows, 4 width].
  std::vector<Array> RunLstm(const std::string& name, const std::optional<PackedMatrix>& packed, const Array& inputs,
                             const Array& state, const Array& cell) const {
    const Array& weights = weights_[name + ".state"];
    if (packed) {
      return LstmSteps::apply(inputs.contiguous(), weights.contiguous(), state.contiguous(), cell.contiguous(),
                              &*packed);
    }
    std::vector<Array> states;
    Array h = state;
    Array c = cell;
    for (const Array& input : inputs.unbind()) {
      const std::vector<Array> gates = (input + h.matmul(weights)).chunk(4, 1);
      c = torch::sigmoid(gates[1]) * c + torch::sigmoid(gates[0]) * torch::tanh(gates[2]);
      h = torch::sigmoid(gates[3]) * torch::tanh(c);
      states.push_back(h);
    }
    return {torch::stack(states), c};
  }

  Encoding Encode(const Array& inputs) const {
    const Array zeros = torch::zeros({1, static_cast<std::int64_t>(options_.hidden)}, inputs.options());
    const auto run = [&](const std::string& name, const Array& rows) {
      const Array of_inputs = rows.matmul(weights_[name + ".input"]) + weights_[name + ".bias"];
      return RunLstm(name, Packed(name), of_inputs.unsqueeze(1), zeros, zeros);
    };
    const std::vector<Array> forward = run("encoder.forward", inputs);
    const std::vector<Array> backward = run("encoder.backward", inputs.flip(0));
    return {.states = torch::cat({forward[0].squeeze(1), backward[0].squeeze(1).flip(0)}, 1),
            .h = torch::cat({forward[0][-1], backward[0][-1]}, 1),
            .c = torch::cat({forward[1], backward[1]}, 1)};
  }

  Array Keys(const Encoding& encoding) const { return encoding.states.matmul(weights_["attention.key"]); }

  // Logits of decoder states [rows, 2 hidden], which attend to the keys [groups, 2 hidden].
  Array Attend(const Array& states, const Array& keys) const {
    const Array queries = states.matmul(weights_["attention.query"]);
    const Array scores =
        AdditiveScores::apply(queries.contiguous(), keys.contiguous(), weights_["attention.score"].view({-1}));
    const Array seen = torch::softmax(scores, 1).matmul(keys);
    return Bound(torch::cat({states, seen}, 1).matmul(weights_["devices"]));
  }

  Array Bound(const Array& logits) const {
    const Array cooled = logits / options_.temperature;
    return options_.bound > 0 ? options_.bound * torch::tanh(cooled) : cooled;
  }

  SequenceOptions options_;
  torch::Device device_;
  TorchWeights weights_;
  TorchLogits logits_;
};

}  // namespace

SequenceNetwork* MakeTorchSequence(const SequenceOptions& options, const ParameterSet& parameters,
                                   const std::string& device) {
  return new TorchSequence(options, parameters, device);
}

}  // namespace emplace::agents
