#include "datasets/importers/onnx_values.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

namespace emplace::datasets {
namespace onnx_value {
namespace {

using ValueDims = std::vector<std::int64_t>;

std::size_t MostKnown(std::int32_t element) { return IsOnnxNumber(element) ? kMostKnownNumbers : kMostKnownIntegers; }

std::optional<std::size_t> AxisIn(std::int64_t axis, std::size_t rank) {
  if (axis < 0) axis += static_cast<std::int64_t>(rank);
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return std::nullopt;
  return static_cast<std::size_t>(axis);
}

// The position that each dimension has in the row-major order of `dims`.
ValueDims StridesOf(const ValueDims& dims) {
  ValueDims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) {
    // Only a tensor without elements has strides beyond all bounds, and none of its positions is read.
    if (__builtin_mul_overflow(strides[i], dims[i], &strides[i - 1])) strides[i - 1] = 0;
  }
  return strides;
}

// The conversion of a number to an integer, as Cast makes it; nullopt where it is none.
std::optional<std::int64_t> IntegerOfNumber(double number) {
  constexpr double kBeyond = 0x1p63;
  if (!(number > -kBeyond && number < kBeyond)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

// An integer as a value of the type has it.
std::int64_t Wrapped(std::int32_t element, std::int64_t value) {
  constexpr std::int32_t kUint8 = 2;
  constexpr std::int32_t kInt8 = 3;
  constexpr std::int32_t kUint16 = 4;
  constexpr std::int32_t kInt16 = 5;
  constexpr std::int32_t kUint32 = 12;
  switch (element) {
    case kOnnxBool:
      return value != 0 ? 1 : 0;
    case kUint8:
      return static_cast<std::uint8_t>(value);
    case kInt8:
      return static_cast<std::int8_t>(value);
    case kUint16:
      return static_cast<std::uint16_t>(value);
    case kInt16:
      return static_cast<std::int16_t>(value);
    case kOnnxInt32:
      return static_cast<std::int32_t>(value);
    case kUint32:
      return static_cast<std::uint32_t>(value);
    default:
      return value;
  }
}

using Content = std::optional<OnnxContent>;

// Known data about a node.
struct Inputs {
  const OnnxNode& node;
  const OnnxOperands& operands;
  const std::vector<OnnxType>& outputs;

  // Null if nothing is known.
  const OnnxContent* Content(std::size_t i) const {
    return i < operands.contents.size() ? operands.contents[i] : nullptr;
  }
  const OnnxType* Type(std::size_t i) const { return i < operands.types.size() ? operands.types[i] : nullptr; }
  bool IsGiven(std::size_t i) const { return i < node.inputs.size() && !node.inputs[i].empty(); }
  const ValueDims* OutputDims() const { return outputs.empty() || !outputs[0].IsWhole() ? nullptr : &*outputs[0].dims; }
  // An attribute that became an input in a later opset; nullopt if it is computed. Empty where it is left out.
  std::optional<ValueDims> Given(const std::string& attr, std::size_t input) const {
    if (node.Find(attr) != nullptr) return node.Integers(attr);
    if (!IsGiven(input)) return ValueDims();
    if (Content(input) == nullptr || Content(input)->is_number()) return std::nullopt;
    return Content(input)->integers;
  }
};

OnnxContent Integers(ValueDims values, ValueDims dims) {
  return {.element = kOnnxInt64, .dims = std::move(dims), .integers = std::move(values), .numbers = {}};
}

// A tensor of these dimensions whose elements are those of `x` at the positions that `from` names.
template <typename From>
Content Take(const OnnxContent& x, ValueDims dims, From from) {
  const auto count = OnnxElements(dims);
  if (!count || *count > static_cast<std::int64_t>(MostKnown(x.element))) return std::nullopt;
  OnnxContent taken{.element = x.element, .dims = std::move(dims), .integers = {}, .numbers = {}};
  ValueDims index(taken.dims.size(), 0);
  for (std::int64_t i = 0; i < *count; ++i) {
    const auto position = static_cast<std::size_t>(from(index));
    if (x.is_number()) {
      taken.numbers.push_back(x.numbers.at(position));
    } else {
      taken.integers.push_back(x.integers.at(position));
    }
    for (std::size_t k = index.size(); k-- > 0;) {
      if (++index[k] < taken.dims[k]) break;
      index[k] = 0;
    }
  }
  return taken;
}

template <typename Function>
std::int64_t Wrapping(std::int64_t a, std::int64_t b, Function function) {
  return static_cast<std::int64_t>(function(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
}

std::int64_t BroadcastPosition(const ValueDims& index, const ValueDims& dims, const ValueDims& strides) {
  std::int64_t position = 0;
  const std::size_t skipped = index.size() - dims.size();
  for (std::size_t k = 0; k < dims.size(); ++k) position += dims[k] == 1 ? 0 : index[skipped + k] * strides[k];
  return position;
}

Content BroadcastTo(const OnnxContent& x, const ValueDims& dims) {
  if (x.dims.size() > dims.size()) return std::nullopt;
  const ValueDims strides = StridesOf(x.dims);
  return Take(x, dims, [&](const ValueDims& index) { return BroadcastPosition(index, x.dims, strides); });
}

Content Shape(const Inputs& in) {
  const OnnxType* const type = in.Type(0);
  if (type == nullptr || !type->HasShape()) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(type->dims->size());
  const auto at = [&](std::int64_t index) {
    return std::clamp<std::int64_t>(index < 0 ? index + rank : index, 0, rank);
  };
  const std::int64_t first = at(in.node.Integer("start", 0));
  const std::int64_t end = std::max(first, at(in.node.Integer("end", rank)));
  ValueDims part(type->dims->begin() + first, type->dims->begin() + end);
  const auto count = static_cast<std::int64_t>(part.size());
  return Integers(std::move(part), {count});
}

Content Filled(const Inputs& in) {
  const OnnxContent* const shape = in.Content(0);
  if (shape == nullptr) return std::nullopt;
  const OnnxAttr* const value = in.node.Find("value");
  OnnxContent one{.element = kOnnxFloat, .dims = {}, .integers = {}, .numbers = {0}};
  if (value != nullptr) {
    if (value->tensors.size() != 1 || value->tensors[0].size() != 1) return std::nullopt;
    one = value->tensors[0];
  }
  return Take(one, shape->integers, [](const ValueDims&) { return 0; });
}

Content Concatenated(const Inputs& in) {
  OnnxContent all;
  for (std::size_t i = 0; i < in.node.inputs.size(); ++i) {
    const OnnxContent* const part = in.Content(i);
    if (part == nullptr) return std::nullopt;
    if (i == 0) {
      all = *part;
      continue;
    }
    const auto axis = AxisIn(in.node.Integer("axis", 0), all.dims.size());
    if (!axis || part->dims.size() != all.dims.size() || part->element != all.element) return std::nullopt;
    ValueDims dims = all.dims;
    if (__builtin_add_overflow(dims[*axis], part->dims[*axis], &dims[*axis])) return std::nullopt;
    OnnxContent both = all;
    both.integers.insert(both.integers.end(), part->integers.begin(), part->integers.end());
    both.numbers.insert(both.numbers.end(), part->numbers.begin(), part->numbers.end());
    const ValueDims first = StridesOf(all.dims);
    const ValueDims second = StridesOf(part->dims);
    const std::int64_t split = all.dims[*axis];
    const auto offset = static_cast<std::int64_t>(all.size());
    auto joined = Take(both, std::move(dims), [&](const ValueDims& index) {
      const bool is_second = index[*axis] >= split;
      std::int64_t position = is_second ? offset : 0;
      for (std::size_t k = 0; k < index.size(); ++k) {
        const std::int64_t at = is_second && k == *axis ? index[k] - split : index[k];
        position += at * (is_second ? second : first)[k];
      }
      return position;
    });
    if (!joined) return std::nullopt;
    all = std::move(*joined);
  }
  return all;
}

Content Counted(const Inputs& in) {
  const OnnxContent* const start = in.Content(0);
  const OnnxContent* const limit = in.Content(1);
  const OnnxContent* const step = in.Content(2);
  if (start == nullptr || limit == nullptr || step == nullptr) return std::nullopt;
  if (start->size() != 1 || limit->size() != 1 || step->size() != 1) return std::nullopt;
  if (start->is_number() != step->is_number()) return std::nullopt;
  const double first = start->at(0);
  const double by = step->at(0);
  const double count = by == 0 ? 0 : std::ceil((limit->at(0) - first) / by);
  if (!(count <= static_cast<double>(MostKnown(start->element)))) return std::nullopt;
  OnnxContent values{.element = start->element, .dims = {}, .integers = {}, .numbers = {}};
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i) {
    if (start->is_number()) {
      values.numbers.push_back(first + static_cast<double>(i) * by);
    } else {
      values.integers.push_back(
          Wrapping(start->integers[0], Wrapping(i, step->integers.at(0), std::multiplies<>()), std::plus<>()));
    }
  }
  values.dims = {static_cast<std::int64_t>(values.size())};
  return values;
}

Content Selected(const Inputs& in) {
  const OnnxContent* const condition = in.Content(0);
  const OnnxContent* const a = in.Content(1);
  const OnnxContent* const b = in.Content(2);
  if (condition == nullptr || condition->is_number()) return std::nullopt;
  // A condition that is one value throughout selects one side.
  const bool is_same = std::adjacent_find(condition->integers.begin(), condition->integers.end(),
                                          std::not_equal_to<>()) == condition->integers.end();
  if (is_same && !condition->integers.empty()) {
    const OnnxContent* const chosen = condition->integers[0] != 0 ? a : b;
    const OnnxType* const other = in.Type(condition->integers[0] != 0 ? 2 : 1);
    if (chosen == nullptr || other == nullptr || !other->IsWhole()) return std::nullopt;
    const auto dims = BroadcastOnnx(condition->dims, chosen->dims);
    const auto all = dims ? BroadcastOnnx(*dims, *other->dims) : std::nullopt;
    return all ? BroadcastTo(*chosen, *all) : std::nullopt;
  }
  if (a == nullptr || b == nullptr || a->is_number() != b->is_number()) return std::nullopt;
  const auto both = BroadcastOnnx(a->dims, b->dims);
  const auto dims = both ? BroadcastOnnx(*both, condition->dims) : std::nullopt;
  if (!dims) return std::nullopt;
  const auto choices = BroadcastTo(*condition, *dims);
  Content first = BroadcastTo(*a, *dims);
  const auto second = BroadcastTo(*b, *dims);
  if (!choices || !first || !second) return std::nullopt;
  for (std::size_t i = 0; i < choices->integers.size(); ++i) {
    if (choices->integers[i] != 0) continue;
    if (first->is_number()) {
      first->numbers[i] = second->numbers[i];
    } else {
      first->integers[i] = second->integers[i];
    }
  }
  return first;
}

Content Gathered(const Inputs& in) {
  const OnnxContent* const x = in.Content(0);
  const OnnxContent* const rows = in.Content(1);
  if (rows == nullptr || rows->is_number()) return std::nullopt;
  if (x == nullptr) return std::nullopt;
  const auto axis = AxisIn(in.node.Integer("axis", 0), x->dims.size());
  if (!axis) return std::nullopt;
  const std::int64_t length = x->dims[*axis];
  for (const std::int64_t row : rows->integers) {
    if (row < -length || row >= length) return std::nullopt;
  }
  const auto first = static_cast<std::ptrdiff_t>(*axis);
  ValueDims dims(x->dims.begin(), x->dims.begin() + first);
  dims.insert(dims.end(), rows->dims.begin(), rows->dims.end());
  dims.insert(dims.end(), x->dims.begin() + first + 1, x->dims.end());
  const ValueDims strides = StridesOf(x->dims);
  const ValueDims row_strides = StridesOf(rows->dims);
  return Take(*x, std::move(dims), [&](const ValueDims& index) {
    std::int64_t row = 0;
    for (std::size_t k = 0; k < row_strides.size(); ++k) row += index[*axis + k] * row_strides[k];
    std::int64_t at = rows->integers[static_cast<std::size_t>(row)];
    if (at < 0) at += length;
    std::int64_t position = at * strides[*axis];
    for (std::size_t k = 0; k < x->dims.size(); ++k) {
      if (k < *axis) position += index[k] * strides[k];
      if (k > *axis) position += index[k + rows->dims.size() - 1] * strides[k];
    }
    return position;
  });
}

Content Converted(const Inputs& in, const OnnxContent& x) {
  const std::int32_t to = in.outputs.empty() || in.outputs[0].element == kOnnxUnknown
                              ? static_cast<std::int32_t>(in.node.Integer("to", kOnnxUnknown))
                              : in.outputs[0].element;
  OnnxContent values{.element = to, .dims = x.dims, .integers = {}, .numbers = {}};
  if (!IsOnnxInteger(to) && !IsOnnxNumber(to)) return std::nullopt;
  if (IsOnnxNumber(to) && x.size() > kMostKnownNumbers) return std::nullopt;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (IsOnnxNumber(to)) {
      values.numbers.push_back(x.at(i));
    } else if (!x.is_number()) {
      values.integers.push_back(Wrapped(to, x.integers[i]));
    } else if (to == kOnnxBool) {
      values.integers.push_back(x.numbers[i] != 0 ? 1 : 0);
    } else {
      const auto integer = IntegerOfNumber(x.numbers[i]);
      if (!integer) return std::nullopt;
      values.integers.push_back(Wrapped(to, *integer));
    }
  }
  return values;
}

Content Sliced(const Inputs& in, const OnnxContent& x) {
  const auto starts = in.Given("starts", 1);
  const auto ends = in.Given("ends", 2);
  auto axes = in.Given("axes", 3);
  auto steps = in.Given("steps", 4);
  if (!starts || !ends || !axes || !steps || starts->size() != ends->size()) return std::nullopt;
  for (std::size_t i = axes->size(); i < starts->size(); ++i) axes->push_back(static_cast<std::int64_t>(i));
  steps->resize(starts->size(), 1);
  ValueDims begins(x.dims.size(), 0);
  ValueDims by(x.dims.size(), 1);
  ValueDims dims = x.dims;
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const auto axis = AxisIn((*axes)[i], x.dims.size());
    if (!axis || (*steps)[i] == 0) return std::nullopt;
    const std::int64_t length = x.dims[*axis];
    const std::int64_t step =
        std::clamp((*steps)[i], -std::max<std::int64_t>(length, 1), std::max<std::int64_t>(length, 1));
    const auto at = [&](std::int64_t index, std::int64_t least, std::int64_t most) {
      return std::clamp(index < 0 ? std::max(index, -length - 1) + length : index, least, most);
    };
    const std::int64_t begin = at((*starts)[i], 0, step > 0 ? length : length - 1);
    const std::int64_t end = at((*ends)[i], step > 0 ? 0 : -1, length);
    begins[*axis] = begin;
    by[*axis] = step;
    const std::int64_t distance = step > 0 ? end - begin : begin - end;
    const std::int64_t pace = step > 0 ? step : -step;
    dims[*axis] = distance <= 0 ? 0 : (distance - 1) / pace + 1;
  }
  const ValueDims strides = StridesOf(x.dims);
  return Take(x, std::move(dims), [&](const ValueDims& index) {
    std::int64_t position = 0;
    for (std::size_t k = 0; k < index.size(); ++k) position += (begins[k] + index[k] * by[k]) * strides[k];
    return position;
  });
}

Content Transposed(const Inputs& in, const OnnxContent& x) {
  ValueDims order = in.node.Integers("perm");
  if (order.empty()) {
    for (std::size_t k = x.dims.size(); k-- > 0;) order.push_back(static_cast<std::int64_t>(k));
  }
  ValueDims dims;
  for (const std::int64_t axis : order) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(x.dims.size())) return std::nullopt;
    dims.push_back(x.dims[static_cast<std::size_t>(axis)]);
  }
  const ValueDims strides = StridesOf(x.dims);
  return Take(x, std::move(dims), [&](const ValueDims& index) {
    std::int64_t position = 0;
    for (std::size_t k = 0; k < index.size(); ++k) position += index[k] * strides[static_cast<std::size_t>(order[k])];
    return position;
  });
}

Content Repeated(const Inputs& in, const OnnxContent& x) {
  const OnnxContent* const counts = in.Content(1);
  if (counts == nullptr || counts->is_number()) return std::nullopt;
  const ValueDims strides = StridesOf(x.dims);
  if (in.node.op == "Expand") {
    const auto dims = BroadcastOnnx(x.dims, counts->integers);
    return dims ? BroadcastTo(x, *dims) : std::nullopt;
  }
  if (counts->integers.size() != x.dims.size()) return std::nullopt;
  ValueDims dims = x.dims;
  for (std::size_t k = 0; k < dims.size(); ++k) {
    if (__builtin_mul_overflow(dims[k], counts->integers[k], &dims[k])) return std::nullopt;
  }
  return Take(x, std::move(dims), [&](const ValueDims& index) {
    std::int64_t position = 0;
    for (std::size_t k = 0; k < index.size(); ++k) position += index[k] % x.dims[k] * strides[k];
    return position;
  });
}

Content NonZero(const OnnxContent& x) {
  std::vector<ValueDims> rows(x.dims.size());
  const ValueDims strides = StridesOf(x.dims);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x.at(i) == 0) continue;
    for (std::size_t k = 0; k < rows.size(); ++k) {
      rows[k].push_back(static_cast<std::int64_t>(i) / strides[k] % x.dims[k]);
    }
  }
  ValueDims all;
  const std::int64_t count = rows.empty() ? 0 : static_cast<std::int64_t>(rows[0].size());
  for (const ValueDims& row : rows) all.insert(all.end(), row.begin(), row.end());
  return Integers(std::move(all), {static_cast<std::int64_t>(rows.size()), count});
}

