#include "datasets/importers/onnx_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "datasets/importers/onnx_values.h"
#include "sim/ops/einsum.h"

namespace emplace::datasets {
namespace {

using RuleDims = std::vector<std::int64_t>;

constexpr std::int32_t kUint8Element = 2;
constexpr int kOnlyOtherwise = std::numeric_limits<int>::max();  // libonnx is asked first
constexpr std::int64_t kMostPad = std::int64_t{1} << 40;

[[noreturn]] void NoShape(const std::string& why) { throw std::runtime_error(why); }

class OnnxRule {
 public:
  using Types = std::vector<OnnxType>;
  using Function = void (OnnxRule::*)();
  struct Row {
    std::string_view op;  // as OnnxKind() has it, "onnx::" left out
    Function function;
    int since = kOnlyOtherwise;  // the first opset whose nodes are for this rule before libonnx's
  };

  OnnxRule(const OnnxNode& node, const OnnxOperands& inputs)
      : node_(node), inputs_(inputs), outputs_(std::max<std::size_t>(node.outputs.size(), 1)) {}

  static const Row* Find(const OnnxNode& node);

  Types Run(Function function) {
    (this->*function)();
    return std::move(outputs_);
  }

  std::optional<OnnxAttentionSizes> AttentionSizes() const {
    if (node_.domain.empty() && node_.op == "Attention") return PlainAttention();
    if (node_.op == "FlexAttention") return PlainAttention();
    if (node_.domain != "com.microsoft") return std::nullopt;
    if (node_.op == "Attention" || node_.op == "QAttention") return FusedAttention();
    if (node_.op == "MultiHeadAttention") return MultiHeadAttention();
    if (node_.op == "GroupQueryAttention") return GroupQueryAttention();
    return std::nullopt;
  }

