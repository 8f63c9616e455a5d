// The sequence network on a CPU: our kernels for what is done step by step, LibTorch's BLAS for large products, and no
// autograd. Decoding keeps its activations, so that learning from it needs no second pass.

#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/nn/lstm.h"
#include "agents/nn/tanh_scores.h"
#include "agents/nn/torch/makers.h"

namespace emplace::agents {
namespace {

std::int64_t Signed(std::size_t size) { return static_cast<std::int64_t>(size); }
float* Data(const torch::Tensor& array) { return array.data_ptr<float>(); }

// An LSTM's activations: arrays of LstmCourse, and the inputs of its backward pass. [steps, rows, ...]
struct LstmArrays {
  LstmArrays() = default;
  LstmArrays(std::int64_t steps, std::int64_t rows, std::int64_t width)
      : gates(torch::empty({steps, rows, 4 * width})),
        cells(torch::empty({steps, rows, width})),
        states(torch::empty({steps, rows, width})) {}
  LstmCourse At(std::size_t step) const {
    const std::size_t width = static_cast<std::size_t>(states.size(1) * states.size(2));
    return {Data(gates) + step * 4 * width, Data(cells) + step * width, Data(states) + step * width};
  }
  torch::Tensor gates;
  torch::Tensor cells;
  torch::Tensor states;
};

struct KernelCourse : SequenceCourse {
  std::size_t count = 0;
  torch::Tensor inputs;              // [groups, features]
  LstmArrays forward;                // forward direction of the encoder
  LstmArrays backward;               // the same, from the last group to the first
  torch::Tensor encoding;            // [groups, state], state = 2 hidden: the states of both
  torch::Tensor first_state;         // [count, state]: of the decoder, before its first step
  torch::Tensor first_cell;          // the same
  LstmArrays decoder;                // rows are placements
  torch::Tensor keys;                // [groups, state]
  TanhKeys scored_keys;              // the same, prepared
  torch::Tensor queries;             // [groups * count, state], as all that follow
  torch::Tensor shares;              // [.., groups]: the attention's
  torch::Tensor joined;              // [.., 2 state]: states of the decoder and contexts
  std::vector<std::int64_t> before;  // [..]: device of the group before, or num_devices
};

void SoftmaxRow(float* row, std::size_t size) {
  const float largest = *std::max_element(row, row + size);
  float sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += row[i] = std::exp(row[i] - largest);
  for (std::size_t i = 0; i < size; ++i) row[i] /= sum;
}

class KernelSequence : public SequenceNetwork {
 public:
  KernelSequence(const SequenceOptions& options, const ParameterSet& parameters)
      : SequenceNetwork(options.bound), options_(options), parameters_(parameters), state_(2 * options.hidden) {
    OpenTorchDevice("cpu");
    for (const Parameter& parameter : parameters.parameters()) by_name_.emplace(parameter.name, parameter);
    zeros_.assign(std::max(4 * state_, Padded(options.num_devices)), 0.0F);
    Refresh();
  }

  void Refresh() override {
    const torch::NoGradGuard no_gradients;
    const std::string of_devices = options_.decoder ? "devices" : "devices.weight";
    forward_.emplace(Pack("encoder.forward.state"));
    backward_.emplace(Pack("encoder.backward.state"));
    const Parameter& devices = by_name_.at(of_devices);
    devices_.Reset(devices.rows, devices.columns);
    for (std::size_t i = 0; i < devices.rows; ++i) {
      std::copy_n(parameters_.values().data() + devices.offset + i * devices.columns, devices.columns, devices_.row(i));
    }
    devices_bias_.assign(Padded(options_.num_devices), 0.0F);
    if (!options_.decoder) {
      const Parameter& bias = by_name_.at("devices.bias");
      std::copy_n(parameters_.values().data() + bias.offset, bias.columns, devices_bias_.data());
      return;
    }
    decoder_.emplace(Pack("decoder.state"));
    query_.emplace(Pack("attention.query"));
    of_device_ = Weight("embedding").mm(Weight("decoder.input")) + Weight("decoder.bias");
  }

  std::unique_ptr<SequenceCourse> Decode(const Matrix& inputs, std::size_t count, const Chooser& choose,
                                         bool keep) override {
    std::unique_ptr<KernelCourse> course = Run(inputs, count, choose);
    return keep ? std::move(course) : nullptr;
  }

  std::unique_ptr<SequenceCourse> Forward(const Matrix& inputs, std::size_t count,
                                          std::span<const std::uint32_t> devices) override {
    return Run(inputs, count, [&](std::size_t group, const Matrix&, std::span<std::uint32_t> chosen) {
      std::copy_n(devices.begin() + Signed(group * count), count, chosen.begin());
    });
  }

