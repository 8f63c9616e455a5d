#include "agents/heuristics/linear_program.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/base/check.h"
#include "sim/base/plugin.h"

namespace emplace::agents {

LinearSolution SolveProgram(const LinearProgram& program, double seconds) {
  static const auto* const part = static_cast<const LinearProgramExports*>(
      LoadPlugin({.file = EMPLACE_CLP_FILE,
                  .built = EMPLACE_CLP_PATH,
                  .symbol = kLinearProgramName,
                  .what = "the library with the linear program solver, which m_sct and bound need"}));
  return part->solve(program, seconds);
}

std::vector<double> MinimiseLast(const LinearProgram& program) {
  LinearSolution solution = SolveProgram(program);
  if (!solution.is_optimal) {
    throw InputError("m_sct", "the linear program was not solved (Clp status " + std::to_string(solution.status) + ")");
  }
  return std::move(solution.columns);
}

double DualBound(const LinearProgram& program, const std::vector<double>& prices) {
  EMPLACE_CHECK_EQ(prices.size(), program.bounds.size());
  EMPLACE_CHECK_EQ(program.num_fractions + 1, program.columns.size());
  const auto price = [&](std::size_t row) { return std::isfinite(prices[row]) ? std::max(prices[row], 0.0) : 0.0; };
  const auto worth = [&](const std::vector<std::pair<int, double>>& column) {
    double sum = 0;
    for (const auto& [row, coefficient] : column) sum += price(static_cast<std::size_t>(row)) * coefficient;
    return sum;
  };
  const double of_last = worth(program.columns.back());
  const double scale = of_last > 1 ? 1 / of_last : 1;
  double bound = 0;
  double size = 0;  // sum over all terms
  for (std::size_t row = 0; row < program.bounds.size(); ++row) {
    bound += scale * price(row) * program.bounds[row];
    size += scale * std::abs(price(row) * program.bounds[row]);
  }
  for (std::size_t column = 0; column < program.num_fractions; ++column) {
    for (const auto& [row, coefficient] : program.columns[column]) {
      size += scale * std::abs(price(static_cast<std::size_t>(row)) * coefficient);
    }
    bound -= std::max(scale * worth(program.columns[column]), 0.0);
  }
  constexpr double kRounding = 1e-9;  // far more than 2^-53 times the number of terms
  return bound - kRounding * size;
}

}  // namespace emplace::agents
