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
namespace onnx_kind {
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

// The position of an axis, counted from the end if negative; nothing if there is no such axis.
std::optional<std::size_t> AxisIn(std::int64_t axis, std::size_t rank) {
  if (axis < 0) axis += static_cast<std::int64_t>(rank);
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return std::nullopt;
  return static_cast<std::size_t>(axis);
}

// A node, and what is known of its values.
struct PlannedNode {
  const OnnxNode& node;
  const OnnxValues& values;
  std::string_view kind = {};  // the kind of its op, where several operators share a rule

  // Whether all values, and the first output, are there with their shapes.
  bool AllWhole() const {
    for (const auto* const names : {&node.inputs, &node.outputs}) {
      for (const std::string& name : *names) {
        if (name.empty()) continue;
        const OnnxType* const type = values.Find(name);
        if (type == nullptr || !type->IsWhole()) return false;
      }
    }
    return !node.outputs.empty() && !node.outputs[0].empty();
  }
  bool Has(std::size_t input) const { return input < node.inputs.size() && !node.inputs[input].empty(); }
  const std::string& In(std::size_t input) const { return node.inputs[input]; }
  const std::string& Out() const { return node.outputs[0]; }
  const OnnxType& Type(const std::string& name) const { return *values.Find(name); }
  const OnnxDims& Dims(const std::string& name) const { return *Type(name).dims; }
  OnnxType Like(const std::string& name, OnnxDims dims) const {
    return {.is_tensor = true, .element = Type(name).element, .dims = std::move(dims)};
  }
  bool HasOutput(std::size_t output) const { return output < node.outputs.size() && !node.outputs[output].empty(); }
  // An attribute that became an input in a later opset.
  std::optional<OnnxDims> Given(const std::string& attr, std::size_t input) const {
    if (node.Find(attr) != nullptr) return node.Integers(attr);
    if (!Has(input)) return std::nullopt;
    const auto* const constant = values.Constant(In(input));
    return constant == nullptr ? std::nullopt : std::optional(*constant);
  }
  // The inputs from `first` on only say what is to be done: waited for, if they are computed.
  std::vector<std::string> Waits(std::size_t first) const {
    std::vector<std::string> waits;
    for (std::size_t i = first; i < node.inputs.size(); ++i) {
      if (Has(i) && values.Constant(In(i)) == nullptr) waits.push_back(In(i));
    }
    return waits;
  }
};

// The ops that a node becomes.
class Plan {
 public:
  explicit Plan(const PlannedNode& node) : in_(node) {}

  OnnxPlannedOp& Add(std::string suffix, std::string_view kind, std::vector<std::string> inputs, std::string output,
                     OnnxType type, JsonObject attrs = {}) {
    OnnxPlannedOp op;
    op.suffix = std::move(suffix);
    op.kind = kind;
    op.inputs = std::move(inputs);
    op.outputs.emplace_back(std::move(output), std::move(type));
    op.attrs = AttrText(std::move(attrs));
    ops.push_back(std::move(op));
    return ops.back();
  }
  // The main op, or what writes the node's first output.
  OnnxPlannedOp& Last(std::string_view kind, std::vector<std::string> inputs, JsonObject attrs = {},
                      std::string suffix = {}) {
    return Add(std::move(suffix), kind, std::move(inputs), in_.Out(), in_.Type(in_.Out()), std::move(attrs));
  }
  // A value between ops of this node. ONNX has no value names with a line break.
  std::string Between() { return fmt::format("\n{}\n{}", ops.size(), in_.Out()); }
  // Another view of a value; the value itself where it has that shape.
  std::string Viewed(const std::string& name, const OnnxType& type, const OnnxDims& dims, std::string suffix) {
    if (*type.dims == dims) return name;
    std::string view = Between();
    Add(std::move(suffix), "reshape", {name}, view, {.is_tensor = true, .element = type.element, .dims = dims});
    return view;
  }
  // The main op with the output in another shape, and the node's output a view of that.
  void LastViewed(std::string_view kind, std::vector<std::string> inputs, OnnxDims dims, JsonObject attrs) {
    if (dims == in_.Dims(in_.Out())) {
      Last(kind, std::move(inputs), std::move(attrs));
      return;
    }
    const std::string flat = Between();
    Add("", kind, std::move(inputs), flat, in_.Like(in_.Out(), std::move(dims)), std::move(attrs));
    Last("reshape", {flat}, {}, "reshape");
  }
  // Adds the bias in input `bias` to `sum`, or renames `sum`'s op to write the output. `sum` is written by the last op.
  void LastWithBias(const std::string& sum, std::size_t bias) {
    if (!in_.Has(bias)) {
      ops.back().outputs[0].first = in_.Out();
      return;
    }
    Last("bias_add", {sum, in_.In(bias)}, {}, "bias_add");
  }

