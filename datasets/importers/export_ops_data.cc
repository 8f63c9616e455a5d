#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "datasets/importers/export_call.h"
#include "sim/base/check.h"

// Views, copies, pieces, constants.
namespace emplace::datasets {
namespace {

double ExportCountCount(const Shape& shape) {
  double product = 1;
  for (const std::int64_t dim : shape) product *= static_cast<double>(dim);
  return product;
}

// A copy of the same shape: the order of the axes in memory changes.
Value LowerCopy(ExportCall& call, Value x, std::string_view suffix = {}) {
  Shape order(call.shape(x).size());
  std::iota(order.begin(), order.end(), 0);
  return call.EmitOne("transpose", {x}, call.shape(x), fmt::format(R"({{"order":[{}]}})", fmt::join(order, ",")),
                      suffix);
}

// Other dimensions of the same bytes; nothing where they are the same.
void LowerView(ExportCall& call, Value x) {
  call.Set(0, call.shape(x) == call.out().shape ? x : call.EmitOne("reshape", {x}, call.out().shape));
}

bool LowerViewed(ExportCall& call) {
  const Value x = call.Tensor("self");
  if (ExportCountCount(call.shape(x)) != ExportCountCount(call.out().shape)) return false;
  // A permutation of equal sizes is another view too, but of the same shape, which costs as little.
  LowerView(call, x);
  return true;
}

bool LowerTheSame(ExportCall& call) {
  const Value x = call.Tensor("self");
  if (call.shape(x) != call.out().shape || call.net().dtype(x) != call.out().dtype) return false;
  call.Set(0, x);
  return true;
}

bool LowerDetached(ExportCall& call) {
  const Value x = call.Tensor("self");
  if (call.shape(x) != call.out().shape) return false;
  call.Set(0, call.training() && call.net().trained(x) ? call.EmitOne("stop_gradient", {x}, call.shape(x)) : x);
  return true;
}

// Whether `tensor` can be viewed with `shape` without a copy: each run of its contiguous axes is divided into whole
// axes of `shape`.
bool CanView(const ExportTensor& tensor, const Shape& shape) {
  if (IsContiguous(tensor)) return true;
  Shape runs;
  std::int64_t run = 1;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] == 1) continue;
    run *= tensor.shape[i];
    std::size_t outer = i;
    while (outer > 0 && tensor.shape[outer - 1] == 1) --outer;
    std::int64_t reach = 0;
    const bool joins = outer > 0 && !__builtin_mul_overflow(tensor.strides[i], tensor.shape[i], &reach) &&
                       tensor.strides[outer - 1] == reach;
    if (!joins) {
      runs.push_back(run);
      run = 1;
    }
  }
  std::size_t at = shape.size();
  for (const std::int64_t size : runs) {
    std::int64_t covered = 1;
    while (covered != size) {
      if (at == 0 || shape[at - 1] < 1 || covered > size / shape[at - 1]) return false;
      covered *= shape[--at];
    }
  }
  return true;
}

// reshape and flatten: a view where that is possible, else a copy.
bool LowerReshaped(ExportCall& call) {
  const Value x = call.Tensor("self");
  if (ExportCountCount(call.shape(x)) != ExportCountCount(call.out().shape)) return false;
  if (!CanView(call.MetaOf("self"), call.out().shape)) {
    const bool changes = call.shape(x) != call.out().shape;
    const Value copy = LowerCopy(call, x, changes ? "copy" : std::string_view());
    call.Set(0, changes ? call.EmitOne("reshape", {copy}, call.out().shape) : copy);
    return true;
  }
  LowerView(call, x);
  return true;
}

bool LowerContiguous(ExportCall& call) {
  const Value x = call.Tensor("self");
  if (call.shape(x) != call.out().shape) return false;
  call.Set(0, IsContiguous(call.MetaOf("self")) ? x : LowerCopy(call, x));
  return true;
}

bool LowerCloned(ExportCall& call) {
  const Value x = call.Tensor("self");
  if (call.shape(x) != call.out().shape || call.net().dtype(x) != call.out().dtype) return false;
  call.Set(0, LowerCopy(call, x));
  return true;
}

// Cuts `length` from `begin` along an axis of x; a slice of all of it is x.
Value LowerCut(ExportCall& call, Value x, std::size_t axis, std::int64_t begin, std::int64_t length,
               std::string_view suffix) {
  Shape shape = call.shape(x);
  if (length == shape[axis]) return x;
  shape[axis] = length;
  Shape corner(shape.size(), 0);
  corner[axis] = begin;
  return call.EmitOne("slice", {x}, shape, fmt::format(R"({{"begin":[{}]}})", fmt::join(corner, ",")), suffix);
}

