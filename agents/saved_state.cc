#include "agents/saved_state.h"

#include <cmath>

namespace emplace::agents {

void StateReader::CountAsDouble(std::optional<std::size_t>& count) {
  constexpr double kMost = 9e15;  // doubles hold all integers up to there
  std::optional<double> number;
  Read(number);
  Check(!number || (*number >= 0 && *number <= kMost && *number == std::floor(*number)), "a count");
  count = number ? std::optional(static_cast<std::size_t>(*number)) : std::nullopt;
}

}  // namespace emplace::agents