Content Summed(const Inputs& in, const OnnxContent& x) {
  if (x.dims.size() != 1 || in.node.Integer("exclusive", 0) != 0 || in.node.Integer("reverse", 0) != 0) {
    return std::nullopt;
  }
  OnnxContent sums = x;
  for (std::size_t i = 1; i < x.size(); ++i) {
    if (x.is_number()) {
      sums.numbers[i] += sums.numbers[i - 1];
    } else {
      sums.integers[i] = Wrapping(sums.integers[i], sums.integers[i - 1], std::plus<>());
    }
  }
  return sums;
}

template <typename Number>
std::optional<Number> Combined(const Inputs& in, Number a, Number b) {
  const std::string_view op = in.node.op;
  if (op == "ReduceMax") return std::max(a, b);
  if (op == "ReduceMin") return std::min(a, b);
  if constexpr (std::is_integral_v<Number>) {
    if (op == "ReduceSum") return Wrapping(a, b, std::plus<>());
    if (op == "ReduceProd") return Wrapping(a, b, std::multiplies<>());
  } else {
    if (op == "ReduceSum") return a + b;
    if (op == "ReduceProd") return a * b;
  }
  return std::nullopt;
}

Content Reduced(const Inputs& in, const OnnxContent& x) {
  const auto axes = in.Given("axes", 1);
  if (!axes) return std::nullopt;
  std::vector<bool> is_gone(x.dims.size(), axes->empty() && in.node.Integer("noop_with_empty_axes", 0) == 0);
  for (const std::int64_t value : *axes) {
    const auto axis = AxisIn(value, x.dims.size());
    if (!axis) return std::nullopt;
    is_gone[*axis] = true;
  }
  ValueDims kept = x.dims;
  for (std::size_t k = 0; k < kept.size(); ++k) kept[k] = is_gone[k] ? 1 : kept[k];
  const auto count = OnnxElements(kept);
  if (!count || x.size() == 0 || *count == 0) return std::nullopt;
  const ValueDims strides = StridesOf(kept);
  const ValueDims from = StridesOf(x.dims);
  OnnxContent result{.element = x.element, .dims = {}, .integers = {}, .numbers = {}};
  if (x.is_number()) {
    result.numbers.resize(static_cast<std::size_t>(*count));
  } else {
    result.integers.resize(static_cast<std::size_t>(*count));
  }
  std::vector<bool> is_begun(static_cast<std::size_t>(*count), false);
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::int64_t to = 0;
    for (std::size_t k = 0; k < kept.size(); ++k) {
      if (!is_gone[k]) to += static_cast<std::int64_t>(i) / from[k] % x.dims[k] * strides[k];
    }
    const auto at = static_cast<std::size_t>(to);
    if (!is_begun[at]) {
      if (x.is_number()) {
        result.numbers[at] = x.numbers[i];
      } else {
        result.integers[at] = x.integers[i];
      }
      is_begun[at] = true;
    } else if (x.is_number()) {
      const auto next = Combined(in, result.numbers[at], x.numbers[i]);
      if (!next) return std::nullopt;
      result.numbers[at] = *next;
    } else {
      const auto next = Combined(in, result.integers[at], x.integers[i]);
      if (!next) return std::nullopt;
      result.integers[at] = Wrapped(x.element, *next);
    }
  }
  for (std::size_t k = 0; k < kept.size(); ++k) {
    if (!is_gone[k] || in.node.Integer("keepdims", 1) != 0) result.dims.push_back(kept[k]);
  }
  return result;
}

