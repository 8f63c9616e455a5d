#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <utility>

#include "datasets/importers/tensorflow_values.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/ops/einsum.h"

namespace emplace::datasets {
namespace tf_shape {
namespace {

using tensorflow::DataType;
using tensorflow::NodeDef;
using Dims = std::optional<std::vector<std::int64_t>>;
constexpr std::int64_t kFree = TfType::kFree;

// A node, and what is known of its inputs.
struct In {
  const NodeDef& node;
  std::span<const TfValue> inputs;

  bool Has(std::size_t i) const { return i < inputs.size(); }
  const TfType& Type(std::size_t i) const {
    static const TfType none;
    return Has(i) ? inputs[i].type : none;
  }
  const Dims& Shape(std::size_t i) const { return Type(i).dims; }
  // The integers that an input holds; null if they are not known.
  const std::vector<std::int64_t>* Known(std::size_t i) const {
    if (!Has(i) || inputs[i].content == nullptr || inputs[i].content->is_real) return nullptr;
    return &inputs[i].content->integers;
  }
  std::optional<std::int64_t> Scalar(std::size_t i) const {
    const auto* const known = Known(i);
    return known == nullptr || known->size() != 1 ? std::nullopt : std::optional((*known)[0]);
  }
  [[noreturn]] void Refuse(const std::string& problem) const {
    throw InputError(fmt::format("node {}", Quoted(node.name())), fmt::format("{}: {}", node.op(), problem));
  }
  // A shape that an input holds.
  Dims ShapeIn(std::size_t i) const {
    if (const auto* const known = Known(i)) {
      std::vector<std::int64_t> dims;
      for (const std::int64_t dim : *known) dims.push_back(dim < 0 ? kFree : dim);
      return dims;
    }
    // Its length is the rank.
    if (Shape(i) && Shape(i)->size() == 1 && (*Shape(i))[0] >= 0 && (*Shape(i))[0] <= 16) {
      return std::vector<std::int64_t>(static_cast<std::size_t>((*Shape(i))[0]), kFree);
    }
    return std::nullopt;
  }
  std::size_t Axis(std::int64_t axis, std::size_t rank) const {
    const auto size = static_cast<std::int64_t>(rank);
    if (axis < -size || axis >= size) Refuse(fmt::format("axis {} of {} dimensions", axis, rank));
    return static_cast<std::size_t>(axis < 0 ? axis + size : axis);
  }
};

using Types = std::vector<TfType>;

DataType FirstType(const In& in) {
  for (const char* const name : {"T", "dtype", "Tparams"}) {
    const DataType type = TfDataType(in.node, name);
    if (type != tensorflow::DT_INVALID) return type;
  }
  return in.Has(0) ? in.Type(0).dtype : tensorflow::DT_INVALID;
}
Types One(DataType type, Dims dims) { return {{type, std::move(dims)}}; }
Types OneOf(const In& in, Dims dims) { return One(FirstType(in), std::move(dims)); }

std::int64_t BroadcastDim(const In& in, std::int64_t a, std::int64_t b) {
  if (a == b || b == 1) return a;
  if (a == 1) return b;
  if (a == kFree) return b;
  if (b == kFree) return a;
  in.Refuse(fmt::format("sizes {} and {} do not broadcast", a, b));
}

Dims Broadcast(const In& in, const Dims& a, const Dims& b) {
  if (!a || !b) return std::nullopt;
  const std::vector<std::int64_t>& longer = a->size() >= b->size() ? *a : *b;
  const std::vector<std::int64_t>& shorter = a->size() >= b->size() ? *b : *a;
  std::vector<std::int64_t> dims = longer;
  const std::size_t shift = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) dims[shift + i] = BroadcastDim(in, longer[shift + i], shorter[i]);
  return dims;
}

Types Broadcasting(const In& in) {
  Dims dims = in.Shape(0);
  for (std::size_t i = 1; i < in.inputs.size(); ++i) dims = Broadcast(in, dims, in.Shape(i));
  return OneOf(in, dims);
}
Types Comparison(const In& in) { return One(tensorflow::DT_BOOL, Broadcast(in, in.Shape(0), in.Shape(1))); }
Types AsFirst(const In& in) { return OneOf(in, in.Shape(0)); }
Types AsSecond(const In& in) { return One(in.Type(1).dtype, in.Shape(1)); }
Types TestOfFirst(const In& in) { return One(tensorflow::DT_BOOL, in.Shape(0)); }
Types Selection(const In& in) {
  return One(in.Type(1).dtype, Broadcast(in, in.Shape(0), Broadcast(in, in.Shape(1), in.Shape(2))));
}
Types CastOf(const In& in) { return One(TfDataType(in.node, "DstT"), in.Shape(0)); }
Types BitcastOf(const In& in) { return One(TfDataType(in.node, "type"), in.Shape(0)); }
Types Scalar(const In& in) { return OneOf(in, std::vector<std::int64_t>{}); }

Types Product(const In& in) {
  const Dims& a = in.Shape(0);
  const Dims& b = in.Shape(1);
  const bool is_batched = in.node.op().starts_with("BatchMatMul") || in.node.op() == "BatchMatMulV2";
  const bool turn_a = TfFlag(in.node, is_batched ? "adj_x" : "transpose_a");
  const bool turn_b = TfFlag(in.node, is_batched ? "adj_y" : "transpose_b");
  DataType type = FirstType(in);
  if (const DataType out = TfDataType(in.node, "Tout"); out != tensorflow::DT_INVALID) type = out;
  if (!a || !b) return One(type, std::nullopt);
  if (a->size() < 2 || b->size() < 2) in.Refuse(fmt::format("factors of rank {} and {}", a->size(), b->size()));
  const std::int64_t inner_a = (*a)[a->size() - (turn_a ? 2 : 1)];
  const std::int64_t inner_b = (*b)[b->size() - (turn_b ? 1 : 2)];
  if (inner_a != inner_b && inner_a != kFree && inner_b != kFree) {
    in.Refuse(fmt::format("inner sizes {} and {} of [{}] and [{}]", inner_a, inner_b, fmt::join(*a, ","),
                          fmt::join(*b, ",")));
  }
  const Dims lead = Broadcast(in, std::vector(a->begin(), a->end() - 2), std::vector(b->begin(), b->end() - 2));
  std::vector<std::int64_t> dims = *lead;
  dims.push_back((*a)[a->size() - (turn_a ? 1 : 2)]);
  dims.push_back((*b)[b->size() - (turn_b ? 2 : 1)]);
  return One(type, dims);
}

// Where the channels of an image of this rank are.
std::size_t ChannelAxis(const In& in, std::size_t rank) {
  return TfText(in.node, "data_format").starts_with("NC") ? 1 : rank - 1;
}

std::int64_t Slid(const In& in, std::int64_t size, std::int64_t window, std::int64_t stride, std::int64_t dilation,
                  std::size_t axis) {
  if (size == kFree || window == kFree) return kFree;
  if (stride < 1) in.Refuse(fmt::format("stride {}", stride));
  const std::int64_t reach = (window - 1) * dilation + 1;
  const std::string padding = TfText(in.node, "padding");
  if (padding == "SAME") return (size + stride - 1) / stride;
  std::int64_t padded = size;
  if (padding == "EXPLICIT") {
    const auto pads = TfIntegers(in.node, "explicit_paddings");
    if (pads.size() < 2 * axis + 2) in.Refuse("explicit_paddings has two numbers for each dimension");
    padded += pads[2 * axis] + pads[2 * axis + 1];
  }
  return padded < reach ? 0 : (padded - reach) / stride + 1;
}

// The image that a window slides over. `window`: its sizes, in the order of the spatial dimensions.
Dims Slide(const In& in, const std::vector<std::int64_t>& x, const std::vector<std::int64_t>& window,
           std::int64_t channels) {
  const std::size_t channel = ChannelAxis(in, x.size());
  const auto strides = TfIntegers(in.node, "strides");
  const auto dilations = TfIntegers(in.node, "dilations");
  std::vector<std::int64_t> y = x;
  y[channel] = channels;
  std::size_t spatial = 0;
  for (std::size_t axis = 1; axis < x.size(); ++axis) {
    if (axis == channel || spatial >= window.size()) continue;
    const std::int64_t stride = axis < strides.size() ? strides[axis] : 1;
    const std::int64_t dilation = axis < dilations.size() ? dilations[axis] : 1;
    y[axis] = Slid(in, x[axis], window[spatial++], stride, dilation, axis);
  }
  return y;
}

// Filter [spatial.., C / groups, K]; of a depthwise one [spatial.., C, M], which has C*M channels.
Types Convolution(const In& in) {
  const Dims& x = in.Shape(0);
  const Dims& w = in.Shape(1);
  if (!x || !w) return OneOf(in, std::nullopt);
  if (x->size() < 3 || w->size() != x->size())
    in.Refuse(fmt::format("image and filter of rank {} and {}", x->size(), w->size()));
  const std::int64_t in_channels = (*x)[ChannelAxis(in, x->size())];
  const std::int64_t of_filter = (*w)[w->size() - 2];
  const bool is_depthwise = in.node.op().starts_with("Depthwise");
  const bool fits = of_filter == kFree || in_channels == kFree ||
                    (is_depthwise ? in_channels == of_filter : of_filter > 0 && in_channels % of_filter == 0);
  if (!fits) in.Refuse(fmt::format("a filter of {} channels on an image of {}", of_filter, in_channels));
  const std::int64_t last = w->back();
  std::int64_t channels = last;
  if (is_depthwise) channels = last == kFree || of_filter == kFree ? kFree : last * of_filter;
  return OneOf(in, Slide(in, *x, {w->begin(), w->end() - 2}, channels));
}

Types Pool(const In& in) {
  const Dims& x = in.Shape(0);
  if (!x) return OneOf(in, std::nullopt);
  const auto sizes = TfIntegers(in.node, "ksize");
  if (sizes.size() != x->size())
    in.Refuse(fmt::format("ksize has {} sizes for {} dimensions", sizes.size(), x->size()));
  const std::size_t channel = ChannelAxis(in, x->size());
  std::vector<std::int64_t> window;
  for (std::size_t axis = 1; axis < sizes.size(); ++axis) {
    if (axis != channel) window.push_back(sizes[axis]);
  }
  return OneOf(in, Slide(in, *x, window, (*x)[channel]));
}
Types ShapeFirst(const In& in) { return OneOf(in, in.ShapeIn(0)); }
Types ShapeSecond(const In& in) { return OneOf(in, in.ShapeIn(1)); }
Types ShapeThird(const In& in) { return OneOf(in, in.ShapeIn(2)); }

Types BatchNorm(const In& in) {
  const TfType& of_channels = in.Type(1);
  Types types{in.Type(0)};
  const std::size_t outputs = in.node.op().ends_with("V3") ? 6 : 5;
  while (types.size() < 5) types.push_back(of_channels);
  if (outputs == 6) types.push_back({tensorflow::DT_FLOAT, std::vector<std::int64_t>{0}});
  return types;
}
Types BatchNormGrad(const In& in) {
  const TfType& scale = in.Type(2);
  const TfType empty{tensorflow::DT_FLOAT, std::vector<std::int64_t>{0}};
  return {in.Type(1), scale, scale, empty, empty};
}

Types BiasGrad(const In& in) {
  const Dims& dy = in.Shape(0);
  if (!dy || dy->empty()) return OneOf(in, std::nullopt);
  return OneOf(in, std::vector{(*dy)[ChannelAxis(in, dy->size())]});
}

Types Reshaped(const In& in) {
  Dims dims = in.ShapeIn(1);
  const TfType& x = in.Type(0);
  if (!dims || !x.HasShape()) return OneOf(in, dims);
  const auto* const known = in.Known(1);
  if (known == nullptr || std::count(dims->begin(), dims->end(), kFree) > 1) return OneOf(in, dims);
  double rest = 1;
  for (const std::int64_t dim : *dims) rest *= dim == kFree ? 1 : static_cast<double>(dim);
  const auto free = std::find(dims->begin(), dims->end(), kFree);
  if (free != dims->end()) {
    if (rest == 0 || std::fmod(x.Elements(), rest) != 0)
      in.Refuse(fmt::format("{} elements do not divide by {}", x.Elements(), rest));
    *free = static_cast<std::int64_t>(x.Elements() / rest);
  } else if (rest != x.Elements()) {
    in.Refuse(fmt::format("{} elements become [{}]", x.Elements(), fmt::join(*dims, ",")));
  }
  return OneOf(in, dims);
}

Types Expanded(const In& in) {
  const auto axis = in.Scalar(1);
  if (!in.Shape(0) || !axis) return OneOf(in, std::nullopt);
  std::vector<std::int64_t> dims = *in.Shape(0);
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(in.Axis(*axis, dims.size() + 1)), 1);
  return OneOf(in, dims);
}

Types Squeezed(const In& in) {
  if (!in.Shape(0)) return OneOf(in, std::nullopt);
  auto axes = TfIntegers(in.node, "squeeze_dims");
  const auto other = TfIntegers(in.node, "axis");
  axes.insert(axes.end(), other.begin(), other.end());
  std::set<std::size_t> dropped;
  for (const std::int64_t axis : axes) dropped.insert(in.Axis(axis, in.Shape(0)->size()));
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < in.Shape(0)->size(); ++i) {
    const std::int64_t dim = (*in.Shape(0))[i];
    if (axes.empty() ? dim != 1 : !dropped.contains(i)) dims.push_back(dim);
  }
  return OneOf(in, dims);
}

