#include "agents/nn/logit_bound.h"

#include <algorithm>
#include <cmath>

namespace emplace::agents {
namespace {

// By how much |x| exceeds 1, with the sign of x.
double Excess(double x) { return std::copysign(std::max(0.0, std::abs(x) - 1), x); }

// 1 / cosh^2(x).
double SquaredSech(double x) {
  const double e = std::exp(-2 * std::abs(x));
  return 4 * e / ((1 + e) * (1 + e));
}

}  // namespace

void BoundLogits(const LogitBound& bound, const Matrix& raw, Matrix* logits) {
  logits->Reset(raw.rows(), raw.width());
  for (std::size_t row = 0; row < raw.rows(); ++row) {
    for (std::size_t d = 0; d < raw.width(); ++d) {
      const double x = raw.row(row)[d] / bound.temperature;
      logits->row(row)[d] = static_cast<float>(bound.bound > 0 ? bound.bound * std::tanh(x) : x);
    }
  }
}

void UnboundGradient(const LogitBound& bound, const Matrix& raw, const Matrix& d_logits, double penalty,
                     Matrix* d_raw) {
  d_raw->Reset(raw.rows(), raw.width());
  const double share = 2 * penalty / static_cast<double>(std::max<std::size_t>(raw.rows() * raw.width(), 1));
  for (std::size_t row = 0; row < raw.rows(); ++row) {
    for (std::size_t d = 0; d < raw.width(); ++d) {
      double slope = static_cast<double>(d_logits.row(row)[d]) / bound.temperature;
      if (bound.bound > 0) {
        const double x = raw.row(row)[d] / bound.temperature;
        slope = slope * bound.bound * SquaredSech(x) + share * Excess(x) / bound.temperature;
      }
      d_raw->row(row)[d] = static_cast<float>(slope);
    }
  }
}

double ExcessOfLogits(const LogitBound& bound, const Matrix& raw) {
  if (bound.bound <= 0 || raw.rows() == 0) return 0;
  double sum = 0;
  for (std::size_t row = 0; row < raw.rows(); ++row) {
    for (const float logit : raw.values(row)) {
      const double excess = Excess(logit / bound.temperature);
      sum += excess * excess;
    }
  }
  return sum / static_cast<double>(raw.rows() * raw.width());
}

}  // namespace emplace::agents
