#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "datasets/importers/export_call.h"
#include "sim/base/check.h"

// Products of matrices, convolutions, attention.
namespace emplace::datasets {
namespace {

double Elements(const Shape& shape) {
  double product = 1;
  for (const std::int64_t dim : shape) product *= static_cast<double>(dim);
  return product;
}

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
  if (a.empty() || b.size() != 2 || a.back() != b[1]) return false;
  if (a.size() == 1) {  // one row
    if (call.out().shape != Shape{b[0]} || (biased && !IsVectorOf(call, call.Tensor("bias"), b[0]))) return false;
    const Value row = call.EmitOne("reshape", {x}, {1, a[0]}, "", "row");
    Value product = call.EmitOne("matmul", {row, w}, {1, b[0]}, R"({"transpose_b":true})", "matmul");
    if (biased) product = call.EmitOne("bias_add", {product, call.Tensor("bias")}, {1, b[0]}, "", "bias_add");
    call.Set(0, call.EmitOne("reshape", {product}, {b[0]}));
    return true;
  }
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

// The shape of PyTorch's product; nullopt if there is none.
std::optional<Shape> MatMulShape(const Shape& a, const Shape& b) {
  if (a.empty() || b.empty() || a.back() != b[b.size() == 1 ? 0 : b.size() - 2]) return std::nullopt;
  Shape y;
  const std::size_t left = a.size() > 2 ? a.size() - 2 : 0;
  const std::size_t right = b.size() > 2 ? b.size() - 2 : 0;
  for (std::size_t i = std::max(left, right); i-- > 0;) {
    const std::int64_t m = i < left ? a[left - 1 - i] : 1;
    const std::int64_t n = i < right ? b[right - 1 - i] : 1;
    if (m != n && m != 1 && n != 1) return std::nullopt;
    y.push_back(m == 1 ? n : m);
  }
  if (a.size() > 1) y.push_back(a[a.size() - 2]);
  if (b.size() > 1) y.push_back(b.back());
  return y;
}

bool LowerMatMul(ExportCall& call) {
  const Value a = call.Tensor(call.Has("self") ? "self" : "input");
  const std::string_view right = call.Has("other")     ? "other"
                                 : call.Has("mat2")    ? "mat2"
                                 : call.Has("vec")     ? "vec"
                                 : call.Has("tensor2") ? "tensor2"
                                                       : "tensor";
  const Value b = call.Tensor(right);
  if (MatMulShape(call.shape(a), call.shape(b)) != call.out().shape) return false;
  const std::optional<Value> product = ExportMatMul(call, a, b, {});
  if (product) call.Set(0, *product);
  return product.has_value();
}

// addmm(self, mat1, mat2), baddbmm(self, batch1, batch2): with a bias [n], or a term of the result's shape.
bool LowerAddMm(ExportCall& call) {
  const Value a = call.Tensor(call.Has("mat1") ? "mat1" : "batch1");
  const Value b = call.Tensor(call.Has("mat2") ? "mat2" : "batch2");
  if (call.Has("alpha") || call.Has("beta")) return false;
  const std::string_view kind = ProductKind(call.shape(a), call.shape(b), call.out().shape);
  const Value self = call.Tensor("self");
  const bool is_bias = !call.out().shape.empty() && IsVectorOf(call, self, call.out().shape.back());
  const bool is_term = call.shape(self) == call.out().shape;
  if (kind.empty() || (!is_bias && !is_term)) return false;
  const Value product = call.EmitOne(kind, {a, b}, call.out().shape, "", "matmul");
  call.Set(0, call.EmitOne(is_bias ? "bias_add" : "add", {product, self}, call.out().shape));
  return true;
}

// A list of one for all axes, or one for each.
Shape EachAxis(const Shape& given, std::size_t axes) { return given.size() == 1 ? Shape(axes, given[0]) : given; }

// conv1d, conv2d, conv3d, convolution (input, weight, bias, stride, padding, dilation, groups): conv2d or
// depthwise_conv2d if they mean the same, else aten::convolution.
bool LowerConvolution(ExportCall& call) {
  Value x = call.Tensor("input");
  const Value w = call.Tensor("weight");
  const Shape& filter = call.shape(w);
  Shape image = call.shape(x);
  Shape y = call.out().shape;
  const bool is_one = image.size() + 1 == filter.size() && y.size() == image.size();  // an image without a batch
  if (is_one) {
    image.insert(image.begin(), 1);
    y.insert(y.begin(), 1);
  }
  const std::string name = ExportKind(call.node().target, false);
  if (image.size() < 3 || filter.size() != image.size() || y.size() != image.size() || filter[0] < 1) return false;
  const std::size_t axes = image.size() - 2;
  const bool transposed = name.starts_with("aten::conv_transpose") || call.Flag("transposed", false);
  const Shape stride = EachAxis(call.Integers("stride", {1}), axes);
  const Shape dilation = EachAxis(call.Integers("dilation", {1}), axes);
  const Shape output_padding = EachAxis(call.Integers("output_padding", {0}), axes);
  Shape padding(axes, 0);
  Shape behind(image.size(), 0);  // what "same" pads more on one side
  if (const std::string_view text = call.Text("padding"); !text.empty()) {
    for (std::size_t i = 0; text == "same" && i < axes; ++i) {
      const std::int64_t around = (filter[2 + i] - 1) * (dilation.size() == axes ? dilation[i] : 1);
      padding[i] = around / 2;
      behind[2 + i] = around % 2;
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
  const std::string_view suffix = biased || is_one ? "convolution" : std::string_view();
  if (is_one) x = call.EmitOne("reshape", {x}, image, "", "batch");
  if (std::any_of(behind.begin(), behind.end(), [](std::int64_t size) { return size != 0; })) {
    for (std::size_t i = 0; i < image.size(); ++i) image[i] += behind[i];
    x = call.EmitOne("pad", {x}, image,
                     fmt::format(R"({{"before":{},"after":{}}})", PairText(Shape(image.size(), 0)), PairText(behind)),
                     "pad");
  }
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
    const double flop = 2 * Elements(transposed ? image : y) * Elements(filter) / static_cast<double>(filter[0]);
    const std::string args =
        fmt::format(R"({{"args":["%0","%1",null,{},{},{},{},{},{}]}})", PairText(stride), PairText(padding),
                    PairText(dilation), transposed, PairText(output_padding), groups);
    product = call.EmitOne("aten::convolution", {x, w}, y, args, suffix, flop);
  }
  if (!is_one) {
    FinishWithBias(call, product, biased, "bias");
    return true;
  }
  if (biased) product = call.EmitOne("bias_add", {product, call.Tensor("bias")}, y, "", "bias_add");
  call.Set(0, call.EmitOne("reshape", {product}, call.out().shape));
  return true;
}

// The two products of attention.
double AttentionFlop(const Shape& q, const Shape& k, const Shape& v) {
  if (q.empty() || v.empty() || k.size() < 2) return 0;
  const double keys = static_cast<double>(k[k.size() - 2]);
  const double rows = Elements(Shape(q.begin(), q.end() - 1));
  return 2 * rows * keys * static_cast<double>(q.back() + v.back());
}

// Fused attention, [batch, heads, length, width]: one op, which gives the output and the logarithm of each row's sum of
// exponentials. Which of PyTorch's operators it is: that of CPUs, which takes a mask; with a bias that is trained, the
// one that gives its gradient.
void EmitFusedAttention(ExportCall& call, std::vector<Value> inputs, bool has_mask) {
  const Shape& q = call.shape(inputs[0]);
  const double flop = AttentionFlop(q, call.shape(inputs[1]), call.shape(inputs[2]));
  const double rate = call.Number("dropout_p").value_or(0);
  const bool is_causal = call.Flag("is_causal", false);
  const std::string scale = call.Number("scale") ? fmt::format(R"("scale":{})", *call.Number("scale")) : "";
  std::string kind = "aten::_scaled_dot_product_flash_attention_for_cpu";
  std::string args = fmt::format(R"("%0","%1","%2",{:.17g},{})", rate, is_causal);
  std::string kwargs = has_mask ? R"("attn_mask":"%3")" : "";
  if (has_mask && call.training() && call.net().trained(inputs[3])) {
    kind = "aten::_scaled_dot_product_efficient_attention";
    args = fmt::format(R"("%0","%1","%2","%3",true,{:.17g},{})", rate, is_causal);
    kwargs.clear();
  }
  if (!scale.empty()) kwargs += (kwargs.empty() ? "" : ",") + scale;
  std::string attrs = fmt::format(R"({{"args":[{}])", args);
  if (!kwargs.empty()) attrs += fmt::format(R"(,"kwargs":{{{}}})", kwargs);
  call.Set(0, call.Emit(kind, std::move(inputs),
                        {{.dtype = call.out().dtype, .shape = call.out().shape},
                         {.dtype = DType::kF32, .shape = {q[0], q[1], q[2]}}},
                        attrs + "}", {}, flop)
                  .front());
}

// scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal): one op of four dimensions, as the
// fused kernels take them; else its parts, one after another. Queries have as many heads as keys, or a multiple.
bool LowerAttention(ExportCall& call) {
  const Value q = call.Tensor("query");
  const Value k = call.Tensor("key");
  const Value v = call.Tensor("value");
  const Shape& a = call.shape(q);
  const Shape& b = call.shape(k);
  const Shape& c = call.shape(v);
  if (a.size() < 3 || b.size() != a.size() || c.size() != a.size()) return false;
  const bool grouped = call.Flag("enable_gqa", false);
  for (std::size_t i = 0; i + 2 < a.size(); ++i) {
    const bool fits = a[i] == b[i] || (grouped && i + 3 == a.size() && b[i] > 0 && a[i] % b[i] == 0);
    if (!fits || b[i] != c[i]) return false;
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
  if (a.size() == 4) {
    std::vector<Value> inputs = {q, k, v};
    if (mask) inputs.push_back(*mask);
    EmitFusedAttention(call, std::move(inputs), mask.has_value());
    return true;
  }
  if (grouped && a[last - 2] != b[last - 2]) return false;
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

// multi_dot(tensors): in the order that takes the fewest multiplications.
bool LowerChain(ExportCall& call) {
  const std::vector<Value> tensors = call.Tensors(call.Has("tensors") ? "tensors" : "matrices");
  const std::size_t count = tensors.size();
  if (count < 2 || count > 64) return false;
  std::vector<double> sizes;  // matrix i is [sizes[i], sizes[i + 1]]
  for (std::size_t i = 0; i < count; ++i) {
    const Shape& shape = call.shape(tensors[i]);
    const bool is_end = i == 0 || i + 1 == count;
    if (shape.size() != 2 && !(is_end && shape.size() == 1)) return false;
    if (i == 0) sizes.push_back(shape.size() == 1 ? 1 : static_cast<double>(shape[0]));
    const std::int64_t rows = shape.size() == 1 && i == 0 ? 1 : shape[0];
    if (i > 0 && static_cast<double>(rows) != sizes.back()) return false;
    sizes.push_back(shape.size() == 2 || i == 0 ? static_cast<double>(shape.back()) : 1);
  }
  // least[i][j]: multiplications of matrices i to j; cut[i][j]: the last of the left factor.
  std::vector<std::vector<double>> least(count, std::vector<double>(count, 0));
  std::vector<std::vector<std::size_t>> cut(count, std::vector<std::size_t>(count, 0));
  for (std::size_t length = 1; length < count; ++length) {
    for (std::size_t i = 0; i + length < count; ++i) {
      const std::size_t j = i + length;
      least[i][j] = std::numeric_limits<double>::infinity();
      for (std::size_t k = i; k < j; ++k) {
        const double total = least[i][k] + least[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1];
        if (total >= least[i][j]) continue;
        least[i][j] = total;
        cut[i][j] = k;
      }
    }
  }
  const std::function<Value(std::size_t, std::size_t)> product = [&](std::size_t i, std::size_t j) -> Value {
    if (i == j) return tensors[i];
    const Value left = product(i, cut[i][j]);
    const Value right = product(cut[i][j] + 1, j);
    const bool is_all = i == 0 && j + 1 == count;
    return ExportMatMul(call, left, right, is_all ? std::string() : fmt::format("product{}_{}", i, j)).value();
  };
  const Value result = product(0, count - 1);
  if (call.shape(result) != call.out().shape) return false;
  call.Set(0, result);
  return true;
}

// matrix_power(self, n), n > 0, by squares: one product for each binary digit behind the first, and for each other one.
bool LowerMatrixPower(ExportCall& call) {
  const Value x = call.Tensor("self");
  std::int64_t n = call.Integer("n", 0);
  const Shape& shape = call.shape(x);
  if (n < 2 || shape.size() < 2 || shape[shape.size() - 1] != shape[shape.size() - 2] || shape != call.out().shape) {
    return false;
  }
  const std::string_view kind = shape.size() == 2 ? "matmul" : "batch_matmul";
  int count = 0;
  const auto times = [&](Value a, Value b) {
    return call.EmitOne(kind, {a, b}, shape, "", fmt::format("product{}", count++));
  };
  std::optional<Value> result;
  for (Value square = x;; square = times(square, square)) {
    if (n % 2 == 1) result = result ? times(*result, square) : square;
    n /= 2;
    if (n == 0) break;
  }
  call.Set(0, *result);
  return true;
}

constexpr ExportRule kProductRules[] = {
    {"aten::linear", LowerLinear},
    {"aten::matmul", LowerMatMul},
    {"aten::mm", LowerMatMul},
    {"aten::bmm", LowerMatMul},
    {"aten::mv", LowerMatMul},
    {"aten::dot", LowerMatMul},
    {"aten::vdot", LowerMatMul},
    {"aten::addmm", LowerAddMm},
    {"aten::baddbmm", LowerAddMm},
    {"aten::chain_matmul", LowerChain},
    {"aten::linalg_multi_dot", LowerChain},
    {"aten::linalg_matmul", LowerMatMul},
    {"aten::matrix_power", LowerMatrixPower},
    {"aten::linalg_matrix_power", LowerMatrixPower},
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

std::optional<Value> ExportMatMul(ExportCall& call, Value a, Value b, std::string_view suffix) {
  const std::optional<Shape> y = MatMulShape(call.shape(a), call.shape(b));
  if (!y) return std::nullopt;
  const auto name = [&](std::string_view part) {
    return fmt::format("{}{}{}", suffix, suffix.empty() ? "" : "/", part);
  };
  const auto view = [&](Value x, Shape shape, std::string_view part) {
    return call.shape(x) == shape ? x : call.EmitOne("reshape", {x}, std::move(shape), "", part);
  };
  const auto size = [&](Value x, std::size_t from_end) { return call.shape(x)[call.shape(x).size() - from_end]; };
  if (call.shape(a).size() == 1) a = view(a, {1, size(a, 1)}, name("row"));
  if (call.shape(b).size() == 1) b = view(b, {size(b, 1), 1}, name("column"));
  Shape full = *MatMulShape(call.shape(a), call.shape(b));
  const auto product = [&](std::string_view kind, Shape shape, std::string attrs = {}) {
    const bool is_last = shape == *y;
    const Value z =
        call.EmitOne(kind, {a, b}, std::move(shape), std::move(attrs), is_last ? std::string(suffix) : name("product"));
    return view(z, *y, suffix);
  };
  if (call.shape(b).size() == 2) return product("matmul", full);
  if (call.shape(a).size() == 2) {  // the transpose of the product: rows of b's transpose by those of a
    Shape order(full.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    Shape turned = call.shape(b);
    std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
    std::swap(full[full.size() - 1], full[full.size() - 2]);
    b = call.EmitOne("transpose", {b}, turned, fmt::format(R"({{"order":{}}})", PairText(order)), name("transpose"));
    std::swap(a, b);
    const Value z = call.EmitOne("matmul", {a, b}, full, R"({"transpose_b":true})", name("product"));
    return call.EmitOne("reshape", {z}, *y, "", suffix);
  }
  // Batches that spread over each other are copied, unless a stride of 0 does.
  const std::string_view spread = full.size() == 3 ? "aten::expand" : "aten::expand_copy";
  for (Value* const x : {&a, &b}) {
    Shape whole(full.begin(), full.end() - 2);
    whole.push_back(size(*x, 2));
    whole.push_back(size(*x, 1));
    if (call.shape(*x) == whole) continue;
    *x = call.EmitOne(spread, {*x}, whole, fmt::format(R"({{"args":["%0",{}]}})", PairText(whole)),
                      name(x == &a ? "expand_a" : "expand_b"));
  }
  return product("batch_matmul", full);
}

// Products that no kind of the catalogue describes.
double ExportFlop(const ExportCall& call) {
  const std::string name = ExportKind(call.node().target, false);
  if (call.num_outputs() == 0) return 0;
  const auto shape = [&](std::string_view argument) {
    return call.IsTensor(argument) ? call.MetaOf(argument).shape : Shape{};
  };
  const auto last = [](const Shape& shape) { return shape.empty() ? 0.0 : static_cast<double>(shape.back()); };
  // Each element of the result sums the products of a row of the left factor.
  const auto product = [&](std::string_view left) { return 2 * Elements(call.out().shape) * last(shape(left)); };
  double flop = 0;
  if (name == "aten::matmul" || name == "aten::mv" || name == "aten::dot" || name == "aten::mm" ||
      name == "aten::bmm" || name == "aten::_int_mm" || name == "aten::_scaled_mm" || name == "aten::inner") {
    flop = product("self");
  } else if (name == "aten::addmm" || name == "aten::addmv") {
    flop = product(name == "aten::addmm" ? "mat1" : "mat");
  } else if (name == "aten::baddbmm") {
    flop = product("batch1");
  } else if (name == "aten::addbmm") {
    flop = 2 * Elements(shape("batch1")) * last(shape("batch2"));
  } else if (name == "aten::linear") {
    flop = product("input");
  } else if (name == "aten::bilinear") {
    flop = product("input1") * last(shape("input2"));
  } else if (name == "aten::affine_grid_generator") {
    flop = 2 * Elements(call.out().shape) * last(shape("theta"));
  } else if (name == "aten::_grouped_mm" || name == "transformers::grouped_mm_fallback") {
    // The groups of a batch of matrices on the left share the columns of the right.
    const Shape left = shape(call.Has("self") ? "self" : "input");
    const Shape right = shape(call.Has("mat2") ? "mat2" : "weight");
    flop = 2 * Elements(left) * last(right);
    if (left.size() == 3 && right.size() == 2 && left[0] > 0) flop /= static_cast<double>(left[0]);
  } else if (name == "aten::convolution_backward") {
    const Shape positions = shape(call.Flag("transposed", false) ? "input" : "grad_output");
    const Shape weight = shape("weight");
    double products = 0;  // one for each gradient of a factor
    for (std::size_t i = 0; i < call.num_outputs(); ++i) {
      products += call.out(i).shape == weight || call.out(i).shape == shape("input") ? 1 : 0;
    }
    if (!weight.empty() && weight[0] > 0) {
      flop = products * 2 * Elements(positions) * Elements(weight) / static_cast<double>(weight[0]);
    }
  } else if (name.starts_with("aten::") && name.find("attention") != std::string::npos && call.IsTensor("query") &&
             call.IsTensor("key")) {
    const bool is_gradient = name.ends_with("_backward");
    flop = (is_gradient ? 2.5 : 1) * AttentionFlop(shape("query"), shape("key"), shape("value"));
  } else if (name == "aten::lstm" || name == "aten::gru" ||
             name.starts_with("aten::rnn_")) {  // recurrences: each matrix meets each step
    const Shape x = shape(call.IsTensor("data") ? "data" : "input");
    for (const Value weight : call.Has("params") ? call.Tensors("params") : std::vector<Value>{}) {
      if (call.shape(weight).size() != 2 || last(x) == 0) continue;
      flop += 2 * Elements(call.shape(weight)) * Elements(x) / last(x);
    }
  }
  return flop <= kMaxFlop ? flop : kMaxFlop;
}

}  // namespace emplace::datasets