  std::vector<OnnxPlannedOp> ops;

 private:
  const PlannedNode& in_;
};

template <std::size_t kNumInputs>
bool SameKind(const PlannedNode& in, Plan* plan) {
  for (std::size_t i = 0; i < kNumInputs; ++i) {
    if (!in.Has(i)) return false;
  }
  plan->Last(in.kind, {in.node.inputs.begin(), in.node.inputs.begin() + kNumInputs});
  return true;
}

// `add` with the old attribute `axis`: the bias of a convolution.
bool Binary(const PlannedNode& in, Plan* plan) {
  if (in.node.op == "Add" && in.node.opset < 7 && in.Has(1) && in.Dims(in.In(1)).size() == 1 &&
      in.node.Find("axis") != nullptr) {
    plan->Last("bias_add", {in.In(0), in.In(1)});
    return true;
  }
  return SameKind<2>(in, plan);
}

bool View(const PlannedNode& in, Plan* plan) {
  if (!in.Has(0)) return false;
  plan->Last("reshape", {in.In(0)}).waits = in.Waits(1);
  return true;
}

// Where it changes nothing.
bool CastOp(const PlannedNode& in, Plan* plan) {
  return in.Type(in.In(0)).element == in.Type(in.Out()).element && View(in, plan);
}

bool Expand(const PlannedNode& in, Plan* plan) { return in.Dims(in.In(0)) == in.Dims(in.Out()) && View(in, plan); }

bool Sum(const PlannedNode& in, Plan* plan) {
  if (in.node.inputs.size() == 1) return View(in, plan);
  if (in.node.inputs.size() == 2) {
    if (!in.Has(1)) return false;
    plan->Last("add", in.node.inputs);
    return true;
  }
  plan->Last("add_n", in.node.inputs);
  return true;
}

std::optional<JsonValue> PaddingOf(const OnnxDims& x, const OnnxDims& window, const OnnxDims& y, const OnnxDims& stride,
                                   const OnnxDims& dilation, OnnxDims pads) {
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
    is_same =
        is_same && y[2 + i] == (x[2 + i] - 1) / stride[i] + 1 && pads[i] == same / 2 && pads[2 + i] == same - same / 2;
  }
  if (pads == OnnxDims{0, 0, 0, 0}) return ToJson("valid");
  if (pads[0] == pads[2] && pads[1] == pads[3]) return ListOf({pads[0], pads[1]});
  if (is_same) return ToJson("same");
  return std::nullopt;
}