 private:
  bool Has(std::size_t i) const { return i < node_.inputs.size() && !node_.inputs[i].empty(); }
  const OnnxType& In(std::size_t i) const {
    if (!Has(i) || i >= inputs_.types.size() || inputs_.types[i] == nullptr || !inputs_.types[i]->HasShape()) {
      NoShape("its input has no shape");
    }
    return *inputs_.types[i];
  }
  const RuleDims& Dims(std::size_t i) const { return *In(i).dims; }
  const RuleDims* DimsOrNone(std::size_t i) const { return Has(i) ? &Dims(i) : nullptr; }
  const OnnxContent* Content(std::size_t i) const {
    return Has(i) && i < inputs_.contents.size() ? inputs_.contents[i] : nullptr;
  }
  const RuleDims& Known(std::size_t i, std::string_view what) const {
    const OnnxContent* const content = Content(i);
    if (content == nullptr || content->is_number()) NoShape(fmt::format("its {} are not constant", what));
    return content->integers;
  }
  // An attribute that became an input in a later opset; nothing if neither is there.
  std::optional<RuleDims> Given(const std::string& attr, std::size_t input, std::string_view what) const {
    if (node_.Find(attr) != nullptr) return node_.Integers(attr);
    if (!Has(input)) return std::nullopt;
    return Known(input, what);
  }
  static std::size_t AxisOf(std::int64_t axis, std::size_t rank) {
    if (axis < 0) axis += static_cast<std::int64_t>(rank);
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) NoShape("its axis is none of its input's");
    return static_cast<std::size_t>(axis);
  }
  static void Expect(bool holds, const char* what) {
    if (!holds) NoShape(what);
  }
  void ExpectRank(std::size_t input, std::size_t rank) const {
    if (Dims(input).size() != rank)
      NoShape(fmt::format("its input {} has {} dimensions and not {}", input, Dims(input).size(), rank));
  }
  void Set(std::size_t output, std::int32_t element, RuleDims dims) {
    if (output < outputs_.size()) outputs_[output] = {.is_tensor = true, .element = element, .dims = std::move(dims)};
  }
  std::int32_t ElementOf(std::size_t input) const { return In(input).element; }
  static std::int64_t Times(std::int64_t a, std::int64_t b) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) NoShape("its shape is too large");
    return product;
  }
  static std::int64_t Plus(std::int64_t a, std::int64_t b) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) NoShape("its shape is too large");
    return sum;
  }

  void SameAsFirst() { Set(0, ElementOf(0), Dims(0)); }
  // y = norm(x) scaled: the type is that of the scale.
  void Normalised() { Set(0, Has(1) ? ElementOf(1) : ElementOf(0), Dims(0)); }
  // libonnx 1.12 takes any axis.
  void LayerNorm() {
    RuleDims rows = Dims(0);
    const std::size_t axis = AxisOf(node_.Integer("axis", -1), rows.size());
    std::fill(rows.begin() + static_cast<std::ptrdiff_t>(axis), rows.end(), 1);
    const auto stored = static_cast<std::int32_t>(node_.Integer("stash_type", kOnnxFloat));
    Set(0, ElementOf(0), Dims(0));
    Set(1, stored, rows);
    Set(2, stored, rows);
  }
  void Broadcast() {
    RuleDims dims = Dims(0);
    for (std::size_t i = 1; i < node_.inputs.size(); ++i) {
      const auto both = BroadcastOnnx(dims, Dims(i));
      if (!both) NoShape("its inputs do not fit each other");
      dims = *both;
    }
    Set(0, ElementOf(0), std::move(dims));
  }
  void Comparison() {
    Broadcast();
    outputs_[0].element = kOnnxBool;
  }
  void CastTo() { Set(0, static_cast<std::int32_t>(node_.Integer("to", ElementOf(0))), Dims(0)); }
  void CastLike() { Set(0, ElementOf(1), Dims(0)); }

  void Quantize() {
    const auto wanted = static_cast<std::int32_t>(node_.Integer("output_dtype", kOnnxUnknown));
    Set(0, wanted != kOnnxUnknown ? wanted : Has(2) ? ElementOf(2) : kUint8Element, Dims(0));
  }
  void Dequantize() {
    const auto wanted = static_cast<std::int32_t>(node_.Integer("output_dtype", kOnnxUnknown));
    Set(0, wanted != kOnnxUnknown ? wanted : ElementOf(1), Dims(0));
  }
  void DynamicQuantize() {
    Set(0, kUint8Element, Dims(0));
    Set(1, kOnnxFloat, {});
    Set(2, kUint8Element, {});
  }

  void EinsumRule() {
    std::vector<RuleDims> shapes;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) shapes.push_back(Dims(i));
    const auto shape = EinsumShape(node_.Text("equation", ""), shapes);
    if (!shape) NoShape("its equation does not fit its inputs");
    Set(0, ElementOf(0), *shape);
  }

  RuleDims Reduced() const {
    const auto axes = Given("axes", 1, "axes");
    const RuleDims& x = Dims(0);
    if ((!axes || axes->empty()) && node_.Integer("noop_with_empty_axes", 0) != 0) return x;
    std::vector<bool> is_gone(x.size(), !axes || axes->empty());
    if (axes) {
      for (const std::int64_t axis : *axes) is_gone[AxisOf(axis, x.size())] = true;
    }
    RuleDims dims;
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (!is_gone[k]) dims.push_back(x[k]);
      if (is_gone[k] && node_.Integer("keepdims", 1) != 0) dims.push_back(1);
    }
    return dims;
  }
  void Reduce() { Set(0, ElementOf(0), Reduced()); }

  void Split() {
    const RuleDims& x = Dims(0);
    const std::size_t axis = AxisOf(node_.Integer("axis", 0), x.size());
    const auto sizes = Given("split", 1, "sizes");
    const auto count = static_cast<std::int64_t>(outputs_.size());
    if (sizes) Expect(sizes->size() == outputs_.size(), "its sizes are not as many as its outputs");
    const std::int64_t piece = x[axis] / count + (x[axis] % count != 0 ? 1 : 0);
    for (std::int64_t i = 0; i < count; ++i) {
      RuleDims dims = x;
      dims[axis] =
          sizes ? (*sizes)[static_cast<std::size_t>(i)] : std::clamp<std::int64_t>(x[axis] - i * piece, 0, piece);
      Expect(dims[axis] >= 0, "its sizes are negative");
      Set(static_cast<std::size_t>(i), ElementOf(0), std::move(dims));
    }
  }

  void Pad() {
    RuleDims dims = Dims(0);
    const auto pads = Given("pads", 1, "pads");
    Expect(pads.has_value(), "it has no pads");
    RuleDims axes;
    if (Has(3)) {
      axes = Known(3, "axes");
    } else {
      for (std::size_t k = 0; k < dims.size(); ++k) axes.push_back(static_cast<std::int64_t>(k));
    }
    Expect(pads->size() == 2 * axes.size(), "its pads and axes do not fit");
    for (std::size_t i = 0; i < axes.size(); ++i) {
      std::int64_t& dim = dims[AxisOf(axes[i], dims.size())];
      dim = Plus(Plus(dim, (*pads)[i]), (*pads)[i + axes.size()]);
      Expect(dim >= 0, "its pads do not fit");
    }
    Set(0, ElementOf(0), std::move(dims));
  }

  // Sizes of the spatial dimensions that a window leads to.
  RuleDims Windowed(const RuleDims& image, RuleDims window, std::size_t first) const {
    const std::size_t rank = image.size() - first;
    const auto each = [&](const std::string& attr, std::int64_t absent, std::size_t count) {
      RuleDims values = node_.Integers(attr);
      if (values.empty()) values.assign(count, absent);
      Expect(values.size() == count, "its attributes do not fit its rank");
      for (const std::int64_t value : values) {
        if (value < (absent == 0 ? -kMostPad : 1) || value > kMostPad) {
          NoShape(fmt::format("attribute {} is {}", attr, value));
        }
      }
      return values;
    };
    if (window.empty()) window = node_.Integers("kernel_shape");
    Expect(window.size() == rank, "its window does not fit its rank");
    const RuleDims strides = each("strides", 1, rank);
    const RuleDims dilations = each("dilations", 1, rank);
    const RuleDims pads = each("pads", 0, 2 * rank);
    const std::string automatic = node_.Text("auto_pad", "NOTSET");
    const bool rounds_up = node_.Integer("ceil_mode", 0) != 0;
    RuleDims sizes;
    for (std::size_t k = 0; k < rank; ++k) {
      const std::int64_t size = image[first + k];
      Expect(window[k] >= 1 && window[k] <= kMostPad && size <= kMostPad, "its window is out of range");
      if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
        sizes.push_back(size == 0 ? 0 : (size - 1) / strides[k] + 1);
        continue;
      }
      const bool is_valid = automatic == "VALID";
      const std::int64_t before = is_valid ? 0 : pads[k];
      const std::int64_t padded = size + (is_valid ? 0 : pads[k] + pads[rank + k]);
      const std::int64_t room = padded - (Times(window[k] - 1, dilations[k]) + 1);
      Expect(room >= 0, "its window is larger than its image");
      std::int64_t count = room / strides[k] + 1;
      // The last window has to begin in the image or in the padding before it.
      if (rounds_up && room % strides[k] != 0 && count * strides[k] < size + before) ++count;
      sizes.push_back(count);
    }
    return sizes;
  }
  void ConvolutionOf(std::size_t x, std::size_t w, std::int32_t element) {
    const RuleDims& image = Dims(x);
    const RuleDims& filter = Dims(w);
    Expect(image.size() >= 3 && image.size() == filter.size(), "its image and its filter have no common rank");
    RuleDims dims = {image[0], filter[0]};
    const RuleDims sizes = Windowed(image, {filter.begin() + 2, filter.end()}, 2);
    dims.insert(dims.end(), sizes.begin(), sizes.end());
    Set(0, element, std::move(dims));
  }
  void Convolution() { ConvolutionOf(0, 1, ElementOf(0)); }
  void ConvolutionOfIntegers() { ConvolutionOf(0, 1, kOnnxInt32); }
  void QuantizedConvolution() {
    if (node_.Integer("channels_last", 0) != 0) {
      RuleDims image = Dims(0);
      Expect(image.size() >= 3 && Dims(3).size() == image.size(), "its image and its filter have no common rank");
      const RuleDims& filter = Dims(3);
      std::rotate(image.begin() + 1, image.end() - 1, image.end());
      RuleDims dims = {image[0]};
      const RuleDims sizes = Windowed(image, {filter.begin() + 2, filter.end()}, 2);
      dims.insert(dims.end(), sizes.begin(), sizes.end());
      dims.push_back(filter[0]);
      return Set(0, Has(7) ? ElementOf(7) : ElementOf(0), std::move(dims));
    }
    ConvolutionOf(0, 3, Has(7) ? ElementOf(7) : ElementOf(0));
  }
  void Pool() {
    const RuleDims& image = Dims(0);
    Expect(image.size() >= 3, "its image has no spatial dimension");
    RuleDims dims = {image[0], image[1]};
    const RuleDims sizes = Windowed(image, {}, 2);
    dims.insert(dims.end(), sizes.begin(), sizes.end());
    Set(1, kOnnxInt64, dims);
    Set(0, ElementOf(0), std::move(dims));
  }
  void GlobalPool() {
    RuleDims dims = Dims(0);
    Expect(dims.size() >= 2, "its image has no channels");
    const bool is_last = node_.Integer("channels_last", 0) != 0;
    for (std::size_t k = is_last ? 1 : 2; k < dims.size() - (is_last ? 1 : 0); ++k) dims[k] = 1;
    Set(0, ElementOf(0), std::move(dims));
  }

  // As numpy.matmul has it.
  static RuleDims Product(RuleDims a, RuleDims b) {
    Expect(!a.empty() && !b.empty(), "its factors have no dimension");
    const bool is_row = a.size() == 1;
    const bool is_column = b.size() == 1;
    if (is_row) a.insert(a.begin(), 1);
    if (is_column) b.push_back(1);
    Expect(a.back() == b[b.size() - 2], "its factors do not fit");
    auto dims = BroadcastOnnx({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
    Expect(dims.has_value(), "its factors do not fit");
    if (!is_row) dims->push_back(a[a.size() - 2]);
    if (!is_column) dims->push_back(b.back());
    return *dims;
  }
  void ProductOfIntegers() { Set(0, kOnnxInt32, Product(Dims(0), Dims(1))); }
  void ProductToFloat() { Set(0, ElementOf(2), Product(Dims(0), Dims(1))); }
  void DynamicProduct() { Set(0, ElementOf(0), Product(Dims(0), Dims(1))); }
  void QuantizedProduct() { Set(0, Has(7) ? ElementOf(7) : ElementOf(0), Product(Dims(0), Dims(3))); }
  void FusedMatMul() {
    RuleDims a = Dims(0);
    RuleDims b = Dims(1);
    // transBatch turns the first dimension behind the others but the last: [b.., m, k] stored as [m, b.., k].
    const auto turned = [&](RuleDims* dims, const std::string& side) {
      if (dims->size() < 2) return;
      if (node_.Integer("transBatch" + side, 0) != 0) std::rotate(dims->begin(), dims->begin() + 1, dims->end() - 1);
      if (node_.Integer("trans" + side, 0) != 0) std::swap(dims->back(), (*dims)[dims->size() - 2]);
    };
    turned(&a, "A");
    turned(&b, "B");
    Set(0, ElementOf(0), Product(std::move(a), std::move(b)));
  }
  void FusedGemm() {
    // QGemm has a scale and a zero point behind each factor.
    const bool is_quantized = node_.op == "QGemm";
    const std::size_t b = is_quantized ? 3 : 1;
    ExpectRank(0, 2);
    ExpectRank(b, 2);
    Set(0,
        !is_quantized ? ElementOf(0)
        : Has(8)      ? ElementOf(8)
                      : kOnnxFloat,
        {Dims(0)[node_.Integer("transA", 0) != 0 ? 1 : 0], Dims(b)[node_.Integer("transB", 0) != 0 ? 0 : 1]});
  }
  void MatMulNBits() {
    RuleDims dims = Dims(0);
    const std::int64_t columns = node_.Integer("N", 0);
    Expect(!dims.empty() && columns > 0 && dims.back() == node_.Integer("K", 0), "its attributes K and N do not fit");
    dims.back() = columns;
    Set(0, ElementOf(0), std::move(dims));
  }

  // [B, S, H * D], or [B, H, S, D].
  static bool IsSplit(const RuleDims& dims) { return dims.size() == 4; }
  static std::int64_t Part(std::int64_t whole, std::int64_t heads) {
    Expect(heads > 0 && whole % heads == 0, "its heads do not fit its inputs");
    return whole / heads;
  }
  OnnxAttentionSizes PlainAttention() const {
    const RuleDims& q = Dims(0);
    const RuleDims& k = Dims(1);
    const RuleDims& v = Dims(2);
    Expect(q.size() == k.size() && k.size() == v.size() && (q.size() == 3 || q.size() == 4),
           "its inputs have 3 or 4 dimensions each");
    OnnxAttentionSizes sizes;
    sizes.batch = q[0];
    sizes.heads = IsSplit(q) ? q[1] : node_.Integer("q_num_heads", 0);
    sizes.key_heads = IsSplit(k) ? k[1] : node_.Integer("kv_num_heads", 0);
    sizes.queries = IsSplit(q) ? q[2] : q[1];
    sizes.keys = IsSplit(k) ? k[2] : k[1];
    sizes.size = IsSplit(q) ? q[3] : Part(q[2], sizes.heads);
    sizes.value_size = IsSplit(v) ? v[3] : Part(v[2], sizes.key_heads);
    if (const RuleDims* const past = DimsOrNone(4)) {
      ExpectRank(4, 4);
      sizes.keys = Plus(sizes.keys, (*past)[2]);
    }
    return sizes;
  }
  void AttentionRule() {
    const OnnxAttentionSizes s = PlainAttention();
    Set(0, ElementOf(0),
        IsSplit(Dims(0)) ? RuleDims{s.batch, s.heads, s.queries, s.value_size}
                         : RuleDims{s.batch, s.queries, Times(s.heads, s.value_size)});
    Set(1, ElementOf(1), {s.batch, s.key_heads, s.keys, s.size});
    Set(2, ElementOf(2), {s.batch, s.key_heads, s.keys, s.value_size});
    Set(3, ElementOf(0), {s.batch, s.heads, s.queries, s.keys});
  }

  // Attention and QAttention of ONNX Runtime: one product makes queries, keys and values.
  OnnxAttentionSizes FusedAttention() const {
    ExpectRank(0, 3);
    ExpectRank(1, 2);
    OnnxAttentionSizes sizes;
    sizes.batch = Dims(0)[0];
    sizes.queries = Dims(0)[1];
    sizes.keys = sizes.queries;
    sizes.heads = node_.Integer("num_heads", 0);
    sizes.key_heads = sizes.heads;
    RuleDims widths = node_.Integers("qkv_hidden_sizes");
    if (widths.empty()) widths.assign(3, Part(Dims(1)[1], 3));
    Expect(widths.size() == 3, "its widths are not three");
    sizes.size = Part(widths[0], sizes.heads);
    sizes.value_size = Part(widths[2], sizes.heads);
    const std::size_t past = node_.op == "QAttention" ? 8 : 4;
    if (Has(past)) {
      ExpectRank(past, 5);
      sizes.keys = Plus(sizes.keys, Dims(past)[3]);
    }
    return sizes;
  }
  void FusedAttentionRule() {
    const OnnxAttentionSizes s = FusedAttention();
    const std::int32_t element = node_.op == "QAttention" ? ElementOf(3) : ElementOf(0);
    Set(0, element, {s.batch, s.queries, Times(s.heads, s.value_size)});
    Set(1, element, {2, s.batch, s.heads, s.keys, s.size});
  }

  OnnxAttentionSizes MultiHeadAttention() const {
    const RuleDims& q = Dims(0);
    OnnxAttentionSizes sizes;
    sizes.heads = node_.Integer("num_heads", 0);
    sizes.key_heads = sizes.heads;
    Expect(q.size() == 3 || q.size() == 5, "its query has 3 or 5 dimensions");
    sizes.batch = q[0];
    sizes.queries = q[1];
    if (q.size() == 5) {  // [B, S, H, 3, D]
      sizes.keys = q[1];
      sizes.size = q[4];
      sizes.value_size = q[4];
    } else {
      sizes.size = Part(q[2], sizes.heads);
      const RuleDims& k = Dims(1);
      Expect(k.size() >= 3 && k.size() <= 5, "its key has 3 to 5 dimensions");
      sizes.keys = k.size() == 4 ? k[2] : k[1];
      sizes.value_size = sizes.size;
      if (k.size() != 5) {
        const RuleDims& v = Dims(2);
        Expect(v.size() == 3 || v.size() == 4, "its value has 3 or 4 dimensions");
        sizes.value_size = v.size() == 4 ? v[3] : Part(v[2], sizes.heads);
      }
    }
    if (Has(6)) {
      ExpectRank(6, 4);
      sizes.keys = Plus(sizes.keys, Dims(6)[2]);
    }
    return sizes;
  }
  void MultiHeadAttentionRule() {
    const OnnxAttentionSizes s = MultiHeadAttention();
    Set(0, ElementOf(0), {s.batch, s.queries, Times(s.heads, s.value_size)});
    Set(1, ElementOf(0), {s.batch, s.heads, s.keys, s.size});
    Set(2, ElementOf(0), {s.batch, s.heads, s.keys, s.value_size});
  }

  OnnxAttentionSizes GroupQueryAttention() const {
    ExpectRank(0, 3);
    OnnxAttentionSizes sizes;
    sizes.batch = Dims(0)[0];
    sizes.queries = Dims(0)[1];
    sizes.heads = node_.Integer("num_heads", 0);
    sizes.key_heads = node_.Integer("kv_num_heads", 0);
    const std::int64_t parts = Has(1) ? sizes.heads : Plus(sizes.heads, Times(2, sizes.key_heads));
    sizes.size = Part(Dims(0)[2], parts);
    sizes.value_size = sizes.size;
    const OnnxContent* const total = Content(6);
    sizes.keys = sizes.queries;
    if (Has(3)) {
      ExpectRank(3, 4);
      sizes.keys = Plus(sizes.keys, Dims(3)[2]);
    }
    if (total != nullptr && total->integers.size() == 1 && total->integers[0] > 0) sizes.keys = total->integers[0];
    return sizes;
  }
  void GroupQueryAttentionRule() {
    const OnnxAttentionSizes s = GroupQueryAttention();
    Set(0, ElementOf(0), {s.batch, s.queries, Times(s.heads, s.size)});
    // The buffer of the past may be longer than what is used of it.
    const std::int64_t kept = Has(3) ? std::max(s.keys, Dims(3)[2]) : s.keys;
    for (const std::size_t output : {1U, 2U}) Set(output, ElementOf(0), {s.batch, s.key_heads, kept, s.size});
  }

  void SkipNorm() {
    Set(0, ElementOf(0), Dims(0));
    const RuleDims& x = Dims(0);
    RuleDims rows = x;
    if (!rows.empty()) rows.back() = 1;
    Set(1, kOnnxFloat, rows);
    Set(2, kOnnxFloat, rows);
    Set(3, ElementOf(0), x);
  }
  // Ids are [B, S], tables [n, D].
  void EmbedNorm() {
    ExpectRank(0, 2);
    ExpectRank(2, 2);
    const RuleDims out = {Dims(0)[0], Dims(0)[1], Dims(2)[1]};
    Set(0, ElementOf(2), out);
    Set(1, kOnnxInt32, {Dims(0)[0]});
    Set(2, ElementOf(2), out);
  }
  void QuantizedBinary() {
    const auto dims = BroadcastOnnx(Dims(0), Dims(3));
    if (!dims) NoShape("its inputs do not fit each other");
    Set(0, ElementOf(0), *dims);
  }
  // y_scale, y_zero_point, then tensor, scale and zero point of each part.
  void QuantizedConcat() {
    RuleDims dims = Dims(2);
    const std::size_t axis = AxisOf(node_.Integer("axis", 0), dims.size());
    for (std::size_t i = 5; i < node_.inputs.size(); i += 3) {
      Expect(Dims(i).size() == dims.size(), "its inputs do not fit each other");
      dims[axis] = Plus(dims[axis], Dims(i)[axis]);
    }
    Set(0, ElementOf(2), std::move(dims));
  }
  void GatherRows() {
    const RuleDims& x = Dims(0);
    const auto axis = static_cast<std::ptrdiff_t>(AxisOf(node_.Integer("gather_axis", 0), x.size()));
    RuleDims dims(x.begin(), x.begin() + axis);
    dims.insert(dims.end(), Dims(1).begin(), Dims(1).end());
    dims.insert(dims.end(), x.begin() + axis + 1, x.end());
    Expect(!dims.empty(), "its table has no dimension");
    // Two numbers of 4 bits share a byte.
    if (ElementOf(0) == kUint8Element && node_.Integer("bits", 4) == 4) dims.back() = Times(dims.back(), 2);
    Set(0, ElementOf(2), std::move(dims));
  }

  void Resize() {
    const RuleDims& x = Dims(0);
    RuleDims axes = node_.Integers("axes");
    if (axes.empty()) {
      for (std::size_t k = 0; k < x.size(); ++k) axes.push_back(static_cast<std::int64_t>(k));
    }
    RuleDims dims = x;
    const OnnxContent* const scales = Content(2);
    if (Has(3) && !(Content(3) != nullptr && Content(3)->size() == 0)) {
      const RuleDims& sizes = Known(3, "sizes");
      Expect(sizes.size() == axes.size(), "its sizes and axes do not fit");
      const std::string policy = node_.Text("keep_aspect_ratio_policy", "stretch");
      double scale = 0;
      for (std::size_t i = 0; i < axes.size(); ++i) {
        const auto size = static_cast<double>(x[AxisOf(axes[i], x.size())]);
        Expect(size > 0 && sizes[i] >= 0, "its sizes do not fit");
        const double own = static_cast<double>(sizes[i]) / size;
        scale = i == 0 ? own : policy == "not_larger" ? std::min(scale, own) : std::max(scale, own);
      }
      for (std::size_t i = 0; i < axes.size(); ++i) {
        std::int64_t& dim = dims[AxisOf(axes[i], x.size())];
        const double scaled = std::floor(static_cast<double>(dim) * scale + 0.5);
        Expect(scaled < 0x1p40, "its sizes do not fit");
        dim = policy == "stretch" ? sizes[i] : static_cast<std::int64_t>(scaled);
      }
    } else {
      if (scales == nullptr || scales->size() != axes.size()) NoShape("its scales are not constant");
      for (std::size_t i = 0; i < axes.size(); ++i) {
        std::int64_t& dim = dims[AxisOf(axes[i], x.size())];
        const double size = std::floor(static_cast<double>(dim) * scales->at(i));
        Expect(size >= 0 && size < 0x1p40, "its scales do not fit");
        dim = static_cast<std::int64_t>(size);
      }
    }
    Set(0, ElementOf(0), std::move(dims));
  }
  void CenterCropPad() {
    RuleDims dims = Dims(0);
    const RuleDims& sizes = Known(1, "sizes");
    RuleDims axes = node_.Integers("axes");
    if (axes.empty()) {
      for (std::size_t k = 0; k < dims.size(); ++k) axes.push_back(static_cast<std::int64_t>(k));
    }
    Expect(axes.size() == sizes.size(), "its sizes and axes do not fit");
    for (std::size_t i = 0; i < axes.size(); ++i) dims[AxisOf(axes[i], dims.size())] = sizes[i];
    Set(0, ElementOf(0), std::move(dims));
  }
  // Blocks [N, C * block, L] put together to an image.
  void Col2Im() {
    ExpectRank(0, 3);
    const RuleDims& image = Known(1, "sizes");
    std::int64_t block = 1;
    for (const std::int64_t size : Known(2, "blocks")) block = Times(block, size);
    RuleDims dims = {Dims(0)[0], Part(Dims(0)[1], block)};
    dims.insert(dims.end(), image.begin(), image.end());
    Set(0, ElementOf(0), std::move(dims));
  }
  void GridSample() {
    const RuleDims& grid = Dims(1);
    Expect(Dims(0).size() >= 3 && grid.size() == Dims(0).size(), "its image and its grid have no common rank");
    RuleDims dims = {Dims(0)[0], Dims(0)[1]};
    dims.insert(dims.end(), grid.begin() + 1, grid.end() - 1);
    Set(0, ElementOf(0), std::move(dims));
  }
  void AffineGrid() {
    const RuleDims& size = Known(1, "sizes");
    Expect(size.size() == 4 || size.size() == 5, "its sizes are not 4 or 5");
    RuleDims dims = {size[0]};
    dims.insert(dims.end(), size.begin() + 2, size.end());
    dims.push_back(static_cast<std::int64_t>(size.size()) - 2);
    Set(0, ElementOf(0), std::move(dims));
  }
  // Queries [B, T, H * size]; a state [B, heads of keys, size, size of a value] that goes from position to position.
  void LinearAttentionRule() {
    ExpectRank(0, 3);
    ExpectRank(2, 3);
    const std::int64_t heads = node_.Integer("q_num_heads", 0);
    const std::int64_t key_heads = node_.Integer("kv_num_heads", 0);
    const std::int64_t size = Part(Dims(0)[2], heads);
    const std::int64_t value_size = Part(Dims(2)[2], key_heads);
    Set(0, ElementOf(0), {Dims(0)[0], Dims(0)[1], Times(heads, value_size)});
    Set(1, Has(3) ? ElementOf(3) : ElementOf(0), {Dims(0)[0], key_heads, size, value_size});
  }
  void CausalConvolution() {
    ExpectRank(0, 3);
    ExpectRank(1, 3);
    Set(0, ElementOf(0), Dims(0));
    Set(1, ElementOf(0), {Dims(0)[0], Dims(0)[1], std::max<std::int64_t>(Dims(1)[2] - 1, 0)});
  }
  // How many parts there are at most depends on the texts; how many each has is an integer for each.
  void StringSplit() { Set(1, kOnnxInt64, Dims(0)); }
  void FeatureExtractor() {
    RuleDims dims = Dims(0);
    const auto count = OnnxElements(Dims(1));
    Expect(!dims.empty() && count.has_value(), "its features have no dimension");
    if (dims.size() == 1) dims.insert(dims.begin(), 1);
    dims.back() = *count;
    Set(0, ElementOf(0), std::move(dims));
  }
  void TreeEnsembleRule() {
    ExpectRank(0, 2);
    Set(0, ElementOf(0), {Dims(0)[0], node_.Integer("n_targets", 1)});
  }
  // Keys and values are texts, integers or numbers, by the attributes that are given.
  void LabelEncoderRule() {
    std::int32_t element = kOnnxUnknown;
    for (const auto& [attr, kind] : {std::pair{"values_strings", kOnnxString}, std::pair{"values_int64s", kOnnxInt64},
                                     std::pair{"values_floats", kOnnxFloat}}) {
      if (node_.Find(attr) != nullptr) element = kind;
    }
    Set(0, element, Dims(0));
  }
  // From opset 20 on the axis is an input.
  void Dft() {
    RuleDims dims = Dims(0);
    Expect(dims.size() >= 2, "its signal has no length");
    constexpr std::int64_t kAxisIsInput = 20;
    const bool is_whole = node_.Integer("onesided", 0) == 0 && !Has(1);
    if (is_whole) {
      // Whatever the axis is.
      dims.back() = 2;
      return Set(0, ElementOf(0), std::move(dims));
    }
    std::int64_t at = node_.Integer("axis", node_.opset >= kAxisIsInput ? -2 : 1);
    if (Has(2)) {
      Expect(Known(2, "axes").size() == 1, "its axis is no number");
      at = Known(2, "axes")[0];
    }
    const std::size_t axis = AxisOf(at, dims.size());
    if (Has(1)) {
      Expect(Known(1, "lengths").size() == 1, "its length is no number");
      dims[axis] = Known(1, "lengths")[0];
    }
    const bool is_inverse = node_.Integer("inverse", 0) != 0;
    if (node_.Integer("onesided", 0) != 0) {
      dims.back() = is_inverse ? 1 : 2;
      // A real signal has half of the frequencies.
      if (!is_inverse) dims[axis] = dims[axis] / 2 + 1;
      if (is_inverse && !Has(1)) dims[axis] = Times(2, std::max<std::int64_t>(dims[axis] - 1, 0));
    } else {
      dims.back() = 2;
    }
    Set(0, ElementOf(0), std::move(dims));
  }
  void OneHotRule() {
    const OnnxContent* const depth = Content(1);
    if (depth == nullptr || depth->size() != 1 || !(depth->at(0) >= 0 && depth->at(0) < 0x1p40)) {
      NoShape("its depth is not constant");
    }
    RuleDims dims = Dims(0);
    const std::size_t axis = AxisOf(node_.Integer("axis", -1), dims.size() + 1);
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<std::int64_t>(depth->at(0)));
    Set(0, ElementOf(2), std::move(dims));
  }
  void RangeRule() {
    for (const std::size_t i : {0U, 1U, 2U}) {
      if (Content(i) == nullptr || Content(i)->size() != 1) NoShape("its limits are not constant");
    }
    const double step = Content(2)->at(0);
    const double count = step == 0 ? 0 : std::ceil((Content(1)->at(0) - Content(0)->at(0)) / step);
    Expect(count < 0x1p40, "it is too large");
    Set(0, ElementOf(0), {count > 0 ? static_cast<std::int64_t>(count) : 0});
  }
  void ExpandRule() {
    const auto dims = BroadcastOnnx(Dims(0), Known(1, "sizes"));
    if (!dims) NoShape("its sizes do not fit");
    Set(0, ElementOf(0), *dims);
  }
  void TileRule() {
    RuleDims dims = Dims(0);
    const RuleDims& counts = Known(1, "repeats");
    Expect(counts.size() == dims.size(), "its repeats do not fit");
    for (std::size_t k = 0; k < dims.size(); ++k) dims[k] = Times(dims[k], counts[k]);
    for (const std::int64_t dim : dims) Expect(dim >= 0, "its repeats are negative");
    Set(0, ElementOf(0), std::move(dims));
  }
  void ScalarInteger() { Set(0, kOnnxInt64, {}); }
  void ScalarBool() { Set(0, kOnnxBool, {}); }

  const OnnxNode& node_;
  const OnnxOperands& inputs_;
  Types outputs_;
};

