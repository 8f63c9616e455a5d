#include "sim/cost/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ostream>
#include <set>
#include <utility>
#include <variant>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/suggestion.h"
#include "sim/ops/aten_work.h"
#include "sim/ops/op_catalog.h"

namespace emplace {
namespace {

constexpr ShippedCurves kShippedCurves[] = {
#include "shipped_curves.inc"
};
constexpr std::string_view kCommon = "common";

template <typename Form>
const Curve<Form>* OfPrecision(const std::vector<Curve<Form>>& curves, std::string_view precision) {
  const auto found =
      std::find_if(curves.begin(), curves.end(), [&](const auto& curve) { return curve.precision == precision; });
  return found == curves.end() ? nullptr : &*found;
}

// Which curve answers for products in a precision, and at which rate.
struct Rated {
  std::string_view curve;
  double flop_per_us = 0;
  double element_bytes = 0;
};
std::optional<Rated> RatedFor(const DeviceKind& device, Precision precision) {
  constexpr double kMicrosPerSecond = 1e6;
  const auto own = [&](Precision of) { return device.precisions[static_cast<std::size_t>(of)].peak.count; };
  const double rate = RateOf(device, precision).peak.count / kMicrosPerSecond;
  if (precision == Precision::kI8 || rate <= 0) return std::nullopt;
  // No kernels in f8 and f4 are at hand: they are as far below their peaks as those in half precision are.
  if (precision == Precision::kF8 || precision == Precision::kF4) {
    return own(precision) > 0 ? std::optional(Rated{"half", rate, precision == Precision::kF8 ? 1 : 0.5})
                              : std::nullopt;
  }
  if (precision == Precision::kBf16 || precision == Precision::kF16) {
    return Rated{own(precision) > 0 ? "half" : "f32", rate, 2};
  }
  // TF32 goes through the units of half precision.
  if (precision == Precision::kTf32 && own(Precision::kTf32) > 0) return Rated{"half", rate, 4};
  return Rated{"f32", rate, 4};
}

// What is asked of the curves of a kind.
struct Asked {
  const DeviceCurves& curves;
  const OwnCurves* own;
  std::string_view precision;
  const CurveDevice& device;
};

template <typename Form, typename Shape>
std::optional<CurvedTime> TimeOf(const Asked& asked, std::vector<Curve<Form>> DeviceCurves::*form,
                                 std::string_view name, std::string_view precision, const Shape& shape) {
  CurvedTime found;
  const Curve<Form>* const curve = FindCurve(asked.curves, form, precision, asked.own, &found.kind);
  if (curve == nullptr) return std::nullopt;
  found.time = Time(*curve, asked.device, shape);
  found.form = name;
  return found;
}

// Where only half precision was measured, its curve answers for all.
std::optional<CurvedTime> AttentionTime(const Asked& asked, const AttentionShape& shape) {
  const auto time = [&](std::string_view precision) {
    return IsDecoding(shape) ? TimeOf(asked, &DeviceCurves::decoding, "decoding", precision, shape)
                             : TimeOf(asked, &DeviceCurves::attention, "attention", precision, shape);
  };
  auto found = time(asked.precision);
  return found ? found : time("half");
}

std::optional<CurvedTime> ProductTime(const Asked& asked, const ProductShape& shape) {
  if (shape.moved_bytes > 0) {
    if (auto found = TimeOf(asked, &DeviceCurves::convolution, "convolution", asked.precision, shape)) return found;
  }
  return TimeOf(asked, &DeviceCurves::product, "product", asked.precision, shape);
}

template <typename Form>
void CheckTables(const JsonNode& root, std::string_view name, const std::vector<Curve<Form>>& curves,
                 const std::vector<std::size_t>& sizes) {
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", PlaceOfKey(root.Place(), name), i);
    const auto& tables = curves[i].tables;
    if (tables.size() != sizes.size()) {
      throw InputError(place + ".tables", fmt::format("has {} tables ({} are expected)", tables.size(), sizes.size()));
    }
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      if (tables[t].size() == sizes[t]) continue;
      throw InputError(fmt::format("{}.tables[{}]", place, t),
                       fmt::format("has {} numbers ({} are expected)", tables[t].size(), sizes[t]));
    }
  }
}

}  // namespace

std::span<const ShippedCurves> AllShippedCurves() { return kShippedCurves; }

bool IsDecoding(const AttentionShape& shape) { return shape.queries == 1 && shape.keys > 1 && !shape.backward; }