// Comparisons of what both types have.
template <typename Number>
std::optional<bool> Compared(const Inputs& in, Number a, Number b) {
  const std::string_view op = in.node.op;
  if (op == "Equal") return a == b;
  if (op == "Less") return a < b;
  if (op == "LessOrEqual") return a <= b;
  if (op == "Greater") return a > b;
  if (op == "GreaterOrEqual") return a >= b;
  return std::nullopt;
}

std::optional<std::int64_t> OfTwo(const Inputs& in, std::int64_t x, std::int64_t y) {
  const std::string_view op = in.node.op;
  if (op == "Add") return Wrapping(x, y, std::plus<>());
  if (op == "Sub") return Wrapping(x, y, std::minus<>());
  if (op == "Mul") return Wrapping(x, y, std::multiplies<>());
  if (op == "Min") return std::min(x, y);
  if (op == "Max") return std::max(x, y);
  if (op == "And") return x != 0 && y != 0 ? 1 : 0;
  if (op == "Or") return x != 0 || y != 0 ? 1 : 0;
  if (op == "Xor") return (x != 0) != (y != 0) ? 1 : 0;
  if (op == "BitwiseAnd") return x & y;
  if (op == "BitwiseOr") return x | y;
  if (op == "BitwiseXor") return x ^ y;
  if (op == "Pow") return IntegerOfNumber(std::pow(static_cast<double>(x), static_cast<double>(y)));
  const bool divides = y != 0 && !(y == -1 && x == std::numeric_limits<std::int64_t>::min());
  if (op == "Div" && divides) return x / y;
  if (op == "Mod" && divides) {
    const std::int64_t rest = x % y;
    const bool is_floored = in.node.Integer("fmod", 0) == 0 && rest != 0 && (rest < 0) != (y < 0);
    return is_floored ? rest + y : rest;
  }
  return std::nullopt;
}

