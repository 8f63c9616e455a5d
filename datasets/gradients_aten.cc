#include <nlohmann/json.hpp>

#include "datasets/gradient_rules.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

// dy times a derivative that is computed of `saved` on the way.
void AtenGiveProduct(Backward& b, std::size_t i, Value saved) {
  if (!b.Wanted(i)) return;
  const std::string suffix = fmt::format("mul_grad{}", i);
  b.EmitUnbroadcast(i, b.Emit("mul_grad", {b.dy(0), saved}, {b.ShapeOf(b.y(0))}, suffix).front());
}

void AtenOfInput(Backward& b) {
  for (std::size_t i = 0; i < b.num_inputs(); ++i) AtenGiveProduct(b, i, b.x(i));
}
void AtenOfOutput(Backward& b) {
  for (std::size_t i = 0; i < b.num_inputs(); ++i) AtenGiveProduct(b, i, b.y(0));
}
// Where the first input, of truth values, selects.
void AtenOfMask(Backward& b) {
  for (std::size_t i = 1; i < b.num_inputs(); ++i) AtenGiveProduct(b, i, b.x(0));
}
// masked_fill(x, mask, value)
void AtenMaskedFill(Backward& b) {
  for (std::size_t i = 0; i < b.num_inputs(); ++i) AtenGiveProduct(b, i, b.num_inputs() > 1 ? b.x(1) : b.y(0));
}

void AtenPass(Backward& b) {
  for (std::size_t i = 0; i < b.num_inputs(); ++i) b.EmitUnbroadcast(i, b.dy(0));
}

void AtenCast(Backward& b) {
  if (!b.Wanted(0)) return;
  const DType to = b.TypeOf(b.x(0));
  const Value dy = b.dy(0);
  if (b.TypeOf(dy) == to) {
    b.EmitUnbroadcast(0, dy);
    return;
  }
  const std::string attrs = fmt::format(R"({{"args":["%0"],"kwargs":{{"dtype":{{"dtype":"{}"}}}}}})", Name(to));
  b.EmitUnbroadcast(0, b.EmitCall("aten::_to_copy", attrs, 0, {dy}, {{.dtype = to, .shape = b.ShapeOf(dy)}}).front());
}

void AtenExpand(Backward& b) { b.EmitUnbroadcast(0, b.dy(0)); }

double AtenCount(const Shape& shape) {
  double count = 1;
  for (const std::int64_t dim : shape) count *= static_cast<double>(dim);
  return count;
}

void AtenIndexed(Backward& b) {
  const bool grows = AtenCount(b.ShapeOf(b.x(0))) >= AtenCount(b.ShapeOf(b.y(0)));
  b.EmitFor(0, grows ? "slice_grad" : "broadcast_grad", {b.dy(0)});
}

// The scale and the offset are as long as the channels.
void AtenNorm(Backward& b) {
  AtenGiveProduct(b, 0, b.x(0));
  for (std::size_t i = 1; i < b.num_inputs(); ++i) {
    b.EmitFor(i, b.ShapeOf(b.x(i)).size() == 1 ? "bias_add_grad" : "broadcast_grad", {b.dy(0)},
              fmt::format("bias_add_grad{}", i));
  }
}

void AtenSoftmax(Backward& b) { b.EmitFor(0, "softmax_grad", {b.dy(0), b.y(0)}); }

// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups), without a bias.
// convolution_backward(grad_output, input, weight, bias_sizes, stride, .., groups, output_mask) does the forward op's
// work once for each gradient.
void AtenConvolution(Backward& b) {
  if (b.num_inputs() < 2) {  // no call of PyTorch's
    AtenOfInput(b);
    return;
  }
  const auto forward = nlohmann::ordered_json::parse(b.op().attrs).at("args");
  nlohmann::ordered_json args = {"%0", "%1", "%2", nullptr};
  for (std::size_t i = 3; i < forward.size(); ++i) args.push_back(forward[i]);
  args.push_back({b.Wanted(0), b.Wanted(1), false});
  std::vector<NetworkBuilder::Output> outputs;
  std::vector<std::size_t> inputs;
  for (const std::size_t i : {0U, 1U}) {
    if (!b.Wanted(i)) continue;
    inputs.push_back(i);
    outputs.push_back({.dtype = b.TypeOf(b.x(i)), .shape = b.ShapeOf(b.x(i))});
  }
  const std::vector<Value> given =
      b.EmitCall("aten::convolution_backward", nlohmann::ordered_json{{"args", args}}.dump(),
                 static_cast<double>(inputs.size()) * b.op().flop, {b.dy(0), b.x(0), b.x(1)}, std::move(outputs));
  for (std::size_t i = 0; i < given.size(); ++i) b.gradients[inputs[i]].values = given[i];
}

constexpr GradientRule kAtenRules[] = {
    {"aten::abs", AtenOfInput},
    {"aten::acos", AtenOfInput},
    {"aten::asin", AtenOfInput},
    {"aten::atan", AtenOfInput},
    {"aten::clamp", AtenOfInput},
    {"aten::clamp_max", AtenOfInput},
    {"aten::clamp_min", AtenOfInput},
    {"aten::cos", AtenOfInput},
    {"aten::elu", AtenOfOutput},
    {"aten::erf", AtenOfInput},
    {"aten::exp", AtenOfOutput},
    {"aten::expm1", AtenOfOutput},
    {"aten::hardsigmoid", AtenOfInput},
    {"aten::hardswish", AtenOfInput},
    {"aten::hardtanh", AtenOfInput},
    {"aten::leaky_relu", AtenOfInput},
    {"aten::log", AtenOfInput},
    {"aten::log1p", AtenOfInput},
    {"aten::log2", AtenOfInput},
    {"aten::log_sigmoid", AtenOfInput},
    {"aten::maximum", AtenOfInput},
    {"aten::minimum", AtenOfInput},
    {"aten::mish", AtenOfInput},
    {"aten::pow", AtenOfInput},
    {"aten::reciprocal", AtenOfOutput},
    {"aten::relu6", AtenOfInput},
    {"aten::rsqrt", AtenOfOutput},
    {"aten::silu", AtenOfInput},
    {"aten::sin", AtenOfInput},
    {"aten::softplus", AtenOfInput},
    {"aten::sqrt", AtenOfOutput},
    {"aten::tan", AtenOfOutput},
    {"aten::where", AtenOfMask},
    {"aten::masked_fill", AtenMaskedFill},
    {"aten::tril", AtenOfOutput},
    {"aten::triu", AtenOfOutput},
    {"aten::add", AtenPass},
    {"aten::sub", AtenPass},
    {"aten::_to_copy", AtenCast},
    {"aten::to", AtenCast},
    {"aten::type_as", AtenCast},
    {"aten::expand", AtenExpand},
    {"aten::expand_as", AtenExpand},
    {"aten::repeat", AtenIndexed},
    {"aten::slice", AtenIndexed},
    {"aten::index", AtenIndexed},
    {"aten::index_select", AtenIndexed},
    {"aten::gather", AtenIndexed},
    {"aten::flip", AtenIndexed},
    {"aten::roll", AtenIndexed},
    {"aten::group_norm", AtenNorm},
    {"aten::instance_norm", AtenNorm},
    {"aten::layer_norm", AtenNorm},
    {"aten::rms_norm", AtenNorm},
    {"aten::batch_norm", AtenNorm},
    {"aten::softmax", AtenSoftmax},
    {"aten::log_softmax", AtenSoftmax},
    {"aten::convolution", AtenConvolution},
};

}  // namespace

std::span<const GradientRule> AtenGradientRules() { return kAtenRules; }

}  // namespace emplace::datasets