template <typename Form>
const Curve<Form>* FindCurve(const DeviceCurves& device, std::vector<Curve<Form>> DeviceCurves::*form,
                             std::string_view precision, const OwnCurves* own, std::string* owner) {
  std::set<std::string_view> seen;
  const DeviceCurves* kind = &device;
  while (kind != nullptr && seen.insert(kind->kind).second) {
    if (const auto* const curve = OfPrecision(kind->*form, precision)) {
      *owner = kind->kind;
      return curve;
    }
    kind = FindDeviceCurves(kind->like, own);
  }
  *owner = kCommon;
  return OfPrecision(FindDeviceCurves(kCommon)->*form, precision);
}
template const Curve<ProductForm>* FindCurve(const DeviceCurves&, std::vector<Curve<ProductForm>> DeviceCurves::*,
                                             std::string_view, const OwnCurves*, std::string*);
template const Curve<AttentionForm>* FindCurve(const DeviceCurves&, std::vector<Curve<AttentionForm>> DeviceCurves::*,
                                               std::string_view, const OwnCurves*, std::string*);
template const Curve<DecodingForm>* FindCurve(const DeviceCurves&, std::vector<Curve<DecodingForm>> DeviceCurves::*,
                                              std::string_view, const OwnCurves*, std::string*);
template const Curve<StreamForm>* FindCurve(const DeviceCurves&, std::vector<Curve<StreamForm>> DeviceCurves::*,
                                            std::string_view, const OwnCurves*, std::string*);

const DeviceCurves* FindDeviceCurves(std::string_view kind, const OwnCurves* own) {
  if (own != nullptr) {
    if (const auto found = own->find(kind); found != own->end()) return &found->second;
  }
  static const std::map<std::string, DeviceCurves, std::less<>> read = [] {
    std::map<std::string, DeviceCurves, std::less<>> all;
    for (const ShippedCurves& shipped : kShippedCurves) {
      const JsonValue root = ParseJson(shipped.yaml);
      all.emplace(shipped.name, ReadFields<DeviceCurves>(JsonNode(root)));
    }
    return all;
  }();
  const auto found = read.find(kind);
  return found == read.end() ? nullptr : &found->second;
}

DeviceCurves ReadDeviceCurves(const JsonNode& root) {
  auto curves = ReadFields<DeviceCurves>(root);
  if (curves.kind.empty()) throw InputError(PlaceOfKey(root.Place(), "kind"), "is empty (the name of a device kind)");
  if (!curves.like.empty() && curves.like != curves.kind && FindDeviceCurves(curves.like) == nullptr) {
    throw InputError(PlaceOfKey(root.Place(), "like"),
                     fmt::format("is \"{}\", which has no curves (a device kind of datasets/devices)", curves.like));
  }
  const bool needs_multiprocessors = curves.has_curves() || !curves.generation;
  if (curves.multiprocessors < 1 && needs_multiprocessors)
    throw InputError(PlaceOfKey(root.Place(), "multiprocessors"), "is below 1");
  CheckTables(root, "product", curves.product, TableSizes<ProductForm>());
  CheckTables(root, "convolution", curves.convolution, TableSizes<ProductForm>());
  CheckTables(root, "attention", curves.attention, TableSizes<AttentionForm>());
  CheckTables(root, "decoding", curves.decoding, TableSizes<DecodingForm>());
  CheckTables(root, "normalisation", curves.normalisation, TableSizes<StreamForm>());
  CheckTables(root, "softmax", curves.softmax, TableSizes<StreamForm>());
  CheckTables(root, "elementwise", curves.elementwise, {TableSizes<StreamForm>().back()});
  CheckTables(root, "collective", curves.collective, TableSizes<CollectiveForm>());
  return curves;
}

void WriteDeviceCurves(std::ostream& out, const DeviceCurves& curves) {
  const JsonObject all = FieldsToJson(curves);
  std::string head;
  std::string forms;
  for (const JsonMember& member : all) {
    const JsonList* const list = member.value.As<JsonList>();
    if (list == nullptr) {
      head += fmt::format("{}{}: {}", head.empty() ? "" : ", ", JsonText({member.key}), JsonText(member.value));
      continue;
    }
    forms += fmt::format(",\n {}: [", JsonText({member.key}));
    for (std::size_t i = 0; i < list->size(); ++i) {
      forms += fmt::format("{}\n  {}", i > 0 ? "," : "", JsonText((*list)[i]));
    }
    forms += "]";
  }
  out << "{" << head << forms << "}\n";
}

