#include "sim/cost/cost_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/registry.h"
#include "sim/device_catalog.h"
#include "sim/ops/aten_work.h"
#include "sim/ops/op_catalog.h"
#include "sim/ops/op_view.h"

namespace emplace {
namespace {

// Whether the graph is from a trace that shows when things ran: its ops are those of threads and streams.
bool IsOfTrace(const Graph& graph) { return graph.metadata().find("\"source\":\"kineto\"") != std::string::npos; }
constexpr std::string_view kTraceStays =
    "run the graph of this Kineto trace on its own threads and streams (the cluster of import --cluster-out), or place "
    "the graph of an Execution Trace (import --times)";

class ProfiledCostModel : public CostModel {
 public:
  explicit ProfiledCostModel(const Profile& profile) {
    for (const Profile::OpEntry& op : profile.ops) {
      ops_[op.device].emplace(
          CanonicalSignature(op.signature),
          Known{op.mean_micros.value_or(op.median_micros), op.contention, {op.host_micros, op.device_micros}});
      any_contention_ = any_contention_ || op.contention;
    }
    for (const Profile::DeviceEntry& device : profile.devices) {
      by_class_[device.kind] = device.contention;
      any_contention_ = any_contention_ || !device.contention.empty();
    }
  }

  std::optional<double> OpMicros(const Graph& graph, OpId op, const Cluster&, std::string_view kind) const override {
    const Known* const known = Find(graph, op, kind);
    return known != nullptr ? std::optional(known->micros) : std::nullopt;
  }
  QueueMicros TwoQueues(const Graph& graph, OpId op, std::string_view kind) const override {
    const Known* const known = Find(graph, op, kind);
    return known != nullptr ? known->queues : QueueMicros();
  }
  double Contention(const Graph& graph, OpId op, std::string_view kind) const override {
    if (!any_contention_) return 1;
    const Known* const known = Find(graph, op, kind);
    const double factor = known != nullptr && known->contention ? *known->contention : OfClass(graph.op(op).kind, kind);
    return factor > kLeastContention ? factor : 1;
  }
  std::string WhyNoTime(const Graph& graph, OpId) const override {
    if (IsOfTrace(graph)) return std::string(kTraceStays);
    return "the profile has no entry with its signature: profile it, or use other costs for such ops: "
           "roofline";
  }

 private:
  struct Known {
    double micros;
    std::optional<double> contention;
    QueueMicros queues;
  };

  // Null if the profile has no such entry.
  const Known* Find(const Graph& graph, OpId op, std::string_view kind) const {
    const auto of_kind = ops_.find(kind);
    if (of_kind == ops_.end()) return nullptr;
    auto found = of_kind->second.find(CanonicalSignature(FullSignature(graph, op)));
    if (found == of_kind->second.end()) found = of_kind->second.find(CanonicalSignature(Signature(graph, op)));
    return found != of_kind->second.end() ? &found->second : nullptr;
  }
  double OfClass(std::string_view op_kind, std::string_view kind) const {
    const OpKind* const catalogued = FindOpKind(op_kind);
    const auto of_kind = by_class_.find(kind);
    if (catalogued == nullptr || of_kind == by_class_.end()) return 1;
    const auto factor = of_kind->second.find(Name(catalogued->op_class));
    return factor != of_kind->second.end() ? factor->second : 1;
  }