Content OfNumbers(const Inputs& in, const OnnxContent& a, const OnnxContent& b) {
  OnnxContent result{.element = a.element, .dims = a.dims, .integers = {}, .numbers = {}};
  const std::string_view op = in.node.op;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a.numbers[i];
    const double y = b.numbers[i];
    if (const auto truth = Compared(in, x, y)) {
      result.element = kOnnxBool;
      result.integers.push_back(*truth ? 1 : 0);
      continue;
    }
    double value = 0;
    if (op == "Add") {
      value = x + y;
    } else if (op == "Sub") {
      value = x - y;
    } else if (op == "Mul") {
      value = x * y;
    } else if (op == "Div") {
      value = x / y;
    } else if (op == "Pow") {
      value = std::pow(x, y);
    } else if (op == "Min") {
      value = std::min(x, y);
    } else if (op == "Max") {
      value = std::max(x, y);
    } else {
      return std::nullopt;
    }
    // f32 arithmetic rounds.
    result.numbers.push_back(a.element == kOnnxFloat ? static_cast<double>(static_cast<float>(value)) : value);
  }
  return result;
}

Content OfIntegers(const Inputs& in, const OnnxContent& a, const OnnxContent& b) {
  OnnxContent result{.element = a.element, .dims = a.dims, .integers = {}, .numbers = {}};
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::int64_t x = a.integers[i];
    const std::int64_t y = b.integers[i];
    if (const auto truth = Compared(in, x, y)) {
      result.element = kOnnxBool;
      result.integers.push_back(*truth ? 1 : 0);
      continue;
    }
    const auto value = OfTwo(in, x, y);
    if (!value) return std::nullopt;
    result.integers.push_back(Wrapped(a.element, *value));
  }
  return result;
}