Types Transposed(const In& in) {
  const auto* const order = in.Known(1);
  if (!in.Shape(0)) return OneOf(in, std::nullopt);
  if (order == nullptr) return OneOf(in, std::vector<std::int64_t>(in.Shape(0)->size(), kFree));
  if (order->size() != in.Shape(0)->size())
    in.Refuse(fmt::format("an order of {} for {} dimensions", order->size(), in.Shape(0)->size()));
  std::vector<std::int64_t> dims;
  for (const std::int64_t axis : *order) dims.push_back((*in.Shape(0))[in.Axis(axis, order->size())]);
  return OneOf(in, dims);
}

// Inputs from `first` on, along an axis.
Types Concatenated(const In& in, std::size_t first, std::size_t count, std::optional<std::int64_t> axis) {
  if (!axis || count == 0 || !in.Shape(first)) return OneOf(in, std::nullopt);
  std::vector<std::int64_t> dims = *in.Shape(first);
  const std::size_t along = in.Axis(*axis, dims.size());
  for (std::size_t i = first + 1; i < first + count; ++i) {
    if (!in.Shape(i)) return OneOf(in, std::nullopt);
    const std::vector<std::int64_t>& other = *in.Shape(i);
    if (other.size() != dims.size()) in.Refuse(fmt::format("inputs of rank {} and {}", dims.size(), other.size()));
    for (std::size_t k = 0; k < dims.size(); ++k) {
      if (k == along) {
        dims[k] = dims[k] == kFree || other[k] == kFree ? kFree : dims[k] + other[k];
      } else if (dims[k] == kFree) {
        dims[k] = other[k];
      } else if (other[k] != kFree && other[k] != dims[k]) {
        in.Refuse(fmt::format("sizes {} and {} beside axis {}", dims[k], other[k], along));
      }
    }
  }
  return OneOf(in, dims);
}
Types ConcatLast(const In& in) {
  return in.inputs.empty() ? OneOf(in, std::nullopt)
                           : Concatenated(in, 0, in.inputs.size() - 1, in.Scalar(in.inputs.size() - 1));
}
Types ConcatFirst(const In& in) {
  return in.inputs.empty() ? OneOf(in, std::nullopt) : Concatenated(in, 1, in.inputs.size() - 1, in.Scalar(0));
}

