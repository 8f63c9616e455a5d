#include "sim/cost/curve_forms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "sim/base/check.h"

namespace emplace {
namespace {

// The knots of each axis, as in tools/fit_devices.
enum class Axis : std::uint8_t {
  kBatch,
  kM,
  kN,
  kK,
  kLength,
  kKeys,
  kHeads,
  kGroup,
  kHeadDim,
  kWindow,
  kColumns,
  kBytes,
  kOperation,
  kRanks,
  kSize
};

std::span<const double> Knots(Axis axis) {
  static constexpr double kBatch[] = {1, 8, 64, 512, 4096};
  static constexpr double kM[] = {1, 8, 16, 64, 128, 256, 1024, 4096, 32768};
  static constexpr double kN[] = {32, 128, 512, 2048, 8192, 65536};
  static constexpr double kLength[] = {1, 16, 64, 128, 512, 2048, 16384};
  static constexpr double kKeys[] = {1, 16, 64, 256, 1024, 4096, 16384, 131072};
  static constexpr double kHeads[] = {1, 4, 16, 64, 256, 1024, 4096, 16384};
  static constexpr double kGroup[] = {1, 2, 4, 16, 64};
  static constexpr double kHeadDim[] = {64, 128, 256, 512};
  static constexpr double kWindow[] = {1, 2, 8, 128};
  static constexpr double kColumns[] = {256, 1024, 1025, 2048, 4096, 8192, 16384};
  static constexpr double kBytes[] = {0x1p14, 0x1p18, 0x1p22, 0x1p26, 0x1p30};
  static constexpr double kOperation[] = {1, 2, 4, 8};
  static constexpr double kRanks[] = {2, 4, 8};
  static constexpr double kSize[] = {512,    8192,   0x1p15, 0x1p16, 0x1p17, 0x1p18, 0x1p19,
                                     0x1p20, 0x1p21, 0x1p22, 0x1p24, 0x1p27, 0x1p30};
  switch (axis) {
    case Axis::kBatch:
      return kBatch;
    case Axis::kM:
      return kM;
    case Axis::kN:
    case Axis::kK:
      return kN;
    case Axis::kLength:
      return kLength;
    case Axis::kKeys:
      return kKeys;
    case Axis::kHeads:
      return kHeads;
    case Axis::kGroup:
      return kGroup;
    case Axis::kHeadDim:
      return kHeadDim;
    case Axis::kWindow:
      return kWindow;
    case Axis::kColumns:
      return kColumns;
    case Axis::kBytes:
      return kBytes;
    case Axis::kOperation:
      return kOperation;
    case Axis::kRanks:
      return kRanks;
    case Axis::kSize:
      return kSize;
  }
  return {};
}

struct Coordinate {
  Axis axis;
  double value;
};

// Coordinates of a table's axes, one to three.
using TablePoint = std::span<const Coordinate>;
using TablePoints = std::initializer_list<TablePoint>;

// The knots of a table around a point, with their weights: linear in the logarithm of each axis, constant beyond the
// outermost knots.
struct Corners {
  static constexpr std::size_t kMost = 8;
  std::array<std::size_t, kMost> index{};
  std::array<double, kMost> weight{1};
  std::size_t count = 1;
};
Corners CornersAt(TablePoint at) {
  Corners corners;
  for (const Coordinate& coordinate : at) {
    const std::span<const double> knots = Knots(coordinate.axis);
    const double x = std::clamp(coordinate.value, knots.front(), knots.back());
    const auto above = static_cast<std::size_t>(std::upper_bound(knots.begin(), knots.end(), x) - knots.begin());
    const std::size_t i = std::min(above, knots.size() - 1) - 1;
    const double low = std::log2(knots[i]);
    const double share = (std::log2(x) - low) / (std::log2(knots[i + 1]) - low);
    for (std::size_t c = 0; c < corners.count; ++c) {
      const std::size_t base = corners.index[c] * knots.size() + i;
      corners.index[corners.count + c] = base + 1;
      corners.weight[corners.count + c] = corners.weight[c] * share;
      corners.index[c] = base;
      corners.weight[c] *= 1 - share;
    }
    corners.count *= 2;
  }
  return corners;
}

// The factor that the tables of a curve add up to.
template <typename Form>
double Correction(const Curve<Form>& curve, TablePoints points) {
  EMPLACE_CHECK(curve.tables.size() == points.size());
  double percent = 0;
  std::size_t i = 0;
  for (const TablePoint at : points) {
    const std::vector<double>& table = curve.tables[i++];
    const Corners corners = CornersAt(at);
    double sum = 0;
    for (std::size_t c = 0; c < corners.count; ++c) sum += corners.weight[c] * table[corners.index[c]];
    percent += sum;
  }
  return std::exp(percent / 100);
}

std::vector<WeightedKnot> WeightedKnots(TablePoints points) {
  std::vector<WeightedKnot> knots;
  std::size_t table = 0;
  for (const TablePoint at : points) {
    const Corners corners = CornersAt(at);
    for (std::size_t c = 0; c < corners.count; ++c) {
      if (corners.weight[c] > 0) knots.push_back({table, corners.index[c], corners.weight[c]});
    }
    ++table;
  }
  return knots;
}

std::vector<std::size_t> SizesOfTables(std::initializer_list<std::initializer_list<Axis>> tables) {
  std::vector<std::size_t> sizes;
  for (const auto& axes : tables) {
    std::size_t size = 1;
    for (const Axis axis : axes) size *= Knots(axis).size();
    sizes.push_back(size);
  }
  return sizes;
}

// Two resources that are used at once, in part: the more, the larger `overlap`.
double Together(double a, double b, double overlap) {
  const double most = std::max(a, b);
  if (most <= 0) return 0;
  const double power = 1 + overlap;
  return most * std::pow(std::pow(a / most, power) + std::pow(b / most, power), 1 / power);
}

// Waves of tiles over the multiprocessors, of which the last counts in part for what it does not fill.
double PartlyWhole(double waves, double partial) { return waves + partial * (std::ceil(waves) - waves); }

bool IsOutside(const CurveFit& fit, std::span<const double> row) {
  for (std::size_t i = 0; i < row.size() && i < fit.low.size() && i < fit.high.size(); ++i) {
    if (row[i] < fit.low[i] || row[i] > fit.high[i]) return true;
  }
  return false;
}

// What of an op's bytes cannot have been in the cache moves at the data sheet's bandwidth, or slower.
double LeastBytesMicros(const CurveDevice& device, double bytes) {
  return std::max(bytes - device.cache_bytes, 0.0) / device.bytes_per_us;
}

struct Parts {
  double launch = 0;
  double compute = 0;
  double memory = 0;
  double latency = 0;  // of the compute: what more work of the same kind would not add
};

CurveLimit LimitOf(const Parts& parts) {
  if (parts.launch >= std::max(parts.compute, parts.memory)) return CurveLimit::kLaunch;
  if (parts.memory >= parts.compute) return CurveLimit::kMemory;
  return parts.latency > parts.compute / 2 ? CurveLimit::kLatency : CurveLimit::kCompute;
}

CurveTime Whole(const CurveFit& fit, double micros, double least, double roofline, const Parts& parts,
                bool is_extrapolated) {
  return {.micros = fit.exceeds_sheet ? micros : std::max(micros, least),
          .formula_micros = micros,
          .roofline_micros = roofline,
          .limit = LimitOf(parts),
          .is_extrapolated = is_extrapolated};
}

double SeenKeys(const AttentionShape& shape) {
  return shape.window > 0 ? std::min(shape.window, shape.keys) : shape.keys;
}

// Calls use(points of all tables) for a shape. TableSizes has the axes again.
template <typename Use>
auto AtTables(const Curve<ProductForm>&, const ProductShape& shape, const Use& use) {
  const Coordinate at_batch = {Axis::kBatch, shape.batch};
  const Coordinate at_m = {Axis::kM, shape.m};
  const Coordinate at_n = {Axis::kN, shape.n};
  const Coordinate at_k = {Axis::kK, shape.k};
  return use({std::array{at_m, at_n}, std::array{at_m, at_k}, std::array{at_n, at_k}, std::array{at_batch, at_k}});
}

template <typename Use>
auto AtTables(const Curve<AttentionForm>&, const AttentionShape& shape, const Use& use) {
  const Coordinate at_length = {Axis::kLength, shape.queries};
  const Coordinate at_heads = {Axis::kHeads, shape.batch * shape.heads};
  const Coordinate at_group = {Axis::kGroup, shape.heads / shape.key_heads};
  const Coordinate at_dim = {Axis::kHeadDim, shape.head_dim};
  const Coordinate at_window = {Axis::kWindow, shape.queries / std::min(SeenKeys(shape), shape.queries)};
  return use({std::array{at_length, at_heads}, std::array{at_length, at_group}, std::array{at_dim, at_length},
              std::array{at_window, at_heads}, std::array{at_heads, at_group}});
}

template <typename Use>
auto AtTables(const Curve<DecodingForm>&, const AttentionShape& shape, const Use& use) {
  const Coordinate at_keys = {Axis::kKeys, shape.keys};
  const Coordinate at_heads = {Axis::kHeads, shape.batch * shape.heads};
  const Coordinate at_group = {Axis::kGroup, shape.heads / shape.key_heads};
  const Coordinate at_dim = {Axis::kHeadDim, shape.head_dim};
  const Coordinate at_window = {Axis::kWindow, shape.keys / SeenKeys(shape)};
  return use({std::array{at_keys, at_heads}, std::array{at_keys, at_group}, std::array{at_dim, at_keys},
              std::array{at_window, at_heads}, std::array{at_heads, at_group}});
}

template <typename Use>
auto AtTables(const Curve<StreamForm>& curve, const StreamShape& shape, const Use& use) {
  const std::array at_bytes = {Coordinate{Axis::kBytes, shape.bytes}};
  const std::array at_columns = {Coordinate{Axis::kColumns, shape.columns}};
  return curve.tables.size() == 1 ? use({at_bytes}) : use({at_columns, at_bytes});
}

template <typename Form, typename Shape>
double CorrectionAt(const Curve<Form>& curve, const Shape& shape) {
  return AtTables(curve, shape, [&](TablePoints points) { return Correction(curve, points); });
}

template <typename Form, typename Shape>
std::vector<WeightedKnot> KnotsAt(const Curve<Form>& curve, const Shape& shape) {
  return AtTables(curve, shape, [](TablePoints points) { return WeightedKnots(points); });
}

}  // namespace

std::string_view Name(CurveLimit limit) {
  switch (limit) {
    case CurveLimit::kCompute:
      return "compute";
    case CurveLimit::kMemory:
      return "memory";
    case CurveLimit::kLaunch:
      return "launch";
    case CurveLimit::kLatency:
      return "latency";
  }
  return "";
}

double MemoryTerm::Micros(const CurveDevice& device, double bytes, double between) const {
  const double held = device.cache_bytes * cache_share / std::max(between, 1.0);
  const double miss = 1 / (1 + std::pow(held, cache_edge));
  return bytes / (device.bytes_per_us * bandwidth) * (miss + (1 - miss) / cache_speed);
}

CurveTime Time(const Curve<ProductForm>& curve, const CurveDevice& device, const ProductShape& shape) {
  constexpr std::array<std::array<double, 2>, 16> kTiles = {{{256, 128},
                                                             {128, 256},
                                                             {128, 128},
                                                             {64, 256},
                                                             {256, 64},
                                                             {64, 128},
                                                             {128, 64},
                                                             {64, 64},
                                                             {64, 32},
                                                             {32, 64},
                                                             {16, 64},
                                                             {64, 16},
                                                             {16, 128},
                                                             {128, 16},
                                                             {128, 32},
                                                             {32, 128}}};
  constexpr std::array<double, 6> kSplits = {1, 2, 4, 8, 16, 32};
  const ProductForm& form = curve.form;
  const auto& [batch, m, n, k, moved_bytes] = shape;
  const double element = device.element_bytes;
  const double flop = 2 * batch * m * n * k;
  const double full = flop / device.flop_per_us;
  const double slower = 1 + form.clock_drop * full / (full + 1000);
  const double written = batch * m * n * element;
  const double weights = moved_bytes > 0 ? 0 : batch * n * k * element;
  const double others = moved_bytes > 0 ? moved_bytes : batch * m * k * element + written * form.write;
  const double bytes = moved_bytes > 0 ? moved_bytes : batch * (m * k + n * k) * element + written;
  const double per_flop = device.multiprocessors / (device.flop_per_us * form.rate);
  double best = 0;
  Parts parts;
  for (const double split : kSplits) {
    const double partial_sums = split > 1 ? batch * m * n * split * 8 : 0;
    const double beside = others + partial_sums;
    const double memory = form.memory.Micros(device, weights, beside + weights * form.weight_sets) +
                          form.memory.Micros(device, beside, beside + weights);
    const double steps = std::ceil(k / split / 32) * 32;
    for (const auto& [rows, columns] : kTiles) {
      const double tiles = batch * std::ceil(m / rows) * std::ceil(n / columns) * split;
      const double waves = PartlyWhole(tiles / device.multiprocessors, form.partial_wave);
      const double edge = 1 + form.edge * std::pow((1 / rows + 1 / columns) * 64, form.edge_power);
      const double tile = 2 * rows * columns * steps * per_flop * edge * slower;
      const double compute = waves * (tile + form.tile_us);
      const double micros = Together(compute, memory, form.overlap) + (split > 1 ? form.split_us : 0);
      if (best > 0 && micros >= best) continue;
      best = micros;
      parts = {.launch = form.launch_us, .compute = compute, .memory = memory, .latency = waves * form.tile_us};
    }
  }
  const double least = std::max(full, LeastBytesMicros(device, bytes));
  return Whole(curve.fit, (form.launch_us + best) * CorrectionAt(curve, shape), least,
               std::max(full, bytes / device.bytes_per_us), parts, IsOutside(curve.fit, ColumnsOf(curve, shape)));
}

CurveTime Time(const Curve<AttentionForm>& curve, const CurveDevice& device, const AttentionShape& shape) {
  constexpr double kTile = 128;  // queries
  const AttentionForm& form = curve.form;
  const double length = shape.queries;
  const double element = device.element_bytes;
  const double tiles = std::ceil(length / kTile);
  const double seen_by_tile = shape.window > 0 ? std::min(shape.window + kTile, shape.keys) : shape.keys;
  const double longest = std::ceil(seen_by_tile / 32) * 32;
  const double growing = std::min(std::floor(seen_by_tile / kTile), tiles);
  const double causal_mean = (kTile * growing * (growing + 1) / 2 + (tiles - growing) * longest) / tiles;
  const double mean = shape.causal ? std::min(causal_mean, longest) : longest;
  const double group = shape.heads / shape.key_heads;
  const double packed = 1 + form.packing * (std::min(group, std::max(kTile / std::min(length, kTile), 1.0)) - 1);
  const double waves = shape.batch * shape.heads * tiles / packed / device.multiprocessors;
  const double key = kTile * (4 * shape.head_dim * device.multiprocessors / (device.flop_per_us * form.rate) *
                                  std::exp(form.wide_head * std::max(shape.head_dim / 128 - 1, 0.0)) +
                              form.score_us * 1e3 / device.multiprocessors);
  const double tile = mean * key + form.tile_us;
  const double full = 4 * shape.batch * shape.heads * length * mean * shape.head_dim / device.flop_per_us;
  const double compute = std::max(PartlyWhole(waves, 0) * tile + form.partial_wave * (std::ceil(waves) - waves) * tile,
                                  longest * key + form.tile_us) *
                         (1 + form.clock_drop * full / (full + 1000));
  const double of_queries = shape.batch * element * shape.head_dim * length * 2 * shape.heads;
  const double of_keys = shape.batch * element * shape.head_dim * shape.keys * 2 * shape.key_heads;
  const double memory = form.memory.Micros(device, of_queries + form.key_bytes * of_keys);
  double micros = form.launch_us + Together(compute, memory, form.overlap) + waves * form.row_us;
  const double heads = shape.batch * shape.heads;
  const double seen = SeenKeys(shape);
  micros *= CorrectionAt(curve, shape);
  // Pairs of a query and a key that it sees.
  const double pairs = shape.causal ? length * seen - seen * (seen - 1) / 2 : length * seen;
  double work = 4 * heads * pairs * shape.head_dim / device.flop_per_us;
  double bytes = of_queries + of_keys;
  if (shape.backward) {
    // Five products instead of two, and the same tensors with their gradients (Dao et al. 2022, FlashAttention); the
    // tables have no backward pass. It reaches 0.85 of the forward pass's rate (Dao 2023, FlashAttention-2, figures 4
    // and 6).
    micros *= 2.5 / 0.85;
    work *= 2.5;
    bytes *= 2;
  }
  return Whole(curve.fit, micros, std::max(work, LeastBytesMicros(device, bytes)),
               std::max(work, bytes / device.bytes_per_us),
               {.launch = form.launch_us, .compute = compute, .memory = memory, .latency = waves * form.tile_us},
               IsOutside(curve.fit, ColumnsOf(curve, shape)) || shape.backward || !shape.causal);
}

CurveTime Time(const Curve<DecodingForm>& curve, const CurveDevice& device, const AttentionShape& shape) {
  const DecodingForm& form = curve.form;
  const double element = device.element_bytes;
  const double seen = SeenKeys(shape);
  // FlashAttention-2 shares the keys among the heads of a group only without a window.
  const double alone = shape.window > 0 ? std::min(form.window_heads, 1.0) : 0;
  const double readers = shape.key_heads + (shape.heads - shape.key_heads) * alone;
  const double least_chunk = form.chunk * (shape.heads == readers ? form.single_chunk : 1);
  const double chunk =
      std::min(seen, std::max(least_chunk, seen * shape.batch * readers / (2 * device.multiprocessors)));
  constexpr double kRounding = 1e-9;  // of a quotient that is a whole number
  const double waves = shape.batch * readers * std::ceil(seen / chunk - kRounding) / device.multiprocessors;
  const double group = shape.heads / readers;
  const double part = chunk * form.key_us * shape.head_dim / 128 * (1 + form.head_us * group) + form.tile_us;
  const double compute = PartlyWhole(waves, form.partial_wave) * part;
  const double bytes = shape.batch * element * shape.head_dim * (2 * shape.key_heads * seen + 2 * shape.heads);
  const double memory = form.memory.Micros(device, bytes);
  const double heads = shape.batch * shape.heads;
  double micros =
      form.launch_us + Together(compute, memory, form.overlap) + heads / device.multiprocessors * form.row_us;
  micros *= CorrectionAt(curve, shape);
  const double work = 4 * heads * seen * shape.head_dim / device.flop_per_us;
  return Whole(curve.fit, micros, std::max(work, LeastBytesMicros(device, bytes)),
               std::max(work, bytes / device.bytes_per_us),
               {.launch = form.launch_us, .compute = compute, .memory = memory, .latency = waves * form.tile_us},
               IsOutside(curve.fit, ColumnsOf(curve, shape)));
}

double Time(const Curve<CollectiveForm>& curve, double link_gb_per_s, CollectiveKind kind, double ranks, double bytes) {
  const CollectiveForm& form = curve.form;
  const double operation = kind == CollectiveKind::kAllGather       ? 1
                           : kind == CollectiveKind::kAllReduce     ? 2
                           : kind == CollectiveKind::kReduceScatter ? 4
                                                                    : 8;
  const double passes = kind == CollectiveKind::kAllReduce ? 2 : 1;
  const double once = (ranks - 1) / ranks * bytes;
  const double wire = passes * once;
  const double link = link_gb_per_s * 1e3;  // bytes per us
  const double low = wire / (link * form.low_bandwidth);
  const double full =
      form.simple_us + wire / (link * form.bandwidth) + form.ramp_bytes / link * wire / (wire + form.ramp_bytes);
  const double least = std::min(low, full);
  const double fastest =
      least * std::pow(std::pow(least / low, form.pipe) + std::pow(least / full, form.pipe), -1 / form.pipe);
  const double micros = form.launch_us + form.step_us * passes * (ranks - 1) + fastest;
  const std::array at = {Coordinate{Axis::kOperation, operation}, Coordinate{Axis::kRanks, ranks},
                         Coordinate{Axis::kSize, bytes}};
  return std::max(micros * Correction(curve, {at}), once / link);
}

CurveTime Time(const Curve<StreamForm>& curve, const CurveDevice& device, const StreamShape& shape) {
  const auto& [bytes, columns] = shape;
  const double memory = curve.form.memory.Micros(device, bytes);
  const double micros = (curve.form.launch_us + memory) * CorrectionAt(curve, shape);
  // Fewer bytes than were measured cost the launch and little else.
  const CurveFit& fit = curve.fit;
  const bool is_outside =
      !fit.high.empty() && (bytes > fit.high[0] || (curve.tables.size() > 1 && fit.high.size() > 1 &&
                                                    (columns < fit.low[1] || columns > fit.high[1])));
  return Whole(curve.fit, micros, LeastBytesMicros(device, bytes), bytes / device.bytes_per_us,
               {.launch = curve.form.launch_us, .memory = memory}, is_outside);
}

std::vector<WeightedKnot> KnotsOf(const Curve<ProductForm>& curve, const ProductShape& shape) {
  return KnotsAt(curve, shape);
}
std::vector<WeightedKnot> KnotsOf(const Curve<AttentionForm>& curve, const AttentionShape& shape) {
  return KnotsAt(curve, shape);
}
std::vector<WeightedKnot> KnotsOf(const Curve<DecodingForm>& curve, const AttentionShape& shape) {
  return KnotsAt(curve, shape);
}
std::vector<WeightedKnot> KnotsOf(const Curve<StreamForm>& curve, const StreamShape& shape) {
  return KnotsAt(curve, shape);
}

std::vector<double> ColumnsOf(const Curve<ProductForm>&, const ProductShape& shape) {
  return {shape.batch, shape.m, shape.n, shape.k};
}
std::vector<double> ColumnsOf(const Curve<AttentionForm>&, const AttentionShape& shape) {
  return {shape.batch, shape.queries, shape.heads, shape.key_heads, shape.head_dim, shape.window};
}
std::vector<double> ColumnsOf(const Curve<DecodingForm>&, const AttentionShape& shape) {
  return {shape.batch, shape.keys, shape.heads, shape.key_heads, shape.head_dim, shape.window};
}
std::vector<double> ColumnsOf(const Curve<StreamForm>&, const StreamShape& shape) {
  return {shape.bytes, shape.columns};
}

template <>
std::vector<std::size_t> TableSizes<ProductForm>() {
  return SizesOfTables({{Axis::kM, Axis::kN}, {Axis::kM, Axis::kK}, {Axis::kN, Axis::kK}, {Axis::kBatch, Axis::kK}});
}
template <>
std::vector<std::size_t> TableSizes<AttentionForm>() {
  return SizesOfTables({{Axis::kLength, Axis::kHeads},
                        {Axis::kLength, Axis::kGroup},
                        {Axis::kHeadDim, Axis::kLength},
                        {Axis::kWindow, Axis::kHeads},
                        {Axis::kHeads, Axis::kGroup}});
}
template <>
std::vector<std::size_t> TableSizes<DecodingForm>() {
  return SizesOfTables({{Axis::kKeys, Axis::kHeads},
                        {Axis::kKeys, Axis::kGroup},
                        {Axis::kHeadDim, Axis::kKeys},
                        {Axis::kWindow, Axis::kHeads},
                        {Axis::kHeads, Axis::kGroup}});
}
template <>
std::vector<std::size_t> TableSizes<StreamForm>() {
  return SizesOfTables({{Axis::kColumns}, {Axis::kBytes}});
}
template <>
std::vector<std::size_t> TableSizes<CollectiveForm>() {
  return SizesOfTables({{Axis::kOperation, Axis::kRanks, Axis::kSize}});
}

}  // namespace emplace
