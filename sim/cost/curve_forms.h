#ifndef EMPLACE_SIM_COST_CURVE_FORMS_H_
#define EMPLACE_SIM_COST_CURVE_FORMS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/json_struct.h"
#include "sim/ops/op_shape.h"

namespace emplace {

// What the curves need to know of a device. Rates are of data sheets.
struct CurveDevice {
  double flop_per_us = 0;
  double bytes_per_us = 0;
  double multiprocessors = 0;
  double cache_bytes = 0;  // of the last level
  double element_bytes = 0;
};

// Moving bytes: those of a small working set come from the cache.
struct MemoryTerm {
  double bandwidth = 0;    // share of the data sheet's
  double cache_speed = 0;  // times that
  double cache_share = 0;  // of the cache, up to which most of a working set stays in it
  double cache_edge = 0;   // how sharply it leaves it

  // `between` are the bytes that move until these are used again, these themselves included.
  double Micros(const CurveDevice& device, double bytes, double between) const;
  double Micros(const CurveDevice& device, double bytes) const { return Micros(device, bytes, bytes); }
};

// The parameters of a form; docs/curves.md has the formulas, tools/fit_devices fits the numbers.
struct ProductForm {
  double launch_us = 0;
  double rate = 0;  // share of the peak
  MemoryTerm memory;
  double tile_us = 0;
  double partial_wave = 0;
  double overlap = 0;
  double edge = 0;
  double edge_power = 0;
  double split_us = 0;
  double clock_drop = 0;
  double write = 0;
  // Matrices [k, n] that were used in turn: those between two uses of one push it out of the cache, while the other
  // operand and the result are used each time.
  double weight_sets = 1;
  static void Fields(auto& visit, auto& self) {
    visit("launch_us", self.launch_us);
    visit("rate", self.rate);
    visit("bandwidth", self.memory.bandwidth);
    visit("cache_speed", self.memory.cache_speed);
    visit("cache_share", self.memory.cache_share);
    visit("cache_edge", self.memory.cache_edge);
    visit("tile_us", self.tile_us);
    visit("partial_wave", self.partial_wave);
    visit("overlap", self.overlap);
    visit("edge", self.edge);
    visit("edge_power", self.edge_power);
    visit("split_us", self.split_us);
    visit("clock_drop", self.clock_drop);
    visit("write", self.write);
    visit("weight_sets", self.weight_sets, {.optional = true});
  }
};

struct AttentionForm {
  double launch_us = 0;
  double rate = 0;
  double score_us = 0;
  MemoryTerm memory;
  double tile_us = 0;
  double partial_wave = 0;
  double overlap = 0;
  double clock_drop = 0;
  double key_bytes = 0;
  double row_us = 0;
  double wide_head = 0;
  double packing = 0;
  static void Fields(auto& visit, auto& self) {
    visit("launch_us", self.launch_us);
    visit("rate", self.rate);
    visit("score_us", self.score_us);
    visit("bandwidth", self.memory.bandwidth);
    visit("cache_speed", self.memory.cache_speed);
    visit("cache_share", self.memory.cache_share);
    visit("cache_edge", self.memory.cache_edge);
    visit("tile_us", self.tile_us);
    visit("partial_wave", self.partial_wave);
    visit("overlap", self.overlap);
    visit("clock_drop", self.clock_drop);
    visit("key_bytes", self.key_bytes);
    visit("row_us", self.row_us);
    visit("wide_head", self.wide_head);
    visit("packing", self.packing);
  }
};

// One new query of each sequence.
struct DecodingForm {
  double launch_us = 0;
  MemoryTerm memory;
  double tile_us = 0;
  double key_us = 0;
  double chunk = 0;
  double partial_wave = 0;
  double overlap = 0;
  double row_us = 0;
  double head_us = 0;
  double single_chunk = 0;
  double window_heads = 0;  // share of the heads of a group that read its keys on their own where there is a window
  static void Fields(auto& visit, auto& self) {
    visit("launch_us", self.launch_us);
    visit("bandwidth", self.memory.bandwidth);
    visit("cache_speed", self.memory.cache_speed);
    visit("cache_share", self.memory.cache_share);
    visit("cache_edge", self.memory.cache_edge);
    visit("tile_us", self.tile_us);
    visit("key_us", self.key_us);
    visit("chunk", self.chunk);
    visit("partial_wave", self.partial_wave);
    visit("overlap", self.overlap);
    visit("row_us", self.row_us);
    visit("head_us", self.head_us);
    visit("single_chunk", self.single_chunk);
    visit("window_heads", self.window_heads, {.optional = true});
  }
};

// Ops that are limited by the bytes that they move: norms, softmax, and whatever else is no product.
struct StreamForm {
  double launch_us = 0;
  MemoryTerm memory;
  static void Fields(auto& visit, auto& self) {
    visit("launch_us", self.launch_us);
    visit("bandwidth", self.memory.bandwidth);
    visit("cache_speed", self.memory.cache_speed);
    visit("cache_share", self.memory.cache_share);
    visit("cache_edge", self.memory.cache_edge);
  }
};

// A collective within a node. docs/model.md, K14.
struct CollectiveForm {
  double launch_us = 0;
  double step_us = 0;
  double bandwidth = 0;  // share of the link's
  double low_bandwidth = 0;
  double simple_us = 0;
  double ramp_bytes = 0;
  double pipe = 0;
  static void Fields(auto& visit, auto& self) {
    visit("launch_us", self.launch_us);
    visit("step_us", self.step_us);
    visit("bandwidth", self.bandwidth);
    visit("low_bandwidth", self.low_bandwidth);
    visit("simple_us", self.simple_us);
    visit("ramp_bytes", self.ramp_bytes);
    visit("pipe", self.pipe);
  }
};

// What limits an op: what its time would be without the others is shorter.
enum class CurveLimit : std::uint8_t { kCompute, kMemory, kLaunch, kLatency };
std::string_view Name(CurveLimit limit);

struct CurveTime {
  double micros = 0;
  double formula_micros = 0;   // without the bound of the data sheet's rates
  double roofline_micros = 0;  // at the data sheet's rates, without launch
  CurveLimit limit = CurveLimit::kLaunch;
  bool is_extrapolated = false;  // the shape is outside of what was measured
};

// The rows that a curve was fitted on, and what is left of their times.
struct CurveFit {
  std::string source = {};
  double rows = 0;
  double median_percent = 0;  // of the absolute error
  double p95_percent = 0;
  std::vector<double> low = {};  // of each column of the rows
  std::vector<double> high = {};
  // The rows are faster than the data sheet's rates, which are no bound then: it is that of another device.
  bool exceeds_sheet = false;
};

// A form with its parameters, and tables of corrections: sums of percent (100 times natural logarithms), each linear
// between the knots of one or two axes (in logarithms).
template <typename Form>
struct Curve {
  std::string precision = {};  // "half" (bf16 and f16) or "f32"
  Form form = {};
  std::vector<std::vector<double>> tables = {};
  CurveFit fit = {};
  static void Fields(auto& visit, auto& self) {
    visit("precision", self.precision);
    visit("source", self.fit.source);
    visit("rows", self.fit.rows);
    visit("median_percent", self.fit.median_percent);
    visit("p95_percent", self.fit.p95_percent);
    visit("low", self.fit.low);
    visit("high", self.fit.high);
    visit("exceeds_sheet", self.fit.exceeds_sheet, {.optional = true, .written = self.fit.exceeds_sheet});
    visit("parameters", self.form);
    visit("tables", self.tables, {.low = -1000, .high = 1000});
  }
};

// What an op of a StreamForm is: the bytes that it moves, and the columns of its rows (0: it has none).
struct StreamShape {
  double bytes = 0;
  double columns = 0;
};

CurveTime Time(const Curve<ProductForm>& curve, const CurveDevice& device, const ProductShape& shape);
CurveTime Time(const Curve<AttentionForm>& curve, const CurveDevice& device, const AttentionShape& shape);
CurveTime Time(const Curve<DecodingForm>& curve, const CurveDevice& device, const AttentionShape& shape);
// The time in us of a collective of this kind, not kBroadcast or kSendReceive, whose whole message has this size.
double Time(const Curve<CollectiveForm>& curve, double link_gb_per_s, CollectiveKind kind, double ranks, double bytes);
// Tables over the columns of a row and the bytes, or over the bytes alone.
CurveTime Time(const Curve<StreamForm>& curve, const CurveDevice& device, const StreamShape& shape);

// A knot of a curve's tables that takes part in the factor of a shape, which is exp(sum of weight * value / 100).
struct WeightedKnot {
  std::size_t table = 0;
  std::size_t knot = 0;
  double weight = 0;
};
std::vector<WeightedKnot> KnotsOf(const Curve<ProductForm>& curve, const ProductShape& shape);
std::vector<WeightedKnot> KnotsOf(const Curve<AttentionForm>& curve, const AttentionShape& shape);
std::vector<WeightedKnot> KnotsOf(const Curve<DecodingForm>& curve, const AttentionShape& shape);
std::vector<WeightedKnot> KnotsOf(const Curve<StreamForm>& curve, const StreamShape& shape);

// The columns of a row of measurements, of which CurveFit has the ranges.
std::vector<double> ColumnsOf(const Curve<ProductForm>& curve, const ProductShape& shape);
std::vector<double> ColumnsOf(const Curve<AttentionForm>& curve, const AttentionShape& shape);
std::vector<double> ColumnsOf(const Curve<DecodingForm>& curve, const AttentionShape& shape);
std::vector<double> ColumnsOf(const Curve<StreamForm>& curve, const StreamShape& shape);

// The sizes that the tables of a form have. A stream's are these, or the second alone.
template <typename Form>
std::vector<std::size_t> TableSizes();

}  // namespace emplace

#endif  // EMPLACE_SIM_COST_CURVE_FORMS_H_
