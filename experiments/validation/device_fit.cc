#include "experiments/validation/device_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <variant>

#include "sim/base/check.h"
#include "sim/base/statistics.h"
#include "sim/cost/curve_fit.h"

namespace emplace::experiments {
namespace device_fit {
namespace {

// The rows of one curve. Of a shape that was measured several times, the median is taken.
template <typename Shape>
class RowsOfCurve {
 public:
  void Add(std::vector<double> key, const CurveRow<Shape>& row) {
    const auto [found, is_new] = by_key_.try_emplace(std::move(key), shapes_.size());
    if (is_new) {
      shapes_.push_back(row);
      times_.emplace_back();
    }
    times_[found->second].push_back(row.micros);
    ++num_rows_;
  }
  std::size_t num_rows() const { return num_rows_; }

  // In an order that has nothing to do with that of the file, and is always the same.
  std::vector<CurveRow<Shape>> Shuffled() const {
    std::vector<CurveRow<Shape>> rows;
    for (const auto& [key, position] : by_key_) {
      rows.push_back(shapes_[position]);
      rows.back().micros = Median(times_[position]);
    }
    std::mt19937_64 random(1);
    for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random() % i]);
    return rows;
  }

 private:
  std::map<std::vector<double>, std::size_t> by_key_;
  std::vector<CurveRow<Shape>> shapes_;
  std::vector<std::vector<double>> times_;
  std::size_t num_rows_ = 0;
};

template <typename Form, typename Shape>
std::vector<double> ErrorsOf(const emplace::Curve<Form>& curve, std::span<const CurveRow<Shape>> rows) {
  std::vector<double> errors;
  errors.reserve(rows.size());
  for (const auto& row : rows) {
    errors.push_back(100 * std::abs(Time(curve, row.device, row.shape).micros / row.micros - 1));
  }
  return errors;
}

// The curves of one fit, from least to most fitted.
template <typename Form, typename Shape>
std::vector<emplace::Curve<Form>> Fits(const emplace::Curve<Form>& from, std::span<const CurveRow<Shape>> rows) {
  std::vector<emplace::Curve<Form>> fits = {from};
  fits.push_back(FitParameters(from, rows));
  fits.push_back(FitTables(fits.back(), rows));
  return fits;
}
constexpr std::string_view kFitted[] = {"", "parameters", "parameters, tables"};

// Whether more than a twentieth of the rows is faster than the data sheet's rates.
template <typename Form, typename Shape>
bool ExceedsSheet(const emplace::Curve<Form>& curve, std::span<const CurveRow<Shape>> rows) {
  constexpr std::size_t kPart = 20;
  emplace::Curve<Form> fastest = curve;  // no time but the bound is left
  for (std::vector<double>& table : fastest.tables) std::fill(table.begin(), table.end(), -1000);
  fastest.fit.exceeds_sheet = false;
  std::size_t faster = 0;
  for (const auto& row : rows) faster += Time(fastest, row.device, row.shape).micros > 1.02 * row.micros;
  return faster * kPart > rows.size();
}

// The number of the best of Fits, by the mean of |logarithm of the error| on rows that they have not seen. Each round
// leaves out a part, as long as there are few rows.
template <typename Form, typename Shape>
std::size_t BestFit(const emplace::Curve<Form>& from, std::span<const CurveRow<Shape>> rows) {
  constexpr std::size_t kParts = 4;
  constexpr std::size_t kManyRows = 400;
  std::vector<double> misses(std::size(kFitted));
  for (std::size_t part = 0; part < (rows.size() > kManyRows ? 1 : kParts); ++part) {
    std::vector<CurveRow<Shape>> seen;
    std::vector<CurveRow<Shape>> left_out;
    for (std::size_t i = 0; i < rows.size(); ++i) (i % kParts == part ? left_out : seen).push_back(rows[i]);
    const std::vector<emplace::Curve<Form>> fits = Fits<Form, Shape>(from, seen);
    for (std::size_t f = 0; f < fits.size(); ++f) {
      for (const auto& row : left_out) {
        misses[f] += std::abs(std::log(Time(fits[f], row.device, row.shape).micros / row.micros));
      }
    }
  }
  return static_cast<std::size_t>(std::min_element(misses.begin(), misses.end()) - misses.begin());
}

template <typename Form, typename Shape>
CurveFit FitOf(const emplace::Curve<Form>& curve, const std::vector<CurveRow<Shape>>& rows, const std::string& source,
               std::size_t num_rows) {
  const std::vector<double> errors = ErrorsOf<Form, Shape>(curve, rows);
  const auto tenth = [](double percent) { return std::round(10 * percent) / 10; };
  CurveFit fit = {.source = source,
                  .rows = static_cast<double>(num_rows),
                  .median_percent = tenth(Median(errors)),
                  .p95_percent = tenth(Quantile(errors, 0.95)),
                  .exceeds_sheet = curve.fit.exceeds_sheet};
  fit.low = fit.high = ColumnsOf(curve, rows[0].shape);
  for (const auto& row : rows) {
    const std::vector<double> columns = ColumnsOf(curve, row.shape);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      fit.low[i] = std::min(fit.low[i], columns[i]);
      fit.high[i] = std::max(fit.high[i], columns[i]);
    }
  }
  return fit;
}

