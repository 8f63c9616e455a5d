#include "sim/cost/curve_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/base/check.h"

namespace emplace {
namespace curve_fit {
namespace {

// How far the logarithm of a parameter is from device to device, as in tools/fit_devices.
struct Spread {
  std::string_view name;
  double spread;
};
constexpr Spread kSpreads[] = {
    {"rate", 0.4},        {"bandwidth", 0.4},  {"cache_speed", 0.7}, {"cache_share", 0.8}, {"cache_edge", 0.5},
    {"edge", 1.5},        {"edge_power", 0.5}, {"write", 0.5},       {"score_us", 2},      {"key_us", 1.5},
    {"head_us", 1.5},     {"row_us", 1.5},     {"wide_head", 1},     {"key_bytes", 0.7},   {"partial_wave", 0.7},
    {"weight_sets", 0.7}, {"window_heads", 2},
};
constexpr double kUsualSpread = 1;
double SpreadOf(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kSpreads), std::end(kSpreads), [&](const Spread& row) { return row.name == name; });
  return found == std::end(kSpreads) ? kUsualSpread : found->spread;
}

// A row of measurements weighs as much as three of these.
constexpr double kPriorWeight = 0.3;
// The miss, in logarithms, above which rows count less.
constexpr double kRobustMiss = 0.1;
constexpr double kMostChange = 5;  // of a parameter, in logarithms
constexpr std::size_t kMostRowsForParameters = 1000;

struct Parameters {
  std::vector<std::string_view> names;
  std::vector<double*> values;
  void operator()(std::string_view name, double& value, const FieldRule& /*rule*/ = {}) {
    names.push_back(name);
    values.push_back(&value);
  }
};
template <typename Form>
Parameters ParametersOf(Form& form) {
  Parameters parameters;
  Form::Fields(parameters, form);
  return parameters;
}

// The lower triangle of a symmetric matrix, row after row.
class SymmetricMatrix {
 public:
  explicit SymmetricMatrix(std::size_t n) : n_(n), values_(n * n) {}
  double& at(std::size_t i, std::size_t j) { return values_[i * n_ + j]; }  // Requires: i >= j.

  // Solves this x = b by Cholesky's factorisation, which takes its place; false if it is not positive definite.
  bool Solve(std::vector<double>* b) {
    for (std::size_t j = 0; j < n_; ++j) {
      for (std::size_t i = j; i < n_; ++i) {
        double sum = at(i, j);
        for (std::size_t k = 0; k < j; ++k) sum -= at(i, k) * at(j, k);
        if (i == j && sum <= 0) return false;
        at(i, j) = i == j ? std::sqrt(sum) : sum / at(j, j);
      }
    }
    std::vector<double>& x = *b;
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t k = 0; k < i; ++k) x[i] -= at(i, k) * x[k];
      x[i] /= at(i, i);
    }
    for (std::size_t i = n_; i-- > 0;) {
      for (std::size_t k = i + 1; k < n_; ++k) x[i] -= at(k, i) * x[k];
      x[i] /= at(i, i);
    }
    return true;
  }

 private:
  std::size_t n_;
  std::vector<double> values_;
};

template <typename Form, typename Shape>
double MissOf(const Curve<Form>& curve, const CurveRow<Shape>& row) {
  return std::log(Time(curve, row.device, row.shape).formula_micros / row.micros);
}

// The curve of changed parameters: the logarithm of each, less that of the first guess.
template <typename Form>
Curve<Form> Changed(const Curve<Form>& from, const std::vector<double>& changes) {
  Curve<Form> curve = from;
  const Parameters parameters = ParametersOf(curve.form);
  for (std::size_t i = 0; i < changes.size(); ++i) *parameters.values[i] *= std::exp(changes[i]);
  return curve;
}

double RobustCost(double miss) {
  const double z = miss / kRobustMiss;
  return kRobustMiss * kRobustMiss * 2 * (std::sqrt(1 + z * z) - 1);
}

// Levenberg and Marquardt's method with derivatives from differences.
template <typename Form, typename Shape>
class ParameterFit {
 public:
  ParameterFit(const Curve<Form>& from, std::vector<CurveRow<Shape>> rows) : from_(from), rows_(std::move(rows)) {
    Form form = from.form;
    for (const std::string_view name : ParametersOf(form).names) spreads_.push_back(SpreadOf(name));
  }

