#include "datasets/importers/onnx_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "datasets/importers/onnx_rules.h"
#include "sim/base/json_build.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

using OnnxDims = std::vector<std::int64_t>;

OnnxDims Joined(OnnxDims a, const OnnxDims& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Elements, or a number that no shape has: products beyond int64 are refused elsewhere.
std::int64_t Product(const OnnxDims& dims) {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims) {
    if (__builtin_mul_overflow(product, dim, &product)) return std::numeric_limits<std::int64_t>::max();
  }
  return product;
}

JsonValue ListOf(const OnnxDims& values) {
  JsonList list;
  for (const std::int64_t value : values) list.push_back(ToJson(value));
  return ToJson(std::move(list));
}

std::string AttrText(JsonObject attrs) { return attrs.empty() ? "" : JsonText(ToJson(std::move(attrs))); }

// The ops of one node.
class Planner {
 public:
  Planner(const OnnxNode& node, const OnnxValues& values) : node_(node), values_(values) {}

  std::vector<OnnxPlannedOp> Plan() {
    if (!node_.domain.empty() || node_.subgraph_nodes > 0 || !AllWhole()) return {};
    const Rule rule = FindRule();
    if (rule == nullptr || !(this->*rule)()) return {};
    return std::move(ops_);
  }

 private:
  using Rule = bool (Planner::*)();
  struct Row {
    std::string_view op;
    Rule rule;
    std::string_view kind = {};
  };

  bool AllWhole() const {
    for (const auto* const names : {&node_.inputs, &node_.outputs}) {
      for (const std::string& name : *names) {
        if (name.empty()) continue;
        const OnnxType* const type = values_.Find(name);
        if (type == nullptr || !type->IsWhole()) return false;
      }
    }
    return !node_.outputs.empty() && !node_.outputs[0].empty();
  }

  bool Has(std::size_t input) const { return input < node_.inputs.size() && !node_.inputs[input].empty(); }
  const std::string& In(std::size_t input) const { return node_.inputs[input]; }
  const std::string& Out() const { return node_.outputs[0]; }
  const OnnxType& Type(const std::string& name) const { return *values_.Find(name); }
  const OnnxDims& Dims(const std::string& name) const { return *Type(name).dims; }
  OnnxType Like(const std::string& name, OnnxDims dims) const {
    return {.is_tensor = true, .element = Type(name).element, .dims = std::move(dims)};
  }
  bool HasOutput(std::size_t output) const { return output < node_.outputs.size() && !node_.outputs[output].empty(); }
  // Of `rank`, counted from the end if negative; nothing if there is no such axis.
  std::optional<std::size_t> Axis(std::int64_t axis, std::size_t rank) const {
    if (axis < 0) axis += static_cast<std::int64_t>(rank);
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return std::nullopt;
    return static_cast<std::size_t>(axis);
  }
  // An attribute that became an input in a later opset.
  std::optional<OnnxDims> Given(const std::string& attr, std::size_t input) const {
    if (node_.Find(attr) != nullptr) return node_.Integers(attr);
    if (!Has(input)) return std::nullopt;
    const auto* const constant = values_.Constant(In(input));
    return constant == nullptr ? std::nullopt : std::optional(*constant);
  }
  // The inputs from `first` on only say what is to be done: waited for, if they are computed.
  std::vector<std::string> Waits(std::size_t first) const {
    std::vector<std::string> waits;
    for (std::size_t i = first; i < node_.inputs.size(); ++i) {
      if (Has(i) && values_.Constant(In(i)) == nullptr) waits.push_back(In(i));
    }
    return waits;
  }

