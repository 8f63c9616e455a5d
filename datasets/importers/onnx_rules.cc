#include "datasets/importers/onnx_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "datasets/importers/onnx_rule_inputs.h"
#include "datasets/importers/onnx_values.h"
#include "sim/ops/einsum.h"

namespace emplace::datasets {
namespace onnx_rule {
namespace {

constexpr std::int32_t kUint8Element = 2;
constexpr int kOnlyOtherwise = std::numeric_limits<int>::max();  // libonnx comes first
constexpr std::int64_t kMostPad = std::int64_t{1} << 40;

void SameAsFirst(const Inputs& in, Outputs* out) { out->Set(0, in.ElementOf(0), in.Dims(0)); }

// y = norm(x) scaled: the type is that of the scale.
void Normalised(const Inputs& in, Outputs* out) {
  out->Set(0, in.Has(1) ? in.ElementOf(1) : in.ElementOf(0), in.Dims(0));
}

// libonnx 1.12 takes any axis.
void LayerNorm(const Inputs& in, Outputs* out) {
  RuleDims rows = in.Dims(0);
  const std::size_t axis = AxisOf(in.node.Integer("axis", -1), rows.size());
  std::fill(rows.begin() + static_cast<std::ptrdiff_t>(axis), rows.end(), 1);
  const auto stored = static_cast<std::int32_t>(in.node.Integer("stash_type", kOnnxFloat));
  out->Set(0, in.ElementOf(0), in.Dims(0));
  out->Set(1, stored, rows);
  out->Set(2, stored, rows);
}

void Broadcast(const Inputs& in, Outputs* out) {
  RuleDims dims = in.Dims(0);
  for (std::size_t i = 1; i < in.node.inputs.size(); ++i) {
    const auto both = BroadcastOnnx(dims, in.Dims(i));
    if (!both) NoShape("its inputs do not fit each other");
    dims = *both;
  }
  out->Set(0, in.ElementOf(0), std::move(dims));
}

void Comparison(const Inputs& in, Outputs* out) {
  Broadcast(in, out);
  out->types[0].element = kOnnxBool;
}

void CastTo(const Inputs& in, Outputs* out) {
  out->Set(0, static_cast<std::int32_t>(in.node.Integer("to", in.ElementOf(0))), in.Dims(0));
}

void CastLike(const Inputs& in, Outputs* out) { out->Set(0, in.ElementOf(1), in.Dims(0)); }

void Quantize(const Inputs& in, Outputs* out) {
  const auto wanted = static_cast<std::int32_t>(in.node.Integer("output_dtype", kOnnxUnknown));
  out->Set(0, wanted != kOnnxUnknown ? wanted : in.Has(2) ? in.ElementOf(2) : kUint8Element, in.Dims(0));
}

void Dequantize(const Inputs& in, Outputs* out) {
  const auto wanted = static_cast<std::int32_t>(in.node.Integer("output_dtype", kOnnxUnknown));
  out->Set(0, wanted != kOnnxUnknown ? wanted : in.ElementOf(1), in.Dims(0));
}

void DynamicQuantize(const Inputs& in, Outputs* out) {
  out->Set(0, kUint8Element, in.Dims(0));
  out->Set(1, kOnnxFloat, {});
  out->Set(2, kUint8Element, {});
}

void EinsumRule(const Inputs& in, Outputs* out) {
  std::vector<RuleDims> shapes;
  for (std::size_t i = 0; i < in.node.inputs.size(); ++i) shapes.push_back(in.Dims(i));
  const auto shape = EinsumShape(in.node.Text("equation", ""), shapes);
  if (!shape) NoShape("its equation does not fit its inputs");
  out->Set(0, in.ElementOf(0), *shape);
}

RuleDims Reduced(const Inputs& in) {
  const auto axes = in.Given("axes", 1, "axes");
  const RuleDims& x = in.Dims(0);
  if ((!axes || axes->empty()) && in.node.Integer("noop_with_empty_axes", 0) != 0) return x;
  std::vector<bool> is_gone(x.size(), !axes || axes->empty());
  if (axes) {
    for (const std::int64_t axis : *axes) is_gone[AxisOf(axis, x.size())] = true;
  }
  RuleDims dims;
  for (std::size_t k = 0; k < x.size(); ++k) {
    if (!is_gone[k]) dims.push_back(x[k]);
    if (is_gone[k] && in.node.Integer("keepdims", 1) != 0) dims.push_back(1);
  }
  return dims;
}

void Reduce(const Inputs& in, Outputs* out) { out->Set(0, in.ElementOf(0), Reduced(in)); }

void Split(const Inputs& in, Outputs* out) {
  const RuleDims& x = in.Dims(0);
  const std::size_t axis = AxisOf(in.node.Integer("axis", 0), x.size());
  const auto sizes = in.Given("split", 1, "sizes");
  const auto count = static_cast<std::int64_t>(out->types.size());
  if (sizes) Expect(sizes->size() == out->types.size(), "its sizes are not as many as its outputs");
  const std::int64_t piece = x[axis] / count + (x[axis] % count != 0 ? 1 : 0);
  for (std::int64_t i = 0; i < count; ++i) {
    RuleDims dims = x;
    dims[axis] =
        sizes ? (*sizes)[static_cast<std::size_t>(i)] : std::clamp<std::int64_t>(x[axis] - i * piece, 0, piece);
    Expect(dims[axis] >= 0, "its sizes are negative");
    out->Set(static_cast<std::size_t>(i), in.ElementOf(0), std::move(dims));
  }
}

void Pad(const Inputs& in, Outputs* out) {
  RuleDims dims = in.Dims(0);
  const auto pads = in.Given("pads", 1, "pads");
  Expect(pads.has_value(), "it has no pads");
  RuleDims axes;
  if (in.Has(3)) {
    axes = in.Known(3, "axes");
  } else {
    for (std::size_t k = 0; k < dims.size(); ++k) axes.push_back(static_cast<std::int64_t>(k));
  }
  Expect(pads->size() == 2 * axes.size(), "its pads and axes do not fit");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::int64_t& dim = dims[AxisOf(axes[i], dims.size())];
    dim = Plus(Plus(dim, (*pads)[i]), (*pads)[i + axes.size()]);
    Expect(dim >= 0, "its pads do not fit");
  }
  out->Set(0, in.ElementOf(0), std::move(dims));
}

// Sizes of the spatial dimensions that a window leads to.
RuleDims Windowed(const Inputs& in, const RuleDims& image, RuleDims window, std::size_t first) {
  const std::size_t rank = image.size() - first;
  const auto each = [&](const std::string& attr, std::int64_t absent, std::size_t count) {
    RuleDims values = in.node.Integers(attr);
    if (values.empty()) values.assign(count, absent);
    Expect(values.size() == count, "its attributes do not fit its rank");
    for (const std::int64_t value : values) {
      if (value < (absent == 0 ? -kMostPad : 1) || value > kMostPad) {
        NoShape(fmt::format("attribute {} is {}", attr, value));
      }
    }
    return values;
  };
  if (window.empty()) window = in.node.Integers("kernel_shape");
  Expect(window.size() == rank, "its window does not fit its rank");
  const RuleDims strides = each("strides", 1, rank);
  const RuleDims dilations = each("dilations", 1, rank);
  const RuleDims pads = each("pads", 0, 2 * rank);
  const std::string automatic = in.node.Text("auto_pad", "NOTSET");
  const bool rounds_up = in.node.Integer("ceil_mode", 0) != 0;
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

void ConvolutionOf(const Inputs& in, std::size_t x, std::size_t w, std::int32_t element, Outputs* out) {
  const RuleDims& image = in.Dims(x);
  const RuleDims& filter = in.Dims(w);
  Expect(image.size() >= 3 && image.size() == filter.size(), "its image and its filter have no common rank");
  RuleDims dims = {image[0], filter[0]};
  const RuleDims sizes = Windowed(in, image, {filter.begin() + 2, filter.end()}, 2);
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  out->Set(0, element, std::move(dims));
}

void Convolution(const Inputs& in, Outputs* out) { ConvolutionOf(in, 0, 1, in.ElementOf(0), out); }

void ConvolutionOfIntegers(const Inputs& in, Outputs* out) { ConvolutionOf(in, 0, 1, kOnnxInt32, out); }

void QuantizedConvolution(const Inputs& in, Outputs* out) {
  if (in.node.Integer("channels_last", 0) != 0) {
    RuleDims image = in.Dims(0);
    Expect(image.size() >= 3 && in.Dims(3).size() == image.size(), "its image and its filter have no common rank");
    const RuleDims& filter = in.Dims(3);
    std::rotate(image.begin() + 1, image.end() - 1, image.end());
    RuleDims dims = {image[0]};
    const RuleDims sizes = Windowed(in, image, {filter.begin() + 2, filter.end()}, 2);
    dims.insert(dims.end(), sizes.begin(), sizes.end());
    dims.push_back(filter[0]);
    return out->Set(0, in.Has(7) ? in.ElementOf(7) : in.ElementOf(0), std::move(dims));
  }
  ConvolutionOf(in, 0, 3, in.Has(7) ? in.ElementOf(7) : in.ElementOf(0), out);
}

void Pool(const Inputs& in, Outputs* out) {
  const RuleDims& image = in.Dims(0);
  Expect(image.size() >= 3, "its image has no spatial dimension");
  RuleDims dims = {image[0], image[1]};
  const RuleDims sizes = Windowed(in, image, {}, 2);
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  out->Set(1, kOnnxInt64, dims);
  out->Set(0, in.ElementOf(0), std::move(dims));
}

void GlobalPool(const Inputs& in, Outputs* out) {
  RuleDims dims = in.Dims(0);
  Expect(dims.size() >= 2, "its image has no channels");
  const bool is_last = in.node.Integer("channels_last", 0) != 0;
  for (std::size_t k = is_last ? 1 : 2; k < dims.size() - (is_last ? 1 : 0); ++k) dims[k] = 1;
  out->Set(0, in.ElementOf(0), std::move(dims));
}

// As numpy.matmul has it.
RuleDims Product(RuleDims a, RuleDims b) {
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

void ProductOfIntegers(const Inputs& in, Outputs* out) { out->Set(0, kOnnxInt32, Product(in.Dims(0), in.Dims(1))); }

void ProductToFloat(const Inputs& in, Outputs* out) { out->Set(0, in.ElementOf(2), Product(in.Dims(0), in.Dims(1))); }

void DynamicProduct(const Inputs& in, Outputs* out) { out->Set(0, in.ElementOf(0), Product(in.Dims(0), in.Dims(1))); }

void QuantizedProduct(const Inputs& in, Outputs* out) {
  out->Set(0, in.Has(7) ? in.ElementOf(7) : in.ElementOf(0), Product(in.Dims(0), in.Dims(3)));
}

void FusedMatMul(const Inputs& in, Outputs* out) {
  RuleDims a = in.Dims(0);
  RuleDims b = in.Dims(1);
  // transBatch turns the first dimension behind the others but the last: [b.., m, k] stored as [m, b.., k].
  const auto turned = [&](RuleDims* dims, const std::string& side) {
    if (dims->size() < 2) return;
    if (in.node.Integer("transBatch" + side, 0) != 0) std::rotate(dims->begin(), dims->begin() + 1, dims->end() - 1);
    if (in.node.Integer("trans" + side, 0) != 0) std::swap(dims->back(), (*dims)[dims->size() - 2]);
  };
  turned(&a, "A");
  turned(&b, "B");
  out->Set(0, in.ElementOf(0), Product(std::move(a), std::move(b)));
}

void FusedGemm(const Inputs& in, Outputs* out) {
  // QGemm has a scale and a zero point behind each factor.
  const bool is_quantized = in.node.op == "QGemm";
  const std::size_t b = is_quantized ? 3 : 1;
  in.ExpectRank(0, 2);
  in.ExpectRank(b, 2);
  out->Set(
      0,
      !is_quantized ? in.ElementOf(0)
      : in.Has(8)   ? in.ElementOf(8)
                    : kOnnxFloat,
      {in.Dims(0)[in.node.Integer("transA", 0) != 0 ? 1 : 0], in.Dims(b)[in.node.Integer("transB", 0) != 0 ? 0 : 1]});
}

void MatMulNBits(const Inputs& in, Outputs* out) {
  RuleDims dims = in.Dims(0);
  const std::int64_t columns = in.node.Integer("N", 0);
  Expect(!dims.empty() && columns > 0 && dims.back() == in.node.Integer("K", 0), "its attributes K and N do not fit");
  dims.back() = columns;
  out->Set(0, in.ElementOf(0), std::move(dims));
}

void SkipNorm(const Inputs& in, Outputs* out) {
  out->Set(0, in.ElementOf(0), in.Dims(0));
  const RuleDims& x = in.Dims(0);
  RuleDims rows = x;
  if (!rows.empty()) rows.back() = 1;
  out->Set(1, kOnnxFloat, rows);
  out->Set(2, kOnnxFloat, rows);
  out->Set(3, in.ElementOf(0), x);
}

// Ids are [B, S], tables [n, D].
void EmbedNorm(const Inputs& in, Outputs* out) {
  in.ExpectRank(0, 2);
  in.ExpectRank(2, 2);
  const RuleDims sums = {in.Dims(0)[0], in.Dims(0)[1], in.Dims(2)[1]};
  out->Set(0, in.ElementOf(2), sums);
  out->Set(1, kOnnxInt32, {in.Dims(0)[0]});
  out->Set(2, in.ElementOf(2), sums);
}

void QuantizedBinary(const Inputs& in, Outputs* out) {
  const auto dims = BroadcastOnnx(in.Dims(0), in.Dims(3));
  if (!dims) NoShape("its inputs do not fit each other");
  out->Set(0, in.ElementOf(0), *dims);
}

// y_scale, y_zero_point, then tensor, scale and zero point of each part.
void QuantizedConcat(const Inputs& in, Outputs* out) {
  RuleDims dims = in.Dims(2);
  const std::size_t axis = AxisOf(in.node.Integer("axis", 0), dims.size());
  for (std::size_t i = 5; i < in.node.inputs.size(); i += 3) {
    Expect(in.Dims(i).size() == dims.size(), "its inputs do not fit each other");
    dims[axis] = Plus(dims[axis], in.Dims(i)[axis]);
  }
  out->Set(0, in.ElementOf(2), std::move(dims));
}

void GatherRows(const Inputs& in, Outputs* out) {
  const RuleDims& x = in.Dims(0);
  const auto axis = static_cast<std::ptrdiff_t>(AxisOf(in.node.Integer("gather_axis", 0), x.size()));
  RuleDims dims(x.begin(), x.begin() + axis);
  dims.insert(dims.end(), in.Dims(1).begin(), in.Dims(1).end());
  dims.insert(dims.end(), x.begin() + axis + 1, x.end());
  Expect(!dims.empty(), "its table has no dimension");
  // Two numbers of 4 bits share a byte.
  if (in.ElementOf(0) == kUint8Element && in.node.Integer("bits", 4) == 4) dims.back() = Times(dims.back(), 2);
  out->Set(0, in.ElementOf(2), std::move(dims));
}

void Resize(const Inputs& in, Outputs* out) {
  const RuleDims& x = in.Dims(0);
  RuleDims axes = in.node.Integers("axes");
  if (axes.empty()) {
    for (std::size_t k = 0; k < x.size(); ++k) axes.push_back(static_cast<std::int64_t>(k));
  }
  RuleDims dims = x;
  const OnnxContent* const scales = in.Content(2);
  if (in.Has(3) && !(in.Content(3) != nullptr && in.Content(3)->size() == 0)) {
    const RuleDims& sizes = in.Known(3, "sizes");
    Expect(sizes.size() == axes.size(), "its sizes and axes do not fit");
    const std::string policy = in.node.Text("keep_aspect_ratio_policy", "stretch");
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
  out->Set(0, in.ElementOf(0), std::move(dims));
}

void CenterCropPad(const Inputs& in, Outputs* out) {
  RuleDims dims = in.Dims(0);
  const RuleDims& sizes = in.Known(1, "sizes");
  RuleDims axes = in.node.Integers("axes");
  if (axes.empty()) {
    for (std::size_t k = 0; k < dims.size(); ++k) axes.push_back(static_cast<std::int64_t>(k));
  }
  Expect(axes.size() == sizes.size(), "its sizes and axes do not fit");
  for (std::size_t i = 0; i < axes.size(); ++i) dims[AxisOf(axes[i], dims.size())] = sizes[i];
  out->Set(0, in.ElementOf(0), std::move(dims));
}

// Blocks [N, C * block, L] put together to an image.
void Col2Im(const Inputs& in, Outputs* out) {
  in.ExpectRank(0, 3);
  const RuleDims& image = in.Known(1, "sizes");
  std::int64_t block = 1;
  for (const std::int64_t size : in.Known(2, "blocks")) block = Times(block, size);
  RuleDims dims = {in.Dims(0)[0], Part(in.Dims(0)[1], block)};
  dims.insert(dims.end(), image.begin(), image.end());
  out->Set(0, in.ElementOf(0), std::move(dims));
}

void GridSample(const Inputs& in, Outputs* out) {
  const RuleDims& grid = in.Dims(1);
  Expect(in.Dims(0).size() >= 3 && grid.size() == in.Dims(0).size(), "its image and its grid have no common rank");
  RuleDims dims = {in.Dims(0)[0], in.Dims(0)[1]};
  dims.insert(dims.end(), grid.begin() + 1, grid.end() - 1);
  out->Set(0, in.ElementOf(0), std::move(dims));
}

void AffineGrid(const Inputs& in, Outputs* out) {
  const RuleDims& size = in.Known(1, "sizes");
  Expect(size.size() == 4 || size.size() == 5, "its sizes are not 4 or 5");
  RuleDims dims = {size[0]};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  dims.push_back(static_cast<std::int64_t>(size.size()) - 2);
  out->Set(0, in.ElementOf(0), std::move(dims));
}

void CausalConvolution(const Inputs& in, Outputs* out) {
  in.ExpectRank(0, 3);
  in.ExpectRank(1, 3);
  out->Set(0, in.ElementOf(0), in.Dims(0));
  out->Set(1, in.ElementOf(0), {in.Dims(0)[0], in.Dims(0)[1], std::max<std::int64_t>(in.Dims(1)[2] - 1, 0)});
}

// How many parts there are at most depends on the texts; how many each has is an integer for each.
void StringSplit(const Inputs& in, Outputs* out) { out->Set(1, kOnnxInt64, in.Dims(0)); }

void FeatureExtractor(const Inputs& in, Outputs* out) {
  RuleDims dims = in.Dims(0);
  const auto count = OnnxElements(in.Dims(1));
  Expect(!dims.empty() && count.has_value(), "its features have no dimension");
  if (dims.size() == 1) dims.insert(dims.begin(), 1);
  dims.back() = *count;
  out->Set(0, in.ElementOf(0), std::move(dims));
}

void TreeEnsembleRule(const Inputs& in, Outputs* out) {
  in.ExpectRank(0, 2);
  out->Set(0, in.ElementOf(0), {in.Dims(0)[0], in.node.Integer("n_targets", 1)});
}

// Keys and values are texts, integers or numbers, by the attributes that are given.
void LabelEncoderRule(const Inputs& in, Outputs* out) {
  std::int32_t element = kOnnxUnknown;
  for (const auto& [attr, kind] : {std::pair{"values_strings", kOnnxString}, std::pair{"values_int64s", kOnnxInt64},
                                   std::pair{"values_floats", kOnnxFloat}}) {
    if (in.node.Find(attr) != nullptr) element = kind;
  }
  out->Set(0, element, in.Dims(0));
}

// From opset 20 on the axis is an input.
void Dft(const Inputs& in, Outputs* out) {
  RuleDims dims = in.Dims(0);
  Expect(dims.size() >= 2, "its signal has no length");
  constexpr std::int64_t kAxisIsInput = 20;
  const bool is_whole = in.node.Integer("onesided", 0) == 0 && !in.Has(1);
  if (is_whole) {
    // Whatever the axis is.
    dims.back() = 2;
    return out->Set(0, in.ElementOf(0), std::move(dims));
  }
  std::int64_t at = in.node.Integer("axis", in.node.opset >= kAxisIsInput ? -2 : 1);
  if (in.Has(2)) {
    Expect(in.Known(2, "axes").size() == 1, "its axis is not a number");
    at = in.Known(2, "axes")[0];
  }
  const std::size_t axis = AxisOf(at, dims.size());
  if (in.Has(1)) {
    Expect(in.Known(1, "lengths").size() == 1, "its length is not a number");
    dims[axis] = in.Known(1, "lengths")[0];
  }
  const bool is_inverse = in.node.Integer("inverse", 0) != 0;
  if (in.node.Integer("onesided", 0) != 0) {
    dims.back() = is_inverse ? 1 : 2;
    // A real signal has half of the frequencies.
    if (!is_inverse) dims[axis] = dims[axis] / 2 + 1;
    if (is_inverse && !in.Has(1)) dims[axis] = Times(2, std::max<std::int64_t>(dims[axis] - 1, 0));
  } else {
    dims.back() = 2;
  }
  out->Set(0, in.ElementOf(0), std::move(dims));
}

void OneHotRule(const Inputs& in, Outputs* out) {
  const OnnxContent* const depth = in.Content(1);
  if (depth == nullptr || depth->size() != 1 || !(depth->at(0) >= 0 && depth->at(0) < 0x1p40)) {
    NoShape("its depth is not constant");
  }
  RuleDims dims = in.Dims(0);
  const std::size_t axis = AxisOf(in.node.Integer("axis", -1), dims.size() + 1);
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<std::int64_t>(depth->at(0)));
  out->Set(0, in.ElementOf(2), std::move(dims));
}

void RangeRule(const Inputs& in, Outputs* out) {
  for (const std::size_t i : {0U, 1U, 2U}) {
    if (in.Content(i) == nullptr || in.Content(i)->size() != 1) NoShape("its limits are not constant");
  }
  const double step = in.Content(2)->at(0);
  const double count = step == 0 ? 0 : std::ceil((in.Content(1)->at(0) - in.Content(0)->at(0)) / step);
  Expect(count < 0x1p40, "it is too large");
  out->Set(0, in.ElementOf(0), {count > 0 ? static_cast<std::int64_t>(count) : 0});
}

void ExpandRule(const Inputs& in, Outputs* out) {
  const auto dims = BroadcastOnnx(in.Dims(0), in.Known(1, "sizes"));
  if (!dims) NoShape("its sizes do not fit");
  out->Set(0, in.ElementOf(0), *dims);
}

void TileRule(const Inputs& in, Outputs* out) {
  RuleDims dims = in.Dims(0);
  const RuleDims& counts = in.Known(1, "repeats");
  Expect(counts.size() == dims.size(), "its repeats do not fit");
  for (std::size_t k = 0; k < dims.size(); ++k) dims[k] = Times(dims[k], counts[k]);
  for (const std::int64_t dim : dims) Expect(dim >= 0, "its repeats are negative");
  out->Set(0, in.ElementOf(0), std::move(dims));
}

void ScalarInteger(const Inputs&, Outputs* out) { out->Set(0, kOnnxInt64, {}); }

void ScalarBool(const Inputs&, Outputs* out) { out->Set(0, kOnnxBool, {}); }

struct Row {
  std::string_view op;  // result of OnnxKind() without "onnx::"
  void (*rule)(const Inputs& in, Outputs* out);
  int since = kOnlyOtherwise;  // the first opset whose nodes are for this rule before libonnx's
};

// The row of a node's operator; null if there is none.
const Row* FindRow(const OnnxNode& node) {
  static constexpr int kAlways = 0;
  // In the order of their names.
  static constexpr Row kRows[] = {
      {"AffineGrid", AffineGrid},
      {"Attention", AttentionRule, kAlways},
      {"AveragePool", Pool, kAlways},
      {"BitCast", CastTo},
      {"BitwiseAnd", Broadcast},
      {"BitwiseNot", SameAsFirst},
      {"BitwiseOr", Broadcast},
      {"BitwiseXor", Broadcast},
      {"Cast", CastTo},
      {"CastLike", CastLike},
      {"CausalConvWithState", CausalConvolution},
      {"CenterCropPad", CenterCropPad},
      {"Col2Im", Col2Im},
      {"Conv", Convolution},
      {"ConvInteger", ConvolutionOfIntegers},
      {"CumProd", SameAsFirst},
      {"DFT", Dft, kAlways},
      {"DeformConv", Convolution},
      {"DequantizeLinear", Dequantize, kAlways},
      {"DynamicQuantizeLinear", DynamicQuantize},
      {"Einsum", EinsumRule, kAlways},
      {"Equal", Comparison},
      {"Expand", ExpandRule},
      {"Gelu", SameAsFirst},
      {"GreaterOrEqual", Comparison},
      {"GridSample", GridSample},
      {"GroupNormalization", SameAsFirst},
      {"LayerNormalization", LayerNorm, kAlways},
      {"LessOrEqual", Comparison},
      {"LinearAttention", LinearAttentionRule},
      {"LpPool", Pool, 18},
      {"MatMulInteger", ProductOfIntegers},
      {"MaxPool", Pool, kAlways},
      {"MeanVarianceNormalization", SameAsFirst},
      {"Mish", SameAsFirst},
      {"OneHot", OneHotRule},
      {"OptionalGetElement", SameAsFirst},
      {"OptionalHasElement", ScalarBool},
      {"Pad", Pad, 18},
      {"QLinearConv", QuantizedConvolution},
      {"QLinearMatMul", QuantizedProduct},
      {"QuantizeLinear", Quantize, kAlways},
      {"RMSNormalization", Normalised},
      {"Range", RangeRule},
      {"ReduceL1", Reduce, 18},
      {"ReduceL2", Reduce, 18},
      {"ReduceLogSum", Reduce, 18},
      {"ReduceLogSumExp", Reduce, 18},
      {"ReduceMax", Reduce, 18},
      {"ReduceMean", Reduce, 18},
      {"ReduceMin", Reduce, 18},
      {"ReduceProd", Reduce, 18},
      {"ReduceSum", Reduce, 18},
      {"ReduceSumSquare", Reduce, 18},
      {"RegexFullMatch", Comparison},
      {"Resize", Resize, 18},
      {"RotaryEmbedding", SameAsFirst},
      {"SequenceLength", ScalarInteger},
      {"SimplifiedLayerNormalization", Normalised},
      {"Split", Split, 18},
      {"StringConcat", Broadcast},
      {"StringSplit", StringSplit},
      {"SwiGLU", SameAsFirst},
      {"Swish", SameAsFirst},
      {"TensorScatter", SameAsFirst},
      {"Tile", TileRule},
      {"ai.onnx.ml::ArrayFeatureExtractor", FeatureExtractor},
      {"ai.onnx.ml::Binarizer", SameAsFirst},
      {"ai.onnx.ml::LabelEncoder", LabelEncoderRule},
      {"ai.onnx.ml::TreeEnsemble", TreeEnsembleRule},
      {"ai.onnx.preview::FlexAttention", AttentionRule},
      {"com.microsoft::Attention", FusedAttentionRule},
      {"com.microsoft::BiasAdd", SameAsFirst},
      {"com.microsoft::BiasGelu", SameAsFirst},
      {"com.microsoft::BiasSoftmax", SameAsFirst},
      {"com.microsoft::DequantizeLinear", Dequantize},
      {"com.microsoft::DynamicQuantizeMatMul", DynamicProduct},
      {"com.microsoft::EmbedLayerNormalization", EmbedNorm},
      {"com.microsoft::FastGelu", SameAsFirst},
      {"com.microsoft::FusedConv", Convolution},
      {"com.microsoft::FusedGemm", FusedGemm},
      {"com.microsoft::FusedMatMul", FusedMatMul},
      {"com.microsoft::GatherBlockQuantized", GatherRows},
      {"com.microsoft::Gelu", SameAsFirst},
      {"com.microsoft::GroupNorm", SameAsFirst},
      {"com.microsoft::GroupQueryAttention", GroupQueryAttentionRule},
      {"com.microsoft::MatMulInteger16", ProductOfIntegers},
      {"com.microsoft::MatMulIntegerToFloat", ProductToFloat},
      {"com.microsoft::MatMulNBits", MatMulNBits},
      {"com.microsoft::MoE", SameAsFirst},
      {"com.microsoft::MultiHeadAttention", MultiHeadAttentionRule},
      {"com.microsoft::QAttention", FusedAttentionRule},
      {"com.microsoft::QGemm", FusedGemm},
      {"com.microsoft::QLinearAdd", QuantizedBinary},
      {"com.microsoft::QLinearAveragePool", Pool},
      {"com.microsoft::QLinearConcat", QuantizedConcat},
      {"com.microsoft::QLinearConv", QuantizedConvolution},
      {"com.microsoft::QLinearGlobalAveragePool", GlobalPool},
      {"com.microsoft::QLinearLeakyRelu", SameAsFirst},
      {"com.microsoft::QLinearMul", QuantizedBinary},
      {"com.microsoft::QLinearReduceMean", Reduce},
      {"com.microsoft::QLinearSigmoid", SameAsFirst},
      {"com.microsoft::QLinearSoftmax", SameAsFirst},
      {"com.microsoft::QMoE", SameAsFirst},
      {"com.microsoft::QuantizeLinear", Quantize},
      {"com.microsoft::QuickGelu", SameAsFirst},
      {"com.microsoft::RotaryEmbedding", SameAsFirst},
      {"com.microsoft::SimplifiedLayerNormalization", Normalised},
      {"com.microsoft::SkipLayerNormalization", SkipNorm},
      {"com.microsoft::SkipSimplifiedLayerNormalization", SkipNorm},
      {"com.microsoft::TransposeMatMul", FusedMatMul},
  };
  const std::string name = node.domain.empty() ? node.op : node.domain + "::" + node.op;
  const auto found = std::lower_bound(std::begin(kRows), std::end(kRows), name,
                                      [](const Row& row, const std::string& op) { return row.op < op; });
  return found == std::end(kRows) || found->op != name ? nullptr : found;
}

}  // namespace
}  // namespace onnx_rule

bool PrefersOnnxRule(const OnnxNode& node) {
  const onnx_rule::Row* const row = onnx_rule::FindRow(node);
  return row != nullptr && node.opset >= row->since;
}

std::optional<std::vector<OnnxType>> OnnxTypesByRule(const OnnxNode& node, const OnnxOperands& inputs) {
  const onnx_rule::Row* const row = onnx_rule::FindRow(node);
  if (row == nullptr) return std::nullopt;
  onnx_rule::Outputs outputs{std::vector<OnnxType>(std::max<std::size_t>(node.outputs.size(), 1))};
  row->rule({node, inputs}, &outputs);
  return std::move(outputs.types);
}

}  // namespace emplace::datasets
