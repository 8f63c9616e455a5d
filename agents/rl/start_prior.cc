#include "agents/rl/start_prior.h"

#include <algorithm>
#include <cmath>

namespace emplace::agents {
namespace {

constexpr double kChanges = 4;

}  // namespace

double StartLogit(std::size_t num_choices, std::size_t chosen, std::size_t others) {
  if (chosen == 0 || others == 0) return 0;
  const double changes = std::min(kChanges / static_cast<double>(num_choices), 0.5);
  return std::log((1 - changes) / changes * static_cast<double>(others) / static_cast<double>(chosen));
}

}  // namespace emplace::agents