constexpr std::int64_t kMostOutputs = 65'536;
std::size_t CountOf(const In& in, const std::string& attr) {
  const std::int64_t count = TfInteger(in.node, attr, 1);
  if (count < 0 || count > kMostOutputs) in.Refuse(fmt::format("{} is {} (at most {})", attr, count, kMostOutputs));
  return static_cast<std::size_t>(count);
}

Types SplitEqual(const In& in) {
  const std::size_t count = CountOf(in, "num_split");
  TfType piece{FirstType(in), in.Shape(1)};
  const auto axis = in.Scalar(0);
  if (piece.dims && axis && count > 0) {
    std::int64_t& dim = (*piece.dims)[in.Axis(*axis, piece.dims->size())];
    if (dim != kFree && dim % static_cast<std::int64_t>(count) != 0)
      in.Refuse(fmt::format("size {} in {} pieces", dim, count));
    if (dim != kFree) dim /= static_cast<std::int64_t>(count);
  } else {
    piece.dims.reset();
  }
  return Types(count, piece);
}

Types SplitSizes(const In& in) {
  const std::size_t count = CountOf(in, "num_split");
  const auto axis = in.Scalar(2);
  const auto* const sizes = in.Known(1);
  Types types;
  for (std::size_t i = 0; i < count; ++i) {
    TfType piece{FirstType(in), in.Shape(0)};
    if (piece.dims && axis && sizes != nullptr && i < sizes->size()) {
      std::int64_t& dim = (*piece.dims)[in.Axis(*axis, piece.dims->size())];
      std::int64_t size = (*sizes)[i];
      if (size < 0 && dim != kFree) {
        size = dim;
        for (const std::int64_t other : *sizes) size -= std::max<std::int64_t>(other, 0);
      }
      dim = size < 0 ? kFree : size;
    } else {
      piece.dims.reset();
    }
    types.push_back(piece);
  }
  return types;
}

