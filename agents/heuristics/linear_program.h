#ifndef EMPLACE_AGENTS_HEURISTICS_LINEAR_PROGRAM_H_
#define EMPLACE_AGENTS_HEURISTICS_LINEAR_PROGRAM_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace emplace::agents {

// A linear program under construction: rows of sum >= bound. Columns are at least 0; the first `num_fractions` are at
// most 1. The objective is to minimise the last column.
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

// Returns the columns of the optimum. The solver, Clp, is in a separate library that is loaded on demand. It links
// OpenBLAS, whose settings depend on the processor and must be set before loading (sim/base/blas.h). Throws InputError
// if the library cannot be loaded or the program cannot be solved.
std::vector<double> MinimiseLast(const LinearProgram& program);

// The library's contents, exported as kLinearProgramName.
struct LinearProgramExports {
  std::vector<double> (*minimise_last)(const LinearProgram& program);
};
inline constexpr char kLinearProgramName[] = "emplace_linear_program_part";

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_LINEAR_PROGRAM_H_