 protected:
  void BackwardRaw(const SequenceCourse& of, const Matrix& d_raw, std::span<float> gradients) override {
    const torch::NoGradGuard no_gradients;
    const auto& course = static_cast<const KernelCourse&>(of);
    const torch::Tensor d_logits = ToTorch(d_raw, torch::kCPU);
    if (options_.decoder) {
      BackwardDecoder(course, d_logits, gradients);
      return;
    }
    // All placements have the same logits.
    const torch::Tensor d_all = d_logits.reshape({course.encoding.size(0), Signed(course.count), -1}).sum(1);
    AddProduct(course.encoding, d_all, "devices.weight", gradients);
    Gradient("devices.bias", gradients).add_(d_all.sum(0));
    const torch::Tensor nothing = torch::zeros({1, Signed(state_)});
    BackwardEncoder(course, d_all.mm(Weight("devices.weight").t()), nothing, nothing, gradients);
  }

 private:
  torch::Tensor View(float* values, const std::string& name) const {
    const Parameter& parameter = by_name_.at(name);
    return torch::from_blob(values + parameter.offset, {Signed(parameter.rows), Signed(parameter.columns)});
  }
  torch::Tensor Weight(const std::string& name) const {
    // LibTorch has no read-only tensors; this one is never written.
    return View(const_cast<float*>(parameters_.values().data()), name);
  }
  torch::Tensor Gradient(const std::string& name, std::span<float> gradients) const {
    return View(gradients.data(), name);
  }
  // Adds x^T dy to the gradient of a weight.
  void AddProduct(const torch::Tensor& x, const torch::Tensor& dy, const std::string& name,
                  std::span<float> gradients) const {
    torch::Tensor gradient = Gradient(name, gradients);
    gradient.addmm_(x.t(), dy);
  }
  PackedMatrix Pack(const std::string& name) const {
    const Parameter& weight = by_name_.at(name);
    return {parameters_.values().data() + weight.offset, weight.rows, weight.columns};
  }

  // Runs one direction of the encoder over inputs in its order.
  LstmArrays Encode(const std::string& name, const PackedMatrix& weights, const torch::Tensor& inputs) const {
    const LstmShape shape = {.steps = static_cast<std::size_t>(inputs.size(0)), .rows = 1, .width = options_.hidden};
    LstmArrays arrays(inputs.size(0), 1, Signed(options_.hidden));
    const torch::Tensor of_inputs = torch::addmm(Weight(name + ".bias"), inputs, Weight(name + ".input"));
    LstmForward(shape, Data(of_inputs), weights, zeros_.data(), zeros_.data(), arrays.At(0));
    return arrays;
  }

  std::unique_ptr<KernelCourse> Run(const Matrix& inputs, std::size_t count, const Chooser& choose) {
    const torch::NoGradGuard no_gradients;
    auto course = std::make_unique<KernelCourse>();
    course->count = count;
    course->inputs = ToTorch(inputs, torch::kCPU).contiguous().clone();
    course->forward = Encode("encoder.forward", *forward_, course->inputs);
    course->backward = Encode("encoder.backward", *backward_, course->inputs.flip(0));
    course->encoding = torch::cat({course->forward.states.squeeze(1), course->backward.states.squeeze(1).flip(0)}, 1);
    course->raw.Reset(inputs.rows() * count, options_.num_devices);
    course->logits.Reset(inputs.rows() * count, options_.num_devices);
    if (options_.decoder) {
      BeginDecoder(course.get());
    }
    std::vector<std::uint32_t> devices(count);
    Matrix raw(count, options_.num_devices);
    Matrix logits;
    for (std::size_t group = 0; group < inputs.rows(); ++group) {
      if (options_.decoder) {
        DecodeStep(course.get(), group, &raw);
      } else {
        for (std::size_t r = 0; r < count; ++r) {
          Affine(Data(course->encoding) + group * state_, state_, 1, state_, devices_.row(0), devices_bias_.data(),
                 options_.num_devices, /*relu=*/false, raw.row(r), raw.stride());
        }
      }
      BoundLogits(bound_, raw, &logits);
      for (std::size_t r = 0; r < count; ++r) {
        std::copy_n(raw.row(r), raw.stride(), course->raw.row(group * count + r));
        std::copy_n(logits.row(r), logits.stride(), course->logits.row(group * count + r));
      }
      choose(group, logits, devices);
      if (options_.decoder && group + 1 < inputs.rows()) {
        std::copy(devices.begin(), devices.end(), course->before.begin() + Signed((group + 1) * count));
      }
    }
    return course;
  }