// Attributes `stride`, `padding` and `dilation` of a window of two dimensions from `x` to `y`.
std::optional<JsonObject> WindowAttrs(const PlannedNode& in, const OnnxDims& x, const OnnxDims& window,
                                      const OnnxDims& y, bool is_pool) {
  const auto pair = [&](const std::string& attr, std::int64_t absent) {
    OnnxDims values = in.node.Integers(attr);
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
  const std::string automatic = in.node.Text("auto_pad", "NOTSET");
  OnnxDims pads = in.node.Integers("pads");
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

// The dimensions of an image. Those of rank 3, such as sound, get a dimension of 1 in between.
OnnxDims AsImage(OnnxDims dims) {
  if (dims.size() == 3) dims.insert(dims.begin() + 2, 1);
  return dims;
}

bool Conv(const PlannedNode& in, Plan* plan) {
  if (!in.Has(1) || in.Dims(in.In(0)).size() < 3 || in.Dims(in.In(0)).size() > 4 ||
      in.Dims(in.In(1)).size() != in.Dims(in.In(0)).size()) {
    return false;
  }
  const OnnxDims x_dims = AsImage(in.Dims(in.In(0)));
  OnnxDims w_dims = AsImage(in.Dims(in.In(1)));
  const OnnxDims y_dims = AsImage(in.Dims(in.Out()));
  if (y_dims.size() != 4) return false;
  const std::int64_t groups = in.node.Integer("group", 1);
  auto attrs = WindowAttrs(in, x_dims, {w_dims[2], w_dims[3]}, y_dims, /*is_pool=*/false);
  if (!attrs) return false;
  const bool depthwise = groups > 1 && groups == x_dims[1] && w_dims[1] == 1 && w_dims[0] % groups == 0;
  if (depthwise) {
    w_dims = {groups, w_dims[0] / groups, w_dims[2], w_dims[3]};
  } else if (groups != 1) {
    return false;
  }
  const std::string x = plan->Viewed(in.In(0), in.Type(in.In(0)), x_dims, "image");
  const std::string w = plan->Viewed(in.In(1), in.Type(in.In(1)), w_dims, "filter");
  const bool viewed = y_dims != in.Dims(in.Out());
  std::string y = plan->Between();
  plan->Add("", depthwise ? "depthwise_conv2d" : "conv2d", {x, w}, y, in.Like(in.Out(), y_dims), std::move(*attrs));
  if (!viewed) {
    plan->LastWithBias(y, 2);
    return true;
  }
  if (in.Has(2)) {
    const std::string sum = plan->Between();
    plan->Add("bias_add", "bias_add", {y, in.In(2)}, sum, in.Like(in.Out(), y_dims));
    y = sum;
  }
  plan->Last("reshape", {y}, {}, "reshape");
  return true;
}

// A transposed convolution spreads each input over its window: the gradient of a convolution.
bool ConvTranspose(const PlannedNode& in, Plan* plan) {
  if (!in.Has(1) || in.Dims(in.In(0)).size() != 4 || in.Dims(in.In(1)).size() != 4 || in.Dims(in.Out()).size() != 4)
    return false;
  const OnnxDims& w = in.Dims(in.In(1));
  if (in.node.Integer("group", 1) != 1) return false;
  auto attrs = WindowAttrs(in, in.Dims(in.Out()), {w[2], w[3]}, in.Dims(in.In(0)), /*is_pool=*/false);
  if (!attrs) return false;
  const std::string y = plan->Between();
  plan->Add("", "conv2d_grad_input", {in.In(1), in.In(0)}, y, in.Type(in.Out()), std::move(*attrs));
  plan->LastWithBias(y, 2);
  return true;
}

bool Pool(const PlannedNode& in, Plan* plan) {
  if (in.HasOutput(1) || in.Dims(in.In(0)).size() < 3 || in.Dims(in.In(0)).size() > 4) return false;
  const OnnxDims x_dims = AsImage(in.Dims(in.In(0)));
  const OnnxDims y_dims = AsImage(in.Dims(in.Out()));
  OnnxDims window = in.node.Integers("kernel_shape");
  if (window.size() == 1) window.insert(window.begin(), 1);
  if (window.size() != 2 || y_dims.size() != 4) return false;
  auto attrs = WindowAttrs(in, x_dims, window, y_dims, /*is_pool=*/true);
  if (!attrs) return false;
  const std::string x = plan->Viewed(in.In(0), in.Type(in.In(0)), x_dims, "image");
  plan->LastViewed(in.kind, {x}, y_dims, std::move(*attrs));
  return true;
}

bool GlobalPool(const PlannedNode& in, Plan* plan) {
  const OnnxDims& dims = in.Dims(in.In(0));
  if (dims.size() < 3 || in.Dims(in.Out()).size() < 2) return false;
  const OnnxDims x_dims = {dims[0], dims[1], Product({dims.begin() + 2, dims.end() - 1}), dims.back()};
  JsonObject attrs;
  AddMember(&attrs, "window", ListOf({x_dims[2], x_dims[3]}));
  const std::string x = plan->Viewed(in.In(0), in.Type(in.In(0)), x_dims, "image");
  plan->LastViewed(in.kind, {x}, {in.Dims(in.Out())[0], in.Dims(in.Out())[1], 1, 1}, std::move(attrs));
  return true;
}

bool MatMul(const PlannedNode& in, Plan* plan) {
  if (!in.Has(1)) return false;
  const OnnxDims& a = in.Dims(in.In(0));
  const OnnxDims& b = in.Dims(in.In(1));
  const OnnxDims& y = in.Dims(in.Out());
  if (a.size() < 2 || b.size() < 2 || y.size() < 2) return false;
  if (Product({b.begin(), b.end() - 2}) == 1 && y.size() == a.size()) {
    const std::string matrix = plan->Viewed(in.In(1), in.Type(in.In(1)), {b.end() - 2, b.end()}, "matrix");
    plan->Last("matmul", {in.In(0), matrix});
    return true;
  }
  if (a.size() != b.size()) return false;
  plan->Last("batch_matmul", {in.In(0), in.In(1)});
  return true;
}

bool Gemm(const PlannedNode& in, Plan* plan) {
  if (!in.Has(1)) return false;
  JsonObject attrs;
  if (in.node.Integer("transA", 0) != 0) AddMember(&attrs, "transpose_a", true);
  if (in.node.Integer("transB", 0) != 0) AddMember(&attrs, "transpose_b", true);
  std::string y = plan->Between();
  plan->Add("", "matmul", {in.In(0), in.In(1)}, y, in.Type(in.Out()), std::move(attrs));
  const auto scaled = [&](const std::string& attr, const std::string& x, OnnxType type) {
    const double factor = in.node.Number(attr, 1);
    if (factor == 1) return x;
    JsonObject by;
    AddMember(&by, "factor", factor);
    std::string product = plan->Between();
    plan->Add(attr, "scale", {x}, product, std::move(type), std::move(by));
    return product;
  };
  y = scaled("alpha", y, in.Type(in.Out()));
  if (!in.Has(2)) {
    plan->ops.back().outputs[0].first = in.Out();
    return true;
  }
  const std::string bias = scaled("beta", in.In(2), in.Type(in.In(2)));
  const bool is_row = in.Dims(in.In(2)).size() == 1 && in.Dims(in.In(2))[0] == in.Dims(in.Out()).back();
  plan->Last(is_row ? "bias_add" : "add", {y, bias}, {}, is_row ? "bias_add" : "add");
  return true;
}

bool BatchNormalization(const PlannedNode& in, Plan* plan) {
  if (in.node.inputs.size() != 5 || !in.Has(4)) return false;
  if (in.node.Integer("training_mode", 0) == 0) return false;
  OnnxPlannedOp& op = plan->Last("batch_norm", {in.In(0), in.In(1), in.In(2)});
  for (std::size_t i = 1; i <= 2; ++i) {
    op.outputs.emplace_back(in.HasOutput(i) ? in.node.outputs[i] : "", in.Type(in.In(2)));
  }
  return true;
}

bool LayerNormalization(const PlannedNode& in, Plan* plan) {
  if (!in.Has(2) || in.HasOutput(1) || in.HasOutput(2)) return false;
  const OnnxDims& dims = in.Dims(in.In(0));
  const auto axis = AxisIn(in.node.Integer("axis", -1), dims.size());
  if (!axis) return false;
  const OnnxDims rows(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(*axis));
  const OnnxDims width = {Product({dims.begin() + static_cast<std::ptrdiff_t>(*axis), dims.end()})};
  const OnnxDims flat = Joined(rows, width);
  const std::string x = plan->Viewed(in.In(0), in.Type(in.In(0)), flat, "rows");
  const std::string scale = plan->Viewed(in.In(1), in.Type(in.In(1)), width, "scale");
  const std::string offset = plan->Viewed(in.In(2), in.Type(in.In(2)), width, "offset");
  plan->LastViewed("layer_norm", {x, scale, offset}, flat, {});
  for (OnnxPlannedOp& op : plan->ops) {
    if (op.kind != "layer_norm") continue;
    for (int i = 0; i < 2; ++i) op.outputs.emplace_back("", in.Like(in.Out(), rows));
  }
  return true;
}

bool Dropout(const PlannedNode& in, Plan* plan) {
  const auto* const training = in.Has(2) ? in.values.Constant(in.In(2)) : nullptr;
  if (training != nullptr && *training == std::vector<std::int64_t>{1}) {
    OnnxPlannedOp& op = plan->Last("dropout", {in.In(0)});
    constexpr std::int32_t kBool = 9;
    op.outputs.emplace_back(in.HasOutput(1) ? in.node.outputs[1] : "",
                            OnnxType{.is_tensor = true, .element = kBool, .dims = in.Dims(in.Out())});
    return true;
  }
  plan->Last("reshape", {in.In(0)});
  if (in.HasOutput(1)) plan->Add("mask", "fill", {}, in.node.outputs[1], in.Type(in.node.outputs[1]));
  return true;
}

bool Softmax(const PlannedNode& in, Plan* plan) {
  constexpr std::int64_t kAlongOneAxis = 13;  // before, all dimensions from the axis on were one
  const OnnxDims& dims = in.Dims(in.In(0));
  const bool is_old = in.node.opset < kAlongOneAxis;
  const auto axis = AxisIn(in.node.Integer("axis", is_old ? 1 : -1), dims.size());
  if (!axis) return false;
  const auto first = dims.begin() + static_cast<std::ptrdiff_t>(*axis);
  if (!is_old && Product({first + 1, dims.end()}) != 1) return false;
  const OnnxDims rows = Joined({dims.begin(), first}, {Product({first, dims.end()})});
  const std::string x = plan->Viewed(in.In(0), in.Type(in.In(0)), rows, "rows");
  plan->LastViewed("softmax", {x}, rows, {});
  return true;
}

bool ConcatOp(const PlannedNode& in, Plan* plan) {
  if (in.node.inputs.size() == 1) return View(in, plan);
  const auto axis = AxisIn(in.node.Integer("axis", 1), in.Dims(in.Out()).size());
  if (!axis) return false;
  JsonObject attrs;
  AddMember(&attrs, "axis", *axis);
  plan->Last("concat", in.node.inputs, std::move(attrs));
  return true;
}

bool SplitOp(const PlannedNode& in, Plan* plan) {
  const auto axis = AxisIn(in.node.Integer("axis", 0), in.Dims(in.In(0)).size());
  if (!axis) return false;
  if (in.node.outputs.size() == 1) return View(in, plan);
  JsonObject attrs;
  AddMember(&attrs, "axis", *axis);
  OnnxPlannedOp op;
  op.kind = "split";
  op.inputs = {in.In(0)};
  op.waits = in.Waits(1);
  op.attrs = AttrText(std::move(attrs));
  for (const std::string& output : in.node.outputs) {
    if (output.empty()) return false;
    op.outputs.emplace_back(output, in.Type(output));
  }
  plan->ops.push_back(std::move(op));
  return true;
}

bool TransposeOp(const PlannedNode& in, Plan* plan) {
  JsonObject attrs;
  if (in.node.Find("perm") != nullptr) AddMember(&attrs, "order", ListOf(in.node.Integers("perm")));
  plan->Last("transpose", {in.In(0)}, std::move(attrs));
  return true;
}

bool SliceOp(const PlannedNode& in, Plan* plan) {
  JsonObject attrs;
  const auto starts = in.Given("starts", 1);
  const std::size_t rank = in.Dims(in.In(0)).size();
  if (starts) {
    const auto axes = in.Given("axes", 3);
    const auto steps = in.Given("steps", 4);
    OnnxDims begin(rank, 0);
    bool is_block = !steps || std::all_of(steps->begin(), steps->end(), [](std::int64_t step) { return step == 1; });
    for (std::size_t i = 0; i < starts->size(); ++i) {
      const auto axis = AxisIn(axes && i < axes->size() ? (*axes)[i] : static_cast<std::int64_t>(i), rank);
      if (!axis) return false;
      const std::int64_t length = in.Dims(in.In(0))[*axis];
      const std::int64_t start = (*starts)[i];
      begin[*axis] = std::clamp<std::int64_t>(start < 0 && start >= -length ? start + length : start, 0, length);
    }
    if (is_block) {
      AddMember(&attrs, "begin", ListOf(begin));
    } else if (steps) {
      AddMember(&attrs, "steps", ListOf(*steps));
    }
  }
  plan->Last("slice", {in.In(0)}, std::move(attrs)).waits = in.Waits(1);
  return true;
}

bool PadOp(const PlannedNode& in, Plan* plan) {
  JsonObject attrs;
  const auto pads = in.Given("pads", 1);
  const std::size_t rank = in.Dims(in.In(0)).size();
  if (pads && pads->size() == 2 * rank) {
    AddMember(&attrs, "before", ListOf({pads->begin(), pads->begin() + static_cast<std::ptrdiff_t>(rank)}));
  }
  plan->Last("pad", {in.In(0)}, std::move(attrs)).waits = in.Waits(1);
  return true;
}

bool GatherOp(const PlannedNode& in, Plan* plan) {
  if (!in.Has(1)) return false;
  const OnnxDims& dims = in.Dims(in.In(0));
  const auto axis = AxisIn(in.node.Integer("axis", 0), dims.size());
  if (!axis) return false;
  const auto first = dims.begin() + static_cast<std::ptrdiff_t>(*axis);
  if (Product({dims.begin(), first}) != 1) {
    if (!in.Dims(in.In(1)).empty()) return false;
    // One index along an axis in the middle: a slice.
    OnnxDims part = dims;
    part[*axis] = 1;
    JsonObject attrs;
    const auto* const index = in.values.Constant(in.In(1));
    if (index != nullptr && index->size() == 1) {
      OnnxDims begin(dims.size(), 0);
      begin[*axis] = std::clamp<std::int64_t>((*index)[0] < 0 ? (*index)[0] + dims[*axis] : (*index)[0], 0,
                                              std::max<std::int64_t>(dims[*axis] - 1, 0));
      AddMember(&attrs, "begin", ListOf(begin));
    }
    plan->LastViewed("slice", {in.In(0)}, part, std::move(attrs));
    for (OnnxPlannedOp& op : plan->ops) {
      if (op.kind == "slice") op.waits = in.Waits(1);
    }
    return true;
  }
  const std::string table =
      plan->Viewed(in.In(0), in.Type(in.In(0)), {dims[*axis], Product({first + 1, dims.end()})}, "table");
  plan->Last("gather", {table, in.In(1)});
  return true;
}

bool ReduceOp(const PlannedNode& in, Plan* plan) {
  JsonObject attrs;
  const auto axes = in.Given("axes", 1);
  if (in.Has(1) && !axes) return false;
  if ((!axes || axes->empty()) && in.node.Integer("noop_with_empty_axes", 0) != 0) return View(in, plan);
  if (axes && !axes->empty()) AddMember(&attrs, "axes", ListOf(*axes));
  plan->Last(in.kind, {in.In(0)}, std::move(attrs));
  return true;
}

bool FillOp(const PlannedNode& in, Plan* plan) {
  plan->Last("fill", {}).waits = in.Waits(0);
  return true;
}

// The dimensions of blocks as dimensions of their own, in another order. Source: operators of ONNX, DepthToSpace.
bool Blocks(const PlannedNode& in, Plan* plan) {
  const OnnxDims& x = in.Dims(in.In(0));
  const OnnxDims& y = in.Dims(in.Out());
  const std::int64_t b = in.node.Integer("blocksize", 0);
  if (x.size() != 4 || y.size() != 4 || b < 1) return false;
  OnnxDims apart;
  OnnxDims order;
  if (in.node.op == "SpaceToDepth") {
    apart = {x[0], x[1], x[2] / b, b, x[3] / b, b};
    order = {0, 3, 5, 1, 2, 4};
  } else if (in.node.Text("mode", "DCR") == "CRD") {
    apart = {x[0], y[1], b, b, x[2], x[3]};
    order = {0, 1, 4, 2, 5, 3};
  } else {
    apart = {x[0], b, b, y[1], x[2], x[3]};
    order = {0, 3, 4, 1, 5, 2};
  }
  OnnxDims turned;
  for (const std::int64_t axis : order) turned.push_back(apart[static_cast<std::size_t>(axis)]);
  const std::string view = plan->Viewed(in.In(0), in.Type(in.In(0)), apart, "blocks");
  JsonObject attrs;
  AddMember(&attrs, "order", ListOf(order));
  plan->LastViewed("transpose", {view}, turned, std::move(attrs));
  return true;
}

struct Row {
  std::string_view op;
  bool (*rule)(const PlannedNode& in, Plan* plan);  // false: the node does not fit
  std::string_view kind = {};
};

// The row of an operator; null if there is none.
const Row* FindRow(std::string_view op) {
  static constexpr Row kRows[] = {
      {"Add", Binary, "add"},
      {"AveragePool", Pool, "avg_pool"},
      {"BatchNormalization", BatchNormalization},
      {"Cast", CastOp},
      {"Concat", ConcatOp},
      {"ConstantOfShape", FillOp},
      {"Conv", Conv},
      {"ConvTranspose", ConvTranspose},
      {"DepthToSpace", Blocks},
      {"Div", Binary, "div"},
      {"Dropout", Dropout},
      {"Expand", Expand},
      {"Flatten", View},
      {"Gather", GatherOp},
      {"Gelu", SameKind<1>, "gelu"},
      {"Gemm", Gemm},
      {"GlobalAveragePool", GlobalPool, "avg_pool"},
      {"GlobalMaxPool", GlobalPool, "max_pool"},
      {"Identity", View},
      {"LayerNormalization", LayerNormalization},
      {"MatMul", MatMul},
      {"MaxPool", Pool, "max_pool"},
      {"Mul", Binary, "mul"},
      {"Pad", PadOp},
      {"ReduceMax", ReduceOp, "reduce_max"},
      {"ReduceMean", ReduceOp, "reduce_mean"},
      {"ReduceSum", ReduceOp, "reduce_sum"},
      {"Relu", SameKind<1>, "relu"},
      {"Reshape", View},
      {"Sigmoid", SameKind<1>, "sigmoid"},
      {"Slice", SliceOp},
      {"Softmax", Softmax},
      {"SpaceToDepth", Blocks},
      {"Split", SplitOp},
      {"Squeeze", View},
      {"Sub", Binary, "sub"},
      {"Sum", Sum},
      {"Tanh", SameKind<1>, "tanh"},
      {"Transpose", TransposeOp},
      {"Unsqueeze", View},
  };
  const auto found = std::lower_bound(std::begin(kRows), std::end(kRows), op,
                                      [](const Row& row, std::string_view wanted) { return row.op < wanted; });
  return found == std::end(kRows) || found->op != op ? nullptr : found;
}

}  // namespace
}  // namespace onnx_kind

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
  const onnx_kind::Row* const row = onnx_kind::FindRow(node.op);
  if (!node.domain.empty() || node.subgraph_nodes > 0 || row == nullptr) return {};
  const onnx_kind::PlannedNode in{node, values, row->kind};
  // All but ConstantOfShape read their first input.
  if (!in.AllWhole() || !in.Has(0)) return {};
  onnx_kind::Plan plan(in);
  return row->rule(in, &plan) ? std::move(plan.ops) : std::vector<OnnxPlannedOp>();
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
    AddMember(
        &attrs, "attention",
        onnx_kind::ListOf({sizes->batch, sizes->heads, sizes->queries, sizes->keys, sizes->size, sizes->value_size}));
  }
  op.attrs = onnx_kind::AttrText(std::move(attrs));
  return op;
}

}  // namespace emplace::datasets