// Combines two inputs or more, from the first one on.
Content Binary(const Inputs& in, const OnnxContent& x) {
  OnnxContent result = x;
  for (std::size_t i = 1; i < in.node.inputs.size(); ++i) {
    const OnnxContent* const y = in.Content(i);
    if (y == nullptr || y->is_number() != x.is_number()) return std::nullopt;
    const auto dims = BroadcastOnnx(result.dims, y->dims);
    if (!dims) return std::nullopt;
    const auto a = BroadcastTo(result, *dims);
    const auto b = BroadcastTo(*y, *dims);
    if (!a || !b) return std::nullopt;
    auto next = x.is_number() ? OfNumbers(in, *a, *b) : OfIntegers(in, *a, *b);
    if (!next) return std::nullopt;
    result = std::move(*next);
  }
  return result;
}

Content Clipped(const Inputs& in, const OnnxContent& x) {
  OnnxContent result = x;
  for (const std::size_t i : {1U, 2U}) {
    if (!in.IsGiven(i)) continue;
    const OnnxContent* const limit = in.Content(i);
    if (limit == nullptr || limit->size() != 1 || limit->is_number() != x.is_number()) return std::nullopt;
    for (double& value : result.numbers) {
      value = i == 1 ? std::max(value, limit->numbers[0]) : std::min(value, limit->numbers[0]);
    }
    for (std::int64_t& value : result.integers) {
      value = i == 1 ? std::max(value, limit->integers[0]) : std::min(value, limit->integers[0]);
    }
  }
  return result;
}