Types Packed(const In& in) {
  if (!in.Has(0) || !in.Shape(0)) return OneOf(in, std::nullopt);
  std::vector<std::int64_t> dims = *in.Shape(0);
  const std::size_t axis = in.Axis(TfInteger(in.node, "axis", 0), dims.size() + 1);
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<std::int64_t>(in.inputs.size()));
  return OneOf(in, dims);
}

Types Unpacked(const In& in) {
  const std::size_t count = CountOf(in, "num");
  TfType piece{FirstType(in), in.Shape(0)};
  if (piece.dims) {
    piece.dims->erase(piece.dims->begin() +
                      static_cast<std::ptrdiff_t>(in.Axis(TfInteger(in.node, "axis", 0), piece.dims->size())));
  }
  return Types(count, piece);
}

// Source: tf.strided_slice, with its five masks.
Types StridedSlice(const In& in) {
  const auto* const begin = in.Known(1);
  const auto* const end = in.Known(2);
  const auto* const stride = in.Known(3);
  if (!in.Shape(0) || begin == nullptr || end == nullptr || stride == nullptr || begin->size() != end->size() ||
      begin->size() != stride->size()) {
    return OneOf(in, std::nullopt);
  }
  const auto mask = [&](const char* name, std::size_t i) {
    return i < 63 && (static_cast<std::uint64_t>(TfInteger(in.node, name, 0)) >> i & 1) != 0;
  };
  const std::vector<std::int64_t>& x = *in.Shape(0);
  std::size_t new_axes = 0;
  bool has_ellipsis = false;
  for (std::size_t i = 0; i < begin->size(); ++i) {
    if (mask("ellipsis_mask", i)) {
      has_ellipsis = true;
    } else if (mask("new_axis_mask", i)) {
      ++new_axes;
    }
  }
  const std::size_t named = begin->size() - new_axes - (has_ellipsis ? 1 : 0);
  if (named > x.size()) in.Refuse(fmt::format("{} slices of {} dimensions", named, x.size()));
  std::vector<std::int64_t> dims;
  std::size_t at = 0;
  for (std::size_t i = 0; i < begin->size(); ++i) {
    if (mask("ellipsis_mask", i)) {
      for (std::size_t k = 0; k < x.size() - named; ++k) dims.push_back(x[at++]);
      continue;
    }
    if (mask("new_axis_mask", i)) {
      dims.push_back(1);
      continue;
    }
    const std::int64_t size = x[at++];
    if (mask("shrink_axis_mask", i)) continue;
    const std::int64_t step = (*stride)[i];
    if (step == 0) in.Refuse("a stride of 0");
    if (size == kFree) {
      dims.push_back(kFree);
      continue;
    }
    const std::int64_t lowest = step > 0 ? 0 : -1;
    const std::int64_t highest = step > 0 ? size : size - 1;
    const auto place = [&](std::int64_t value) {
      return std::clamp(value < 0 ? value + size : value, lowest, highest);
    };
    const std::int64_t first = mask("begin_mask", i) ? (step > 0 ? 0 : size - 1) : place((*begin)[i]);
    const std::int64_t last = mask("end_mask", i) ? (step > 0 ? size : -1) : place((*end)[i]);
    const std::int64_t way = step > 0 ? last - first : first - last;
    const std::int64_t pace = step > 0 ? step : -step;
    dims.push_back(way <= 0 ? 0 : (way + pace - 1) / pace);
  }
  while (at < x.size()) dims.push_back(x[at++]);
  return OneOf(in, dims);
}