std::optional<CurveKey> CurveKeyOf(const DeviceKind& device, Precision precision, const DeviceCurves& curves) {
  const std::optional<Rated> rated = RatedFor(device, precision);
  if (curves.multiprocessors <= 0 || !rated || device.memory_bandwidth.count <= 0) return std::nullopt;
  constexpr double kMib = 1024 * 1024;
  return CurveKey{.precision = rated->curve,
                  .device = {.flop_per_us = rated->flop_per_us,
                             .bytes_per_us = static_cast<double>(device.memory_bandwidth.count) / 1e6,
                             .multiprocessors = curves.multiprocessors,
                             .cache_bytes = curves.l2_mib * kMib,
                             .element_bytes = rated->element_bytes}};
}

std::optional<CurvedTime> CurveMicros(const DeviceKind& device, Precision precision, const OpShape& shape, double bytes,
                                      const OwnCurves* own) {
  const DeviceCurves* const curves = FindDeviceCurves(device.name, own);
  if (curves == nullptr) return std::nullopt;
  const std::optional<CurveKey> key = CurveKeyOf(device, precision, *curves);
  if (!key) return std::nullopt;
  const Asked asked = {.curves = *curves, .own = own, .precision = key->precision, .device = key->device};
  if (const auto* const product = std::get_if<ProductShape>(&shape)) return ProductTime(asked, *product);
  if (const auto* const attention = std::get_if<AttentionShape>(&shape)) return AttentionTime(asked, *attention);
  // Bytes decide about all others: their precision does not matter.
  if (const auto* const rows = std::get_if<RowsShape>(&shape)) {
    const StreamShape stream = {.bytes = bytes, .columns = rows->columns};
    if (rows->is_softmax) return TimeOf(asked, &DeviceCurves::softmax, "softmax", "f32", stream);
    return TimeOf(asked, &DeviceCurves::normalisation, "normalisation", "f32", stream);
  }
  auto found = TimeOf(asked, &DeviceCurves::elementwise, "elementwise", "f32", StreamShape{.bytes = bytes});
  if (const auto* const indexed = std::get_if<IndexedShape>(&shape); indexed != nullptr && found) {
    // The work of the indices, in FLOP of f32 without tensor cores, from traces of an H100 and an A100, which agree
    // (docs/curves.md).
    constexpr double kIndexFlop = 200;
    const double f32 = RateOf(device, Precision::kF32).peak.count / 1e6;
    const double least = f32 > 0 && !device.is_cpu ? kIndexFlop * indexed->elements / f32 : 0;
    if (least > found->time.micros) {
      found->time.micros = found->time.formula_micros = least;
      found->time.limit = CurveLimit::kCompute;
    }
  }
  return found;
}