  std::map<std::string, std::map<std::string, Known, std::less<>>, std::less<>> ops_;  // keyed by kind, by signature
  std::map<std::string, std::map<std::string, double, std::less<>>, std::less<>> by_class_;  // keyed by kind
  bool any_contention_ = false;
};

}  // namespace

std::unique_ptr<CostModel> MakeProfiledCostModel(const Profile& profile) {
  return std::make_unique<ProfiledCostModel>(profile);
}

namespace {

class MeasuredCostModel : public CostModel {
 public:
  std::optional<double> OpMicros(const Graph& graph, OpId op, const Cluster&, std::string_view kind) const override {
    return graph.MeasuredMicros(op, kind);
  }
  QueueMicros TwoQueues(const Graph& graph, OpId op, std::string_view kind) const override {
    return {graph.HostMicros(op), graph.DeviceMicros(op, kind)};
  }
  std::string WhyNoTime(const Graph& graph, OpId) const override {
    if (IsOfTrace(graph)) return std::string(kTraceStays);
    return "give it a time_us in the graph, or use other costs: roofline, or a profile";
  }
};

}  // namespace

std::unique_ptr<CostModel> MakeMeasuredCostModel() { return std::make_unique<MeasuredCostModel>(); }

namespace {

bool AllShapesKnown(const Graph& graph, OpId op) {
  for (const TensorId input : graph.inputs(op)) {
    if (graph.tensor(input).dtype == DType::kNone) return false;
  }
  for (std::size_t i = 0; i < graph.num_outputs(op); ++i) {
    if (graph.tensor(MakeId<TensorId>(Index(graph.first_output(op)) + i)).dtype == DType::kNone) return false;
  }
  return true;
}

bool HasRates(const DeviceKind* device) {
  return device != nullptr && device->peak.count > 0 && device->memory_bandwidth.count > 0;
}

// Ops of measured traces that are not calls of operators (datasets/importers/kineto.h, chakra.h).
constexpr std::string_view kHostKinds[] = {"host", "wait", "metadata", "meeting"};
constexpr std::string_view kNetworkKinds[] = {"arrival", "collective",
                                              "backlog"};  // "backlog" is work left over from the previous step
// Ops of which a trace says how much they do, and not what (datasets/importers/chakra.h).
constexpr std::string_view kWorkloadKinds[] = {"workload", "load", "store"};

bool IsHostKind(std::string_view kind) {
  return std::find(std::begin(kHostKinds), std::end(kHostKinds), kind) != std::end(kHostKinds);
}
bool IsNetworkKind(std::string_view kind) {
  return std::find(std::begin(kNetworkKinds), std::end(kNetworkKinds), kind) != std::end(kNetworkKinds);
}
bool IsTimedKind(std::string_view kind) { return IsHostKind(kind) || IsNetworkKind(kind); }
bool IsWorkloadKind(std::string_view kind) {
  return std::find(std::begin(kWorkloadKinds), std::end(kWorkloadKinds), kind) != std::end(kWorkloadKinds);
}

// Times that depend on links are the same on every kind of device.
std::optional<double> TransferMicros(const Graph& graph, OpId op, const DeviceKind* device, std::string_view kind) {
  if (const std::optional<double> measured = graph.MeasuredMicros(op, kind)) return measured;
  if (!HasRates(device) || graph.op(op).kind_times.empty()) return std::nullopt;
  return graph.op(op).kind_times.front().micros;
}

// For an op of kind `memcpy` or `memset` of a trace, the bytes that its device's memory reads and writes; nullopt if
// they come from elsewhere or go there.
std::optional<double> BytesWithinDevice(const Op& op) {
  const auto attrs = nlohmann::json::parse(op.attrs, nullptr, /*allow_exceptions=*/false);
  if (!attrs.is_object() || !attrs.contains("copied_bytes") || !attrs["copied_bytes"].is_number()) return std::nullopt;
  const double bytes = attrs["copied_bytes"].get<double>();
  if (op.kind == "memset") return bytes;
  if (!attrs.contains("kernel") || !attrs["kernel"].is_string()) return std::nullopt;
  const bool is_within = attrs["kernel"].get_ref<const std::string&>().find("DtoD") != std::string::npos;
  return is_within ? std::optional(2 * bytes) : std::nullopt;
}

bool IsCopyOfTrace(const Op& op) { return op.kind == "memcpy" || op.kind == "memset"; }

bool HasProducts(OpClass op_class) {
  return op_class == OpClass::kConvolution || op_class == OpClass::kMatrixProduct || op_class == OpClass::kAttention ||
         op_class == OpClass::kRecurrent;
}

class RooflineCostModel : public CostModel {
 public:
  explicit RooflineCostModel(const RooflineOptions& options) : options_(options) {}

  std::optional<double> OpMicros(const Graph& graph, OpId op, const Cluster& cluster,
                                 std::string_view device_kind) const override {
    const OpKind* kind = FindOpKind(graph.op(op).kind);
    if (kind == nullptr) return OperatorMicros(graph, op, cluster.FindKind(device_kind), device_kind);
    if (kind->op_class == OpClass::kNone) return 0.0;
    const DeviceKind* device = cluster.FindKind(device_kind);
    if (!HasRates(device)) return std::nullopt;
    if (!AllShapesKnown(graph, op)) return std::nullopt;
    const OpWork work = kind->work(graph, op);
    return Micros(*device, work, CataloguedRate(graph, op, *device, work.op_class), 1);
  }

  void CheckKind(const Cluster& cluster, std::string_view device_kind) const override {
    if (HasRates(cluster.FindKind(device_kind))) return;
    // Threads of a trace, whose ops keep their times.
    if (device_kind == kTraceThreadKindName) return;
    throw InputError(fmt::format("kind \"{}\"", device_kind),
                     fmt::format("has no rates, so roofline has no time for any op on it (a kind under the file's "
                                 "kinds: with class, peak_tflop_per_s and memory_bandwidth_gb_per_s, or one of the "
                                 "catalogue: {})",
                                 Listed(AllDeviceKinds())));
  }