  void BeginDecoder(KernelCourse* course) const {
    const std::int64_t groups = course->encoding.size(0);
    const std::int64_t count = Signed(course->count);
    const std::int64_t state = Signed(state_);
    const auto last = [&](const torch::Tensor& forward, const torch::Tensor& backward) {
      return torch::cat({forward[-1], backward[-1]}, 1).repeat({count, 1});
    };
    course->first_state = last(course->forward.states, course->backward.states);
    course->first_cell = last(course->forward.cells, course->backward.cells);
    course->decoder = LstmArrays(groups, count, state);
    course->keys = course->encoding.mm(Weight("attention.key"));
    course->scored_keys = {Data(course->keys), static_cast<std::size_t>(groups), state_};
    course->queries = torch::empty({groups * count, state});
    course->shares = torch::empty({groups * count, groups});
    course->joined = torch::empty({groups * count, 2 * state});
    course->before.assign(static_cast<std::size_t>(groups * count), Signed(options_.num_devices));
  }

  const torch::Tensor& MemoryOf(const KernelCourse& course) const {
    return options_.attention == AttentionOver::kStates ? course.encoding : course.keys;
  }

  // The raw logits of a group, [count, num_devices], after the devices of the group before it.
  void DecodeStep(KernelCourse* course, std::size_t group, Matrix* raw) {
    const std::size_t count = course->count;
    const std::size_t groups = static_cast<std::size_t>(course->encoding.size(0));
    const std::size_t row = group * count;
    gates_.resize(4 * state_ * count);
    for (std::size_t r = 0; r < count; ++r) {
      std::copy_n(Data(of_device_) + static_cast<std::size_t>(course->before[row + r]) * 4 * state_, 4 * state_,
                  gates_.data() + r * 4 * state_);
    }
    const LstmCourse before = course->decoder.At(group > 0 ? group - 1 : 0);
    const LstmCourse now = course->decoder.At(group);
    LstmForward({.steps = 1, .rows = count, .width = state_}, gates_.data(), *decoder_,
                group > 0 ? before.states : Data(course->first_state),
                group > 0 ? before.cells : Data(course->first_cell), now);
    float* const queries = Data(course->queries) + row * state_;
    float* const shares = Data(course->shares) + row * groups;
    float* const joined = Data(course->joined) + row * 2 * state_;
    Affine(now.states, state_, count, *query_, zeros_.data(), /*relu=*/false, queries, state_);
    TanhScores(queries, count, course->scored_keys, Data(Weight("attention.score")), shares);
    for (std::size_t r = 0; r < count; ++r) {
      SoftmaxRow(shares + r * groups, groups);
      std::copy_n(now.states + r * state_, state_, joined + r * 2 * state_);
    }
    Affine(shares, groups, count, groups, Data(MemoryOf(*course)), zeros_.data(), state_, /*relu=*/false,
           joined + state_, 2 * state_);
    Affine(joined, 2 * state_, count, 2 * state_, devices_.row(0), devices_bias_.data(), options_.num_devices,
           /*relu=*/false, raw->row(0), raw->stride());
  }

  void BackwardDecoder(const KernelCourse& course, const torch::Tensor& d_logits, std::span<float> gradients) const {
    const std::int64_t state = Signed(state_);
    AddProduct(course.joined, d_logits, "devices", gradients);
    const torch::Tensor d_joined = d_logits.mm(Weight("devices").t());
    const torch::Tensor d_context = d_joined.narrow(1, state, state);
    const torch::Tensor& memory = MemoryOf(course);
    const torch::Tensor d_memory = course.shares.t().mm(d_context);
    const torch::Tensor d_shares = d_context.mm(memory.t());
    const torch::Tensor d_scores =
        (course.shares * (d_shares - (course.shares * d_shares).sum(1, /*keepdim=*/true))).contiguous();
    const torch::Tensor d_queries = torch::zeros_like(course.queries);
    torch::Tensor d_keys = torch::zeros_like(course.keys);
    TanhScoresBackward(Data(course.queries), static_cast<std::size_t>(course.queries.size(0)), course.scored_keys,
                       Data(Weight("attention.score")), Data(d_scores), Data(d_queries), Data(d_keys),
                       Data(Gradient("attention.score", gradients)));
    const torch::Tensor states = course.decoder.states.view({-1, state});
    AddProduct(states, d_queries, "attention.query", gradients);
    const torch::Tensor d_states =
        torch::addmm(d_joined.narrow(1, 0, state), d_queries, Weight("attention.query").t()).contiguous();
    // The steps.
    const torch::Tensor nothing = torch::zeros_like(course.first_cell);
    const auto [d_gates, d_first_state, d_first_cell] =
        BackwardSteps("decoder", course.decoder, course.first_state, course.first_cell, d_states, nothing, gradients);
    const torch::Tensor d_of_device =
        torch::zeros_like(of_device_).index_add_(0, torch::tensor(course.before, torch::kInt64), d_gates);
    AddProduct(Weight("embedding"), d_of_device, "decoder.input", gradients);
    Gradient("decoder.bias", gradients).add_(d_of_device.sum(0));
    Gradient("embedding", gradients).addmm_(d_of_device, Weight("decoder.input").t());
    // The encoder, through keys, memory and the decoder's first state.
    torch::Tensor d_encoding;
    if (options_.attention == AttentionOver::kStates) {
      d_encoding = torch::addmm(d_memory, d_keys, Weight("attention.key").t());
    } else {
      d_keys.add_(d_memory);
      d_encoding = d_keys.mm(Weight("attention.key").t());
    }
    AddProduct(course.encoding, d_keys, "attention.key", gradients);
    BackwardEncoder(course, d_encoding, d_first_state.sum(0, /*keepdim=*/true), d_first_cell.sum(0, /*keepdim=*/true),
                    gradients);
  }

