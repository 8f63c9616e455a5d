#include "agents/nn/parameters.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "agents/nn/adam_step.h"
#include "sim/base/check.h"

namespace emplace::agents {

std::size_t ParameterSet::Add(std::string name, std::size_t rows, std::size_t columns, bool is_bias) {
  if (rows != 0 && columns > (kMostValues - size_) / rows) {
    throw InputError("policy",
                     fmt::format("would have more than {} weights (fewer devices or smaller layers)", kMostValues));
  }
  parameters_.push_back(
      {.name = std::move(name), .rows = rows, .columns = columns, .offset = size_, .is_bias = is_bias});
  size_ += rows * columns;
  return parameters_.size() - 1;
}

void ParameterSet::InitializeGlorot(Rng& rng) {
  const std::span<float> all = values();
  for (const Parameter& parameter : parameters_) {
    const double bound = std::sqrt(6.0 / static_cast<double>(parameter.rows + parameter.columns));
    for (std::size_t i = 0; i < parameter.size(); ++i) {
      all[parameter.offset + i] = parameter.is_bias ? 0.0F : static_cast<float>(bound * (2 * rng.Uniform() - 1));
    }
  }
}

void ParameterSet::CheckLoaded(const std::vector<Parameter>& found) const {
  if (found.size() != parameters_.size()) {
    throw InputError("weights", "are of another network (with the same number of parts)");
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Parameter& own = parameters_[i];
    if (found[i].name == own.name && found[i].rows == own.rows && found[i].columns == own.columns) continue;
    throw InputError("weights",
                     fmt::format("have {} [{}, {}] ({} [{}, {}]: the same agent, options and number of devices)",
                                 found[i].name, found[i].rows, found[i].columns, own.name, own.rows, own.columns));
  }
  if (values_.size() != size_) throw InputError("weights", "are cut short");
  for (const float value : values_) {
    if (!std::isfinite(value)) throw InputError("weights", "hold a number that is not finite");
  }
}

double ClipGlobalNorm(double bound, std::span<float> gradients) {
  double squares = 0;
  for (const float gradient : gradients) squares += static_cast<double>(gradient) * static_cast<double>(gradient);
  const double norm = std::sqrt(squares);
  if (norm > bound) {
    const double scale = bound / norm;
    for (float& gradient : gradients) gradient = static_cast<float>(gradient * scale);
  }
  return norm;
}

void Adam::Step(double learning_rate, std::span<const float> gradients, std::span<float> values) {
  constexpr double kBeta1 = 0.9;
  constexpr double kBeta2 = 0.999;
  constexpr double kEpsilon = 1e-8;
  first_moments_.resize(values.size());
  second_moments_.resize(values.size());
  ++steps_;
  const double correction1 = 1 - std::pow(kBeta1, static_cast<double>(steps_));
  const double correction2 = 1 - std::pow(kBeta2, static_cast<double>(steps_));
  AdamStep({.rate = learning_rate,
            .beta1 = kBeta1,
            .beta2 = kBeta2,
            .correction1 = correction1,
            .correction2 = correction2,
            .epsilon = kEpsilon},
           values.size(), gradients.data(), first_moments_.data(), second_moments_.data(), values.data());
}

}  // namespace emplace::agents
