#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "datasets/importers/export_call.h"
#include "sim/base/check.h"
#include "sim/ops/einsum.h"

// einsum and its relatives as PyTorch computes them: two tensors at a time, by products of matrices.
namespace emplace::datasets {
namespace {

using Labels = std::vector<EinsumLabel>;

struct Operand {
  Value value;
  Labels labels;
};

bool Contains(const Labels& labels, const EinsumLabel& label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

Labels Joined(std::initializer_list<Labels> parts) {
  Labels all;
  for (const Labels& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

class EinsumWriter {
 public:
  EinsumWriter(ExportCall& call, std::vector<Operand> operands, Labels output)
      : call_(call), operands_(std::move(operands)), output_(std::move(output)) {
    for (const Operand& operand : operands_) {
      for (std::size_t i = 0; i < operand.labels.size(); ++i) {
        std::int64_t& size = sizes_.try_emplace(operand.labels[i], 1).first->second;
        size = std::max(size, call_.shape(operand.value)[i]);
      }
    }
  }

  // Contracts the operands at two positions; the result becomes the last one.
  void Contract(std::size_t i, std::size_t j) {
    Operand a = operands_[i];
    Operand b = operands_[j];
    operands_.erase(operands_.begin() + static_cast<std::ptrdiff_t>(std::max(i, j)));
    operands_.erase(operands_.begin() + static_cast<std::ptrdiff_t>(std::min(i, j)));
    Labels needed = output_;
    for (const Operand& other : operands_) needed.insert(needed.end(), other.labels.begin(), other.labels.end());
    step_ = fmt::format("step{}/", num_steps_++);
    a = Summed(Without1(a, "a"), Joined({needed, b.labels}), "a");
    b = Summed(Without1(b, "b"), Joined({needed, a.labels}), "b");
    operands_.push_back(Product(a, b, needed));
  }

  Value Result() {
    step_ = "";
    Operand last = Summed(Without1(operands_.front(), "result"), output_, "result");
    // What is left is another order of the dimensions, and those of size 1: a view.
    return call_.shape(last.value) == call_.out().shape
               ? last.value
               : call_.EmitOne("reshape", {last.value}, call_.out().shape, "", "");
  }
  std::size_t num_operands() const { return operands_.size(); }

 private:
  Shape ShapeOf(const Labels& labels) const {
    Shape shape;
    for (const EinsumLabel& label : labels) shape.push_back(sizes_.at(label));
    return shape;
  }
  std::int64_t CountOf(const Labels& labels) const {
    std::int64_t count = 1;
    for (const std::int64_t size : ShapeOf(labels)) count *= size;
    return count;
  }
  Value View(Value x, Shape shape, const std::string& suffix) {
    return call_.shape(x) == shape ? x : call_.EmitOne("reshape", {x}, std::move(shape), "", step_ + suffix);
  }

  // Without the dimensions of size 1, which spread over those of others.
  Operand Without1(const Operand& from, const std::string& name) {
    Operand to;
    Shape shape;
    for (std::size_t i = 0; i < from.labels.size(); ++i) {
      const std::int64_t size = call_.shape(from.value)[i];
      if (size == 1) continue;
      to.labels.push_back(from.labels[i]);
      shape.push_back(size);
    }
    to.value = View(from.value, std::move(shape), name + "_squeezed");
    return to;
  }

  // Summed over the dimensions that nothing else has.
  Operand Summed(const Operand& from, const Labels& needed, const std::string& name) {
    Operand to;
    std::vector<std::size_t> axes;
    for (std::size_t i = 0; i < from.labels.size(); ++i) {
      if (Contains(needed, from.labels[i])) {
        to.labels.push_back(from.labels[i]);
      } else {
        axes.push_back(i);
      }
    }
    to.value = axes.empty()
                   ? from.value
                   : call_.EmitOne("reduce_sum", {from.value}, ShapeOf(to.labels),
                                   fmt::format(R"({{"axes":[{}]}})", fmt::join(axes, ",")), step_ + name + "_sum");
    return to;
  }

  // Copied if its dimensions lie in another order.
  Value Ordered(const Operand& operand, const Labels& wanted, const std::string& name) {
    if (operand.labels == wanted) return operand.value;
    std::vector<std::size_t> order;
    for (const EinsumLabel& label : wanted) {
      order.push_back(static_cast<std::size_t>(std::find(operand.labels.begin(), operand.labels.end(), label) -
                                               operand.labels.begin()));
    }
    return call_.EmitOne("transpose", {operand.value}, ShapeOf(wanted),
                         fmt::format(R"({{"order":[{}]}})", fmt::join(order, ",")), step_ + name + "_ordered");
  }

  // As a matrix, or a batch of them: rows, then columns. *is_turned: with both exchanged, which a product can read as
  // well.
  Value Matrix(const Operand& operand, const Labels& batch, const Labels& rows, const Labels& columns,
               const std::string& name, bool* is_turned) {
    *is_turned = operand.labels == Joined({batch, columns, rows}) && operand.labels != Joined({batch, rows, columns});
    const Labels& first = *is_turned ? columns : rows;
    const Labels& second = *is_turned ? rows : columns;
    const Value x = Ordered(operand, Joined({batch, first, second}), name);
    Shape shape = {CountOf(first), CountOf(second)};
    if (!batch.empty()) shape.insert(shape.begin(), CountOf(batch));
    return View(x, std::move(shape), name + "_matrix");
  }

  Operand Product(const Operand& a, const Operand& b, const Labels& needed) {
    Labels batch;
    Labels sum;
    Labels left;
    Labels right;
    for (const EinsumLabel& label : a.labels) {
      if (!Contains(b.labels, label)) {
        left.push_back(label);
      } else {
        (Contains(needed, label) ? batch : sum).push_back(label);
      }
    }
    for (const EinsumLabel& label : b.labels) {
      if (!Contains(a.labels, label)) right.push_back(label);
    }
    const Labels labels = Joined({batch, left, right});
    if (sum.empty()) return {Outer(a, b, Joined({a.labels, right})), Joined({a.labels, right})};
    bool turned_a = false;
    bool turned_b = false;
    const Value x = Matrix(a, batch, left, sum, "a", &turned_a);
    const Value y = Matrix(b, batch, sum, right, "b", &turned_b);
    std::string attrs = turned_a ? R"("transpose_a":true)" : "";
    if (turned_b) attrs += std::string(attrs.empty() ? "" : ",") + R"("transpose_b":true)";
    Shape shape = {CountOf(left), CountOf(right)};
    if (!batch.empty()) shape.insert(shape.begin(), CountOf(batch));
    const Value z = call_.EmitOne(batch.empty() ? "matmul" : "batch_matmul", {x, y}, shape,
                                  attrs.empty() ? "" : "{" + attrs + "}", step_ + "product");
    return {View(z, ShapeOf(labels), "shape"), labels};
  }

  // Nothing is summed: a product of elements.
  Value Outer(const Operand& a, const Operand& b, const Labels& labels) {
    Shape wide = call_.shape(a.value);
    wide.resize(labels.size(), 1);
    Labels ordered;
    Shape shape;
    for (const EinsumLabel& label : labels) {
      const bool has = Contains(b.labels, label);
      if (has) ordered.push_back(label);
      shape.push_back(has ? sizes_.at(label) : 1);
    }
    const Value y = Ordered(b, ordered, "b");
    return call_.EmitOne("mul", {View(a.value, std::move(wide), "a_wide"), View(y, std::move(shape), "b_wide")},
                         ShapeOf(labels), "", step_ + "product");
  }

  ExportCall& call_;
  std::vector<Operand> operands_;
  Labels output_;
  std::map<EinsumLabel, std::int64_t> sizes_;
  std::string step_;
  int num_steps_ = 0;
};

// The dimensions of the result, in their order.
Labels OutputLabels(const EinsumTerms& terms, const std::vector<Operand>& operands) {
  std::map<EinsumLabel, int> uses;
  for (const Operand& operand : operands) {
    for (const EinsumLabel& label : operand.labels) ++uses[label];
  }
  Labels rest;
  Labels once;
  for (const auto& [label, count] : uses) {
    if (label.first == '\0') {
      rest.insert(rest.begin(), label);
    } else if (count == 1) {
      once.push_back(label);
    }
  }
  if (!terms.output) return Joined({rest, once});
  const std::size_t letters = static_cast<std::size_t>(
      std::count_if(terms.output->begin(), terms.output->end(), [](char c) { return c != '.'; }));
  return EinsumLabels(*terms.output, letters + (letters == terms.output->size() ? 0 : rest.size())).value_or(Labels{});
}

// Pairs of positions to contract, one result being the last of what is left: along the path, else from left to right.
std::optional<std::vector<std::pair<std::size_t, std::size_t>>> ContractionOrder(const Shape& path, std::size_t count) {
  std::vector<std::pair<std::size_t, std::size_t>> steps;
  for (std::size_t step = 0; step + 1 < count; ++step) {
    const auto left = static_cast<std::int64_t>(count - step);
    std::int64_t i = step == 0 ? 0 : left - 1;  // the first two, then what they gave with the next
    std::int64_t j = step == 0 ? 1 : 0;
    if (2 * step + 1 < path.size()) {
      i = path[2 * step];
      j = path[2 * step + 1];
    }
    if (i < 0 || j < 0 || i >= left || j >= left || i == j) return std::nullopt;
    steps.emplace_back(static_cast<std::size_t>(i), static_cast<std::size_t>(j));
  }
  return steps;
}

// Contracts two tensors whose dimensions have these labels; the result has `output`.
bool LowerPair(ExportCall& call, Value a, Labels of_a, Value b, Labels of_b, Labels output) {
  for (const Value x : {a, b}) {
    if (std::find(call.shape(x).begin(), call.shape(x).end(), 0) != call.shape(x).end()) return false;
  }
  EinsumWriter write(call, {{a, std::move(of_a)}, {b, std::move(of_b)}}, std::move(output));
  write.Contract(0, 1);
  call.Set(0, write.Result());
  return true;
}

// Labels of `rank` dimensions, from `first` on.
Labels LabelsFrom(std::size_t first, std::size_t rank) {
  Labels labels;
  for (std::size_t i = 0; i < rank; ++i) labels.emplace_back('a', first + i);
  return labels;
}

// tensordot(self, other, dims_self, dims_other)
bool LowerTensordot(ExportCall& call) {
  const Value a = call.Tensor("self");
  const Value b = call.Tensor("other");
  const Shape dims_a = call.Integers("dims_self", {});
  const Shape dims_b = call.Integers("dims_other", {});
  const auto rank_a = static_cast<std::int64_t>(call.shape(a).size());
  const auto rank_b = static_cast<std::int64_t>(call.shape(b).size());
  if (dims_a.size() != dims_b.size()) return false;
  Labels of_a = LabelsFrom(0, call.shape(a).size());
  Labels of_b = LabelsFrom(of_a.size(), call.shape(b).size());
  std::set<std::int64_t> summed_a;
  std::set<std::int64_t> summed_b;
  for (std::size_t i = 0; i < dims_a.size(); ++i) {
    const std::int64_t x = dims_a[i] < 0 ? dims_a[i] + rank_a : dims_a[i];
    const std::int64_t y = dims_b[i] < 0 ? dims_b[i] + rank_b : dims_b[i];
    if (x < 0 || x >= rank_a || y < 0 || y >= rank_b || !summed_a.insert(x).second || !summed_b.insert(y).second) {
      return false;
    }
    if (call.shape(a)[static_cast<std::size_t>(x)] != call.shape(b)[static_cast<std::size_t>(y)]) return false;
    of_b[static_cast<std::size_t>(y)] = of_a[static_cast<std::size_t>(x)];
  }
  Labels output;
  Shape shape;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (summed_a.contains(static_cast<std::int64_t>(i))) continue;
    output.push_back(of_a[i]);
    shape.push_back(call.shape(a)[i]);
  }
  for (std::size_t i = 0; i < of_b.size(); ++i) {
    if (summed_b.contains(static_cast<std::int64_t>(i))) continue;
    output.push_back(of_b[i]);
    shape.push_back(call.shape(b)[i]);
  }
  return shape == call.out().shape && LowerPair(call, a, std::move(of_a), b, std::move(of_b), std::move(output));
}

// inner(self, other): the last dimensions are summed. outer(self, vec2): none is.
template <bool kSums>
bool LowerInner(ExportCall& call) {
  const Value a = call.Tensor("self");
  const Value b = call.Tensor(kSums ? "other" : "vec2");
  if (call.shape(a).empty() || call.shape(b).empty()) return false;
  Labels of_a = LabelsFrom(0, call.shape(a).size());
  Labels of_b = LabelsFrom(of_a.size(), call.shape(b).size());
  Labels output = of_a;
  Shape shape = call.shape(a);
  Labels more = of_b;
  Shape more_shape = call.shape(b);
  if (kSums) {
    if (call.shape(a).back() != call.shape(b).back()) return false;
    of_b.back() = of_a.back();
    output.pop_back();
    shape.pop_back();
    more.pop_back();
    more_shape.pop_back();
  }
  output.insert(output.end(), more.begin(), more.end());
  shape.insert(shape.end(), more_shape.begin(), more_shape.end());
  return shape == call.out().shape && LowerPair(call, a, std::move(of_a), b, std::move(of_b), std::move(output));
}

bool LowerEinsum(ExportCall& call) {
  const std::string_view equation = call.Text("equation");
  const std::vector<Value> tensors = call.Tensors("tensors");
  std::vector<Shape> shapes;
  shapes.reserve(tensors.size());
  for (const Value tensor : tensors) shapes.push_back(call.shape(tensor));
  if (EinsumShape(equation, shapes) != call.out().shape) return false;
  const EinsumTerms terms = SplitEinsum(equation);
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Labels labels = *EinsumLabels(terms.inputs[i], shapes[i].size());
    if (std::set<EinsumLabel>(labels.begin(), labels.end()).size() != labels.size()) return false;  // a diagonal
    if (std::find(shapes[i].begin(), shapes[i].end(), 0) != shapes[i].end()) return false;
    operands.push_back({tensors[i], std::move(labels)});
  }
  const std::optional<std::vector<std::pair<std::size_t, std::size_t>>> steps =
      ContractionOrder(call.Integers("path", {}), operands.size());
  if (!steps) return false;
  Labels output = OutputLabels(terms, operands);
  EinsumWriter write(call, std::move(operands), std::move(output));
  for (const auto& [i, j] : *steps) write.Contract(i, j);
  call.Set(0, write.Result());
  return true;
}

constexpr ExportRule kEinsumRules[] = {
    {"aten::einsum", LowerEinsum},      {"aten::tensordot", LowerTensordot}, {"aten::inner", LowerInner<true>},
    {"aten::outer", LowerInner<false>}, {"aten::ger", LowerInner<false>},
};

}  // namespace

std::span<const ExportRule> ExportEinsumRules() { return kEinsumRules; }

}  // namespace emplace::datasets
