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

// The result of the solver. Not optimal: it ran out of time, or no columns satisfy all rows.
struct LinearSolution {
  std::vector<double> columns;
  std::vector<double> prices;  // the dual values, one a row
  bool is_optimal = false;
  int status = 0;  // Clp's
};

// Solves the program in at most `seconds`. The solver, Clp, is in a separate library that is loaded on demand. It links
// OpenBLAS, whose settings depend on the processor and must be set before loading (sim/base/blas.h). Throws InputError
// if the library cannot be loaded.
LinearSolution SolveProgram(const LinearProgram& program, double seconds = 1e9);

// The columns of the optimum. Throws InputError if the program cannot be solved, or as SolveProgram does.
std::vector<double> MinimiseLast(const LinearProgram& program);

// A bound that does not trust the solver: for any prices >= 0 of the rows, no columns within their limits that satisfy
// all rows have a smaller last column (weak duality). Columns after the fractions, but for the last, have no limit, and
// must not be there. Prices below 0 count as 0; prices too high for the last column are scaled down. Rounded down by
// more than all sums can be off.
double DualBound(const LinearProgram& program, const std::vector<double>& prices);

// The library's contents, exported as kLinearProgramName.
struct LinearProgramExports {
  LinearSolution (*solve)(const LinearProgram& program, double seconds);
};
inline constexpr char kLinearProgramName[] = "emplace_linear_program_part";

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_LINEAR_PROGRAM_H_