  std::vector<double> Run() const {
    constexpr int kMostSteps = 40;
    constexpr double kLeastGain = 1e-4;  // of the cost
    std::vector<double> best(spreads_.size());
    std::vector<double> misses = Misses(best);
    double cost = Cost(best, misses);
    double damping = 0.01;
    for (int step = 0; step < kMostSteps && damping < 1e6; ++step) {
      const std::vector<std::vector<double>> slopes = Slopes(best, misses);
      bool is_better = false;
      double gain = 0;
      while (!is_better && damping < 1e6) {
        const std::vector<double> next = Next(best, misses, slopes, damping);
        std::vector<double> next_misses = Misses(next);
        const double next_cost = Cost(next, next_misses);
        is_better = next_cost < cost;
        damping = is_better ? damping / 5 : damping * 5;
        if (!is_better) continue;
        gain = (cost - next_cost) / cost;
        best = next;
        misses = std::move(next_misses);
        cost = next_cost;
      }
      if (gain < kLeastGain) break;
    }
    return best;
  }

 private:
  std::vector<double> Misses(const std::vector<double>& changes) const {
    const Curve<Form> curve = Changed(from_, changes);
    std::vector<double> misses;
    misses.reserve(rows_.size());
    for (const auto& row : rows_) misses.push_back(MissOf(curve, row));
    return misses;
  }
  double PriorMiss(const std::vector<double>& changes, std::size_t i) const {
    return kPriorWeight * changes[i] / spreads_[i];
  }
  double Cost(const std::vector<double>& changes, const std::vector<double>& misses) const {
    double cost = 0;
    for (const double miss : misses) cost += RobustCost(miss);
    for (std::size_t i = 0; i < changes.size(); ++i) cost += std::pow(PriorMiss(changes, i), 2);
    return std::isfinite(cost) ? cost : HUGE_VAL;
  }
  // The derivative of each miss by each parameter.
  std::vector<std::vector<double>> Slopes(const std::vector<double>& at, const std::vector<double>& misses) const {
    constexpr double kStep = 1e-3;
    std::vector<std::vector<double>> slopes;
    for (std::size_t i = 0; i < at.size(); ++i) {
      std::vector<double> moved = at;
      moved[i] += kStep;
      slopes.push_back(Misses(moved));
      for (std::size_t r = 0; r < misses.size(); ++r) slopes.back()[r] = (slopes.back()[r] - misses[r]) / kStep;
    }
    return slopes;
  }
  std::vector<double> Next(const std::vector<double>& at, const std::vector<double>& misses,
                           const std::vector<std::vector<double>>& slopes, double damping) const {
    const std::size_t n = at.size();
    SymmetricMatrix matrix(n);
    std::vector<double> right(n);
    std::vector<double> weights;
    weights.reserve(misses.size());
    for (const double miss : misses) weights.push_back(1 / std::sqrt(1 + std::pow(miss / kRobustMiss, 2)));
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = 0;
        for (std::size_t r = 0; r < misses.size(); ++r) sum += weights[r] * slopes[i][r] * slopes[j][r];
        matrix.at(i, j) = sum;
      }
      for (std::size_t r = 0; r < misses.size(); ++r) right[i] -= weights[r] * slopes[i][r] * misses[r];
      const double pull = std::pow(kPriorWeight / spreads_[i], 2);
      matrix.at(i, i) += pull;
      right[i] -= pull * at[i];
      matrix.at(i, i) *= 1 + damping;
    }
    if (!matrix.Solve(&right)) return at;
    std::vector<double> next = at;
    for (std::size_t i = 0; i < n; ++i) next[i] = std::clamp(at[i] + right[i], -kMostChange, kMostChange);
    return next;
  }

  const Curve<Form>& from_;
  std::vector<CurveRow<Shape>> rows_;
  std::vector<double> spreads_;
};

// At most so many rows, spread evenly.
template <typename Row>
std::vector<Row> Some(std::span<const Row> rows, std::size_t most) {
  if (rows.size() <= most) return {rows.begin(), rows.end()};
  std::vector<Row> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(rows[i * rows.size() / most]);
  return some;
}