// Rows are held out for the report, the kind of fit is chosen by others, and the curve is fitted to all of them.
template <typename Form, typename Shape>
FittedCurve FitOne(emplace::Curve<Form>* curve, const RowsOfCurve<Shape>& of_curve, const std::string& source) {
  constexpr std::size_t kHeldOutPart = 5;
  const std::vector<CurveRow<Shape>> rows = of_curve.Shuffled();
  FittedCurve report = {.rows = of_curve.num_rows(), .shapes = rows.size()};
  if (report.is_refused()) return report;
  const emplace::Curve<Form> before = *curve;
  curve->fit.exceeds_sheet = report.exceeds_sheet = ExceedsSheet<Form, Shape>(*curve, rows);
  report.held_out = (rows.size() + kHeldOutPart - 1) / kHeldOutPart;
  const std::span<const CurveRow<Shape>> held_out(rows.data(), report.held_out);
  const std::span<const CurveRow<Shape>> seen(rows.data() + report.held_out, rows.size() - report.held_out);
  const std::size_t best = BestFit<Form, Shape>(*curve, seen);
  report.fitted = kFitted[best];
  const std::vector<double> errors_before = ErrorsOf<Form, Shape>(before, held_out);
  const std::vector<double> errors_after = ErrorsOf<Form, Shape>(Fits<Form, Shape>(*curve, seen)[best], held_out);
  report.median_before = Median(errors_before);
  report.median_after = Median(errors_after);
  report.p95_before = Quantile(errors_before, 0.95);
  report.p95_after = Quantile(errors_after, 0.95);
  *curve = Fits<Form, Shape>(*curve, rows)[best];
  curve->fit = FitOf(*curve, rows,
                     fmt::format("{}; on {} shapes held out the median error was {:.1f} %, {:.1f} % before", source,
                                 report.held_out, report.median_after, report.median_before),
                     report.rows);
  return report;
}

class DeviceFitter {
 public:
  DeviceFitter(const DeviceKind& device, const DeviceCurves& base, std::string source)
      : device_(device), source_(std::move(source)) {
    fit_.curves = base;
    own_.emplace(base.kind, base);
  }

  DeviceFit Run(const MeasuredShapes& measured) {
    for (const MeasuredShape& row : measured.rows) Add(row);
    FitAll(&DeviceCurves::product, "product", products_);
    FitAll(&DeviceCurves::convolution, "convolution", convolutions_);
    FitAll(&DeviceCurves::attention, "attention", attentions_);
    FitAll(&DeviceCurves::decoding, "decoding", decodings_);
    FitAll(&DeviceCurves::normalisation, "normalisation", normalisations_);
    FitAll(&DeviceCurves::softmax, "softmax", softmaxes_);
    FitAll(&DeviceCurves::elementwise, "elementwise", elementwises_);
    return std::move(fit_);
  }

 private:
  template <typename Shape>
  using Rows = std::map<std::string, RowsOfCurve<Shape>>;  // by precision

