#include "agents/heuristics/linear_program.h"

#include "sim/base/plugin.h"

namespace emplace::agents {

std::vector<double> MinimiseLast(const LinearProgram& program) {
  static const auto* const part = static_cast<const LinearProgramExports*>(
      LoadPlugin({.file = EMPLACE_CLP_FILE,
                  .built = EMPLACE_CLP_PATH,
                  .symbol = kLinearProgramName,
                  .what = "the library with the linear program solver, which m_sct needs"}));
  return part->minimise_last(program);
}

}  // namespace emplace::agents