Types Sliced(const In& in) {
  const auto* const begin = in.Known(1);
  const auto* const size = in.Known(2);
  if (size == nullptr) return OneOf(in, in.ShapeIn(2));
  std::vector<std::int64_t> dims = *size;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= 0) continue;
    const bool is_known =
        begin != nullptr && i < begin->size() && in.Shape(0) && i < in.Shape(0)->size() && (*in.Shape(0))[i] != kFree;
    dims[i] = is_known ? (*in.Shape(0))[i] - (*begin)[i] : kFree;
  }
  return OneOf(in, dims);
}

Types Padded(const In& in) {
  const auto* const pads = in.Known(1);
  if (!in.Shape(0)) return OneOf(in, std::nullopt);
  std::vector<std::int64_t> dims = *in.Shape(0);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (pads == nullptr || dims[i] == kFree || 2 * i + 1 >= pads->size()) {
      dims[i] = kFree;
    } else {
      dims[i] += (*pads)[2 * i] + (*pads)[2 * i + 1];
    }
  }
  return OneOf(in, dims);
}

Types Tiled(const In& in) {
  const auto* const times = in.Known(1);
  if (!in.Shape(0)) return OneOf(in, std::nullopt);
  std::vector<std::int64_t> dims = *in.Shape(0);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    dims[i] = times == nullptr || i >= times->size() || dims[i] == kFree ? kFree : dims[i] * (*times)[i];
  }
  return OneOf(in, dims);
}

Types GatheredAlong(const In& in, std::int64_t axis) {
  if (!in.Shape(0) || !in.Shape(1)) return OneOf(in, std::nullopt);
  const std::vector<std::int64_t>& x = *in.Shape(0);
  const std::vector<std::int64_t>& rows = *in.Shape(1);
  const std::size_t at = in.Axis(axis, x.size());
  const auto batch = static_cast<std::ptrdiff_t>(std::clamp<std::int64_t>(
      TfInteger(in.node, "batch_dims", 0), 0, static_cast<std::int64_t>(std::min(at, rows.size()))));
  std::vector<std::int64_t> dims(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(at));
  dims.insert(dims.end(), rows.begin() + batch, rows.end());
  dims.insert(dims.end(), x.begin() + static_cast<std::ptrdiff_t>(at) + 1, x.end());
  return OneOf(in, dims);
}
Types Gathered(const In& in) { return GatheredAlong(in, 0); }
Types GatheredV2(const In& in) {
  const auto axis = in.Scalar(2);
  return axis ? GatheredAlong(in, *axis) : OneOf(in, std::nullopt);
}

Types Segments(const In& in) {
  if (!in.Shape(0) || !in.Shape(1)) return OneOf(in, std::nullopt);
  std::vector<std::int64_t> dims{in.Scalar(2).value_or(kFree)};
  const std::size_t skipped = std::min(in.Shape(1)->size(), in.Shape(0)->size());
  dims.insert(dims.end(), in.Shape(0)->begin() + static_cast<std::ptrdiff_t>(skipped), in.Shape(0)->end());
  return OneOf(in, dims);
}

