#include "datasets/experts.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "datasets/layers.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

// x [experts, tokens, K] times weights [experts, K, units], plus bias.
Value ExpertsProduct(NetworkBuilder& net, Value x, std::int64_t units) {
  const Shape shape = net.shape(x);
  const Value product = BatchMatMul(net, x, net.Variable("weights", {shape[0], shape[2], units}));
  return Binary(net, "add", product, net.Variable("bias", {shape[0], 1, units}));
}

}  // namespace

std::int64_t ExpertCapacity(const ExpertOptions& options, std::int64_t tokens) {
  return static_cast<std::int64_t>(std::ceil(options.capacity_factor * static_cast<double>(options.top_k * tokens) /
                                             static_cast<double>(options.experts)));
}

Value MixtureOfExperts(NetworkBuilder& net, Value x, std::int64_t inner, const ExpertOptions& options) {
  EMPLACE_CHECK_LE(options.top_k, options.experts);
  const auto scope = net.Within("feed_forward");
  const Shape shape = net.shape(x);
  const std::int64_t width = shape[2];
  const std::int64_t tokens = shape[0] * shape[1];
  const std::int64_t capacity = ExpertCapacity(options, tokens);
  const Value rows = Reshape(net, x, {tokens, width}, "rows");
  std::vector<Value> routes;
  {
    const auto gate = net.Within("gate");
    const Value probabilities = Unary(net, "softmax", Dense(net, rows, options.experts, /*bias=*/false));
    routes = net.Forward("route_tokens", "route_tokens", {probabilities},
                         {{.dtype = net.dtype(x), .shape = {tokens, options.top_k}},
                          {.dtype = DType::kI32, .shape = {tokens, options.top_k}},
                          {.dtype = DType::kI32, .shape = {options.experts, capacity}}});
  }
  Value fed;
  {
    const auto dispatch = net.Within("dispatch");
    fed = Gather(net, rows, routes[2]);
  }
  {
    const auto experts = net.Within("experts");
    {
      const auto first = net.Within("inner");
      fed = Unary(net, "gelu", ExpertsProduct(net, fed, inner));
    }
    const auto second = net.Within("outer");
    fed = ExpertsProduct(net, fed, width);
  }
  const auto combine = net.Within("combine");
  const Value slots = Reshape(net, fed, {options.experts * capacity, width}, "slots");
  const Value gates = Reshape(net, routes[0], {tokens, options.top_k, 1}, "gates");
  const Value weighted = Binary(net, "mul", Gather(net, slots, routes[1]), gates);
  return Reshape(net, Reduce(net, "reduce_sum", weighted, {1}), shape);
}

}  // namespace emplace::datasets