Content Unary(const Inputs& in, const OnnxContent& x) {
  const std::string_view op = in.node.op;
  OnnxContent result = x;
  if (!x.is_number()) {
    for (std::int64_t& value : result.integers) {
      if (op == "Neg") {
        value = Wrapped(x.element, Wrapping(0, value, std::minus<>()));
      } else if (op == "Abs") {
        value = value < 0 ? Wrapping(0, value, std::minus<>()) : value;
      } else if (op == "Sign") {
        value = value > 0 ? 1 : value < 0 ? -1 : 0;
      } else if (op == "Not") {
        value = value != 0 ? 0 : 1;
      } else {
        return std::nullopt;
      }
    }
    return result;
  }
  for (double& value : result.numbers) {
    if (op == "Neg") {
      value = -value;
    } else if (op == "Abs") {
      value = std::abs(value);
    } else if (op == "Floor") {
      value = std::floor(value);
    } else if (op == "Ceil") {
      value = std::ceil(value);
    } else if (op == "Round") {
      value = std::nearbyint(value);
    } else if (op == "Sqrt") {
      value = std::sqrt(value);
    } else if (op == "Reciprocal") {
      value = 1 / value;
    } else if (op == "Sign") {
      value = value > 0 ? 1 : value < 0 ? -1 : 0;
    } else {
      return std::nullopt;
    }
    if (x.element == kOnnxFloat) value = static_cast<double>(static_cast<float>(value));
  }
  return result;
}