namespace {

std::optional<Precision> PrecisionOf(DType dtype, bool tf32) {
  if (dtype == DType::kF16) return Precision::kF16;
  if (dtype == DType::kBf16) return Precision::kBf16;
  if (dtype == DType::kF32) return tf32 ? Precision::kTf32 : Precision::kF32;
  if (dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2) return Precision::kF8;
  return std::nullopt;
}

// What a curve needs to know of an op beside its shapes.
struct Described {
  OpWork work;  // of the whole call
  Precision precision = Precision::kF32;
  double kernels = 1;  // among which the call is divided
};

bool HasAllTypes(const Graph& graph, OpId op) {
  for (const TensorId input : graph.inputs(op)) {
    if (graph.tensor(input).dtype == DType::kNone) return false;
  }
  for (std::size_t i = 0; i < graph.num_outputs(op); ++i) {
    if (graph.tensor(MakeId<TensorId>(Index(graph.first_output(op)) + i)).dtype == DType::kNone) return false;
  }
  return true;
}

// As roofline decides (RooflineOptions).
std::optional<Described> Describe(const Graph& graph, OpId op, const RooflineOptions& options) {
  const auto tf32_of = [&](bool by_framework, bool is_convolution) {
    if (options.tf32 == Tf32::kByFramework) return by_framework;
    return options.tf32 == Tf32::kAll || (options.tf32 == Tf32::kConvolutions && is_convolution);
  };
  Described described;
  DType factors = DType::kNone;
  bool tf32 = false;
  if (const OpKind* const kind = FindOpKind(graph.op(op).kind)) {
    if (!HasAllTypes(graph, op)) return std::nullopt;
    described.work = kind->work(graph, op);
    factors = graph.inputs(op).empty() ? DType::kNone : graph.tensor(graph.inputs(op)[0]).dtype;
    tf32 = tf32_of(true, described.work.op_class == OpClass::kConvolution);
  } else {
    const std::optional<AtenWork> work = FindAtenWork(graph, op);
    if (!work || work->is_transfer) return std::nullopt;
    described.work = work->work;
    described.kernels = work->kernels;
    factors = work->dtype;
    const bool is_convolution = work->work.op_class == OpClass::kConvolution;
    tf32 = tf32_of(work->allow_tf32.value_or(is_convolution), is_convolution);
  }
  if (const auto precision = PrecisionOf(factors, tf32)) {
    described.precision = *precision;
  } else if (described.work.op_class == OpClass::kMatrixProduct || described.work.op_class == OpClass::kConvolution ||
             described.work.op_class == OpClass::kAttention) {
    return std::nullopt;
  }
  return described;
}

// Graphs have images with their channels first, and cuDNN's kernels in TF32 want them last: two of the three tensors of
// a convolution are transposed. A trace has those kernels itself.
constexpr double kTransposesOfTf32 = 2;

constexpr Runtime kRuntimes[] = {
    {.name = "pytorch", .elementwise_f32 = 0.93, .elementwise_half = 1.12, .op_micros = 0, .update_micros = 53},
    {.name = "tensorflow", .elementwise_f32 = 0.71, .elementwise_half = 1.34, .op_micros = 23, .update_micros = 12},
    {.name = "tensorflow2", .elementwise_f32 = 1.44, .elementwise_half = 1.31, .op_micros = 7, .update_micros = 21},
    {.name = "paddlepaddle", .elementwise_f32 = 0.89, .elementwise_half = 0.61, .op_micros = 0, .update_micros = 56},
};

bool IsOfCudnn(std::string_view kind) {
  return kind.starts_with("relu") || kind.starts_with("max_pool") || kind.starts_with("avg_pool") ||
         kind.starts_with("batch_norm");
}

// The time of an op that takes `micros` on a device by itself.
double MicrosIn(const Runtime& runtime, const Graph& graph, OpId id, std::string_view form, double micros) {
  if (micros <= 0) return micros;
  const Op& op = graph.op(id);
  if (op.pass == Pass::kUpdate) return micros + runtime.update_micros;
  const bool moves = form == "elementwise" || form == "normalisation" || form == "softmax";
  if (!moves || IsOfCudnn(op.kind)) return micros + runtime.op_micros;
  const DType dtype = graph.inputs(id).empty() ? DType::kNone : graph.tensor(graph.inputs(id)[0]).dtype;
  const bool is_half = dtype == DType::kF16 || dtype == DType::kBf16;
  return micros * (is_half ? runtime.elementwise_half : runtime.elementwise_f32) + runtime.op_micros;
}

bool IsStream(OpClass op_class) {
  return op_class == OpClass::kElementwise || op_class == OpClass::kReduction || op_class == OpClass::kGather ||
         op_class == OpClass::kCopy || op_class == OpClass::kNormalisation || op_class == OpClass::kOptimizer;
}

}  // namespace

std::vector<CurveQuestion> CurveQuestions(const Graph& graph, OpId op, const RooflineOptions& options,
                                          double* kernels) {
  const std::optional<Described> described = Describe(graph, op, options);
  if (!described || described->work.op_class == OpClass::kNone) return {};
  std::vector<OpShape> shapes = FindOpShapes(graph, op);
  if (shapes.empty()) {
    if (!IsStream(described->work.op_class)) return {};
    shapes.emplace_back();
  }
  if (kernels != nullptr) *kernels = described->kernels;
  std::vector<CurveQuestion> questions;
  questions.reserve(shapes.size());
  for (OpShape& shape : shapes) {
    questions.push_back({.precision = described->precision,
                         .shape = std::move(shape),
                         .bytes = static_cast<double>(described->work.moved.count)});
  }
  return questions;
}