// slice(self, dim, start, end, step)
bool LowerSlice(ExportCall& call) {
  const Value x = call.Tensor("self");
  const Shape& shape = call.shape(x);
  if (shape.empty() || call.Integer("step", 1) != 1) return false;
  const std::size_t axis = call.Axis("dim", 0, shape.size());
  const std::int64_t size = shape[axis];
  const std::int64_t start = call.Integer("start", 0);
  const std::int64_t begin =
      std::clamp<std::int64_t>(start < 0 ? std::max<std::int64_t>(start, -size) + size : start, 0, size);
  Shape expected = shape;
  expected[axis] = call.out().shape.size() == shape.size() ? call.out().shape[axis] : -1;
  if (expected != call.out().shape || begin + expected[axis] > size) return false;
  call.Set(0, LowerCut(call, x, axis, begin, expected[axis], {}));
  return true;
}

bool LowerNarrow(ExportCall& call) {
  const Value x = call.Tensor("self");
  const Shape& shape = call.shape(x);
  if (shape.empty()) return false;
  const std::size_t axis = call.Axis("dim", 0, shape.size());
  const std::int64_t start = call.Integer("start", 0);
  const std::int64_t begin = start < 0 ? std::max<std::int64_t>(start, -shape[axis]) + shape[axis] : start;
  Shape expected = shape;
  expected[axis] = call.Integer("length", 0);
  if (expected != call.out().shape || expected[axis] < 0 || begin > shape[axis] - expected[axis]) return false;
  call.Set(0, LowerCut(call, x, axis, begin, expected[axis], {}));
  return true;
}

bool LowerSelect(ExportCall& call) {
  const Value x = call.Tensor("self");
  const Shape shape = call.shape(x);
  if (shape.empty()) return false;
  const std::size_t axis = call.Axis("dim", 0, shape.size());
  const std::int64_t index = call.Integer("index", 0);
  if (index < -shape[axis] || index >= shape[axis]) return false;
  Shape expected = shape;
  expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(axis));
  if (expected != call.out().shape) return false;
  const Value part = LowerCut(call, x, axis, index < 0 ? index + shape[axis] : index, 1, "slice");
  call.Set(0, call.EmitOne("reshape", {part}, expected));
  return true;
}

// split, chunk and their relatives: pieces along an axis.
bool LowerSplit(ExportCall& call) {
  const Value x = call.Tensor("self");
  const Shape& shape = call.shape(x);
  if (shape.empty() || call.num_outputs() == 0) return false;
  const std::size_t axis = call.Axis("dim", 0, shape.size());
  std::vector<NetworkBuilder::Output> outputs;
  std::int64_t left = shape[axis];
  for (std::size_t i = 0; i < call.num_outputs(); ++i) {
    const ExportTensor& piece = call.out(i);
    Shape expected = shape;
    expected[axis] = piece.shape.size() == shape.size() ? piece.shape[axis] : -1;
    if (piece.shape != expected || expected[axis] > left) return false;
    left -= expected[axis];
    outputs.push_back({.dtype = piece.dtype, .shape = piece.shape});
  }
  if (left != 0) return false;
  const std::vector<Value> pieces = call.Emit("split", {x}, std::move(outputs), fmt::format(R"({{"axis":{}}})", axis));
  for (std::size_t i = 0; i < pieces.size(); ++i) call.Set(i, pieces[i]);
  return true;
}

bool LowerUnbind(ExportCall& call) {
  const Value x = call.Tensor("self");
  const Shape& shape = call.shape(x);
  if (shape.empty()) return false;
  const std::size_t axis = call.Axis("dim", 0, shape.size());
  Shape piece = shape;
  piece.erase(piece.begin() + static_cast<std::ptrdiff_t>(axis));
  if (shape[axis] != static_cast<std::int64_t>(call.num_outputs()) || shape[axis] == 0) return false;
  std::vector<NetworkBuilder::Output> outputs;
  for (std::size_t i = 0; i < call.num_outputs(); ++i) {
    if (call.out(i).shape != piece) return false;
    outputs.push_back({.dtype = call.out(i).dtype, .shape = piece});
  }
  const std::vector<Value> pieces =
      call.Emit("unstack", {x}, std::move(outputs), fmt::format(R"({{"axis":{}}})", axis));
  for (std::size_t i = 0; i < pieces.size(); ++i) call.Set(i, pieces[i]);
  return true;
}