// In the order of their names.
const OnnxRule::Row* OnnxRule::Find(const OnnxNode& node) {
  static constexpr int kAlways = 0;
  static constexpr Row kRows[] = {
      {"AffineGrid", &OnnxRule::AffineGrid},
      {"Attention", &OnnxRule::AttentionRule, kAlways},
      {"AveragePool", &OnnxRule::Pool, kAlways},
      {"BitCast", &OnnxRule::CastTo},
      {"BitwiseAnd", &OnnxRule::Broadcast},
      {"BitwiseNot", &OnnxRule::SameAsFirst},
      {"BitwiseOr", &OnnxRule::Broadcast},
      {"BitwiseXor", &OnnxRule::Broadcast},
      {"Cast", &OnnxRule::CastTo},
      {"CastLike", &OnnxRule::CastLike},
      {"CausalConvWithState", &OnnxRule::CausalConvolution},
      {"CenterCropPad", &OnnxRule::CenterCropPad},
      {"Col2Im", &OnnxRule::Col2Im},
      {"Conv", &OnnxRule::Convolution},
      {"ConvInteger", &OnnxRule::ConvolutionOfIntegers},
      {"CumProd", &OnnxRule::SameAsFirst},
      {"DFT", &OnnxRule::Dft, kAlways},
      {"DeformConv", &OnnxRule::Convolution},
      {"DequantizeLinear", &OnnxRule::Dequantize, kAlways},
      {"DynamicQuantizeLinear", &OnnxRule::DynamicQuantize},
      {"Einsum", &OnnxRule::EinsumRule, kAlways},
      {"Equal", &OnnxRule::Comparison},
      {"Expand", &OnnxRule::ExpandRule},
      {"Gelu", &OnnxRule::SameAsFirst},
      {"GreaterOrEqual", &OnnxRule::Comparison},
      {"GridSample", &OnnxRule::GridSample},
      {"GroupNormalization", &OnnxRule::SameAsFirst},
      {"LayerNormalization", &OnnxRule::LayerNorm, kAlways},
      {"LessOrEqual", &OnnxRule::Comparison},
      {"LinearAttention", &OnnxRule::LinearAttentionRule},
      {"LpPool", &OnnxRule::Pool, 18},
      {"MatMulInteger", &OnnxRule::ProductOfIntegers},
      {"MaxPool", &OnnxRule::Pool, kAlways},
      {"MeanVarianceNormalization", &OnnxRule::SameAsFirst},
      {"Mish", &OnnxRule::SameAsFirst},
      {"OneHot", &OnnxRule::OneHotRule},
      {"OptionalGetElement", &OnnxRule::SameAsFirst},
      {"OptionalHasElement", &OnnxRule::ScalarBool},
      {"Pad", &OnnxRule::Pad, 18},
      {"QLinearConv", &OnnxRule::QuantizedConvolution},
      {"QLinearMatMul", &OnnxRule::QuantizedProduct},
      {"QuantizeLinear", &OnnxRule::Quantize, kAlways},
      {"RMSNormalization", &OnnxRule::Normalised},
      {"Range", &OnnxRule::RangeRule},
      {"ReduceL1", &OnnxRule::Reduce, 18},
      {"ReduceL2", &OnnxRule::Reduce, 18},
      {"ReduceLogSum", &OnnxRule::Reduce, 18},
      {"ReduceLogSumExp", &OnnxRule::Reduce, 18},
      {"ReduceMax", &OnnxRule::Reduce, 18},
      {"ReduceMean", &OnnxRule::Reduce, 18},
      {"ReduceMin", &OnnxRule::Reduce, 18},
      {"ReduceProd", &OnnxRule::Reduce, 18},
      {"ReduceSum", &OnnxRule::Reduce, 18},
      {"ReduceSumSquare", &OnnxRule::Reduce, 18},
      {"RegexFullMatch", &OnnxRule::Comparison},
      {"Resize", &OnnxRule::Resize, 18},
      {"RotaryEmbedding", &OnnxRule::SameAsFirst},
      {"SequenceLength", &OnnxRule::ScalarInteger},
      {"SimplifiedLayerNormalization", &OnnxRule::Normalised},
      {"Split", &OnnxRule::Split, 18},
      {"StringConcat", &OnnxRule::Broadcast},
      {"StringSplit", &OnnxRule::StringSplit},
      {"SwiGLU", &OnnxRule::SameAsFirst},
      {"Swish", &OnnxRule::SameAsFirst},
      {"TensorScatter", &OnnxRule::SameAsFirst},
      {"Tile", &OnnxRule::TileRule},
      {"ai.onnx.ml::ArrayFeatureExtractor", &OnnxRule::FeatureExtractor},
      {"ai.onnx.ml::Binarizer", &OnnxRule::SameAsFirst},
      {"ai.onnx.ml::LabelEncoder", &OnnxRule::LabelEncoderRule},
      {"ai.onnx.ml::TreeEnsemble", &OnnxRule::TreeEnsembleRule},
      {"ai.onnx.preview::FlexAttention", &OnnxRule::AttentionRule},
      {"com.microsoft::Attention", &OnnxRule::FusedAttentionRule},
      {"com.microsoft::BiasAdd", &OnnxRule::SameAsFirst},
      {"com.microsoft::BiasGelu", &OnnxRule::SameAsFirst},
      {"com.microsoft::BiasSoftmax", &OnnxRule::SameAsFirst},
      {"com.microsoft::DequantizeLinear", &OnnxRule::Dequantize},
      {"com.microsoft::DynamicQuantizeMatMul", &OnnxRule::DynamicProduct},
      {"com.microsoft::EmbedLayerNormalization", &OnnxRule::EmbedNorm},
      {"com.microsoft::FastGelu", &OnnxRule::SameAsFirst},
      {"com.microsoft::FusedConv", &OnnxRule::Convolution},
      {"com.microsoft::FusedGemm", &OnnxRule::FusedGemm},
      {"com.microsoft::FusedMatMul", &OnnxRule::FusedMatMul},
      {"com.microsoft::GatherBlockQuantized", &OnnxRule::GatherRows},
      {"com.microsoft::Gelu", &OnnxRule::SameAsFirst},
      {"com.microsoft::GroupNorm", &OnnxRule::SameAsFirst},
      {"com.microsoft::GroupQueryAttention", &OnnxRule::GroupQueryAttentionRule},
      {"com.microsoft::MatMulInteger16", &OnnxRule::ProductOfIntegers},
      {"com.microsoft::MatMulIntegerToFloat", &OnnxRule::ProductToFloat},
      {"com.microsoft::MatMulNBits", &OnnxRule::MatMulNBits},
      {"com.microsoft::MoE", &OnnxRule::SameAsFirst},
      {"com.microsoft::MultiHeadAttention", &OnnxRule::MultiHeadAttentionRule},
      {"com.microsoft::QAttention", &OnnxRule::FusedAttentionRule},
      {"com.microsoft::QGemm", &OnnxRule::FusedGemm},
      {"com.microsoft::QLinearAdd", &OnnxRule::QuantizedBinary},
      {"com.microsoft::QLinearAveragePool", &OnnxRule::Pool},
      {"com.microsoft::QLinearConcat", &OnnxRule::QuantizedConcat},
      {"com.microsoft::QLinearConv", &OnnxRule::QuantizedConvolution},
      {"com.microsoft::QLinearGlobalAveragePool", &OnnxRule::GlobalPool},
      {"com.microsoft::QLinearLeakyRelu", &OnnxRule::SameAsFirst},
      {"com.microsoft::QLinearMul", &OnnxRule::QuantizedBinary},
      {"com.microsoft::QLinearReduceMean", &OnnxRule::Reduce},
      {"com.microsoft::QLinearSigmoid", &OnnxRule::SameAsFirst},
      {"com.microsoft::QLinearSoftmax", &OnnxRule::SameAsFirst},
      {"com.microsoft::QMoE", &OnnxRule::SameAsFirst},
      {"com.microsoft::QuantizeLinear", &OnnxRule::Quantize},
      {"com.microsoft::QuickGelu", &OnnxRule::SameAsFirst},
      {"com.microsoft::RotaryEmbedding", &OnnxRule::SameAsFirst},
      {"com.microsoft::SimplifiedLayerNormalization", &OnnxRule::Normalised},
      {"com.microsoft::SkipLayerNormalization", &OnnxRule::SkipNorm},
      {"com.microsoft::SkipSimplifiedLayerNormalization", &OnnxRule::SkipNorm},
      {"com.microsoft::TransposeMatMul", &OnnxRule::FusedMatMul},
  };
  const std::string name = node.domain.empty() ? node.op : node.domain + "::" + node.op;
  const auto found = std::lower_bound(std::begin(kRows), std::end(kRows), name,
                                      [](const Row& row, const std::string& op) { return row.op < op; });
  return found == std::end(kRows) || found->op != name ? nullptr : found;
}

}  // namespace

bool PrefersOnnxRule(const OnnxNode& node) {
  const OnnxRule::Row* const row = OnnxRule::Find(node);
  return row != nullptr && node.opset >= row->since;
}

std::optional<std::vector<OnnxType>> OnnxTypesByRule(const OnnxNode& node, const OnnxOperands& inputs) {
  const OnnxRule::Row* const row = OnnxRule::Find(node);
  if (row == nullptr) return std::nullopt;
  return OnnxRule(node, inputs).Run(row->function);
}

std::optional<OnnxAttentionSizes> OnnxAttentionOf(const OnnxNode& node, const OnnxOperands& inputs) {
  try {
    return OnnxRule(node, inputs).AttentionSizes();
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

}  // namespace emplace::datasets