std::optional<CurvedTime> CurveMicros(const Graph& graph, OpId op, const Cluster& cluster, std::string_view device_kind,
                                      const RooflineOptions& options) {
  const DeviceKind* const device = cluster.FindKind(device_kind);
  if (device == nullptr || FindDeviceCurves(device->name, options.own.get()) == nullptr) return std::nullopt;
  double kernels = 1;
  double shapes = 0;
  double moved_by_convolutions = 0;
  bool transposes_images = false;
  std::optional<CurvedTime> whole;
  double longest = 0;
  for (const CurveQuestion& question : CurveQuestions(graph, op, options, &kernels)) {
    ++shapes;
    transposes_images = question.precision == Precision::kTf32 &&
                        device->precisions[static_cast<std::size_t>(Precision::kTf32)].peak.count > 0;
    if (const auto* const product = std::get_if<ProductShape>(&question.shape)) {
      moved_by_convolutions += product->moved_bytes;
    }
    std::optional<CurvedTime> part =
        CurveMicros(*device, question.precision, question.shape, question.bytes, options.own.get());
    if (!part) return std::nullopt;
    if (!whole) {
      longest = part->time.micros;
      whole = std::move(part);
      continue;
    }
    whole->time.micros += part->time.micros;
    whole->time.roofline_micros += part->time.roofline_micros;
    whole->time.is_extrapolated = whole->time.is_extrapolated || part->time.is_extrapolated;
    if (part->time.micros > longest) {
      longest = part->time.micros;
      whole->time.limit = part->time.limit;
    }
  }
  if (whole && moved_by_convolutions > 0 && kernels > shapes) {
    // The kernels beside the products transpose tensors of the call: each reads and writes one of three.
    const double bytes = moved_by_convolutions / shapes * 2 / 3;
    const auto transpose = CurveMicros(*device, Precision::kF32, OpShape(), bytes, options.own.get());
    if (transpose) whole->time.micros += (kernels - shapes) * transpose->time.micros;
  }
  if (whole && moved_by_convolutions > 0 && transposes_images && FindOpKind(graph.op(op).kind) != nullptr) {
    const double bytes = moved_by_convolutions * 2 / 3;
    const auto transpose = CurveMicros(*device, Precision::kF32, OpShape(), bytes, options.own.get());
    if (transpose) whole->time.micros += kTransposesOfTf32 * transpose->time.micros;
  }
  if (whole && kernels > 1) {  // those of one call have equal parts, and none is shorter than one that does nothing
    const auto empty = CurveMicros(*device, Precision::kF32, OpShape(), 0, options.own.get());
    whole->time.micros = std::max(whole->time.micros / kernels, empty ? empty->time.micros : 0);
    whole->time.roofline_micros /= kernels;
  }
  if (whole && options.runtime != nullptr && !device->is_cpu) {
    whole->time.micros = MicrosIn(*options.runtime, graph, op, whole->form, whole->time.micros);
  }
  return whole;
}

std::optional<double> CollectiveMicros(std::string_view device_kind, double link_gb_per_s, CollectiveKind kind,
                                       std::size_t ranks, double bytes) {
  constexpr std::size_t kMostRanks = 8;
  // Cluster files give the part of a link's bandwidth that can be used, about 0.8 of it.
  constexpr double kLeastShare = 0.5;
  constexpr double kMostShare = 1.1;
  const DeviceCurves* const curves = FindDeviceCurves(device_kind);
  if (curves == nullptr || ranks < 2 || ranks > kMostRanks || bytes <= 0 || kind == CollectiveKind::kBroadcast ||
      kind == CollectiveKind::kSendReceive) {
    return std::nullopt;
  }
  const double share = curves->link_gb_per_s > 0 ? link_gb_per_s / curves->link_gb_per_s : 0;
  if (share < kLeastShare || share > kMostShare) return std::nullopt;
  std::string owner;
  const Curve<CollectiveForm>* const curve = FindCurve(*curves, &DeviceCurves::collective, "half", nullptr, &owner);
  if (curve == nullptr || owner == kCommon) return std::nullopt;
  return Time(*curve, curves->link_gb_per_s, kind, static_cast<double>(ranks), bytes);
}

namespace {

class CurvesCostModel : public CostModel {
 public:
  explicit CurvesCostModel(const RooflineOptions& options)
      : options_(options), roofline_(MakeRooflineCostModel(options)) {}

  std::optional<double> OpMicros(const Graph& graph, OpId op, const Cluster& cluster,
                                 std::string_view device_kind) const override {
    if (const auto curved = CurveMicros(graph, op, cluster, device_kind, options_)) return curved->time.micros;
    const std::optional<double> micros = roofline_->OpMicros(graph, op, cluster, device_kind);
    const DeviceKind* const device = cluster.FindKind(device_kind);
    if (!micros || options_.runtime == nullptr || device == nullptr || device->is_cpu) return micros;
    return MicrosIn(*options_.runtime, graph, op, "", *micros);
  }
  bool TimesCollectives() const override { return true; }
  void CheckKind(const Cluster& cluster, std::string_view device_kind) const override {
    roofline_->CheckKind(cluster, device_kind);
  }
  std::string WhyNoTime(const Graph& graph, OpId op) const override { return roofline_->WhyNoTime(graph, op); }

