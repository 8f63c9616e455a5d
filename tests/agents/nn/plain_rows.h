#ifndef EMPLACE_TESTS_AGENTS_NN_PLAIN_ROWS_H_
#define EMPLACE_TESTS_AGENTS_NN_PLAIN_ROWS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "agents/nn/parameters.h"
#include "sim/base/check.h"

namespace emplace::testing {

// A second implementation of the networks, one number at a time in double precision, as in their definitions.
using Row = std::vector<double>;
using Rows = std::vector<Row>;

inline double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

inline Row Joined(Row a, const Row& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Row Sum(Row a, const Row& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

template <typename Function>
Row Each(Row row, const Function& function) {
  for (double& value : row) value = function(value);
  return row;
}

inline Row Relu(Row row) {
  return Each(std::move(row), [](double x) { return std::max(x, 0.0); });
}

inline Row Softmax(Row row) {
  double sum = 0;
  for (double& value : row) sum += value = std::exp(value);
  for (double& value : row) value /= sum;
  return row;
}

// Access to a network's weights by name.
class PlainWeights {
 public:
  explicit PlainWeights(const agents::ParameterSet& parameters) : parameters_(parameters) {}

  Row Of(const std::string& name, std::size_t row = 0) const {
    const agents::Parameter& parameter = Find(name);
    const auto values = parameters_.values().subspan(parameter.offset + row * parameter.columns, parameter.columns);
    return {values.begin(), values.end()};
  }
  // All entries of one array, [rows, columns], in row-major order.
  Row All(const std::string& name) const {
    Row all;
    for (std::size_t row = 0; row < Find(name).rows; ++row) all = Joined(all, Of(name, row));
    return all;
  }
  // x W
  Row Times(const Row& x, const std::string& name) const {
    EMPLACE_CHECK_EQ(x.size(), Find(name).rows);
    Row result(Of(name).size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Row weights = Of(name, i);
      for (std::size_t j = 0; j < result.size(); ++j) result[j] += x[i] * weights[j];
    }
    return result;
  }
  // x W + b
  Row Affine(const Row& x, const std::string& name) const {
    return Sum(Times(x, name + ".weight"), All(name + ".bias"));
  }

 private:
  const agents::Parameter& Find(const std::string& name) const {
    const auto& all = parameters_.parameters();
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const agents::Parameter& one) { return one.name == name; });
    EMPLACE_CHECK(found != all.end());
    return *found;
  }

  const agents::ParameterSet& parameters_;
};

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_AGENTS_NN_PLAIN_ROWS_H_