  OnnxPlannedOp& Add(std::string suffix, std::string_view kind, std::vector<std::string> inputs, std::string output,
                     OnnxType type, JsonObject attrs = {}) {
    OnnxPlannedOp op;
    op.suffix = std::move(suffix);
    op.kind = kind;
    op.inputs = std::move(inputs);
    op.outputs.emplace_back(std::move(output), std::move(type));
    op.attrs = AttrText(std::move(attrs));
    ops_.push_back(std::move(op));
    return ops_.back();
  }
  // The main op, or what writes the node's first output.
  OnnxPlannedOp& Last(std::string_view kind, std::vector<std::string> inputs, JsonObject attrs = {},
                      std::string suffix = {}) {
    return Add(std::move(suffix), kind, std::move(inputs), Out(), Type(Out()), std::move(attrs));
  }
  // A value between ops of this node. ONNX has no value names with a line break.
  std::string Between() { return fmt::format("\n{}\n{}", ops_.size(), Out()); }
  // Another view of a value; the value itself where it has that shape.
  std::string Viewed(const std::string& name, const OnnxType& type, const OnnxDims& dims, std::string suffix) {
    if (*type.dims == dims) return name;
    std::string view = Between();
    Add(std::move(suffix), "reshape", {name}, view, {.is_tensor = true, .element = type.element, .dims = dims});
    return view;
  }
  // The main op with the output in another shape, and the node's output a view of that.
  void LastViewed(std::string_view kind, std::vector<std::string> inputs, OnnxDims dims, JsonObject attrs) {
    if (dims == Dims(Out())) {
      Last(kind, std::move(inputs), std::move(attrs));
      return;
    }
    const std::string flat = Between();
    Add("", kind, std::move(inputs), flat, Like(Out(), std::move(dims)), std::move(attrs));
    Last("reshape", {flat}, {}, "reshape");
  }
  // Adds the bias in input `bias` to `sum`, or renames `sum`'s op to write the output. `sum` is written by the last op.
  void LastWithBias(const std::string& sum, std::size_t bias) {
    if (!Has(bias)) {
      ops_.back().outputs[0].first = Out();
      return;
    }
    Last("bias_add", {sum, In(bias)}, {}, "bias_add");
  }

