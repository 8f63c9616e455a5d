#ifndef EMPLACE_AGENTS_NN_PARAMETERS_H_
#define EMPLACE_AGENTS_NN_PARAMETERS_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "sim/base/rng.h"

namespace emplace::agents {

// One weight array of a network: [rows, columns], row-major, within the flat array of all weights.
struct Parameter {
  std::string name;
  std::size_t rows = 0;  // inputs; 1 for a bias
  std::size_t columns = 0;
  std::size_t offset = 0;
  bool is_bias = false;
  std::size_t size() const { return rows * columns; }

  static void SavedFields(auto& state, auto& self) {
    state.Name(self.name);
    state(self.rows);
    state.EndLine(self.columns);
  }
};

// All weights of a network in one flat array, in order of declaration.
class ParameterSet {
 public:
  // 1 GiB of values; training needs six times that.
  static constexpr std::size_t kMostValues = std::size_t{1} << 28;

  // Returns the index of the new parameter, initially zeros. Throws InputError if there would be more than kMostValues.
  std::size_t Add(std::string name, std::size_t rows, std::size_t columns, bool is_bias);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::span<float> values() { return Values(); }
  std::span<const float> values() const { return Values(); }
  std::size_t size() const { return size_; }

  // Weights uniform in +-sqrt(6 / (rows + columns)), biases 0. Source: Glorot and Bengio 2010, equation 16.
  void InitializeGlorot(Rng& rng);

  // Names, shapes and values. Throws InputError if those of a file have other names or shapes.
  template <typename State>
  static void SavedFields(State& state, auto& self) {
    std::vector<Parameter> parameters = self.parameters_;
    state.Lines(parameters);
    state(self.Values());
    if constexpr (State::kLoads) self.CheckLoaded(parameters);
  }

 private:
  void CheckLoaded(const std::vector<Parameter>& found) const;
  // Memory is allocated only after all parts are declared, so a rejected network allocates nothing.
  std::vector<float>& Values() const {
    values_.resize(size_);
    return values_;
  }

  std::vector<Parameter> parameters_;
  std::size_t size_ = 0;
  mutable std::vector<float> values_;  // [size_], after the first access
};

// Scales `gradients` so that their norm over all entries is at most `bound`. Returns the norm before scaling.
double ClipGlobalNorm(double bound, std::span<float> gradients);

// Source: Kingma and Ba 2015, algorithm 1; beta1 0.9, beta2 0.999, epsilon 1e-8 as proposed there.
class Adam {
 public:
  // One gradient descent step with step size `learning_rate`.
  void Step(double learning_rate, std::span<const float> gradients, std::span<float> values);
  static void SavedFields(auto& state, auto& self) { state(self.steps_, self.first_moments_, self.second_moments_); }

 private:
  std::size_t steps_ = 0;
  std::vector<float> first_moments_;
  std::vector<float> second_moments_;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_PARAMETERS_H_