// Elements of a list, read or replaced.
Content Picked(const Inputs& in, const OnnxContent& x) {
  const OnnxContent* const places = in.Content(1);
  const OnnxContent* const updates = in.Content(2);
  const bool is_read = in.node.op == "GatherElements";
  if (x.dims.size() != 1 || places == nullptr || places->is_number()) return std::nullopt;
  if (in.node.Text("reduction", "none") != "none") return std::nullopt;
  OnnxContent result = x;
  if (is_read) {
    if (places->dims.size() != 1) return std::nullopt;
    result = {.element = x.element, .dims = places->dims, .integers = {}, .numbers = {}};
  } else if (updates == nullptr || updates->is_number() != x.is_number() || updates->size() != places->size()) {
    return std::nullopt;
  }
  const auto length = static_cast<std::int64_t>(x.size());
  for (std::size_t i = 0; i < places->size(); ++i) {
    const std::int64_t place = places->integers[i];
    if (place < -length || place >= length) return std::nullopt;
    const auto at = static_cast<std::size_t>(place < 0 ? place + length : place);
    if (is_read && x.is_number()) {
      result.numbers.push_back(x.numbers[at]);
    } else if (is_read) {
      result.integers.push_back(x.integers[at]);
    } else if (x.is_number()) {
      result.numbers[at] = updates->numbers[i];
    } else {
      result.integers[at] = updates->integers[i];
    }
  }
  return result;
}

// Where the largest or smallest element of a list is: the first one, or the last one.
Content Position(const Inputs& in, const OnnxContent& x) {
  if (x.dims.size() != 1 || x.size() == 0) return std::nullopt;
  const bool is_last = in.node.Integer("select_last_index", 0) != 0;
  const bool is_largest = in.node.op == "ArgMax";
  std::size_t best = 0;
  for (std::size_t i = 1; i < x.size(); ++i) {
    const double gain = is_largest ? x.at(i) - x.at(best) : x.at(best) - x.at(i);
    if (gain > 0 || (gain == 0 && is_last)) best = i;
  }
  const bool keeps = in.node.Integer("keepdims", 1) != 0;
  return Integers({static_cast<std::int64_t>(best)}, keeps ? ValueDims{1} : ValueDims{});
}

// The largest elements of a list, and where they are.
std::vector<std::optional<OnnxContent>> Largest(const Inputs& in) {
  const OnnxContent* const x = in.Content(0);
  const OnnxContent* const count = in.Content(1);
  if (x == nullptr || count == nullptr || count->is_number() || count->size() != 1 || x->dims.size() != 1) return {};
  const std::int64_t k = count->integers[0];
  if (k < 0 || k > static_cast<std::int64_t>(x->size())) return {};
  ValueDims order(x->size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  const bool is_largest = in.node.Integer("largest", 1) != 0;
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const double first = x->at(static_cast<std::size_t>(a));
    const double second = x->at(static_cast<std::size_t>(b));
    return is_largest ? first > second : first < second;
  });
  order.resize(static_cast<std::size_t>(k));
  return {Take(*x, {k}, [&](const ValueDims& index) { return order[static_cast<std::size_t>(index[0])]; }),
          Integers(order, {k})};
}

std::vector<std::optional<OnnxContent>> SplitUp(const Inputs& in) {
  const OnnxContent* const x = in.Content(0);
  if (x == nullptr) return {};
  const auto axis = AxisIn(in.node.Integer("axis", 0), x->dims.size());
  if (!axis) return {};
  std::vector<std::optional<OnnxContent>> parts;
  std::int64_t begin = 0;
  const ValueDims strides = StridesOf(x->dims);
  for (const OnnxType& type : in.outputs) {
    if (!type.IsWhole() || type.dims->size() != x->dims.size()) return {};
    const std::int64_t first = begin;
    begin += (*type.dims)[*axis];
    if (begin > x->dims[*axis]) return {};
    parts.push_back(Take(*x, *type.dims, [&](const ValueDims& index) {
      std::int64_t position = first * strides[*axis];
      for (std::size_t k = 0; k < index.size(); ++k) position += index[k] * strides[k];
      return position;
    }));
  }
  return parts;
}

