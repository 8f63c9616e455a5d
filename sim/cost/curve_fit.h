#ifndef EMPLACE_SIM_COST_CURVE_FIT_H_
#define EMPLACE_SIM_COST_CURVE_FIT_H_

#include <span>

#include "sim/cost/curve_forms.h"

namespace emplace {

// A measured shape. `device` has the rates of the precision that it was measured in.
template <typename Shape>
struct CurveRow {
  CurveDevice device;
  Shape shape;
  double micros = 0;
};
using ProductRow = CurveRow<ProductShape>;
using AttentionRow = CurveRow<AttentionShape>;
using StreamRow = CurveRow<StreamShape>;

// A curve whose parameters are fitted to rows, from one that is thought to be near: least squares of the logarithms of
// times, in which misses of more than a tenth count less. Each parameter is drawn to what it was, by how far it is from
// device to device, so that few rows change only what they tell about. If there are many rows, some are taken, spread
// evenly. The result is deterministic; its `fit` is that of `from`.
Curve<ProductForm> FitParameters(const Curve<ProductForm>& from, std::span<const ProductRow> rows);
Curve<AttentionForm> FitParameters(const Curve<AttentionForm>& from, std::span<const AttentionRow> rows);
Curve<DecodingForm> FitParameters(const Curve<DecodingForm>& from, std::span<const AttentionRow> rows);
Curve<StreamForm> FitParameters(const Curve<StreamForm>& from, std::span<const StreamRow> rows);

// The tables of a curve changed by what rows still miss; changes are drawn to 0.
Curve<ProductForm> FitTables(Curve<ProductForm> from, std::span<const ProductRow> rows);
Curve<AttentionForm> FitTables(Curve<AttentionForm> from, std::span<const AttentionRow> rows);
Curve<DecodingForm> FitTables(Curve<DecodingForm> from, std::span<const AttentionRow> rows);
Curve<StreamForm> FitTables(Curve<StreamForm> from, std::span<const StreamRow> rows);

}  // namespace emplace

#endif  // EMPLACE_SIM_COST_CURVE_FIT_H_