Dims ReducedDims(const In& in) {
  if (!in.Shape(0)) return std::nullopt;
  const auto* const axes = in.Known(1);
  const bool keep = TfFlag(in.node, "keep_dims");
  if (axes == nullptr) return keep ? Dims(std::vector<std::int64_t>(in.Shape(0)->size(), kFree)) : std::nullopt;
  std::set<std::size_t> gone;
  for (const std::int64_t axis : *axes) gone.insert(in.Axis(axis, in.Shape(0)->size()));
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < in.Shape(0)->size(); ++i) {
    if (!gone.contains(i)) {
      dims.push_back((*in.Shape(0))[i]);
    } else if (keep) {
      dims.push_back(1);
    }
  }
  return dims;
}
Types Reduced(const In& in) { return OneOf(in, ReducedDims(in)); }
Types ReducedTest(const In& in) { return One(tensorflow::DT_BOOL, ReducedDims(in)); }
Types ArgReduced(const In& in) {
  const DataType named = TfDataType(in.node, "output_type");
  return One(named == tensorflow::DT_INVALID ? tensorflow::DT_INT64 : named, ReducedDims(in));
}

Types CrossEntropy(const In& in) {
  const Dims& logits = in.Shape(0);
  if (!logits) return {{FirstType(in), std::nullopt}, {FirstType(in), std::nullopt}};
  return {{FirstType(in), std::vector<std::int64_t>(logits->begin(), logits->end() - (logits->empty() ? 0 : 1))},
          in.Type(0)};
}

Types OneHot(const In& in) {
  if (!in.Shape(0)) return One(in.Type(2).dtype, std::nullopt);
  std::vector<std::int64_t> dims = *in.Shape(0);
  const std::int64_t axis = TfInteger(in.node, "axis", -1);
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(in.Axis(axis, dims.size() + 1)), in.Scalar(1).value_or(kFree));
  return One(in.Type(2).dtype, dims);
}

Types Filled(const In& in) { return One(in.Type(1).dtype, in.ShapeIn(0)); }
Types RandomOf(const In& in) {
  return One(TfDataType(in.node, in.node.op() == "RandomUniformInt" ? "Tout" : "dtype"), in.ShapeIn(0));
}
Types BroadcastTo(const In& in) { return OneOf(in, in.ShapeIn(1)); }

DataType IndexType(const In& in, const char* attr) {
  const DataType named = TfDataType(in.node, attr);
  return named == tensorflow::DT_INVALID ? tensorflow::DT_INT32 : named;
}
Types RankVector(const In& in) {
  return One(IndexType(in, "out_type"), in.Shape(0) ? Dims(std::vector{static_cast<std::int64_t>(in.Shape(0)->size())})
                                                    : Dims(std::vector{kFree}));
}
Types RankVectors(const In& in) {
  Types types;
  for (std::size_t i = 0; i < in.inputs.size(); ++i) {
    types.push_back(
        {IndexType(in, "out_type"), std::vector{in.Shape(i) ? static_cast<std::int64_t>(in.Shape(i)->size()) : kFree}});
  }
  return types;
}
Types IndexScalar(const In& in) { return One(IndexType(in, "out_type"), std::vector<std::int64_t>{}); }
Types VectorOf(const In& in) { return OneOf(in, std::vector{kFree}); }
Types TwoVectors(const In& in) { return {{FirstType(in), std::vector{kFree}}, {FirstType(in), std::vector{kFree}}}; }
Types OffsetsOfConcat(const In& in) {
  Types types;
  for (std::size_t i = 1; i < in.inputs.size(); ++i) types.push_back({tensorflow::DT_INT32, in.Shape(i)});
  return types;
}

Types TopOf(const In& in) {
  Dims dims = in.Shape(0);
  if (dims && !dims->empty()) dims->back() = in.Scalar(1).value_or(kFree);
  return {{FirstType(in), dims}, {tensorflow::DT_INT32, dims}};
}

Types EinsumOf(const In& in) {
  std::vector<std::vector<std::int64_t>> shapes;
  for (std::size_t i = 0; i < in.inputs.size(); ++i) {
    if (!in.Type(i).HasShape()) return OneOf(in, std::nullopt);
    shapes.push_back(*in.Shape(i));
  }
  const Dims dims = EinsumShape(TfText(in.node, "equation"), shapes);
  if (!dims) in.Refuse(fmt::format("the equation {} does not fit its inputs", Quoted(TfText(in.node, "equation"))));
  return OneOf(in, dims);
}

Types Resized(const In& in) {
  if (!in.Shape(0) || in.Shape(0)->size() != 4) return One(tensorflow::DT_FLOAT, std::nullopt);
  std::vector<std::int64_t> dims = *in.Shape(0);
  const auto* const size = in.Known(1);
  dims[1] = size != nullptr && size->size() == 2 ? (*size)[0] : kFree;
  dims[2] = size != nullptr && size->size() == 2 ? (*size)[1] : kFree;
  return One(in.node.op() == "ResizeNearestNeighbor" ? FirstType(in) : tensorflow::DT_FLOAT, dims);
}

