#include <algorithm>
#include <cctype>
#include <set>

#include "datasets/importers/hlo_expander.h"

namespace emplace::datasets {
namespace {

// Sums and products wrap around, as those of XLA.
std::int64_t Wrapped(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t Bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

std::optional<std::int64_t> FoldBinary(std::string_view opcode, std::int64_t a, std::int64_t b) {
  if (opcode == "add") return Wrapped(Bits(a) + Bits(b));
  if (opcode == "subtract") return Wrapped(Bits(a) - Bits(b));
  if (opcode == "multiply") return Wrapped(Bits(a) * Bits(b));
  const bool divides = b != 0 && b != -1;
  if (opcode == "divide" && divides) return a / b;
  if (opcode == "remainder" && divides) return a % b;
  if (opcode == "maximum") return std::max(a, b);
  if (opcode == "minimum") return std::min(a, b);
  if (opcode == "and") return a & b;
  if (opcode == "or") return a | b;
  if (opcode == "xor") return a ^ b;
  return std::nullopt;
}

std::optional<std::int64_t> FoldComparison(std::string_view direction, std::int64_t a, std::int64_t b) {
  if (direction == "EQ") return a == b ? 1 : 0;
  if (direction == "NE") return a != b ? 1 : 0;
  if (direction == "LT") return a < b ? 1 : 0;
  if (direction == "LE") return a <= b ? 1 : 0;
  if (direction == "GT") return a > b ? 1 : 0;
  if (direction == "GE") return a >= b ? 1 : 0;
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> FoldHlo(const HloInstruction& instruction, const std::vector<std::int64_t>& operands) {
  const std::string& opcode = instruction.opcode;
  switch (operands.size()) {
    case 1:
      if (opcode == "negate") return Wrapped(0 - Bits(operands[0]));
      if (opcode == "not") return instruction.shape.dtype == DType::kBool ? 1 - operands[0] : ~operands[0];
      if (opcode == "convert" || opcode == "copy" || opcode == "reshape" || opcode == "bitcast" ||
          opcode == "broadcast_in_dim") {
        return operands[0];
      }
      return std::nullopt;
    case 2:
      if (opcode == "compare") return FoldComparison(instruction.text, operands[0], operands[1]);
      return FoldBinary(opcode, operands[0], operands[1]);
    case 3:
      if (opcode == "select") return operands[0] != 0 ? operands[1] : operands[2];
      if (opcode == "clamp") return std::max(operands[0], std::min(operands[1], operands[2]));
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::string HloLayer(std::string_view scope) {
  static const std::set<std::string_view> wrappers = {
      "transpose", "jvp", "vmap", "remat", "checkpoint", "rematted_computation", "vjp"};
  static const std::set<std::string_view> control = {
      "while", "body", "cond", "closed_call", "scan", "checkpoint", "rematted_computation", "remat", "shard_map"};
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < scope.size(); ++i) {
    if (scope[i] == '(') ++depth;
    if (scope[i] == ')') --depth;
    if (scope[i] != '/' || depth != 0) continue;
    parts.push_back(scope.substr(begin, i - begin));
    begin = i + 1;
  }
  // The last part is the operation itself.
  std::string layer;
  for (std::string_view part : parts) {
    for (std::size_t open = part.find('('); open != std::string_view::npos && part.ends_with(')');
         open = part.find('(')) {
      const bool is_wrapper = wrappers.contains(part.substr(0, open));
      part = is_wrapper ? part.substr(open + 1, part.size() - open - 2) : std::string_view();
    }
    if (part.empty() || control.contains(part) || part.starts_with("branch_") || part.find("->") != part.npos) continue;
    layer += (layer.empty() ? "" : "/") + std::string(part);
  }
  return layer;
}

}  // namespace emplace::datasets