  void Add(const MeasuredShape& row) {
    const auto key = CurveKeyOf(device_, row.question.precision, fit_.curves);
    if (!key) {
      ++fit_.without_rate;
      return;
    }
    const std::string precision(key->precision);
    // Shapes that were measured in two precisions of one curve are two.
    const double rate = key->device.flop_per_us / key->device.element_bytes;
    const OpShape& shape = row.question.shape;
    if (const auto* const product = std::get_if<ProductShape>(&shape)) {
      const bool is_convolution = product->moved_bytes > 0;
      (is_convolution ? convolutions_ : products_)[precision].Add(
          {product->batch, product->m, product->n, product->k, product->moved_bytes, rate},
          {key->device, *product, row.micros});
    } else if (const auto* const attention = std::get_if<AttentionShape>(&shape)) {
      (IsDecoding(*attention) ? decodings_ : attentions_)[precision].Add(
          {attention->batch, attention->queries, attention->keys, attention->heads, attention->key_heads,
           attention->head_dim, attention->window, attention->causal ? 1.0 : 0, attention->backward ? 1.0 : 0, rate},
          {key->device, *attention, row.micros});
    } else {
      const auto* const of_rows = std::get_if<RowsShape>(&shape);
      const StreamShape stream = {.bytes = row.question.bytes, .columns = of_rows != nullptr ? of_rows->columns : 0};
      auto& rows = of_rows == nullptr ? elementwises_ : of_rows->is_softmax ? softmaxes_ : normalisations_;
      rows["f32"].Add({stream.bytes, stream.columns}, {key->device, stream, row.micros});
    }
  }

  template <typename Form, typename Shape>
  void FitAll(std::vector<emplace::Curve<Form>> DeviceCurves::*form, std::string_view name,
              const Rows<Shape>& of_form) {
    if (of_form.empty()) fit_.not_seen.push_back(name);
    for (const auto& [precision, rows] : of_form) {
      std::string owner;
      emplace::Curve<Form> curve = BeginWith(form, precision, &owner);
      curve.precision = precision;
      FittedCurve report = FitOne(&curve, rows, source_);
      report.form = name;
      report.precision = precision;
      report.began_with = owner;
      fit_.fitted.push_back(report);
      if (report.is_refused() || report.fitted.empty()) continue;
      std::vector<emplace::Curve<Form>>& curves = fit_.curves.*form;
      std::erase_if(curves, [&wanted = curve.precision](const auto& each) { return each.precision == wanted; });
      curves.push_back(std::move(curve));
    }
  }

  template <typename Form>
  emplace::Curve<Form> BeginWith(std::vector<emplace::Curve<Form>> DeviceCurves::*form, const std::string& precision,
                                 std::string* owner) const {
    const DeviceCurves& base = own_.begin()->second;
    const emplace::Curve<Form>* curve = FindCurve(base, form, precision, &own_, owner);
    if constexpr (std::is_same_v<Form, ProductForm>) {
      if (curve == nullptr) curve = FindCurve(base, &DeviceCurves::product, precision, &own_, owner);
    }
    if (curve == nullptr) curve = FindCurve(base, form, "half", &own_, owner);
    EMPLACE_CHECK(curve != nullptr);
    return *curve;
  }

  const DeviceKind& device_;
  std::string source_;
  OwnCurves own_;
  DeviceFit fit_;
  Rows<ProductShape> products_;
  Rows<ProductShape> convolutions_;
  Rows<AttentionShape> attentions_;
  Rows<AttentionShape> decodings_;
  Rows<StreamShape> normalisations_;
  Rows<StreamShape> softmaxes_;
  Rows<StreamShape> elementwises_;
};

}  // namespace
}  // namespace device_fit

bool DeviceFit::is_empty() const {
  return std::all_of(fitted.begin(), fitted.end(), [](const FittedCurve& each) { return each.is_refused(); });
}

DeviceFit FitDevice(const DeviceKind& device, const DeviceCurves& base, const MeasuredShapes& measured,
                    const std::string& source) {
  return device_fit::DeviceFitter(device, base, source).Run(measured);
}

}  // namespace emplace::experiments