Types DepthToSpaceOf(const In& in) {
  if (!in.Shape(0) || in.Shape(0)->size() != 4) return OneOf(in, std::nullopt);
  std::vector<std::int64_t> dims = *in.Shape(0);
  const std::size_t channel = ChannelAxis(in, 4);
  const std::int64_t block = std::max<std::int64_t>(TfInteger(in.node, "block_size", 1), 1);
  for (std::size_t axis = 1; axis < 4; ++axis) {
    if (dims[axis] == kFree) continue;
    const bool grows = (axis != channel) == (in.node.op() == "DepthToSpace");
    const std::int64_t factor = axis == channel ? block * block : block;
    dims[axis] = grows ? dims[axis] * factor : dims[axis] / factor;
  }
  return OneOf(in, dims);
}

// (seq_len, x[T,N,I], cs_prev, h_prev, ..): seven tensors of time, batch and cell; without time for a cell.
Types RecurrentBlock(const In& in) {
  const bool is_cell = in.node.op().ends_with("Cell");
  const Dims& x = in.Shape(is_cell ? 0 : 1);
  const Dims& state = in.Shape(is_cell ? 1 : 2);
  Dims dims;
  if (x && state && !x->empty() && !state->empty()) {
    dims = std::vector<std::int64_t>(x->begin(), x->end() - 1);
    dims->push_back(state->back());
  }
  return Types(in.node.op().starts_with("GRU") ? 4 : 7, TfType{FirstType(in), dims});
}