  std::string WhyNoTime(const Graph& graph, OpId op) const override {
    const std::string_view kind = graph.op(op).kind;
    // A trace has times for its own devices only, so advising its user to take the measured ones would not help.
    const std::string_view instead =
        IsOfTrace(graph) ? kTraceStays : "give time_us and name the costs measured, or give a profile";
    if (IsNetworkKind(kind) && graph.op(op).kind_times.empty()) {
      return fmt::format(
          "it is of a collective or message whose other ranks are not in the graph: import the traces of "
          "all ranks, or {}",
          instead);
    }
    if (FindOpKind(kind) != nullptr) {
      return fmt::format("roofline needs dtype and shape of all its tensors: give them, or {}", instead);
    }
    if (IsTimedKind(kind) || IsCopyOfTrace(graph.op(op))) {
      return fmt::format(
          "roofline has no rate for an op of kind \"{}\", which keeps its time_us on the kind of device "
          "where it was measured: place it there, or {}",
          kind, instead);
    }
    std::string why;
    if (const auto work = FindAtenWork(graph, op, &why)) {
      return fmt::format(
          "roofline has no rate for products of the type of its tensors, an op of kind \"{}\" (f32, bf16 "
          "and f16 have one): {}",
          kind, instead);
    }
    const std::string name = NameOf(graph, op);
    const std::string problem = RooflineKnows(graph, op) || name != kind
                                    ? fmt::format("has no time for an op of kind \"{}\": {}", kind, why)
                                    : fmt::format("knows no op of kind \"{}\"", kind);
    return fmt::format("roofline {}{} (docs/model.md lists those it knows; {})", problem, OthersUnknown(graph, name),
                       instead);
  }

 private:
  static constexpr std::string_view kTraceThreadKindName = "host-cpu";

  // The operator that an op calls; its kind, if that is none of PyTorch's.
  static std::string NameOf(const Graph& graph, OpId op) {
    const std::string_view kind = graph.op(op).kind;
    return kind == "kernel" ? ReadAtenCall(graph, op).name : AtenNameOf(kind, nullptr);
  }
  static bool RooflineKnows(const Graph& graph, OpId op) {
    const std::string_view kind = graph.op(op).kind;
    return FindOpKind(kind) != nullptr || IsTimedKind(kind) || IsWorkloadKind(kind) || IsCopyOfTrace(graph.op(op)) ||
           AtenClass(NameOf(graph, op)).has_value();
  }