bool LowerConcat(ExportCall& call) {
  const std::vector<Value> parts = call.Tensors("tensors");
  const Shape& y = call.out().shape;
  if (y.empty() || parts.empty()) return false;
  const std::size_t axis = call.Axis("dim", 0, y.size());
  std::int64_t sum = 0;
  for (const Value part : parts) {
    Shape expected = y;
    if (call.shape(part).size() != y.size()) return false;
    expected[axis] = call.shape(part)[axis];
    if (call.shape(part) != expected || expected[axis] > y[axis] - sum) return false;
    sum += expected[axis];
  }
  if (sum != y[axis]) return false;
  call.Set(0, call.EmitOne("concat", parts, y, fmt::format(R"({{"axis":{}}})", axis)));
  return true;
}

bool LowerStack(ExportCall& call) {
  const std::vector<Value> parts = call.Tensors("tensors");
  Shape piece = call.out().shape;
  if (piece.empty() || parts.empty()) return false;
  const std::size_t axis = call.Axis("dim", 0, piece.size());
  if (piece[axis] != static_cast<std::int64_t>(parts.size())) return false;
  piece.erase(piece.begin() + static_cast<std::ptrdiff_t>(axis));
  for (const Value part : parts) {
    if (call.shape(part) != piece) return false;
  }
  call.Set(0, call.EmitOne("stack", parts, call.out().shape, fmt::format(R"({{"axis":{}}})", axis)));
  return true;
}

// constant_pad_nd(self, pad): pairs for the last axes, the last first.
bool LowerPad(ExportCall& call) {
  const Value x = call.Tensor("self");
  const Shape& shape = call.shape(x);
  const Shape pad = call.Integers("pad", {});
  if (pad.size() % 2 != 0 || pad.size() > 2 * shape.size() || call.out().shape.size() != shape.size()) return false;
  if (const std::string_view mode = call.Text("mode"); !mode.empty() && mode != "constant") return false;
  Shape before(shape.size(), 0);
  Shape after(shape.size(), 0);
  for (std::size_t i = 0; i < pad.size() / 2; ++i) {
    before[shape.size() - 1 - i] = pad[2 * i];
    after[shape.size() - 1 - i] = pad[2 * i + 1];
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (before[i] < 0 || after[i] < 0 || before[i] > call.out().shape[i] || after[i] > call.out().shape[i])
      return false;
    if (shape[i] + before[i] + after[i] != call.out().shape[i]) return false;
  }
  call.Set(
      0, call.EmitOne("pad", {x}, call.out().shape,
                      fmt::format(R"({{"before":[{}],"after":[{}]}})", fmt::join(before, ","), fmt::join(after, ","))));
  return true;
}

// embedding(weight, indices)
bool LowerEmbedding(ExportCall& call) {
  const Value table = call.Tensor("weight");
  const Value rows = call.Tensor("indices");
  const DType dtype = call.net().dtype(rows);
  if (call.shape(table).size() != 2 || (dtype != DType::kI64 && dtype != DType::kI32)) return false;
  Shape expected = call.shape(rows);
  expected.push_back(call.shape(table)[1]);
  if (expected != call.out().shape) return false;
  call.Set(0, call.EmitOne("gather", {table, rows}, expected));
  return true;
}

bool LowerFill(ExportCall& call) {
  if (call.num_outputs() != 1) return false;
  call.Set(0, call.EmitOne("fill", {}, call.out().shape));
  return true;
}

Value LowerSpread(ExportCall& call, Value x, const Shape& shape, const std::string& suffix) {
  if (call.shape(x) == shape) return x;
  return call.EmitOne("aten::expand", {x}, shape, fmt::format(R"({{"args":["%0",[{}]]}})", fmt::join(shape, ",")),
                      suffix);
}

// broadcast_tensors(tensors): each result is a view of its own tensor.
bool LowerBroadcast(ExportCall& call) {
  const std::vector<Value> parts = call.Tensors("tensors");
  if (parts.size() != call.num_outputs()) return false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    call.Set(i, LowerSpread(call, parts[i], call.out(i).shape, fmt::format("expand{}", i)));
  }
  return true;
}