// The rules by operator.
const std::unordered_map<std::string_view, Types (*)(const In&)>& Rules() {
  static const std::unordered_map<std::string_view, Types (*)(const In&)> rules = [] {
    std::unordered_map<std::string_view, Types (*)(const In&)> all;
    const auto add = [&](Types (*rule)(const In&), std::initializer_list<std::string_view> ops) {
      for (const std::string_view op : ops) all.emplace(op, rule);
    };
    add(Broadcasting,
        {"Add",         "AddV2",      "Sub",       "Mul",         "Div",       "RealDiv",           "FloorDiv",
         "TruncateDiv", "FloorMod",   "Mod",       "TruncateMod", "DivNoNan",  "MulNoNan",          "Xdivy",
         "Xlogy",       "Xlog1py",    "Maximum",   "Minimum",     "Pow",       "SquaredDifference", "LogicalAnd",
         "LogicalOr",   "BitwiseAnd", "BitwiseOr", "BitwiseXor",  "LeftShift", "RightShift",        "Atan2",
         "ClipByValue", "NextAfter"});
    add(Comparison, {"Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "ApproximateEqual"});
    add(AsFirst, {"Abs",
                  "AddN",
                  "BiasAdd",
                  "BiasAddV1",
                  "Ceil",
                  "CheckNumerics",
                  "Cos",
                  "Cosh",
                  "Cumsum",
                  "Cumprod",
                  "Digamma",
                  "Elu",
                  "EluGrad",
                  "Erf",
                  "Erfc",
                  "Exp",
                  "Expm1",
                  "FakeQuantWithMinMaxArgs",
                  "FakeQuantWithMinMaxVars",
                  "Floor",
                  "Invert",
                  "Inv",
                  "InvGrad",
                  "L2Normalize",
                  "LRN",
                  "LeakyRelu",
                  "LeakyReluGrad",
                  "Lgamma",
                  "Log",
                  "LogSoftmax",
                  "Log1p",
                  "LogicalNot",
                  "MatrixBandPart",
                  "Neg",
                  "OnesLike",
                  "Reciprocal",
                  "ReciprocalGrad",
                  "Relu",
                  "Relu6",
                  "Relu6Grad",
                  "ReluGrad",
                  "Reverse",
                  "ReverseV2",
                  "ReverseSequence",
                  "Rint",
                  "Roll",
                  "Round",
                  "Rsqrt",
                  "RsqrtGrad",
                  "Selu",
                  "SeluGrad",
                  "Sigmoid",
                  "SigmoidGrad",
                  "Sign",
                  "Sin",
                  "Sinh",
                  "Softmax",
                  "Softplus",
                  "SoftplusGrad",
                  "Softsign",
                  "SoftsignGrad",
                  "Sqrt",
                  "SqrtGrad",
                  "Square",
                  "Tan",
                  "Tanh",
                  "TanhGrad",
                  "ZerosLike",
                  "MaxPoolGrad",
                  "MaxPool3DGrad",
                  "LRNGrad",
                  "Asin",
                  "Acos",
                  "Atan",
                  "MaxPoolGradV2",
                  "TensorScatterUpdate",
                  "TensorScatterAdd",
                  "Identity",
                  "DeepCopy",
                  "_MklNativeRelu",
                  "InplaceUpdate",
                  "RandomShuffle",
                  "EnsureShape",
                  "Assign",
                  "AssignAdd",
                  "AssignSub"});
    add(AsSecond, {"Select"});
    add(Selection, {"SelectV2"});
    add(TestOfFirst, {"IsNan", "IsInf", "IsFinite"});
    add(CastOf, {"Cast"});
    add(BitcastOf, {"Bitcast"});
    add(Scalar, {"L2Loss"});
    add(Product, {"MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "_FusedMatMul", "SparseMatMul"});
    add(Convolution, {"Conv2D", "Conv3D", "DepthwiseConv2dNative", "_FusedConv2D"});
    add(ShapeFirst, {"Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput",
                     "AvgPoolGrad", "AvgPool3DGrad", "StridedSliceGrad"});
    add(ShapeSecond, {"Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter"});
    add(ShapeThird, {"ScatterNd"});
    add(Pool, {"MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D"});
    add(BatchNorm, {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"});
    add(BatchNormGrad, {"FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"});
    add(BiasGrad, {"BiasAddGrad"});
    add(Reshaped, {"Reshape"});
    add(Expanded, {"ExpandDims"});
    add(Squeezed, {"Squeeze"});
    add(Transposed, {"Transpose", "ConjugateTranspose"});
    add(ConcatLast, {"ConcatV2"});
    add(ConcatFirst, {"Concat"});
    add(SplitEqual, {"Split"});
    add(SplitSizes, {"SplitV"});
    add(Packed, {"Pack"});
    add(Unpacked, {"Unpack"});
    add(StridedSlice, {"StridedSlice"});
    add(Sliced, {"Slice"});
    add(Padded, {"Pad", "PadV2", "MirrorPad"});
    add(Tiled, {"Tile"});
    add(Gathered, {"Gather", "ResourceGather"});
    add(GatheredV2, {"GatherV2"});
    add(Segments, {"UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"});
    add(Reduced, {"Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm"});
    add(ReducedTest, {"All", "Any"});
    add(ArgReduced, {"ArgMax", "ArgMin"});
    add(CrossEntropy, {"SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"});
    add(OneHot, {"OneHot"});
    add(Filled, {"Fill"});
    add(RandomOf, {"RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt",
                   "StatelessRandomUniform", "StatelessRandomUniformV2", "StatelessRandomNormal",
                   "StatelessRandomNormalV2", "StatelessTruncatedNormal", "StatelessTruncatedNormalV2"});
    add(BroadcastTo, {"BroadcastTo"});
    add(RankVector, {"Shape", "VariableShape"});
    add(RankVectors, {"ShapeN"});
    add(IndexScalar, {"Size", "Rank"});
    add(VectorOf, {"Range"});
    add(TwoVectors, {"BroadcastGradientArgs"});
    add(AsFirst, {"InvertPermutation"});
    add(OffsetsOfConcat, {"ConcatOffset"});
    add(TopOf, {"TopKV2", "TopK"});
    add(EinsumOf, {"Einsum"});
    add(Resized, {"ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea"});
    add(DepthToSpaceOf, {"DepthToSpace", "SpaceToDepth"});
    add(RecurrentBlock, {"BlockLSTM", "BlockLSTMV2", "LSTMBlockCell", "GRUBlockCell"});
    return all;
  }();
  return rules;
}

// What the file says of the outputs, where nothing better is known.
void TakeStatedShapes(const NodeDef& node, Types* types) {
  const auto* const stated = FindTfAttr(node, "_output_shapes");
  if (stated == nullptr) return;
  const auto& shapes = stated->list().shape();
  while (types->size() < static_cast<std::size_t>(shapes.size())) types->emplace_back();
  for (std::size_t i = 0; i < static_cast<std::size_t>(shapes.size()); ++i) {
    TfType& type = (*types)[i];
    const Dims dims = TfDims(shapes[static_cast<int>(i)]);
    if (!type.dims) {
      type.dims = dims;
    } else if (dims && dims->size() == type.dims->size()) {
      for (std::size_t k = 0; k < dims->size(); ++k) {
        if ((*type.dims)[k] == kFree) (*type.dims)[k] = (*dims)[k];
      }
    }
  }
}

// Types that attributes name.
void TakeStatedTypes(const NodeDef& node, Types* types) {
  for (const char* const name : {"Tout", "output_types", "component_types", "out_types"}) {
    const auto* const attr = FindTfAttr(node, name);
    if (attr == nullptr) continue;
    for (int i = 0; i < attr->list().type_size(); ++i) {
      if (static_cast<std::size_t>(i) >= types->size()) types->emplace_back();
      TfType& type = (*types)[static_cast<std::size_t>(i)];
      if (type.dtype == tensorflow::DT_INVALID) type.dtype = WithoutReference(attr->list().type(i));
    }
  }
}

}  // namespace
}  // namespace tf_shape

std::vector<TfType> InferTfTypes(const tensorflow::NodeDef& node, std::span<const TfValue> inputs) {
  const tf_shape::In in{node, inputs};
  const auto rule = tf_shape::Rules().find(node.op());
  std::vector<TfType> types;
  if (rule != tf_shape::Rules().end()) types = rule->second(in);
  tf_shape::TakeStatedTypes(node, &types);
  tf_shape::TakeStatedShapes(node, &types);
  for (TfType& type : types) {
    if (type.dtype == tensorflow::DT_INVALID) type.dtype = tf_shape::FirstType(in);
  }
  return types;
}

}  // namespace emplace::datasets
