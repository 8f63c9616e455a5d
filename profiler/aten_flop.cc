#include "profiler/aten_flop.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/check.h"

namespace emplace::profiler {
namespace {

using Shape = std::vector<std::int64_t>;

double Elements(const Shape& shape) {
  double elements = 1;
  for (const std::int64_t dim : shape) elements *= static_cast<double>(dim);
  return elements;
}

// The call that `kind` and `attrs` describe.
class Call {
 public:
  Call(std::string_view kind, std::string_view attrs, const std::vector<Shape>& inputs) : kind_(kind), inputs_(inputs) {
    const auto parsed = nlohmann::json::parse(attrs, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_object() || !parsed.contains("args") || !parsed["args"].is_array()) Fail();
    args_ = parsed["args"];
  }

  // The shape of the tensor that is argument `i`, which has at least `rank` dimensions.
  const Shape& Tensor(std::size_t i, std::size_t rank) const {
    if (i >= args_.size() || !args_[i].is_string()) Fail();
    const auto& name = args_[i].get_ref<const std::string&>();
    if (name.size() < 2 || name.size() > 8 || name[0] != '%') Fail();
    if (!std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; })) Fail();
    const auto input = static_cast<std::size_t>(std::stoul(name.substr(1)));
    if (input >= inputs_.size() || inputs_[input].size() < rank) Fail();
    return inputs_[input];
  }

  bool Flag(std::size_t i) const {
    if (i >= args_.size() || !args_[i].is_boolean()) Fail();
    return args_[i].get<bool>();
  }

  // How many of the first two of a list of flags are set.
  int FlagsOfTwo(std::size_t i) const {
    if (i >= args_.size() || !args_[i].is_array() || args_[i].size() < 2) Fail();
    if (!args_[i][0].is_boolean() || !args_[i][1].is_boolean()) Fail();
    return static_cast<int>(args_[i][0].get<bool>()) + static_cast<int>(args_[i][1].get<bool>());
  }

  [[noreturn]] void Fail() const {
    throw InputError(std::string(kind_), "its arguments are not those of the operator (tensors and flags as in ATen)");
  }

 private:
  std::string_view kind_;
  const std::vector<Shape>& inputs_;
  nlohmann::json args_;
};

// A product whose left factor is argument `i`: each of its numbers meets those in the last dimension of the right one.
double Product(const Call& call, std::size_t i, std::size_t rank) {
  const Shape& left = call.Tensor(i, rank);
  const Shape& right = call.Tensor(i + 1, rank);
  if (left.back() != right[right.size() - 2]) call.Fail();
  return 2 * Elements(left) * static_cast<double>(right.back());
}

double VectorProduct(const Call& call, std::size_t i) {
  call.Tensor(i + 1, 1);
  return 2 * Elements(call.Tensor(i, 1));
}

double Linear(const Call& call) { return 2 * Elements(call.Tensor(0, 1)) * static_cast<double>(call.Tensor(1, 2)[0]); }

double Convolved(const Call& call, const Shape& positions, std::size_t weight) {
  const Shape& weights = call.Tensor(weight, 2);
  if (weights[0] == 0) call.Fail();
  return 2 * Elements(positions) * Elements(weights) / static_cast<double>(weights[0]);
}

}  // namespace

double AtenFlop(std::string_view kind, std::string_view attrs, const std::vector<Shape>& inputs,
                const std::vector<Shape>& outputs) {
  const std::string_view name = kind.substr(0, kind.find('.'));
  static constexpr std::array<std::string_view, 11> kCounted = {"aten::mm",
                                                                "aten::addmm",
                                                                "aten::bmm",
                                                                "aten::baddbmm",
                                                                "aten::addbmm",
                                                                "aten::mv",
                                                                "aten::dot",
                                                                "aten::addmv",
                                                                "aten::linear",
                                                                "aten::convolution",
                                                                "aten::convolution_backward"};
  if (std::find(kCounted.begin(), kCounted.end(), name) == kCounted.end()) return 0;
  const Call call(kind, attrs, inputs);
  if (name == "aten::mm") return Product(call, 0, 2);
  if (name == "aten::addmm") return Product(call, 1, 2);
  if (name == "aten::bmm") return Product(call, 0, 3);
  if (name == "aten::baddbmm" || name == "aten::addbmm") return Product(call, 1, 3);
  if (name == "aten::mv" || name == "aten::dot") return VectorProduct(call, 0);
  if (name == "aten::addmv") return VectorProduct(call, 1);
  if (name == "aten::linear") return Linear(call);
  // convolution(input, weight, bias, stride, padding, dilation, transposed, ..)
  if (name == "aten::convolution") {
    if (outputs.size() != 1) call.Fail();
    return Convolved(call, call.Flag(6) ? call.Tensor(0, 2) : outputs[0], 1);
  }
  // convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
  // groups, output_mask)
  return call.FlagsOfTwo(10) * Convolved(call, call.Tensor(call.Flag(7) ? 1 : 0, 2), 2);
}

}  // namespace emplace::profiler
