#ifndef EMPLACE_AGENTS_HEURISTICS_LINEAR_PROGRAM_H_
#define EMPLACE_AGENTS_HEURISTICS_LINEAR_PROGRAM_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace emplace::agents {

// A linear program under construction: rows of sum >= bound; columns of at least 0, the first `num_fractions` of at
// most 1. The last column is to be as small as can be.
struct LinearProgram {
  explicit LinearProgram(std::size_t num_columns) : columns(num_columns) {}

  void BeginRow(double at_least) { bounds.push_back(at_least); }
  void Add(std::size_t column, double coefficient) {
    columns[column].push_back({static_cast<int>(bounds.size() - 1), coefficient});
  }

  std::vector<std::vector<std::pair<int, double>>> columns;  // (row, coefficient)
  std::vector<double> bounds;
  std::size_t num_fractions = 0;
};

// The columns of the optimum. The solver, Clp, is in a library of its own, which is loaded when it is needed: it brings
// OpenBLAS, whose settings depend on the processor and must be made before it is loaded (sim/base/blas.h). Throws
// InputError if the library cannot be loaded, or the program is not solved.
std::vector<double> MinimiseLast(const LinearProgram& program);

// What the library holds, under the name kLinearProgramName.
struct LinearProgramExports {
  std::vector<double> (*minimise_last)(const LinearProgram& program);
};
inline constexpr char kLinearProgramName[] = "emplace_linear_program_part";

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_LINEAR_PROGRAM_H_