  template <std::size_t kNumInputs>
  bool SameKind() {
    for (std::size_t i = 0; i < kNumInputs; ++i) {
      if (!Has(i)) return false;
    }
    Last(kind_, {node_.inputs.begin(), node_.inputs.begin() + kNumInputs});
    return true;
  }
  // `add` with the old attribute `axis`: the bias of a convolution.
  bool Binary() {
    if (node_.op == "Add" && node_.opset < 7 && Has(1) && Dims(In(1)).size() == 1 && node_.Find("axis") != nullptr) {
      Last("bias_add", {In(0), In(1)});
      return true;
    }
    return SameKind<2>();
  }
  bool View() {
    if (!Has(0)) return false;
    Last("reshape", {In(0)}).waits = Waits(1);
    return true;
  }
  // Where it changes nothing.
  bool CastOp() { return Type(In(0)).element == Type(Out()).element && View(); }
  bool Expand() { return Dims(In(0)) == Dims(Out()) && View(); }
  bool Sum() {
    if (node_.inputs.size() == 1) return View();
    if (node_.inputs.size() == 2) {
      kind_ = "add";
      return SameKind<2>();
    }
    Last("add_n", node_.inputs);
    return true;
  }
  // Attributes `stride`, `padding` and `dilation` of a window of two dimensions from `x` to `y`.
  std::optional<JsonObject> WindowAttrs(const OnnxDims& x, const OnnxDims& window, const OnnxDims& y,
                                        bool is_pool) const {
    const auto pair = [&](const std::string& attr, std::int64_t absent) {
      OnnxDims values = node_.Integers(attr);
      if (values.empty()) values = {absent, absent};
      if (values.size() == 1) values.insert(values.begin(), absent);
      return values;
    };
    const OnnxDims stride = pair("strides", 1);
    const OnnxDims dilation = pair("dilations", 1);
    if (stride.size() != 2 || dilation.size() != 2) return std::nullopt;
    JsonObject attrs;
    if (is_pool) AddMember(&attrs, "window", ListOf(window));
    AddMember(&attrs, "stride", ListOf(stride));
    const std::string automatic = node_.Text("auto_pad", "NOTSET");
    OnnxDims pads = node_.Integers("pads");
    if (pads.empty()) pads = {0, 0, 0, 0};
    if (pads.size() == 2) pads = {0, pads[0], 0, pads[1]};
    if (pads.size() != 4) return std::nullopt;
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      AddMember(&attrs, "padding", "same");
    } else {
      if (automatic == "VALID") pads = {0, 0, 0, 0};
      if (const auto padding = PaddingOf(x, window, y, stride, dilation, pads)) {
        AddMember(&attrs, "padding", *padding);
      } else {
        return std::nullopt;
      }
    }
    if (dilation != OnnxDims{1, 1}) AddMember(&attrs, "dilation", ListOf(dilation));
    return attrs;
  }
  static std::optional<JsonValue> PaddingOf(const OnnxDims& x, const OnnxDims& window, const OnnxDims& y,
                                            const OnnxDims& stride, const OnnxDims& dilation, OnnxDims pads) {
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    bool is_same = true;
    for (std::size_t i = 0; i < 2; ++i) {
      for (const std::int64_t value : {x[2 + i], window[i], y[2 + i], stride[i], dilation[i]}) {
        if (value < 1 || value > kMost) return std::nullopt;
      }
      if (pads[i] < 0 || pads[i] > kMost || pads[2 + i] < 0 || pads[2 + i] > kMost) return std::nullopt;
      const auto reach = static_cast<double>(window[i] - 1) * static_cast<double>(dilation[i]) + 1;
      const double needed = static_cast<double>(y[2 + i] - 1) * static_cast<double>(stride[i]) + reach;
      const double size = static_cast<double>(x[2 + i]);
      // With ceil_mode the last window reaches beyond the padding.
      const double missing = needed - size - static_cast<double>(pads[i] + pads[2 + i]);
      if (missing > static_cast<double>(kMost)) return std::nullopt;
      if (missing > 0) pads[2 + i] += static_cast<std::int64_t>(missing);
      const auto same = static_cast<std::int64_t>(std::max(needed - size, 0.0));
      is_same = is_same && y[2 + i] == (x[2 + i] - 1) / stride[i] + 1 && pads[i] == same / 2 &&
                pads[2 + i] == same - same / 2;
    }
    if (pads == OnnxDims{0, 0, 0, 0}) return ToJson("valid");
    if (pads[0] == pads[2] && pads[1] == pads[3]) return ListOf({pads[0], pads[1]});
    if (is_same) return ToJson("same");
    return std::nullopt;
  }

  // Of rank 3, such as sound, with a dimension of 1 in between.
  static OnnxDims AsImage(OnnxDims dims) {
    if (dims.size() == 3) dims.insert(dims.begin() + 2, 1);
    return dims;
  }

  bool Conv() {
    if (!Has(1) || Dims(In(0)).size() < 3 || Dims(In(0)).size() > 4 || Dims(In(1)).size() != Dims(In(0)).size()) {
      return false;
    }
    const OnnxDims x_dims = AsImage(Dims(In(0)));
    OnnxDims w_dims = AsImage(Dims(In(1)));
    const OnnxDims y_dims = AsImage(Dims(Out()));
    if (y_dims.size() != 4) return false;
    const std::int64_t groups = node_.Integer("group", 1);
    auto attrs = WindowAttrs(x_dims, {w_dims[2], w_dims[3]}, y_dims, /*is_pool=*/false);
    if (!attrs) return false;
    const bool depthwise = groups > 1 && groups == x_dims[1] && w_dims[1] == 1 && w_dims[0] % groups == 0;
    if (depthwise) {
      w_dims = {groups, w_dims[0] / groups, w_dims[2], w_dims[3]};
    } else if (groups != 1) {
      return false;
    }
    const std::string x = Viewed(In(0), Type(In(0)), x_dims, "image");
    const std::string w = Viewed(In(1), Type(In(1)), w_dims, "filter");
    const bool viewed = y_dims != Dims(Out());
    std::string y = Between();
    Add("", depthwise ? "depthwise_conv2d" : "conv2d", {x, w}, y, Like(Out(), y_dims), std::move(*attrs));
    if (!viewed) {
      LastWithBias(y, 2);
      return true;
    }
    if (Has(2)) {
      const std::string sum = Between();
      Add("bias_add", "bias_add", {y, In(2)}, sum, Like(Out(), y_dims));
      y = sum;
    }
    Last("reshape", {y}, {}, "reshape");
    return true;
  }
  // A transposed convolution spreads each input over its window: the gradient of a convolution.
  bool ConvTranspose() {
    if (!Has(1) || Dims(In(0)).size() != 4 || Dims(In(1)).size() != 4 || Dims(Out()).size() != 4) return false;
    const OnnxDims& w = Dims(In(1));
    if (node_.Integer("group", 1) != 1) return false;
    auto attrs = WindowAttrs(Dims(Out()), {w[2], w[3]}, Dims(In(0)), /*is_pool=*/false);
    if (!attrs) return false;
    const std::string y = Between();
    Add("", "conv2d_grad_input", {In(1), In(0)}, y, Type(Out()), std::move(*attrs));
    LastWithBias(y, 2);
    return true;
  }

  bool Pool() {
    if (HasOutput(1) || Dims(In(0)).size() < 3 || Dims(In(0)).size() > 4) return false;
    const OnnxDims x_dims = AsImage(Dims(In(0)));
    const OnnxDims y_dims = AsImage(Dims(Out()));
    OnnxDims window = node_.Integers("kernel_shape");
    if (window.size() == 1) window.insert(window.begin(), 1);
    if (window.size() != 2 || y_dims.size() != 4) return false;
    auto attrs = WindowAttrs(x_dims, window, y_dims, /*is_pool=*/true);
    if (!attrs) return false;
    const std::string x = Viewed(In(0), Type(In(0)), x_dims, "image");
    LastViewed(kind_, {x}, y_dims, std::move(*attrs));
    return true;
  }
  bool GlobalPool() {
    const OnnxDims& dims = Dims(In(0));
    if (dims.size() < 3 || Dims(Out()).size() < 2) return false;
    const OnnxDims x_dims = {dims[0], dims[1], Product({dims.begin() + 2, dims.end() - 1}), dims.back()};
    JsonObject attrs;
    AddMember(&attrs, "window", ListOf({x_dims[2], x_dims[3]}));
    const std::string x = Viewed(In(0), Type(In(0)), x_dims, "image");
    LastViewed(kind_, {x}, {Dims(Out())[0], Dims(Out())[1], 1, 1}, std::move(attrs));
    return true;
  }

  bool MatMul() {
    if (!Has(1)) return false;
    const OnnxDims& a = Dims(In(0));
    const OnnxDims& b = Dims(In(1));
    const OnnxDims& y = Dims(Out());
    if (a.size() < 2 || b.size() < 2 || y.size() < 2) return false;
    if (Product({b.begin(), b.end() - 2}) == 1 && y.size() == a.size()) {
      const std::string matrix = Viewed(In(1), Type(In(1)), {b.end() - 2, b.end()}, "matrix");
      Last("matmul", {In(0), matrix});
      return true;
    }
    if (a.size() != b.size()) return false;
    Last("batch_matmul", {In(0), In(1)});
    return true;
  }
  bool Gemm() {
    if (!Has(1)) return false;
    JsonObject attrs;
    if (node_.Integer("transA", 0) != 0) AddMember(&attrs, "transpose_a", true);
    if (node_.Integer("transB", 0) != 0) AddMember(&attrs, "transpose_b", true);
    std::string y = Between();
    Add("", "matmul", {In(0), In(1)}, y, Type(Out()), std::move(attrs));
    const auto scaled = [&](const std::string& attr, const std::string& x, OnnxType type) {
      const double factor = node_.Number(attr, 1);
      if (factor == 1) return x;
      JsonObject by;
      AddMember(&by, "factor", factor);
      std::string product = Between();
      Add(attr, "scale", {x}, product, std::move(type), std::move(by));
      return product;
    };
    y = scaled("alpha", y, Type(Out()));
    if (!Has(2)) {
      ops_.back().outputs[0].first = Out();
      return true;
    }
    const std::string bias = scaled("beta", In(2), Type(In(2)));
    const bool is_row = Dims(In(2)).size() == 1 && Dims(In(2))[0] == Dims(Out()).back();
    Last(is_row ? "bias_add" : "add", {y, bias}, {}, is_row ? "bias_add" : "add");
    return true;
  }

  bool BatchNormalization() {
    if (node_.inputs.size() != 5 || !Has(4)) return false;
    if (node_.Integer("training_mode", 0) == 0) return false;
    OnnxPlannedOp& op = Last("batch_norm", {In(0), In(1), In(2)});
    for (std::size_t i = 1; i <= 2; ++i) {
      op.outputs.emplace_back(HasOutput(i) ? node_.outputs[i] : "", Type(In(2)));
    }
    return true;
  }
  bool LayerNormalization() {
    if (!Has(2) || HasOutput(1) || HasOutput(2)) return false;
    const OnnxDims& dims = Dims(In(0));
    const auto axis = Axis(node_.Integer("axis", -1), dims.size());
    if (!axis) return false;
    const OnnxDims rows(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(*axis));
    const OnnxDims width = {Product({dims.begin() + static_cast<std::ptrdiff_t>(*axis), dims.end()})};
    const OnnxDims flat = Joined(rows, width);
    const std::string x = Viewed(In(0), Type(In(0)), flat, "rows");
    const std::string scale = Viewed(In(1), Type(In(1)), width, "scale");
    const std::string offset = Viewed(In(2), Type(In(2)), width, "offset");
    LastViewed("layer_norm", {x, scale, offset}, flat, {});
    for (OnnxPlannedOp& op : ops_) {
      if (op.kind != "layer_norm") continue;
      for (int i = 0; i < 2; ++i) op.outputs.emplace_back("", Like(Out(), rows));
    }
    return true;
  }
  bool Dropout() {
    const auto* const training = Has(2) ? values_.Constant(In(2)) : nullptr;
    if (training != nullptr && *training == std::vector<std::int64_t>{1}) {
      OnnxPlannedOp& op = Last("dropout", {In(0)});
      constexpr std::int32_t kBool = 9;
      op.outputs.emplace_back(HasOutput(1) ? node_.outputs[1] : "",
                              OnnxType{.is_tensor = true, .element = kBool, .dims = Dims(Out())});
      return true;
    }
    Last("reshape", {In(0)});
    if (HasOutput(1)) Add("mask", "fill", {}, node_.outputs[1], Type(node_.outputs[1]));
    return true;
  }
  bool Softmax() {
    constexpr std::int64_t kAlongOneAxis = 13;  // before, all dimensions from the axis on were one
    const OnnxDims& dims = Dims(In(0));
    const bool is_old = node_.opset < kAlongOneAxis;
    const auto axis = Axis(node_.Integer("axis", is_old ? 1 : -1), dims.size());
    if (!axis) return false;
    const auto first = dims.begin() + static_cast<std::ptrdiff_t>(*axis);
    if (!is_old && Product({first + 1, dims.end()}) != 1) return false;
    const OnnxDims rows = Joined({dims.begin(), first}, {Product({first, dims.end()})});
    const std::string x = Viewed(In(0), Type(In(0)), rows, "rows");
    LastViewed("softmax", {x}, rows, {});
    return true;
  }

  bool ConcatOp() {
    if (node_.inputs.size() == 1) return View();
    const auto axis = Axis(node_.Integer("axis", 1), Dims(Out()).size());
    if (!axis) return false;
    JsonObject attrs;
    AddMember(&attrs, "axis", *axis);
    Last("concat", node_.inputs, std::move(attrs));
    return true;
  }
  bool SplitOp() {
    const auto axis = Axis(node_.Integer("axis", 0), Dims(In(0)).size());
    if (!axis) return false;
    if (node_.outputs.size() == 1) return View();
    JsonObject attrs;
    AddMember(&attrs, "axis", *axis);
    OnnxPlannedOp op;
    op.kind = "split";
    op.inputs = {In(0)};
    op.waits = Waits(1);
    op.attrs = AttrText(std::move(attrs));
    for (const std::string& output : node_.outputs) {
      if (output.empty()) return false;
      op.outputs.emplace_back(output, Type(output));
    }
    ops_.push_back(std::move(op));
    return true;
  }
  bool TransposeOp() {
    JsonObject attrs;
    if (node_.Find("perm") != nullptr) AddMember(&attrs, "order", ListOf(node_.Integers("perm")));
    Last("transpose", {In(0)}, std::move(attrs));
    return true;
  }
  bool SliceOp() {
    JsonObject attrs;
    const auto starts = Given("starts", 1);
    const std::size_t rank = Dims(In(0)).size();
    if (starts) {
      const auto axes = Given("axes", 3);
      const auto steps = Given("steps", 4);
      OnnxDims begin(rank, 0);
      bool is_block = !steps || std::all_of(steps->begin(), steps->end(), [](std::int64_t step) { return step == 1; });
      for (std::size_t i = 0; i < starts->size(); ++i) {
        const auto axis = Axis(axes && i < axes->size() ? (*axes)[i] : static_cast<std::int64_t>(i), rank);
        if (!axis) return false;
        const std::int64_t length = Dims(In(0))[*axis];
        const std::int64_t start = (*starts)[i];
        begin[*axis] = std::clamp<std::int64_t>(start < 0 && start >= -length ? start + length : start, 0, length);
      }
      if (is_block) {
        AddMember(&attrs, "begin", ListOf(begin));
      } else if (steps) {
        AddMember(&attrs, "steps", ListOf(*steps));
      }
    }
    Last("slice", {In(0)}, std::move(attrs)).waits = Waits(1);
    return true;
  }
  bool PadOp() {
    JsonObject attrs;
    const auto pads = Given("pads", 1);
    const std::size_t rank = Dims(In(0)).size();
    if (pads && pads->size() == 2 * rank) {
      AddMember(&attrs, "before", ListOf({pads->begin(), pads->begin() + static_cast<std::ptrdiff_t>(rank)}));
    }
    Last("pad", {In(0)}, std::move(attrs)).waits = Waits(1);
    return true;
  }
  bool GatherOp() {
    if (!Has(1)) return false;
    const OnnxDims& dims = Dims(In(0));
    const auto axis = Axis(node_.Integer("axis", 0), dims.size());
    if (!axis) return false;
    const auto first = dims.begin() + static_cast<std::ptrdiff_t>(*axis);
    if (Product({dims.begin(), first}) != 1) {
      if (!Dims(In(1)).empty()) return false;
      // One index along an axis in the middle: a slice.
      OnnxDims part = dims;
      part[*axis] = 1;
      JsonObject attrs;
      const auto* const index = values_.Constant(In(1));
      if (index != nullptr && index->size() == 1) {
        OnnxDims begin(dims.size(), 0);
        begin[*axis] = std::clamp<std::int64_t>((*index)[0] < 0 ? (*index)[0] + dims[*axis] : (*index)[0], 0,
                                                std::max<std::int64_t>(dims[*axis] - 1, 0));
        AddMember(&attrs, "begin", ListOf(begin));
      }
      LastViewed("slice", {In(0)}, part, std::move(attrs));
      for (OnnxPlannedOp& op : ops_) {
        if (op.kind == "slice") op.waits = Waits(1);
      }
      return true;
    }
    const std::string table = Viewed(In(0), Type(In(0)), {dims[*axis], Product({first + 1, dims.end()})}, "table");
    Last("gather", {table, In(1)});
    return true;
  }
  bool ReduceOp() {
    JsonObject attrs;
    const auto axes = Given("axes", 1);
    if (Has(1) && !axes) return false;
    if ((!axes || axes->empty()) && node_.Integer("noop_with_empty_axes", 0) != 0) return View();
    if (axes && !axes->empty()) AddMember(&attrs, "axes", ListOf(*axes));
    Last(kind_, {In(0)}, std::move(attrs));
    return true;
  }
  bool FillOp() {
    Last("fill", {}).waits = Waits(0);
    return true;
  }
  // The dimensions of blocks as dimensions of their own, in another order. Source: operators of ONNX, DepthToSpace.
  bool Blocks() {
    const OnnxDims& x = Dims(In(0));
    const OnnxDims& y = Dims(Out());
    const std::int64_t b = node_.Integer("blocksize", 0);
    if (x.size() != 4 || y.size() != 4 || b < 1) return false;
    OnnxDims apart;
    OnnxDims order;
    if (node_.op == "SpaceToDepth") {
      apart = {x[0], x[1], x[2] / b, b, x[3] / b, b};
      order = {0, 3, 5, 1, 2, 4};
    } else if (node_.Text("mode", "DCR") == "CRD") {
      apart = {x[0], y[1], b, b, x[2], x[3]};
      order = {0, 1, 4, 2, 5, 3};
    } else {
      apart = {x[0], b, b, y[1], x[2], x[3]};
      order = {0, 3, 4, 1, 5, 2};
    }
    OnnxDims turned;
    for (const std::int64_t axis : order) turned.push_back(apart[static_cast<std::size_t>(axis)]);
    const std::string view = Viewed(In(0), Type(In(0)), apart, "blocks");
    JsonObject attrs;
    AddMember(&attrs, "order", ListOf(order));
    LastViewed("transpose", {view}, turned, std::move(attrs));
    return true;
  }

  Rule FindRule() {
    static constexpr Row kRows[] = {
        {"Add", &Planner::Binary, "add"},
        {"AveragePool", &Planner::Pool, "avg_pool"},
        {"BatchNormalization", &Planner::BatchNormalization},
        {"Cast", &Planner::CastOp},
        {"Concat", &Planner::ConcatOp},
        {"ConstantOfShape", &Planner::FillOp},
        {"Conv", &Planner::Conv},
        {"ConvTranspose", &Planner::ConvTranspose},
        {"DepthToSpace", &Planner::Blocks},
        {"Div", &Planner::Binary, "div"},
        {"Dropout", &Planner::Dropout},
        {"Expand", &Planner::Expand},
        {"Flatten", &Planner::View},
        {"Gather", &Planner::GatherOp},
        {"Gelu", &Planner::SameKind<1>, "gelu"},
        {"Gemm", &Planner::Gemm},
        {"GlobalAveragePool", &Planner::GlobalPool, "avg_pool"},
        {"GlobalMaxPool", &Planner::GlobalPool, "max_pool"},
        {"Identity", &Planner::View},
        {"LayerNormalization", &Planner::LayerNormalization},
        {"MatMul", &Planner::MatMul},
        {"MaxPool", &Planner::Pool, "max_pool"},
        {"Mul", &Planner::Binary, "mul"},
        {"Pad", &Planner::PadOp},
        {"ReduceMax", &Planner::ReduceOp, "reduce_max"},
        {"ReduceMean", &Planner::ReduceOp, "reduce_mean"},
        {"ReduceSum", &Planner::ReduceOp, "reduce_sum"},
        {"Relu", &Planner::SameKind<1>, "relu"},
        {"Reshape", &Planner::View},
        {"Sigmoid", &Planner::SameKind<1>, "sigmoid"},
        {"Slice", &Planner::SliceOp},
        {"Softmax", &Planner::Softmax},
        {"SpaceToDepth", &Planner::Blocks},
        {"Split", &Planner::SplitOp},
        {"Squeeze", &Planner::View},
        {"Sub", &Planner::Binary, "sub"},
        {"Sum", &Planner::Sum},
        {"Tanh", &Planner::SameKind<1>, "tanh"},
        {"Transpose", &Planner::TransposeOp},
        {"Unsqueeze", &Planner::View},
    };
    const auto found = std::lower_bound(std::begin(kRows), std::end(kRows), node_.op,
                                        [](const Row& row, const std::string& op) { return row.op < op; });
    if (found == std::end(kRows) || found->op != node_.op) return nullptr;
    kind_ = found->kind;
    // All but ConstantOfShape read their first input.
    return Has(0) ? found->rule : nullptr;
  }

  const OnnxNode& node_;
  const OnnxValues& values_;
  std::string_view kind_;
  std::vector<OnnxPlannedOp> ops_;
};

}  // namespace