  struct StepGradients {
    torch::Tensor gates;  // [steps * rows, 4 width]
    torch::Tensor state;  // [rows, width]: before the first step
    torch::Tensor cell;
  };
  // Also adds the gradient of the weights on states.
  StepGradients BackwardSteps(const std::string& name, const LstmArrays& arrays, const torch::Tensor& first_state,
                              const torch::Tensor& first_cell, const torch::Tensor& d_states,
                              const torch::Tensor& d_last_cell, std::span<float> gradients) const {
    const LstmShape shape = {.steps = static_cast<std::size_t>(arrays.states.size(0)),
                             .rows = static_cast<std::size_t>(arrays.states.size(1)),
                             .width = static_cast<std::size_t>(arrays.states.size(2))};
    StepGradients result = {torch::empty({Signed(shape.steps * shape.rows), Signed(4 * shape.width)}),
                            torch::empty_like(first_state), torch::empty_like(first_cell)};
    LstmBackward(shape, arrays.At(0), Data(Weight(name + ".state")), Data(first_cell), Data(d_states),
                 Data(d_last_cell), Data(result.gates), Data(result.state), Data(result.cell));
    // The states before each step.
    const std::int64_t rows = Signed(shape.rows);
    AddProduct(first_state, result.gates.narrow(0, 0, rows), name + ".state", gradients);
    if (shape.steps > 1) {
      const std::int64_t later = Signed(shape.steps - 1) * rows;
      AddProduct(arrays.states.view({-1, Signed(shape.width)}).narrow(0, 0, later), result.gates.narrow(0, rows, later),
                 name + ".state", gradients);
    }
    return result;
  }

  // d_state and d_cell: [1, state], of the last states and cells of both directions.
  void BackwardEncoder(const KernelCourse& course, const torch::Tensor& d_encoding, const torch::Tensor& d_state,
                       const torch::Tensor& d_cell, std::span<float> gradients) const {
    const std::int64_t hidden = Signed(options_.hidden);
    const torch::Tensor nothing = torch::zeros({1, hidden});
    const auto run = [&](const std::string& name, const LstmArrays& arrays, std::int64_t first, bool flip) {
      const auto in_order = [flip](const torch::Tensor& rows) { return flip ? rows.flip(0) : rows; };
      torch::Tensor d_states = in_order(d_encoding.narrow(1, first, hidden)).clone(at::MemoryFormat::Contiguous);
      d_states[-1].add_(d_state[0].narrow(0, first, hidden));
      const torch::Tensor d_gates = BackwardSteps(name, arrays, nothing, nothing, d_states,
                                                  d_cell.narrow(1, first, hidden).contiguous(), gradients)
                                        .gates;
      AddProduct(in_order(course.inputs), d_gates, name + ".input", gradients);
      Gradient(name + ".bias", gradients).add_(d_gates.sum(0));
    };
    run("encoder.forward", course.forward, 0, false);
    run("encoder.backward", course.backward, hidden, true);
  }

  SequenceOptions options_;
  const ParameterSet& parameters_;
  std::size_t state_;
  std::map<std::string, Parameter> by_name_;
  std::vector<float> zeros_;
  std::vector<float> gates_;
  // The weights as Refresh() packs them:
  std::optional<PackedMatrix> forward_;
  std::optional<PackedMatrix> backward_;
  std::optional<PackedMatrix> decoder_;
  std::optional<PackedMatrix> query_;
  Matrix devices_;  // padded columns
  std::vector<float> devices_bias_;
  torch::Tensor of_device_;  // [num_devices + 1, 4 state]: what each device before, or none, adds to the gates
};

}  // namespace

SequenceNetwork* MakeKernelSequence(const SequenceOptions& options, const ParameterSet& parameters) {
  return new KernelSequence(options, parameters);
}

}  // namespace emplace::agents
