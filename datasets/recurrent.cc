#include "datasets/recurrent.h"

#include <fmt/format.h>

#include <array>
#include <numeric>
#include <utility>

#include "datasets/layers.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

constexpr std::array<std::string_view, 4> kGateNames = {"in", "candidate", "forget", "out"};

std::string SliceName(std::size_t slice) { return fmt::format("slice{}", slice); }

}  // namespace

Granularity ReadGranularity(OptionReader& reader) {
  std::string name = "fused";
  reader.Read("granularity", &name, {"fused", "gate", "slice"},
              "products of an LSTM step: a single one, one per gate and input, or one per gate and slice of the units");
  if (name == "gate") return Granularity::kGate;
  return name == "slice" ? Granularity::kSlice : Granularity::kFused;
}

void CheckSlices(std::string_view owner, std::int64_t hidden, Granularity granularity) {
  if (granularity != Granularity::kSlice || hidden % kSlices == 0) return;
  throw InputError(std::string(owner),
                   fmt::format("hidden must be a multiple of {} for granularity slice, got {}", kSlices, hidden));
}

std::string StepName(std::int64_t step) { return fmt::format("step{:02}", step); }

Value UnrolledLoss(NetworkBuilder& net, const std::vector<Value>& tops, const std::vector<Value>& labels,
                   const std::function<Value(Value top)>& project) {
  std::vector<Value> losses;
  for (std::size_t t = 0; t < tops.size(); ++t) {
    Value logits;
    {
      const auto scope = net.Layer("projection");
      const auto step = net.Within(StepName(static_cast<std::int64_t>(t)));
      logits = project(tops[t]);
    }
    const auto scope = net.Layer("loss");
    const auto step = net.Within(StepName(static_cast<std::int64_t>(t)));
    losses.push_back(SoftmaxCrossEntropy(net, logits, labels[t]));
  }
  const auto scope = net.Layer("loss");
  return Reduce(net, "reduce_mean", AddN(net, losses), {0});
}

LstmCell::LstmCell(NetworkBuilder& net, const std::vector<std::int64_t>& input_widths, std::int64_t hidden,
                   Granularity granularity)
    : net_(net), granularity_(granularity), hidden_(hidden) {
  const std::int64_t inputs = std::accumulate(input_widths.begin(), input_widths.end(), std::int64_t{0});
  if (granularity == Granularity::kFused) {
    const Value kernel = net.Variable("kernel", {inputs + hidden, 4 * hidden});
    slices_ = {{{.kernels = {kernel}, .bias = net.Variable("bias", {4 * hidden})}}};
    return;
  }
  const std::int64_t num_slices = granularity == Granularity::kSlice ? kSlices : 1;
  EMPLACE_CHECK_EQ(hidden % num_slices, 0);
  const std::int64_t units = hidden / num_slices;
  for (std::size_t slice = 0; slice < static_cast<std::size_t>(num_slices); ++slice) {
    const auto in_slice = net.Within(SliceName(slice));
    std::vector<Gate> gates;
    for (const std::string_view name : kGateNames) {
      const auto in_gate = net.Within(name);
      Gate gate;
      if (granularity == Granularity::kSlice) {
        gate.kernels.push_back(net.Variable("kernel", {inputs + hidden, units}));
      } else {
        for (std::size_t i = 0; i < input_widths.size(); ++i) {
          gate.kernels.push_back(net.Variable(fmt::format("kernel{}", i), {input_widths[i], units}));
        }
        gate.kernels.push_back(net.Variable("recurrent_kernel", {hidden, units}));
      }
      gate.bias = net.Variable("bias", {units});
      gates.push_back(std::move(gate));
    }
    slices_.push_back(std::move(gates));
  }
}

LstmState LstmCell::Start(std::int64_t batch) const {
  LstmState state;
  const std::int64_t units = hidden_ / static_cast<std::int64_t>(slices_.size());
  for (std::size_t slice = 0; slice < slices_.size(); ++slice) {
    const std::string name = slices_.size() == 1 ? "zero_cell" : fmt::format("zero_cell{}", slice);
    state.cells.push_back(Fill(net_, {batch, units}, name));
  }
  state.hidden = Fill(net_, {batch, hidden_}, "zero_hidden");
  return state;
}

Value LstmCell::Sum(const Gate& gate, const std::vector<Value>& inputs) const {
  Value sum;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value product = MatMul(net_, inputs[i], gate.kernels[i], false, fmt::format("product{}", i));
    sum = i == 0 ? product : Binary(net_, "add", sum, product, fmt::format("sum{}", i));
  }
  return BiasAdd(net_, sum, gate.bias);
}

LstmCell::Gated LstmCell::Update(const std::vector<Value>& sums, Value old) const {
  const Value in = Unary(net_, "sigmoid", sums[0], kGateNames[0]);
  const Value candidate = Unary(net_, "tanh", sums[1], kGateNames[1]);
  const Value forget = Unary(net_, "sigmoid", sums[2], kGateNames[2]);
  const Value out = Unary(net_, "sigmoid", sums[3], kGateNames[3]);
  const Value kept = Binary(net_, "mul", forget, old, "kept");
  const Value added = Binary(net_, "mul", in, candidate, "added");
  const Value cell = Binary(net_, "add", kept, added, "cell");
  return {.cell = cell, .hidden = Binary(net_, "mul", out, Unary(net_, "tanh", cell), "hidden")};
}

LstmState LstmCell::Step(const std::vector<Value>& inputs, const LstmState& state) const {
  std::vector<Value> all = inputs;
  all.push_back(state.hidden);
  if (granularity_ != Granularity::kGate) all = {Concat(net_, all, 1)};
  if (granularity_ == Granularity::kFused) {
    const Gate& gate = slices_[0][0];
    const Value sums = BiasAdd(net_, MatMul(net_, all[0], gate.kernels[0]), gate.bias);
    const Gated next = Update(Split(net_, sums, kNumGates, 1), state.cells[0]);
    return {.cells = {next.cell}, .hidden = next.hidden};
  }
  LstmState result;
  std::vector<Value> hidden;
  for (std::size_t slice = 0; slice < slices_.size(); ++slice) {
    const auto in_slice = net_.Within(SliceName(slice));
    std::vector<Value> sums;
    for (std::size_t gate = 0; gate < kNumGates; ++gate) {
      const auto in_gate = net_.Within(kGateNames[gate]);
      sums.push_back(Sum(slices_[slice][gate], all));
    }
    const Gated next = Update(sums, state.cells[slice]);
    result.cells.push_back(next.cell);
    hidden.push_back(next.hidden);
  }
  result.hidden = hidden.size() == 1 ? hidden.front() : Concat(net_, hidden, 1, "hidden");
  return result;
}

}  // namespace emplace::datasets