const OnnxType* OnnxValues::Find(const std::string& name) const {
  const auto found = types.find(name);
  return found == types.end() ? nullptr : &found->second;
}

const std::vector<std::int64_t>* OnnxValues::Constant(const std::string& name) const {
  const auto found = constants->find(name);
  return found == constants->end() ? nullptr : &found->second;
}

namespace {

// Types alone.
OnnxOperands OnnxOperandsOf(const OnnxNode& node, const OnnxValues& values) {
  OnnxOperands operands;
  for (const std::string& name : node.inputs) {
    operands.types.push_back(name.empty() ? nullptr : values.Find(name));
    operands.contents.push_back(nullptr);
  }
  return operands;
}

}  // namespace

std::string OnnxKind(const OnnxNode& node) {
  return fmt::format("{}::{}", node.domain.empty() ? "onnx" : node.domain, node.op);
}

std::vector<OnnxPlannedOp> PlanOnnxNode(const OnnxNode& node, const OnnxValues& values) {
  return Planner(node, values).Plan();
}

OnnxPlannedOp PlanAsItIs(const OnnxNode& node, const OnnxValues& values) {
  OnnxPlannedOp op;
  op.kind = OnnxKind(node);
  for (const auto* const names : {&node.inputs, &node.captured}) {
    for (const std::string& name : *names) {
      if (!name.empty()) op.inputs.push_back(name);
    }
  }
  // Outputs that are left out are missing in the list, as inputs are.
  for (const std::string& name : node.outputs) {
    if (name.empty()) continue;
    const OnnxType* const type = values.Find(name);
    op.outputs.emplace_back(name, type == nullptr ? OnnxType{} : *type);
  }
  JsonObject attrs;
  for (const OnnxAttr& attr : node.attrs) {
    JsonList list;
    for (const std::int64_t value : attr.integers) list.push_back(ToJson(value));
    for (const double value : attr.numbers) list.push_back(ToJson(value));
    for (const std::string& value : attr.texts) {
      constexpr std::size_t kLongest = 1000;
      if (value.size() <= kLongest && IsValidUtf8(value)) list.push_back(ToJson(value));
    }
    const bool is_new = std::none_of(attrs.begin(), attrs.end(), [&](const auto& old) { return old.key == attr.name; });
    if (!is_new || !IsValidUtf8(attr.name) || attr.name.empty() || (list.empty() && !attr.is_list)) continue;
    if (attr.is_list || list.size() != 1) {
      AddMember(&attrs, attr.name, std::move(list));
    } else {
      AddMember(&attrs, attr.name, std::move(list[0]));
    }
  }
  if (const auto sizes = OnnxAttentionOf(node, OnnxOperandsOf(node, values))) {
    AddMember(&attrs, "attention",
              ListOf({sizes->batch, sizes->heads, sizes->queries, sizes->keys, sizes->size, sizes->value_size}));
  }
  op.attrs = AttrText(std::move(attrs));
  return op;
}

}  // namespace emplace::datasets