// Changes the tables by what the rows still miss, drawn to no change.
template <typename Form, typename Shape>
void ChangeTables(std::span<const CurveRow<Shape>> rows, Curve<Form>* curve) {
  constexpr int kRounds = 6;
  std::vector<std::size_t> first;  // of each table, among all numbers
  std::size_t n = 0;
  for (const std::vector<double>& table : curve->tables) {
    first.push_back(n);
    n += table.size();
  }
  std::vector<double> misses;
  std::vector<std::vector<WeightedKnot>> knots;
  for (const auto& row : rows) {
    misses.push_back(-MissOf(*curve, row));
    knots.push_back(KnotsOf(*curve, row.shape));
  }
  std::vector<double> found(n);
  for (int round = 0; round < kRounds; ++round) {
    SymmetricMatrix matrix(n);
    std::vector<double> right(n);
    for (std::size_t i = 0; i < n; ++i) matrix.at(i, i) = 1;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      double now = 0;
      for (const WeightedKnot& knot : knots[r]) now += knot.weight * found[first[knot.table] + knot.knot];
      const double weight = round == 0 ? 1 : 1 / (std::abs(now - misses[r]) / 0.05 + 0.2);
      for (const WeightedKnot& a : knots[r]) {
        const std::size_t i = first[a.table] + a.knot;
        right[i] += weight * a.weight * misses[r];
        for (const WeightedKnot& b : knots[r]) {
          const std::size_t j = first[b.table] + b.knot;
          if (j <= i) matrix.at(i, j) += weight * a.weight * b.weight;
        }
      }
    }
    EMPLACE_CHECK(matrix.Solve(&right));
    found = std::move(right);
  }
  for (std::size_t t = 0; t < curve->tables.size(); ++t) {
    for (std::size_t k = 0; k < curve->tables[t].size(); ++k) {
      double& percent = curve->tables[t][k];
      percent = std::round(std::clamp(percent + 100 * found[first[t] + k], -1000.0, 1000.0));
    }
  }
}

// Four digits, as files have them.
double FourDigits(double value) { return std::stod(fmt::format("{:.4g}", value)); }

template <typename Form, typename Shape>
Curve<Form> WithParameters(const Curve<Form>& from, std::span<const CurveRow<Shape>> rows) {
  Curve<Form> curve = Changed(from, ParameterFit<Form, Shape>(from, Some(rows, kMostRowsForParameters)).Run());
  for (double* const value : ParametersOf(curve.form).values) *value = FourDigits(*value);
  return curve;
}

template <typename Form, typename Shape>
Curve<Form> WithTables(Curve<Form> curve, std::span<const CurveRow<Shape>> rows) {
  ChangeTables(rows, &curve);
  return curve;
}

}  // namespace
}  // namespace curve_fit

Curve<ProductForm> FitParameters(const Curve<ProductForm>& from, std::span<const ProductRow> rows) {
  return curve_fit::WithParameters(from, rows);
}
Curve<AttentionForm> FitParameters(const Curve<AttentionForm>& from, std::span<const AttentionRow> rows) {
  return curve_fit::WithParameters(from, rows);
}
Curve<DecodingForm> FitParameters(const Curve<DecodingForm>& from, std::span<const AttentionRow> rows) {
  return curve_fit::WithParameters(from, rows);
}
Curve<StreamForm> FitParameters(const Curve<StreamForm>& from, std::span<const StreamRow> rows) {
  return curve_fit::WithParameters(from, rows);
}
Curve<ProductForm> FitTables(Curve<ProductForm> from, std::span<const ProductRow> rows) {
  return curve_fit::WithTables(std::move(from), rows);
}
Curve<AttentionForm> FitTables(Curve<AttentionForm> from, std::span<const AttentionRow> rows) {
  return curve_fit::WithTables(std::move(from), rows);
}
Curve<DecodingForm> FitTables(Curve<DecodingForm> from, std::span<const AttentionRow> rows) {
  return curve_fit::WithTables(std::move(from), rows);
}
Curve<StreamForm> FitTables(Curve<StreamForm> from, std::span<const StreamRow> rows) {
  return curve_fit::WithTables(std::move(from), rows);
}

}  // namespace emplace