 private:
  RooflineOptions options_;
  std::unique_ptr<CostModel> roofline_;
};

}  // namespace

const Runtime* RuntimeFromName(std::string_view name, const std::string& place) {
  if (name.empty()) return nullptr;
  const auto* const found = std::ranges::find(kRuntimes, name, &Runtime::name);
  if (found != std::end(kRuntimes)) return found;
  std::vector<std::string> names;
  for (const Runtime& runtime : kRuntimes) names.emplace_back(runtime.name);
  throw InputError(place, fmt::format("is {} ({}){}", Quoted(name), fmt::join(names, ", "), DidYouMean(name, names)));
}

std::unique_ptr<CostModel> MakeCurvesCostModel(const RooflineOptions& options) {
  return std::make_unique<CurvesCostModel>(options);
}
std::unique_ptr<CostModel> MakeCurvesCostModel() { return MakeCurvesCostModel(RooflineOptions()); }

CurveCoverage CoverOps(const Graph& graph, const Cluster& cluster, const RooflineOptions& options) {
  CurveCoverage coverage;
  std::set<std::string> kinds;
  for (const Device& device : cluster.devices()) kinds.insert(device.kind);
  const std::unique_ptr<CostModel> roofline = MakeRooflineCostModel(options);
  for (const std::string& kind : kinds) {
    const DeviceKind* const device = cluster.FindKind(kind);
    if (device == nullptr || FindDeviceCurves(device->name, options.own.get()) == nullptr) {
      coverage.without.push_back(kind);
      continue;
    }
    std::set<std::string> owners;
    for (std::size_t i = 0; i < graph.num_ops(); ++i) {
      const OpId op = MakeId<OpId>(i);
      if (graph.CollectiveOf(op)) continue;
      if (const auto curved = CurveMicros(graph, op, cluster, kind, options)) {
        ++coverage.by_form[std::string(curved->form)];
        coverage.extrapolated += curved->time.is_extrapolated;
        if (curved->kind != kind) owners.insert(curved->kind);
      } else if (roofline->OpMicros(graph, op, cluster, kind).value_or(0) > 0) {
        ++coverage.roofline[std::string(graph.op(op).kind)];
      }
    }
    if (!owners.empty()) coverage.borrowed[kind] = fmt::format("{}", fmt::join(owners, " and "));
  }
  return coverage;
}

namespace {

// How many ops, and the kinds with the most of them: "12 (lstm_cell 8, conv3d 4)".
std::string RooflineText(const std::map<std::string, std::size_t, std::less<>>& ops_of_kind) {
  constexpr std::size_t kMostKinds = 4;
  std::vector<std::pair<std::string, std::size_t>> kinds(ops_of_kind.begin(), ops_of_kind.end());
  std::ranges::stable_sort(kinds, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::size_t ops = 0;
  std::vector<std::string> named;
  for (const auto& [kind, count] : kinds) {
    ops += count;
    if (named.size() < kMostKinds) named.push_back(fmt::format("{} {}", kind, count));
  }
  if (kinds.empty()) return "0";
  return fmt::format("{} ({}{})", ops, fmt::join(named, ", "), kinds.size() > kMostKinds ? ", .." : "");
}

}  // namespace

std::string CoverageText(const CurveCoverage& coverage) {
  std::vector<std::string> parts;
  for (const auto& [form, ops] : coverage.by_form) parts.push_back(fmt::format("{} {}", ops, form));
  std::string text = parts.empty() ? "no op" : fmt::format("{}", fmt::join(parts, ", "));
  text += "; by roofline " + RooflineText(coverage.roofline);
  if (coverage.extrapolated > 0) text += fmt::format("; {} beyond the measured shapes", coverage.extrapolated);
  for (const auto& [kind, owners] : coverage.borrowed) text += fmt::format("; {} takes curves of {}", kind, owners);
  if (!coverage.without.empty()) {
    text += fmt::format("; no curves, so roofline, on {}", fmt::join(coverage.without, ", "));
  }
  return text;
}

}  // namespace emplace
