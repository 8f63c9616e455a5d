// The sequence network with gradients by LibTorch's autograd: on a GPU, and as the reference of sequence_kernels.cc.

#include <torch/autograd.h>
#include <torch/utils.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "agents/nn/torch/makers.h"

namespace emplace::agents {
namespace {

using Array = torch::Tensor;  // the project's Tensor is a different type
using torch::indexing::Slice;

// scores[r, j] = v . tanh(queries[r] + keys[j]), in slices of the rows. The intermediate values, far larger than the
// rest of the network, are recomputed in the backward pass.
class AdditiveScores : public torch::autograd::Function<AdditiveScores> {
 public:
  static Array forward(torch::autograd::AutogradContext* context, const Array& queries, const Array& keys,
                       const Array& v) {
    context->save_for_backward({queries, keys, v});
    std::vector<Array> slices;
    for (const Array& slice : queries.split(kSlice)) slices.push_back(Inner(slice, keys).matmul(v));
    return torch::cat(slices);
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
  static Array Inner(const Array& queries, const Array& keys) { return torch::tanh(queries.unsqueeze(1) + keys); }
};

struct TorchCourse : SequenceCourse {
  Array kept;  // `raw`, with its computation graph
};

class TorchSequence : public SequenceNetwork {
 public:
  TorchSequence(const SequenceOptions& options, const ParameterSet& parameters, const std::string& device)
      : SequenceNetwork(options.bound),
        options_(options),
        device_(OpenTorchDevice(device)),
        weights_(parameters, device_) {
    weights_.Refresh();
  }

  void Refresh() override { weights_.Refresh(); }

  std::unique_ptr<SequenceCourse> Decode(const Matrix& inputs, std::size_t count, const Chooser& choose,
                                         bool /*keep*/) override {
    const torch::NoGradGuard no_gradients;
    const Encoding encoding = Encode(ToTorch(inputs, device_));
    std::vector<std::uint32_t> devices(count);
    Matrix raw;
    Matrix logits;
    const auto rows = static_cast<std::int64_t>(count);
    Array all;
    Array memory;
    Array keys;
    if (options_.decoder) {
      keys = Keys(encoding);
      memory = Memory(encoding, keys);
    } else {
      all = weights_.Affine("devices", encoding.states);
    }
    Array h = encoding.h.repeat({rows, 1});
    Array c = encoding.c.repeat({rows, 1});
    std::vector<std::int64_t> before(count, static_cast<std::int64_t>(options_.num_devices));
    for (std::size_t group = 0; group < inputs.rows(); ++group) {
      if (options_.decoder) {
        const Array input = OfDevice().index_select(0, torch::tensor(before, torch::kInt64).to(device_));
        const std::vector<Array> next = RunLstm("decoder", input.unsqueeze(0), h, c);
        h = next[0][0];
        c = next[1];
        FromTorch(Attend(h, keys, memory), &raw);
      } else {
        FromTorch(all[static_cast<std::int64_t>(group)].repeat({rows, 1}), &raw);
      }
      BoundLogits(bound_, raw, &logits);
      choose(group, logits, devices);
      std::copy(devices.begin(), devices.end(), before.begin());
    }
    return nullptr;
  }

  std::unique_ptr<SequenceCourse> Forward(const Matrix& inputs, std::size_t count,
                                          std::span<const std::uint32_t> devices) override {
    const auto rows = static_cast<std::int64_t>(count);
    const auto groups = static_cast<std::int64_t>(inputs.rows());
    const Encoding encoding = Encode(ToTorch(inputs, device_));
    auto course = std::make_unique<TorchCourse>();
    if (options_.decoder) {
      // The device before each group; before the first, the last row of the embedding.
      std::vector<std::int64_t> before(count, static_cast<std::int64_t>(options_.num_devices));
      before.insert(before.end(), devices.begin(), devices.end() - static_cast<std::ptrdiff_t>(count));
      const Array inputs_of =
          OfDevice().index_select(0, torch::tensor(before, torch::kInt64).to(device_)).view({groups, rows, -1});
      const Array states = RunLstm("decoder", inputs_of, encoding.h.repeat({rows, 1}), encoding.c.repeat({rows, 1}))[0];
      const Array keys = Keys(encoding);
      course->kept = Attend(states.reshape({groups * rows, -1}), keys, Memory(encoding, keys));
    } else {
      const Array all = weights_.Affine("devices", encoding.states);
      course->kept = all.unsqueeze(1).expand({groups, rows, all.size(1)}).reshape({groups * rows, all.size(1)});
    }
    FromTorch(course->kept, &course->raw);
    BoundLogits(bound_, course->raw, &course->logits);
    return course;
  }

 protected:
  void BackwardRaw(const SequenceCourse& course, const Matrix& d_raw, std::span<float> gradients) override {
    static_cast<const TorchCourse&>(course).kept.backward(ToTorch(d_raw, device_));
    weights_.AddGradients(gradients);
    for (const auto& [name, weight] : weights_.tensors()) weight.mutable_grad().reset();
  }

 private:
  struct Encoding {
    Array states;  // [groups, 2 hidden]
    Array h;       // [1, 2 hidden]: the final states of both directions
    Array c;
  };

  // Contribution of each previous device, or none, to the decoder's gates. There are few, so it is computed once.
  Array OfDevice() const { return weights_["embedding"].matmul(weights_["decoder.input"]) + weights_["decoder.bias"]; }

  // States and last cell. `inputs`: contribution of the inputs to the gates, [steps, rows, 4 width].
  std::vector<Array> RunLstm(const std::string& name, const Array& inputs, const Array& state,
                             const Array& cell) const {
    const Array& weights = weights_[name + ".state"];
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
      return RunLstm(name, of_inputs.unsqueeze(1), zeros, zeros);
    };
    const std::vector<Array> forward = run("encoder.forward", inputs);
    const std::vector<Array> backward = run("encoder.backward", inputs.flip(0));
    return {.states = torch::cat({forward[0].squeeze(1), backward[0].squeeze(1).flip(0)}, 1),
            .h = torch::cat({forward[0][-1], backward[0][-1]}, 1),
            .c = torch::cat({forward[1], backward[1]}, 1)};
  }

  Array Keys(const Encoding& encoding) const { return encoding.states.matmul(weights_["attention.key"]); }

  // The vectors that attention averages.
  Array Memory(const Encoding& encoding, const Array& keys) const {
    return options_.attention == AttentionOver::kStates ? encoding.states : keys;
  }

  // Raw logits of decoder states [rows, 2 hidden], which attend to the keys [groups, 2 hidden].
  Array Attend(const Array& states, const Array& keys, const Array& memory) const {
    const Array queries = states.matmul(weights_["attention.query"]);
    const Array scores =
        AdditiveScores::apply(queries.contiguous(), keys.contiguous(), weights_["attention.score"].view({-1}));
    const Array seen = torch::softmax(scores, 1).matmul(memory);
    return torch::cat({states, seen}, 1).matmul(weights_["devices"]);
  }

  SequenceOptions options_;
  torch::Device device_;
  TorchWeights weights_;
};

}  // namespace

SequenceNetwork* MakeTorchSequence(const SequenceOptions& options, const ParameterSet& parameters,
                                   const std::string& device) {
  if (device == "cpu" && !options.autograd) return MakeKernelSequence(options, parameters);
  return new TorchSequence(options, parameters, device);
}

}  // namespace emplace::agents
