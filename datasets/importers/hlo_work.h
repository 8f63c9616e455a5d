#ifndef EMPLACE_DATASETS_IMPORTERS_HLO_WORK_H_
#define EMPLACE_DATASETS_IMPORTERS_HLO_WORK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "datasets/importers/hlo_module.h"

namespace emplace::datasets {

// The FLOP and bytes of the instructions of a program, as HloCostAnalysis of
// github.com/openxla/xla counts them: two for each multiply-add, one for each element of an
// elementwise operation, taps in the padding of a convolution left out. Other than there, exp, tanh and other
// transcendental functions count among the FLOP, one for each element.
class HloWork {
 public:
  // The instructions of a loop with all its iterations, beyond which it stays one op.
  static constexpr double kMostUnrolled = 200'000;

  // Requires: CheckHlo(module) does not throw. `module` lives as long as this.
  explicit HloWork(const HloModule& module);

  // FLOP of an instruction with all that it runs: one iteration of a loop, the branch with the most of them of a case.
  double Flop(const HloInstruction& instruction);
  // FLOP of all instructions of a computation.
  double ComputationFlop(std::size_t computation);
  // Bytes that an instruction moves, where it moves only parts of its operands or results: slices, gathers, updates in
  // place, and fusions of these. Nothing: it reads and writes all of them.
  std::optional<double> MovedBytes(const HloInstruction& instruction) const;
  // Instructions that run in a computation, those of calls included, and those of loops as often as the file says.
  double Size(std::size_t computation);
  // What takes most of a computation's time, as a rule: the last of these that it, or one that it calls, has.
  enum class Main : std::uint8_t { kElements, kReduce, kDot, kConvolution };
  Main MainOf(std::size_t computation);
  // Whether the FLOP of the operation are known.
  static bool Knows(const HloInstruction& instruction);

 private:
  double CountedFlop(const HloInstruction& instruction);
  double FusionBytes(const HloComputation& fused, const HloInstruction& fusion) const;

  const HloModule& module_;
  std::vector<std::optional<double>> flop_;  // indexed by computation
  std::vector<std::optional<double>> size_;
  std::vector<std::optional<Main>> main_;
};

// What a custom call does, by its target: "dot_general", "convolution", "top_k", "identity" for what only annotates a
// value, "" for others.
std::string_view HloCustomCall(std::string_view target);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_HLO_WORK_H_