Content Size(const Inputs& in) {
  const OnnxType* const type = in.Type(0);
  const auto count = type != nullptr && type->HasShape() ? OnnxElements(*type->dims) : std::nullopt;
  return count ? Content(Integers({*count}, {})) : std::nullopt;
}

// The same elements in the shape of the output.
Content Reshaped(const Inputs& in, const OnnxContent& x) {
  if (in.OutputDims() == nullptr) return std::nullopt;
  OnnxContent same = x;
  same.dims = *in.OutputDims();
  return same;
}

// The output of an operator whose first input is known. Most operators have a function for their name.
Content OfFirst(const Inputs& in, const OnnxContent& x) {
  const std::string& op = in.node.op;
  if (op == "Identity") return x;
  if (op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "Flatten") return Reshaped(in, x);
  if (op == "Cast" || op == "CastLike") return Converted(in, x);
  if (op == "Slice") return Sliced(in, x);
  if (op == "Transpose") return Transposed(in, x);
  if (op == "Expand" || op == "Tile") return Repeated(in, x);
  if (op == "NonZero") return NonZero(x);
  if (op == "CumSum") return Summed(in, x);
  if (op == "GatherElements" || op == "ScatterElements" || op == "ScatterND") return Picked(in, x);
  if (op == "ArgMax" || op == "ArgMin") return Position(in, x);
  if (x.size() == 0) return std::nullopt;
  if (op.starts_with("Reduce")) return Reduced(in, x);
  if (op == "Clip") return Clipped(in, x);
  if (in.IsGiven(1) || op == "Min" || op == "Max") return Binary(in, x);
  return Unary(in, x);
}

// The output of an operator that has one.
Content One(const Inputs& in) {
  const std::string& op = in.node.op;
  if (op == "Shape") return Shape(in);
  if (op == "Size") return Size(in);
  if (op == "ConstantOfShape") return Filled(in);
  if (op == "Concat") return Concatenated(in);
  if (op == "Range") return Counted(in);
  if (op == "Where") return Selected(in);
  if (op == "Gather") return Gathered(in);
  const OnnxContent* const x = in.Content(0);
  return x == nullptr ? std::nullopt : OfFirst(in, *x);
}

}  // namespace
}  // namespace onnx_value

bool IsOnnxInteger(std::int32_t element) {
  constexpr std::int32_t kUint8 = 2;
  constexpr std::int32_t kUint32 = 12;
  constexpr std::int32_t kUint64 = 13;
  return (element >= kUint8 && element <= kOnnxInt64) || element == kOnnxBool || element == kUint32 ||
         element == kUint64;
}

bool IsOnnxNumber(std::int32_t element) {
  constexpr std::int32_t kFloat16 = 10;
  constexpr std::int32_t kDouble = 11;
  constexpr std::int32_t kBfloat16 = 16;
  return element == kOnnxFloat || element == kFloat16 || element == kDouble || element == kBfloat16;
}

std::optional<std::int64_t> OnnxElements(const std::vector<std::int64_t>& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return std::nullopt;
  }
  return count;
}

std::optional<std::vector<std::int64_t>> BroadcastOnnx(const std::vector<std::int64_t>& a,
                                                       const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> dims(std::max(a.size(), b.size()), 1);
  for (std::size_t k = 0; k < dims.size(); ++k) {
    const std::int64_t x = k < a.size() ? a[a.size() - 1 - k] : 1;
    const std::int64_t y = k < b.size() ? b[b.size() - 1 - k] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    dims[dims.size() - 1 - k] = x == 1 ? y : x;
  }
  return dims;
}

std::vector<std::optional<OnnxContent>> EvaluateOnnx(const OnnxNode& node, const OnnxOperands& inputs,
                                                     const std::vector<OnnxType>& outputs) {
  if (!node.domain.empty() || node.subgraph_nodes > 0) return {};
  const onnx_value::Inputs in{node, inputs, outputs};
  if (node.op == "Split") return onnx_value::SplitUp(in);
  if (node.op == "TopK") return onnx_value::Largest(in);
  std::optional<OnnxContent> one = onnx_value::One(in);
  if (!one || !OnnxElements(one->dims) || static_cast<std::size_t>(*OnnxElements(one->dims)) != one->size()) return {};
  return {std::move(one)};
}

}  // namespace emplace::datasets