// meshgrid(tensors, indexing): the same, each tensor along its own axis.
bool LowerMeshgrid(ExportCall& call) {
  const std::vector<Value> parts = call.Tensors("tensors");
  const bool swaps = call.Text("indexing") == "xy" && parts.size() > 1;
  if (parts.size() != call.num_outputs()) return false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t axis = swaps && i < 2 ? 1 - i : i;
    if (call.shape(parts[i]).size() != 1 || call.out(i).shape.size() != parts.size()) return false;
    if (call.out(i).shape[axis] != call.shape(parts[i])[0]) return false;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t axis = swaps && i < 2 ? 1 - i : i;
    Shape own(parts.size(), 1);
    own[axis] = call.shape(parts[i])[0];
    Value x = parts[i];
    if (call.shape(x) != own) x = call.EmitOne("reshape", {x}, own, "", fmt::format("axis{}", i));
    call.Set(i, LowerSpread(call, x, call.out(i).shape, fmt::format("expand{}", i)));
  }
  return true;
}

constexpr ExportRule kDataRules[] = {
    {"aten::view", LowerViewed},
    {"aten::_unsafe_view", LowerViewed},
    {"aten::view_as", LowerViewed},
    {"aten::unsqueeze", LowerViewed},
    {"aten::squeeze", LowerViewed},
    {"aten::unflatten", LowerViewed},
    {"aten::permute", LowerViewed},
    {"aten::transpose", LowerViewed},
    {"aten::t", LowerViewed},
    {"aten::numpy_T", LowerViewed},
    {"aten::mT", LowerViewed},
    {"aten::movedim", LowerViewed},
    {"aten::swapaxes", LowerViewed},
    {"aten::alias", LowerTheSame},
    {"aten::lift_fresh_copy", LowerTheSame},
    {"aten::to", LowerTheSame},
    {"aten::_to_copy", LowerTheSame},
    {"aten::type_as", LowerTheSame},
    {"aten::expand", LowerTheSame},
    {"aten::detach", LowerDetached},
    {"aten::reshape", LowerReshaped},
    {"aten::flatten", LowerReshaped},
    {"aten::contiguous", LowerContiguous},
    {"aten::clone", LowerCloned},
    {"aten::slice", LowerSlice},
    {"aten::narrow", LowerNarrow},
    {"aten::select", LowerSelect},
    {"aten::split", LowerSplit},
    {"aten::split_with_sizes", LowerSplit},
    {"aten::chunk", LowerSplit},
    {"aten::tensor_split", LowerSplit},
    {"aten::unbind", LowerUnbind},
    {"aten::cat", LowerConcat},
    {"aten::concat", LowerConcat},
    {"aten::stack", LowerStack},
    {"aten::constant_pad_nd", LowerPad},
    {"aten::pad", LowerPad},
    {"aten::embedding", LowerEmbedding},
    {"aten::broadcast_tensors", LowerBroadcast},
    {"aten::meshgrid", LowerMeshgrid},
    {"aten::zeros", LowerFill},
    {"aten::ones", LowerFill},
    {"aten::full", LowerFill},
    {"aten::empty", LowerFill},
    {"aten::arange", LowerFill},
    {"aten::scalar_tensor", LowerFill},
    {"aten::zeros_like", LowerFill},
    {"aten::ones_like", LowerFill},
    {"aten::full_like", LowerFill},
    {"aten::empty_like", LowerFill},
    {"aten::new_zeros", LowerFill},
    {"aten::new_ones", LowerFill},
    {"aten::new_full", LowerFill},
    {"aten::new_empty", LowerFill},
};

}  // namespace

std::span<const ExportRule> ExportDataRules() { return kDataRules; }

bool LowerExportCall(ExportCall& call) {
  std::string name = ExportKind(call.node().target, false);
  if (name.size() > 7 && name.ends_with('_') && !name.ends_with("__")) name.pop_back();  // in place
  for (const std::span<const ExportRule> rules :
       {ExportProductRules(), ExportEinsumRules(), ExportRecurrentRules(), ExportElementRules(), ExportDataRules()}) {
    const auto rule = std::find_if(rules.begin(), rules.end(), [&](const ExportRule& row) { return row.name == name; });
    if (rule == rules.end()) continue;
    if (call.num_outputs() == 0) return false;
    try {
      return rule->lower(call);
    } catch (const OtherArgument&) {  // an overload that the rule does not describe
      if (call.num_emitted() > 0) throw;
      return false;
    }
  }
  return false;
}

}  // namespace emplace::datasets
