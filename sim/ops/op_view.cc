#include "sim/ops/op_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/check.h"

namespace emplace {
namespace {

std::string Printed(ShapeView shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

// The attr's value, or null where there is none.
nlohmann::json Attr(const OpView& view, std::string_view attrs, std::string_view key) {
  if (attrs.empty()) return nullptr;
  const nlohmann::json parsed = nlohmann::json::parse(attrs, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) view.Refuse("attrs is not a JSON object");
  const auto found = parsed.find(key);
  return found == parsed.end() ? nlohmann::json(nullptr) : *found;
}

}  // namespace

double Elements(ShapeView shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;  // and not 0 times infinity
  double elements = 1;
  for (const std::int64_t dim : shape) elements *= static_cast<double>(dim);
  return elements;
}

bool OpView::input_is_integer(std::size_t i) const {
  const DType dtype = Input(i).dtype;
  return dtype == DType::kI8 || dtype == DType::kU8 || dtype == DType::kI16 || dtype == DType::kI32 ||
         dtype == DType::kI64 || dtype == DType::kU4 || dtype == DType::kI4;
}

double OpView::AllBytes() const {
  double bytes = 0;
  for (std::size_t i = 0; i < num_inputs(); ++i) bytes += in_bytes(i);
  for (std::size_t i = 0; i < num_outputs(); ++i) bytes += out_bytes(i);
  return bytes;
}

void OpView::ExpectCounts(std::size_t inputs, std::size_t outputs, bool at_least) const {
  if (at_least ? num_inputs() < inputs : num_inputs() != inputs) {
    Refuse(fmt::format("has {} inputs ({}{} expected)", num_inputs(), at_least ? "at least " : "", inputs));
  }
  if (num_outputs() != outputs) Refuse(fmt::format("has {} outputs ({} expected)", num_outputs(), outputs));
}

void OpView::ExpectRank(ShapeView shape, std::size_t rank, std::string_view what) const {
  if (shape.size() != rank) Refuse(fmt::format("{} has shape {} (rank {} expected)", what, Printed(shape), rank));
}

void OpView::ExpectSame(ShapeView a, ShapeView b, std::string_view what) const {
  if (!std::equal(a.begin(), a.end(), b.begin(), b.end())) {
    Refuse(fmt::format("shapes {} and {} differ ({})", Printed(a), Printed(b), what));
  }
}

void OpView::ExpectRowsOfTable(ShapeView rows, ShapeView table, std::string_view what) const {
  ExpectRank(table, 2, what);
  Expect(input_is_integer(1), "row numbers are integers");
  Expect(Elements(rows) == Elements(in(1)) * static_cast<double>(table[1]), "one table row an index");
}

void OpView::Expect(bool holds, std::string_view what) const {
  if (!holds) Refuse(fmt::format("its shapes or attrs do not fit together ({})", what));
}

bool OpView::Flag(std::string_view key, bool absent) const {
  const nlohmann::json value = Attr(*this, graph_.op(op_).attrs, key);
  if (value.is_null()) return absent;
  if (!value.is_boolean()) Refuse(fmt::format("attr {} is not true or false", key));
  return value.get<bool>();
}

std::string OpView::Text(std::string_view key) const {
  const nlohmann::json value = Attr(*this, graph_.op(op_).attrs, key);
  if (value.is_null()) return "";
  if (!value.is_string()) Refuse(fmt::format("attr {} is not a text", key));
  return value.get<std::string>();
}

std::int64_t OpView::Integer(std::string_view key, std::int64_t absent) const {
  const nlohmann::json value = Attr(*this, graph_.op(op_).attrs, key);
  if (value.is_null()) return absent;
  if (!value.is_number_integer()) Refuse(fmt::format("attr {} is not an integer", key));
  return value.get<std::int64_t>();
}

std::vector<std::int64_t> OpView::Integers(std::string_view key) const {
  const nlohmann::json value = Attr(*this, graph_.op(op_).attrs, key);
  if (value.is_null()) return {};
  const auto fits = [](const nlohmann::json& entry) { return entry.is_number_integer(); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), fits)) {
    Refuse(fmt::format("attr {} is not a list of integers", key));
  }
  return value.get<std::vector<std::int64_t>>();
}

std::array<std::int64_t, 2> OpView::Pair(std::string_view key, std::array<std::int64_t, 2> absent) const {
  const nlohmann::json value = Attr(*this, graph_.op(op_).attrs, key);
  if (value.is_null()) return absent;
  constexpr std::int64_t kLargest = std::int64_t{1} << 31;
  std::array<std::int64_t, 2> pair{};
  bool fits = value.is_array() && value.size() == 2;
  for (std::size_t i = 0; fits && i < 2; ++i) {
    fits = value[i].is_number_integer() && value[i].get<double>() >= 0 && value[i].get<double>() <= kLargest;
    if (fits) pair[i] = value[i].get<std::int64_t>();
  }
  if (!fits) Refuse(fmt::format("attr {} is not a pair of integers in [0, 2^31]", key));
  return pair;
}

double OpView::SlidingSize(std::int64_t size, std::int64_t kernel, std::size_t axis) const {
  const std::int64_t stride = Pair("stride", {1, 1})[axis];
  const std::int64_t dilation = Pair("dilation", {1, 1})[axis];
  Expect(stride >= 1 && dilation >= 1 && kernel >= 1 && size >= 0, "stride, dilation and window are at least 1");
  const nlohmann::json padding = Attr(*this, graph_.op(op_).attrs, "padding");
  std::int64_t around = 0;
  if (padding == "same") {
    const std::int64_t whole = size / stride;
    return static_cast<double>(size % stride != 0 ? whole + 1 : whole);
  }
  if (padding.is_array()) {
    around = 2 * Pair("padding", {0, 0})[axis];
  } else if (!padding.is_null() && padding != "valid") {
    Refuse("attr padding is not \"same\", \"valid\" or a pair of integers");
  }
  const double room = static_cast<double>(size) + static_cast<double>(around) -
                      static_cast<double>(kernel - 1) * static_cast<double>(dilation) - 1;
  Expect(room >= 0, "the window is no larger than the padded input");
  return std::floor(room / static_cast<double>(stride)) + 1;
}

void OpView::Refuse(const std::string& problem) const {
  const Op& op = graph_.op(op_);
  throw InputError(std::string(op.name), fmt::format("as an op of kind {}, {}", op.kind, problem));
}

const Tensor& OpView::Input(std::size_t i) const {
  if (i >= num_inputs()) Refuse(fmt::format("has no input {}", i));
  return graph_.tensor(graph_.inputs(op_)[i]);
}

const Tensor& OpView::Output(std::size_t i) const {
  if (i >= num_outputs()) Refuse(fmt::format("has no output {}", i));
  return graph_.tensor(MakeId<TensorId>(Index(graph_.first_output(op_)) + i));
}

ShapeView OpView::ShapeOf(const Tensor& tensor, std::string_view role, std::size_t i) const {
  if (tensor.dtype == DType::kNone) Refuse(fmt::format("{} {} has no dtype and shape", role, i));
  return tensor.shape;
}

OpWork MakeWork(OpClass op_class, double flop, double bytes) {
  constexpr double kMost = 0x1p62;
  return {.op_class = op_class, .flop = flop, .moved = Bytes{RoundToInteger(std::min(bytes, kMost))}};
}

}  // namespace emplace
