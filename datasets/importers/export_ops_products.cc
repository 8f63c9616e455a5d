#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "datasets/importers/export_call.h"
#include "sim/base/check.h"

// Products of matrices, convolutions, attention.
namespace emplace::datasets {
namespace {

std::string PairText(const Shape& pair) { return fmt::format("[{}]", fmt::join(pair, ",")); }

// Adds a bias [n] to the last op's result; it is the call's result.
void FinishWithBias(ExportCall& call, Value product, bool has_bias, std::string_view bias) {
  if (has_bias) product = call.EmitOne("bias_add", {product, call.Tensor(bias)}, call.shape(product));
  call.Set(0, product);
}

bool IsVectorOf(const ExportCall& call, Value value, std::int64_t size) { return call.shape(value) == Shape{size}; }

// linear(input, weight[n,k], bias[n])
bool LowerLinear(ExportCall& call) {
  const Value x = call.Tensor("input");
  const Value w = call.Tensor("weight");
  const Shape& a = call.shape(x);
  const Shape& b = call.shape(w);
  const bool biased = call.Has("bias");
  if (a.size() < 2 || b.size() != 2 || a.back() != b[1]) return false;
  if (biased && !IsVectorOf(call, call.Tensor("bias"), b[0])) return false;
  Shape y = a;
  y.back() = b[0];
  if (y != call.out().shape) return false;
  const Value product =
      call.EmitOne("matmul", {x, w}, y, R"({"transpose_b":true})", biased ? "matmul" : std::string_view());
  FinishWithBias(call, product, biased, "bias");
  return true;
}

// Whether the catalogue's matmul or batch_matmul gives `y`.
std::string_view ProductKind(const Shape& a, const Shape& b, const Shape& y) {
  if (a.size() < 2 || b.size() < 2 || a.back() != b[b.size() - 2]) return "";
  Shape expected = a;
  expected.back() = b.back();
  if (y != expected) return "";
  if (b.size() == 2) return "matmul";
  const bool same = a.size() == b.size() && std::equal(a.begin(), a.end() - 2, b.begin());
  return same ? "batch_matmul" : "";
}

bool LowerMatMulNamed(ExportCall& call, std::string_view left, std::string_view right) {
  const Value a = call.Tensor(left);
  const Value b = call.Tensor(right);
  const std::string_view kind = ProductKind(call.shape(a), call.shape(b), call.out().shape);
  if (kind.empty()) return false;
  call.Set(0, call.EmitOne(kind, {a, b}, call.out().shape));
  return true;
}

bool LowerMatMul(ExportCall& call) { return LowerMatMulNamed(call, "self", call.Has("other") ? "other" : "mat2"); }

// addmm(self[n], mat1, mat2)
bool LowerAddMm(ExportCall& call) {
  const Value a = call.Tensor("mat1");
  const Value b = call.Tensor("mat2");
  if (call.Has("alpha") || call.Has("beta")) return false;
  const std::string_view kind = ProductKind(call.shape(a), call.shape(b), call.out().shape);
  if (kind != "matmul" || !IsVectorOf(call, call.Tensor("self"), call.out().shape.back())) return false;
  FinishWithBias(call, call.EmitOne(kind, {a, b}, call.out().shape, "", "matmul"), true, "self");
  return true;
}

// A list of one for all axes, or one for each.
Shape EachAxis(const Shape& given, std::size_t axes) { return given.size() == 1 ? Shape(axes, given[0]) : given; }

// conv1d, conv2d, conv3d, convolution (input, weight, bias, stride, padding, dilation, groups): conv2d or
// depthwise_conv2d if they mean the same, else aten::convolution.
bool LowerConvolution(ExportCall& call) {
  const Value x = call.Tensor("input");
  const Value w = call.Tensor("weight");
  const Shape& image = call.shape(x);
  const Shape& filter = call.shape(w);
  const Shape& y = call.out().shape;
  const std::string name = ExportKind(call.node().target, false);
  if (image.size() < 3 || filter.size() != image.size() || y.size() != image.size() || filter[0] < 1) return false;
  const std::size_t axes = image.size() - 2;
  const bool transposed = name.starts_with("aten::conv_transpose") || call.Flag("transposed", false);
  const Shape stride = EachAxis(call.Integers("stride", {1}), axes);
  const Shape dilation = EachAxis(call.Integers("dilation", {1}), axes);
  const Shape output_padding = EachAxis(call.Integers("output_padding", {0}), axes);
  Shape padding(axes, 0);
  if (const std::string_view text = call.Text("padding"); !text.empty()) {
    for (std::size_t i = 0; text == "same" && i < axes; ++i) {
      const std::int64_t around = (filter[2 + i] - 1) * (dilation.size() == axes ? dilation[i] : 1);
      if (around % 2 != 0) return false;
      padding[i] = around / 2;
    }
  } else {
    padding = EachAxis(call.Integers("padding", {0}), axes);
  }
  const std::int64_t groups = call.Integer("groups", 1);
  if (stride.size() != axes || dilation.size() != axes || padding.size() != axes || output_padding.size() != axes) {
    return false;
  }
  const bool biased = call.Has("bias");
  if (biased && !IsVectorOf(call, call.Tensor("bias"), y[1])) return false;
  const std::string_view suffix = biased ? "convolution" : std::string_view();
  std::string attrs = fmt::format(R"({{"stride":{},"padding":{})", PairText(stride), PairText(padding));
  if (dilation != Shape(axes, 1)) attrs += R"(,"dilation":)" + PairText(dilation);
  attrs += "}";
  const auto small = [](std::int64_t v) { return v >= 0 && v <= std::int64_t{1} << 31; };
  bool fits = axes == 2 && !transposed && std::all_of(padding.begin(), padding.end(), small) &&
              std::all_of(stride.begin(), stride.end(), small) && std::all_of(dilation.begin(), dilation.end(), small);
  Value product;
  if (fits && groups == 1 && filter[1] == image[1]) {
    product = call.EmitOne("conv2d", {x, w}, y, attrs, suffix);
  } else if (fits && groups == image[1] && filter[1] == 1 && filter[0] == image[1]) {
    product = call.EmitOne("depthwise_conv2d", {x, w}, y, attrs, suffix);
  } else {
    const auto count = [](const Shape& shape) {
      double product = 1;
      for (const std::int64_t dim : shape) product *= static_cast<double>(dim);
      return product;
    };
    const double flop = 2 * count(transposed ? image : y) * count(filter) / static_cast<double>(filter[0]);
    const std::string args =
        fmt::format(R"({{"args":["%0","%1",null,{},{},{},{},{},{}]}})", PairText(stride), PairText(padding),
                    PairText(dilation), transposed, PairText(output_padding), groups);
    product = call.EmitOne("aten::convolution", {x, w}, y, args, suffix, flop);
  }
  FinishWithBias(call, product, biased, "bias");
  return true;
}

// scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal): its parts, one after another.
bool LowerAttention(ExportCall& call) {
  const Value q = call.Tensor("query");
  const Value k = call.Tensor("key");
  const Value v = call.Tensor("value");
  const Shape& a = call.shape(q);
  const Shape& b = call.shape(k);
  const Shape& c = call.shape(v);
  if (a.size() < 3 || b.size() != a.size() || c.size() != a.size()) return false;
  for (std::size_t i = 0; i + 2 < a.size(); ++i) {
    if (a[i] != b[i] || a[i] != c[i]) return false;
  }
  const std::size_t last = a.size() - 1;
  if (a[last] != b[last] || b[last - 1] != c[last - 1] || a[last] < 1) return false;
  Shape scores = a;
  scores[last] = b[last - 1];
  Shape result = a;
  result[last] = c[last];
  if (result != call.out().shape) return false;
  std::optional<Value> mask;
  if (call.IsTensor("attn_mask")) {
    mask = call.Tensor("attn_mask");
    const Shape& m = call.shape(*mask);
    if (m.size() > scores.size()) return false;
    for (std::size_t i = 1; i <= m.size(); ++i) {
      if (m[m.size() - i] != 1 && m[m.size() - i] != scores[scores.size() - i]) return false;
    }
  }
  const double scale = call.Number("scale").value_or(1 / std::sqrt(static_cast<double>(a[last])));
  Value x = call.EmitOne("batch_matmul", {q, k}, scores, R"({"transpose_b":true})", "scores");
  x = call.EmitOne("scale", {x}, scores, fmt::format(R"({{"factor":{}}})", scale), "scale");
  if (mask) x = call.EmitOne("add", {x, *mask}, scores, "", "mask");
  if (call.Flag("is_causal", false)) {  // future positions are filled with -inf
    x = call.EmitOne("add", {x, call.EmitOne("fill", {}, {scores[last - 1], scores[last]}, "", "future")}, scores, "",
                     "causal");
  }
  x = call.EmitOne("softmax", {x}, scores, "", "softmax");
  const double rate = call.Number("dropout_p").value_or(0);
  if (rate > 0 && rate < 1) {
    x = call.Emit("dropout", {x},
                  {{.dtype = call.out().dtype, .shape = scores}, {.dtype = DType::kBool, .shape = scores}},
                  fmt::format(R"({{"rate":{}}})", rate), "dropout")
            .front();
  }
  call.Set(0, call.EmitOne("batch_matmul", {x, v}, result));
  return true;
}

constexpr ExportRule kProductRules[] = {
    {"aten::linear", LowerLinear},
    {"aten::matmul", LowerMatMul},
    {"aten::mm", LowerMatMul},
    {"aten::bmm", LowerMatMul},
    {"aten::addmm", LowerAddMm},
    {"aten::conv1d", LowerConvolution},
    {"aten::conv2d", LowerConvolution},
    {"aten::conv3d", LowerConvolution},
    {"aten::conv_transpose1d", LowerConvolution},
    {"aten::conv_transpose2d", LowerConvolution},
    {"aten::conv_transpose3d", LowerConvolution},
    {"aten::convolution", LowerConvolution},
    {"aten::scaled_dot_product_attention", LowerAttention},
};

}  // namespace

std::span<const ExportRule> ExportProductRules() { return kProductRules; }

// Products that no kind of the catalogue describes: those with a broadcast, and those with a vector.
double ExportFlop(const ExportCall& call) {
  const std::string name = ExportKind(call.node().target, false);
  const auto count = [](const Shape& shape) {
    double product = 1;
    for (const std::int64_t dim : shape) product *= static_cast<double>(dim);
    return product;
  };
  const auto product = [&](std::string_view left) {
    const Shape& a = call.MetaOf(left).shape;
    return a.empty() ? 0 : 2 * count(call.out().shape) * static_cast<double>(a.back());
  };
  double flop = 0;
  if (call.num_outputs() == 0) return 0;
  if (name == "aten::matmul" || name == "aten::mv" || name == "aten::dot" || name == "aten::mm" ||
      name == "aten::bmm") {
    flop = call.IsTensor("self") ? product("self") : 0;
  } else if (name == "aten::addmm" && call.IsTensor("mat1")) {
    flop = product("mat1");
  } else if ((name == "aten::baddbmm" || name == "aten::addbmm") && call.IsTensor("batch1")) {
    flop = product("batch1");
  } else if (name == "aten::linear" && call.IsTensor("input")) {
    flop = product("input");
  } else if (name == "aten::scaled_dot_product_attention" && call.IsTensor("query") && call.IsTensor("key")) {
    const Shape& keys = call.MetaOf("key").shape;
    const Shape& queries = call.MetaOf("query").shape;
    if (keys.size() >= 2 && queries.size() >= 2) {
      const double width = static_cast<double>(keys[keys.size() - 2]);
      flop = 2 * (count(queries) + count(call.out().shape)) * width;
    }
  }
  return flop <= kMaxFlop ? flop : kMaxFlop;
}

}  // namespace emplace::datasets
