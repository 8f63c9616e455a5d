#ifndef EMPLACE_DATASETS_IMPORTERS_HLO_EXPANDER_H_
#define EMPLACE_DATASETS_IMPORTERS_HLO_EXPANDER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "datasets/importers/hlo_module.h"
#include "datasets/importers/hlo_work.h"
#include "sim/graph.h"

namespace emplace::datasets {

// A tensor or token while a program is expanded.
struct HloLeaf {
  static constexpr std::uint32_t kNoOp = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t op = kNoOp;  // position of the op that writes it; none: a constant that is no op
  std::uint32_t output = 0;
  bool is_token = false;
  std::optional<std::int64_t> known =
      std::nullopt;  // the value of an integer or a truth value that follows from constants
};
using HloLeafList = std::vector<HloLeaf>;

// What was left open, and what was done with it.
struct HloCounts {
  std::map<std::string, std::int64_t> unrolled;  // loops, and how often they run
  std::vector<std::string> kept_loops;           // in words
  std::vector<std::string> guessed;              // conditions
  std::map<std::string, std::size_t> unknown;    // kinds of ops whose FLOP are not known
  std::size_t unknown_ops = 0;
  std::size_t ops = 0;  // without inputs and variables
  std::size_t variables = 0;
  std::size_t inputs = 0;
  double variable_numbers = 0;
  double input_numbers = 0;
  double variable_bytes = 0;
};

// Runs a program without its numbers: what follows from integer constants is worked out, and each other instruction
// becomes an op. Calls are in place, and so are the iterations of a loop whose number is known.
class HloExpander {
 public:
  // Requires: CheckHlo(module) does not throw. `module` lives as long as this.
  explicit HloExpander(const HloModule& module);

  // The ops. Throws InputError where they are too many.
  std::vector<OpSpec> Expand();
  const HloCounts& counts() const { return counts_; }

 private:
  using Leaves = HloLeafList;

  void AddParameters();
  void AddParameter(const HloInstruction& parameter, bool is_donated, Leaves* leaves);
  Leaves Run(std::size_t computation, const std::string& prefix, bool dry);
  void Step(std::size_t id, const std::string& prefix, bool dry);
  void SetParameters(std::size_t computation, const Leaves& leaves);
  Leaves LeavesOf(const HloOperand& operand) const;
  static Leaves Element(const Leaves& leaves, const HloShape& tuple, std::size_t element);
  Leaves OperandLeaves(const HloInstruction& instruction, std::size_t first = 0) const;
  static Leaves Unknown(const HloInstruction& instruction);

  std::optional<Leaves> Passed(const HloInstruction& instruction, const Leaves& operands) const;
  std::optional<Leaves> Folded(const HloInstruction& instruction, const Leaves& operands);
  std::optional<Leaves> FoldedFusion(const HloInstruction& fusion, const Leaves& operands);
  Leaves Constant(const HloInstruction& instruction, const std::string& prefix, bool dry);
  Leaves Case(const HloInstruction& instruction, const std::string& prefix, bool dry);
  Leaves Loop(const HloInstruction& instruction, const std::string& prefix, bool dry);
  std::optional<std::int64_t> Trips(const HloInstruction& loop, const Leaves& leaves);
  Leaves Captured(const HloInstruction& instruction) const;
  Leaves Emit(const HloInstruction& instruction, const std::string& prefix, const Leaves& operands,
              std::optional<double> flop = std::nullopt);
  OpSpec Source(std::string_view kind, const std::string& name, const HloShape& shape) const;
  std::string NameFor(const std::string& wanted);

  const HloModule& module_;
  HloWork work_;
  std::vector<Leaves> values_;          // indexed by instruction
  std::vector<std::uint32_t> last_op_;  // indexed by instruction: the last op it became
  std::vector<std::uint32_t> conditions_;
  std::vector<OpSpec> ops_;
  std::unordered_map<std::string, std::size_t> names_;
  HloCounts counts_;
  std::size_t steps_ = 0;
  std::size_t dry_steps_ = 0;
};

// The value that an operation gives for integers; nullopt for operations that are not worked out.
std::optional<std::int64_t> FoldHlo(const HloInstruction& instruction, const std::vector<std::int64_t>& operands);

// "encoder/dense" of "jit(step)/transpose(jvp(encoder))/dense/dot_general": the modules in JAX's name of an operation.
std::string HloLayer(std::string_view scope);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_HLO_EXPANDER_H_