  // Further operators of the graph that roofline does not know, in words.
  static std::string OthersUnknown(const Graph& graph, const std::string& but) {
    constexpr std::size_t kShown = 5;
    std::vector<std::string> unknown;
    std::set<std::string> asked = {but, ""};
    for (std::size_t i = 0; i < graph.num_ops(); ++i) {
      const OpId op = MakeId<OpId>(i);
      std::string name = NameOf(graph, op);
      if (asked.insert(name).second && !RooflineKnows(graph, op)) unknown.push_back(std::move(name));
    }
    if (unknown.empty()) return "";
    const std::size_t shown = std::min(kShown, unknown.size());
    return fmt::format("; nor does it know {}{}",
                       fmt::join(unknown.begin(), unknown.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                       unknown.size() > shown ? fmt::format(" and {} more", unknown.size() - shown) : "");
  }

  static std::optional<double> Micros(const DeviceKind& device, const OpWork& work, const PrecisionRate& rate,
                                      double kernels) {
    const auto row = static_cast<std::size_t>(work.op_class);
    const double compute_rate = rate.peak.count * rate.efficiency[row];
    const double byte_rate = static_cast<double>(device.memory_bandwidth.count) * device.bandwidth_efficiency[row];
    if (byte_rate <= 0) return std::nullopt;
    const double compute_seconds = compute_rate > 0 ? work.flop / compute_rate : 0;
    const double byte_seconds = static_cast<double>(work.moved.count) / byte_rate;
    return device.time_scale * (device.launch_micros + std::max(compute_seconds, byte_seconds) / kernels * 1e6);
  }

  // A call of an operator, or an op of a trace.
  std::optional<double> OperatorMicros(const Graph& graph, OpId id, const DeviceKind* device,
                                       std::string_view device_kind) const {
    const Op& op = graph.op(id);
    if (IsHostKind(op.kind)) return graph.MeasuredMicros(id, device_kind);
    if (IsNetworkKind(op.kind)) return TransferMicros(graph, id, device, device_kind);
    if (IsWorkloadKind(op.kind)) return WorkloadMicros(graph, id, device, device_kind);
    if (IsCopyOfTrace(op)) {
      const std::optional<double> bytes = BytesWithinDevice(op);
      if (!bytes || !HasRates(device)) return TransferMicros(graph, id, device, device_kind);
      return Micros(*device, MakeWork(OpClass::kCopy, 0, *bytes), PlainRate(*device), 1);
    }
    if (!HasRates(device)) return std::nullopt;
    const std::optional<AtenWork> found = FindAtenWork(graph, id);
    if (!found) return std::nullopt;
    if (found->work.op_class == OpClass::kNone) return 0.0;
    if (found->is_transfer) {
      if (const std::optional<double> measured = TransferMicros(graph, id, device, device_kind)) return measured;
    }
    if (!HasProducts(found->work.op_class)) return Micros(*device, found->work, PlainRate(*device), found->kernels);
    const bool is_cudnn = found->work.op_class == OpClass::kConvolution || found->work.op_class == OpClass::kRecurrent;
    bool tf32 = found->allow_tf32.value_or(is_cudnn);
    if (options_.tf32 != Tf32::kByFramework) tf32 = options_.tf32 == Tf32::kAll || (TakesConvolutions() && is_cudnn);
    const std::optional<Precision> precision = PrecisionOf(found->dtype, tf32);
    if (!precision) return std::nullopt;
    return Micros(*device, found->work, RateOf(*device, *precision), found->kernels);
  }

  // The time that the graph gives, else FLOP as products in half precision and the attribute `bytes`.
  static std::optional<double> WorkloadMicros(const Graph& graph, OpId id, const DeviceKind* device,
                                              std::string_view device_kind) {
    if (const std::optional<double> measured = graph.MeasuredMicros(id, device_kind)) return measured;
    if (!HasRates(device)) return std::nullopt;
    const Op& op = graph.op(id);
    const auto attrs = nlohmann::json::parse(op.attrs, nullptr, /*allow_exceptions=*/false);
    const bool has_bytes = attrs.is_object() && attrs.contains("bytes") && attrs["bytes"].is_number();
    const double bytes = has_bytes ? attrs["bytes"].get<double>() : 0;
    const OpClass op_class = op.flop > 0 ? OpClass::kMatrixProduct : OpClass::kCopy;
    return Micros(*device, MakeWork(op_class, op.flop, bytes), RateOf(*device, Precision::kBf16), 1);
  }

  static PrecisionRate PlainRate(const DeviceKind& device) { return RateOf(device, Precision::kF32); }

  static std::optional<Precision> PrecisionOf(DType dtype, bool tf32) {
    if (dtype == DType::kF16) return Precision::kF16;
    if (dtype == DType::kBf16) return Precision::kBf16;
    if (dtype == DType::kF32) return tf32 ? Precision::kTf32 : Precision::kF32;
    if (dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2) return Precision::kF8;
    return std::nullopt;
  }

  bool TakesConvolutions() const { return options_.tf32 == Tf32::kConvolutions; }

  // The peak rate for an op of the op catalogue: that of half precision or of 8 bits if its first factor has such a
  // type, else the kind's peak.
  PrecisionRate CataloguedRate(const Graph& graph, OpId op, const DeviceKind& device, OpClass op_class) const {
    const PrecisionRate peak = {device.peak, device.compute_efficiency};
    if (!HasProducts(op_class) || graph.inputs(op).empty()) return peak;
    const DType dtype = graph.tensor(graph.inputs(op)[0]).dtype;
    if (dtype == DType::kF16) return RateOf(device, Precision::kF16);
    if (dtype == DType::kBf16) return RateOf(device, Precision::kBf16);
    if (dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2) return RateOf(device, Precision::kF8);
    if (dtype == DType::kI8 || dtype == DType::kU8 || dtype == DType::kI4 || dtype == DType::kU4) {
      return RateOf(device, Precision::kI8);
    }
    if (options_.tf32 == Tf32::kByFramework) return peak;
    const bool tf32 = options_.tf32 == Tf32::kAll || (TakesConvolutions() && op_class == OpClass::kConvolution);
    return RateOf(device, tf32 ? Precision::kTf32 : Precision::kF32);
  }

  RooflineOptions options_;
};

}  // namespace

Tf32 Tf32FromName(std::string_view name, const std::string& place) {
  if (name.empty()) return Tf32::kByFramework;
  if (name == "none") return Tf32::kNone;
  if (name == "convolutions") return Tf32::kConvolutions;
  if (name == "all") return Tf32::kAll;
  throw InputError(place, "is " + Quoted(name) + " (none, convolutions or all)");
}

std::unique_ptr<CostModel> MakeRooflineCostModel(const RooflineOptions& options) {
  return std::make_unique<RooflineCostModel>(options);
}

std::unique_ptr<CostModel> MakeRooflineCostModel() { return MakeRooflineCostModel(RooflineOptions()); }

}  // namespace emplace
