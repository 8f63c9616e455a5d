// The Clp part of linear_program.h, in a separate library.

#include <ClpSimplex.hpp>
#include <ClpSolve.hpp>
#include <algorithm>

#include "agents/heuristics/linear_program.h"

namespace emplace::agents {
namespace {

LinearSolution Solve(const LinearProgram& program, double seconds) {
  std::vector<CoinBigIndex> starts = {0};
  std::vector<int> rows;
  std::vector<double> coefficients;
  for (const auto& column : program.columns) {
    for (const auto& [row, coefficient] : column) {
      rows.push_back(row);
      coefficients.push_back(coefficient);
    }
    starts.push_back(static_cast<CoinBigIndex>(rows.size()));
  }
  const std::size_t num_columns = program.columns.size();
  const std::vector<double> lower(num_columns, 0);
  std::vector<double> upper(num_columns, COIN_DBL_MAX);
  std::fill_n(upper.begin(), program.num_fractions, 1.0);
  std::vector<double> objective(num_columns, 0);
  objective.back() = 1;

  ClpSimplex solver;
  solver.setLogLevel(0);
  solver.setMaximumSeconds(seconds);
  solver.loadProblem(static_cast<int>(num_columns), static_cast<int>(program.bounds.size()), starts.data(), rows.data(),
                     coefficients.data(), lower.data(), upper.data(), objective.data(), program.bounds.data(), nullptr);
  ClpSolve how;
  how.setSolveType(ClpSolve::useDual);
  how.setPresolveType(ClpSolve::presolveOn);
  solver.initialSolve(how);
  return {.columns = {solver.getColSolution(), solver.getColSolution() + num_columns},
          .prices = {solver.getRowPrice(), solver.getRowPrice() + program.bounds.size()},
          .is_optimal = solver.isProvenOptimal(),
          .status = solver.status()};
}

}  // namespace
}  // namespace emplace::agents

extern "C" __attribute__((visibility("default")))
const emplace::agents::LinearProgramExports emplace_linear_program_part;
const emplace::agents::LinearProgramExports emplace_linear_program_part = {emplace::agents::Solve};
