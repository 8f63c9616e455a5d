#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <unordered_map>
#include <utility>

#include "datasets/importers/tensorflow_values.h"

namespace emplace::datasets {
namespace tf_fold {
namespace {

using tensorflow::NodeDef;
using Content = std::shared_ptr<const TfContent>;
using Dims = std::vector<std::int64_t>;

struct In {
  const NodeDef& node;
  std::span<const TfValue> inputs;
  std::span<const TfType> types;  // of the outputs

  const TfContent* Known(std::size_t i) const { return i < inputs.size() ? inputs[i].content.get() : nullptr; }
  const std::vector<std::int64_t>* Integers(std::size_t i) const {
    const TfContent* const known = Known(i);
    return known == nullptr || known->is_real ? nullptr : &known->integers;
  }
  bool AllKnown() const {
    return !inputs.empty() &&
           std::all_of(inputs.begin(), inputs.end(), [](const TfValue& in) { return in.content != nullptr; });
  }
};

Content Integers(std::vector<std::int64_t> values) {
  auto content = std::make_shared<TfContent>();
  content->integers = std::move(values);
  return content;
}

// Numbers as the output's type has them.
Content Numbers(const TfType& type, const std::vector<double>& values) {
  auto content = std::make_shared<TfContent>();
  content->is_real = IsRealTfType(type.dtype);
  for (const double value : values) {
    if (content->is_real) {
      content->numbers.push_back(value);
      continue;
    }
    constexpr double kMost = 9.2e18;
    if (!(std::abs(value) < kMost)) return nullptr;
    content->integers.push_back(static_cast<std::int64_t>(value));
  }
  return content;
}

// An operand's element for element `i` of a broadcast result.
double Broadcast(const TfValue& value, const Dims& dims, std::size_t i) {
  const Dims& own = *value.type.dims;
  std::size_t at = 0;
  std::size_t step = 1;
  for (std::size_t k = 0; k < dims.size(); ++k) {
    const std::size_t axis = dims.size() - 1 - k;
    const auto size = static_cast<std::size_t>(dims[axis]);
    const std::size_t place = size == 0 ? 0 : i % size;
    i = size == 0 ? 0 : i / size;
    if (k >= own.size()) continue;
    const auto own_size = static_cast<std::size_t>(own[own.size() - 1 - k]);
    at += own_size == 1 ? 0 : place * step;
    step *= own_size;
  }
  return value.content->at(at);
}

double FloorMod(double a, double b) { return a - b * std::floor(a / b); }

using Operator = double (*)(double, double);
Operator BinaryOf(const std::string& op) {
  static const std::unordered_map<std::string_view, Operator> operators = {
      {"Add", [](double a, double b) { return a + b; }},
      {"AddV2", [](double a, double b) { return a + b; }},
      {"Sub", [](double a, double b) { return a - b; }},
      {"Mul", [](double a, double b) { return a * b; }},
      {"RealDiv", [](double a, double b) { return a / b; }},
      {"Div", [](double a, double b) { return a / b; }},
      {"TruncateDiv", [](double a, double b) { return std::trunc(a / b); }},
      {"FloorDiv", [](double a, double b) { return std::floor(a / b); }},
      {"FloorMod", FloorMod},
      {"Mod", [](double a, double b) { return std::fmod(a, b); }},
      {"Maximum", [](double a, double b) { return std::max(a, b); }},
      {"Minimum", [](double a, double b) { return std::min(a, b); }},
      {"Pow", [](double a, double b) { return std::pow(a, b); }},
      {"Less", [](double a, double b) { return a < b ? 1.0 : 0.0; }},
      {"LessEqual", [](double a, double b) { return a <= b ? 1.0 : 0.0; }},
      {"Greater", [](double a, double b) { return a > b ? 1.0 : 0.0; }},
      {"GreaterEqual", [](double a, double b) { return a >= b ? 1.0 : 0.0; }},
      {"Equal", [](double a, double b) { return a == b ? 1.0 : 0.0; }},
      {"NotEqual", [](double a, double b) { return a != b ? 1.0 : 0.0; }},
      {"LogicalAnd", [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }},
      {"LogicalOr", [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }},
  };
  const auto found = operators.find(op);
  return found == operators.end() ? nullptr : found->second;
}

Content Binary(const In& in) {
  const Operator apply = BinaryOf(in.node.op());
  if (in.inputs.size() != 2 || !in.AllKnown() || !in.types[0].HasShape()) return nullptr;
  const bool divides = in.node.op().find("Div") != std::string::npos || in.node.op().find("Mod") != std::string::npos;
  std::vector<double> values;
  for (std::size_t i = 0; i < static_cast<std::size_t>(in.types[0].Elements()); ++i) {
    const double divisor = Broadcast(in.inputs[1], *in.types[0].dims, i);
    if (divides && divisor == 0) return nullptr;
    double value = apply(Broadcast(in.inputs[0], *in.types[0].dims, i), divisor);
    if (in.node.op() == "Div" && !IsRealTfType(in.types[0].dtype)) value = std::trunc(value);
    values.push_back(value);
  }
  return Numbers(in.types[0], values);
}

Content Unary(const In& in) {
  if (!in.AllKnown()) return nullptr;
  static const std::unordered_map<std::string_view, double (*)(double)> operators = {
      {"Neg", [](double x) { return -x; }},
      {"Abs", [](double x) { return std::abs(x); }},
      {"Square", [](double x) { return x * x; }},
      {"Sqrt", [](double x) { return std::sqrt(x); }},
      {"Rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"Floor", [](double x) { return std::floor(x); }},
      {"Ceil", [](double x) { return std::ceil(x); }},
      {"Reciprocal", [](double x) { return 1 / x; }},
      {"LogicalNot", [](double x) { return x == 0 ? 1.0 : 0.0; }},
      {"ZerosLike", [](double) { return 0.0; }},
      {"OnesLike", [](double) { return 1.0; }},
  };
  const auto found = operators.find(in.node.op());
  std::vector<double> values;
  for (std::size_t i = 0; i < in.Known(0)->size(); ++i) values.push_back(found->second(in.Known(0)->at(i)));
  return Numbers(in.types[0], values);
}

Content CastTo(const In& in) {
  if (!in.AllKnown() || (!IsRealTfType(in.types[0].dtype) && !IsIntegerTfType(in.types[0].dtype))) return nullptr;
  std::vector<double> values;
  const bool to_bool = in.types[0].dtype == tensorflow::DT_BOOL;
  for (std::size_t i = 0; i < in.Known(0)->size(); ++i) {
    const double value = in.Known(0)->at(i);
    values.push_back(to_bool ? (value == 0 ? 0 : 1) : value);
  }
  return Numbers(in.types[0], values);
}

// The same elements in another shape.
Content Same(const In& in) { return in.inputs.empty() ? nullptr : in.inputs[0].content; }

Content ShapeOfInput(const In& in) {
  if (in.inputs.empty() || !in.inputs[0].type.HasShape()) return nullptr;
  return Integers(*in.inputs[0].type.dims);
}
Content SizeOfInput(const In& in) {
  if (in.inputs.empty() || !in.inputs[0].type.HasShape()) return nullptr;
  constexpr double kMost = 9e18;
  return in.inputs[0].type.Elements() < kMost ? Integers({static_cast<std::int64_t>(in.inputs[0].type.Elements())})
                                              : nullptr;
}
Content RankOfInput(const In& in) {
  if (in.inputs.empty() || !in.inputs[0].type.dims) return nullptr;
  return Integers({static_cast<std::int64_t>(in.inputs[0].type.dims->size())});
}

// Scalars and vectors, one after another.
Content Joined(const In& in, std::size_t first, std::size_t end) {
  auto content = std::make_shared<TfContent>();
  content->is_real = IsRealTfType(in.types[0].dtype);
  for (std::size_t i = first; i < end; ++i) {
    const TfContent* const part = in.Known(i);
    if (part == nullptr || part->is_real != content->is_real || !in.inputs[i].type.dims ||
        in.inputs[i].type.dims->size() > 1)
      return nullptr;
    content->integers.insert(content->integers.end(), part->integers.begin(), part->integers.end());
    content->numbers.insert(content->numbers.end(), part->numbers.begin(), part->numbers.end());
  }
  return content;
}
Content Pack(const In& in) {
  for (const TfValue& input : in.inputs) {
    if (!input.type.dims || !input.type.dims->empty()) return nullptr;
  }
  return Joined(in, 0, in.inputs.size());
}
Content ConcatV2(const In& in) { return in.inputs.size() < 2 ? nullptr : Joined(in, 0, in.inputs.size() - 1); }

// A part of a vector, or a scalar of it. Parts of a shape are known even where other sizes are not.
Content StridedSlice(const In& in) {
  const auto* const begin = in.Integers(1);
  const auto* const end = in.Integers(2);
  const auto* const stride = in.Integers(3);
  const TfContent* const x = in.Known(0);
  if (x == nullptr || begin == nullptr || end == nullptr || stride == nullptr || begin->size() != 1 ||
      end->size() != 1 || stride->size() != 1 || !in.inputs[0].type.dims || in.inputs[0].type.dims->size() != 1 ||
      (*stride)[0] == 0) {
    return nullptr;
  }
  if (TfInteger(in.node, "new_axis_mask", 0) != 0 || TfInteger(in.node, "ellipsis_mask", 0) != 0) return nullptr;
  const auto size = static_cast<std::int64_t>(x->size());
  const std::int64_t step = (*stride)[0];
  const auto place = [&](std::int64_t at) {
    return std::clamp(at < 0 ? at + size : at, step > 0 ? 0 : std::int64_t{-1}, step > 0 ? size : size - 1);
  };
  std::int64_t first = TfInteger(in.node, "begin_mask", 0) != 0 ? (step > 0 ? 0 : size - 1) : place((*begin)[0]);
  std::int64_t last = TfInteger(in.node, "end_mask", 0) != 0 ? (step > 0 ? size : -1) : place((*end)[0]);
  if (TfInteger(in.node, "shrink_axis_mask", 0) != 0) {
    if (first < 0 || first >= size) return nullptr;
    last = first + 1;
  }
  std::vector<double> values;
  for (std::int64_t at = first; step > 0 ? at < last : at > last; at += step)
    values.push_back(x->at(static_cast<std::size_t>(at)));
  return Numbers(in.types[0], values);
}

Content SliceOf(const In& in) {
  const auto* const begin = in.Integers(1);
  const TfContent* const x = in.Known(0);
  if (x == nullptr || begin == nullptr || begin->size() != 1 || !in.types[0].HasShape() ||
      in.types[0].dims->size() != 1)
    return nullptr;
  std::vector<double> values;
  for (std::int64_t i = 0; i < (*in.types[0].dims)[0]; ++i) {
    const std::int64_t at = (*begin)[0] + i;
    if (at < 0 || static_cast<std::size_t>(at) >= x->size()) return nullptr;
    values.push_back(x->at(static_cast<std::size_t>(at)));
  }
  return Numbers(in.types[0], values);
}

Content GatherOf(const In& in) {
  const TfContent* const x = in.Known(0);
  const auto* const rows = in.Integers(1);
  if (x == nullptr || rows == nullptr || !in.inputs[0].type.dims || in.inputs[0].type.dims->size() != 1) return nullptr;
  std::vector<double> values;
  for (const std::int64_t row : *rows) {
    if (row < 0 || static_cast<std::size_t>(row) >= x->size()) return nullptr;
    values.push_back(x->at(static_cast<std::size_t>(row)));
  }
  return Numbers(in.types[0], values);
}

Content FillOf(const In& in) {
  if (in.Known(1) == nullptr || in.Known(1)->size() != 1 || !in.types[0].HasShape()) return nullptr;
  if (in.types[0].Elements() > static_cast<double>(kMostTfContent)) return nullptr;
  return Numbers(in.types[0],
                 std::vector<double>(static_cast<std::size_t>(in.types[0].Elements()), in.Known(1)->at(0)));
}

Content RangeOf(const In& in) {
  if (!in.AllKnown() || in.inputs.size() != 3) return nullptr;
  for (std::size_t i = 0; i < 3; ++i) {
    if (in.Known(i)->size() != 1) return nullptr;
  }
  const double first = in.Known(0)->at(0);
  const double step = in.Known(2)->at(0);
  const double count = step == 0 ? 0 : std::ceil((in.Known(1)->at(0) - first) / step);
  if (!(count <= static_cast<double>(kMostTfContent))) return nullptr;
  std::vector<double> values;
  for (double i = 0; i < count; ++i) values.push_back(first + i * step);
  return Numbers(in.types[0], values);
}

// Reduces a vector to a scalar or to a vector of one.
Content ReduceVector(const In& in) {
  if (!in.AllKnown() || in.inputs.size() != 2 || in.inputs[0].type.dims->size() > 1) return nullptr;
  const TfContent& x = *in.Known(0);
  if (in.Known(1)->size() == 0 || in.inputs[0].type.dims->empty()) return in.inputs[0].content;
  const std::string& op = in.node.op();
  double value = op == "Prod" || op == "All" ? 1 : 0;
  if (op == "Max" || op == "Min") value = (op == "Max" ? -1 : 1) * std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (op == "Prod") value *= x.at(i);
    if (op == "Sum" || op == "Mean") value += x.at(i);
    if (op == "Max") value = std::max(value, x.at(i));
    if (op == "Min") value = std::min(value, x.at(i));
    if (op == "All") value = value != 0 && x.at(i) != 0 ? 1 : 0;
    if (op == "Any") value = value != 0 || x.at(i) != 0 ? 1 : 0;
  }
  if (op == "Mean" && x.size() > 0) value /= static_cast<double>(x.size());
  return Numbers(in.types[0], {value});
}

Content Inverted(const In& in) {
  const auto* const order = in.Integers(0);
  if (order == nullptr) return nullptr;
  std::vector<std::int64_t> inverse(order->size());
  for (std::size_t i = 0; i < order->size(); ++i) {
    const std::int64_t to = (*order)[i];
    if (to < 0 || static_cast<std::size_t>(to) >= order->size()) return nullptr;
    inverse[static_cast<std::size_t>(to)] = static_cast<std::int64_t>(i);
  }
  return Integers(std::move(inverse));
}

Content SelectOf(const In& in) {
  if (!in.AllKnown() || in.inputs.size() != 3 || !in.types[0].HasShape()) return nullptr;
  if (in.node.op() == "Select" && in.Known(0)->size() != 1) return nullptr;
  std::vector<double> values;
  for (std::size_t i = 0; i < static_cast<std::size_t>(in.types[0].Elements()); ++i) {
    const bool first = Broadcast(in.inputs[0], *in.types[0].dims, i) != 0;
    values.push_back(Broadcast(in.inputs[first ? 1 : 2], *in.types[0].dims, i));
  }
  return Numbers(in.types[0], values);
}

const std::unordered_map<std::string_view, Content (*)(const In&)>& Folders() {
  static const std::unordered_map<std::string_view, Content (*)(const In&)> folders = {
      {"Neg", Unary},
      {"Abs", Unary},
      {"Square", Unary},
      {"Sqrt", Unary},
      {"Rsqrt", Unary},
      {"Floor", Unary},
      {"Ceil", Unary},
      {"Reciprocal", Unary},
      {"LogicalNot", Unary},
      {"ZerosLike", Unary},
      {"OnesLike", Unary},
      {"Cast", CastTo},
      {"Reshape", Same},
      {"Squeeze", Same},
      {"ExpandDims", Same},
      {"Shape", ShapeOfInput},
      {"VariableShape", ShapeOfInput},
      {"Size", SizeOfInput},
      {"Rank", RankOfInput},
      {"Pack", Pack},
      {"ConcatV2", ConcatV2},
      {"StridedSlice", StridedSlice},
      {"Slice", SliceOf},
      {"Gather", GatherOf},
      {"GatherV2", GatherOf},
      {"Fill", FillOf},
      {"Range", RangeOf},
      {"Prod", ReduceVector},
      {"Sum", ReduceVector},
      {"Mean", ReduceVector},
      {"Max", ReduceVector},
      {"Min", ReduceVector},
      {"All", ReduceVector},
      {"Any", ReduceVector},
      {"InvertPermutation", Inverted},
      {"Select", SelectOf},
      {"SelectV2", SelectOf},
  };
  return folders;
}

// The axes that a gradient is summed over: those that were broadcast. Source: BCast of TensorFlow's core.
std::vector<Content> BroadcastAxes(const In& in) {
  const auto* const a = in.Integers(0);
  const auto* const b = in.Integers(1);
  if (a == nullptr || b == nullptr) return {nullptr, nullptr};
  const std::size_t rank = std::max(a->size(), b->size());
  const auto size_of = [rank](const std::vector<std::int64_t>& dims, std::size_t axis) {
    return axis + dims.size() < rank ? std::int64_t{1} : dims[axis + dims.size() - rank];
  };
  std::vector<std::int64_t> of_a;
  std::vector<std::int64_t> of_b;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t size_a = size_of(*a, axis);
    const std::int64_t size_b = size_of(*b, axis);
    // Axes that one of them lacks are summed over too.
    if (size_a == 1 && (size_b != 1 || axis + a->size() < rank)) of_a.push_back(static_cast<std::int64_t>(axis));
    if (size_b == 1 && (size_a != 1 || axis + b->size() < rank)) of_b.push_back(static_cast<std::int64_t>(axis));
  }
  return {Integers(std::move(of_a)), Integers(std::move(of_b))};
}

std::vector<Content> Shapes(const In& in) {
  std::vector<Content> contents;
  for (const TfValue& input : in.inputs)
    contents.push_back(input.type.HasShape() ? Integers(*input.type.dims) : nullptr);
  return contents;
}

// Where each input of a concatenation begins.
std::vector<Content> Offsets(const In& in) {
  std::vector<Content> contents(in.inputs.empty() ? 0 : in.inputs.size() - 1);
  const auto* const axis = in.Integers(0);
  if (axis == nullptr || axis->size() != 1) return contents;
  std::int64_t begin = 0;
  for (std::size_t i = 1; i < in.inputs.size(); ++i) {
    const auto* const shape = in.Integers(i);
    const std::int64_t rank = shape == nullptr ? 0 : static_cast<std::int64_t>(shape->size());
    const std::int64_t at = (*axis)[0] < 0 ? (*axis)[0] + rank : (*axis)[0];
    if (shape == nullptr || at < 0 || at >= rank) return contents;
    std::vector<std::int64_t> place(shape->size());
    place[static_cast<std::size_t>(at)] = begin;
    begin += (*shape)[static_cast<std::size_t>(at)];
    contents[i - 1] = Integers(std::move(place));
  }
  return contents;
}

std::vector<Content> Unpacked(const In& in) {
  std::vector<Content> contents(in.types.size());
  if (in.Known(0) == nullptr || in.inputs[0].type.dims->size() != 1 || in.Known(0)->size() != contents.size())
    return contents;
  for (std::size_t i = 0; i < contents.size(); ++i) contents[i] = Numbers(in.types[i], {in.Known(0)->at(i)});
  return contents;
}

}  // namespace
}  // namespace tf_fold

std::vector<std::shared_ptr<const TfContent>> FoldTf(const tensorflow::NodeDef& node, std::span<const TfValue> inputs,
                                                     std::span<const TfType> types) {
  const tf_fold::In in{node, inputs, types};
  if (node.op() == "BroadcastGradientArgs") return tf_fold::BroadcastAxes(in);
  if (node.op() == "ShapeN") return tf_fold::Shapes(in);
  if (node.op() == "ConcatOffset") return tf_fold::Offsets(in);
  if (node.op() == "Unpack") return tf_fold::Unpacked(in);
  std::vector<std::shared_ptr<const TfContent>> contents(types.size());
  if (types.empty()) return contents;
  const auto folder = tf_fold::Folders().find(node.op());
  if (folder != tf_fold::Folders().end()) {
    contents[0] = folder->second(in);
  } else if (tf_fold::BinaryOf(node.op()) != nullptr) {
    contents[0] = tf_fold::Binary(in);
  }
  // A shape function that knows less than the content would give it a wrong size.
  if (contents[0] != nullptr && contents[0]->size() > kMostTfContent) contents[0] = nullptr;
  return contents;
}

}  // namespace emplace::datasets
