#include "sim/cost/cost_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "sim/base/check.h"
#include "sim/base/registry.h"
#include "sim/device_catalog.h"
#include "sim/ops/op_catalog.h"

namespace emplace {
namespace {

class ProfiledCostModel : public CostModel {
 public:
  explicit ProfiledCostModel(const Profile& profile) {
    for (const Profile::OpEntry& op : profile.ops) {
      ops_[op.device].emplace(CanonicalSignature(op.signature),
                              Known{op.median_micros, op.contention, {op.host_micros, op.device_micros}});
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
  std::string WhyNoTime(const Graph&, OpId) const override {
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

  std::map<std::string, std::map<std::string, Known, std::less<>>, std::less<>> ops_;        // by kind, by signature
  std::map<std::string, std::map<std::string, double, std::less<>>, std::less<>> by_class_;  // by kind
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
  std::string WhyNoTime(const Graph&, OpId) const override {
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

class RooflineCostModel : public CostModel {
 public:
  std::optional<double> OpMicros(const Graph& graph, OpId op, const Cluster& cluster,
                                 std::string_view device_kind) const override {
    const OpKind* kind = FindOpKind(graph.op(op).kind);
    if (kind == nullptr) return std::nullopt;
    if (kind->op_class == OpClass::kNone) return 0.0;
    const DeviceKind* device = cluster.FindKind(device_kind);
    if (!HasRates(device)) return std::nullopt;
    if (!AllShapesKnown(graph, op)) return std::nullopt;

    const OpWork work = kind->work(graph, op);
    const auto row = static_cast<std::size_t>(work.op_class);
    const double compute_rate = device->peak.count * device->compute_efficiency[row];
    const double byte_rate = static_cast<double>(device->memory_bandwidth.count) * device->bandwidth_efficiency[row];
    if (byte_rate <= 0) return std::nullopt;
    const double compute_seconds = compute_rate > 0 ? work.flop / compute_rate : 0;
    const double byte_seconds = static_cast<double>(work.moved.count) / byte_rate;
    return device->time_scale * (device->launch_micros + std::max(compute_seconds, byte_seconds) * 1e6);
  }

  void CheckKind(const Cluster& cluster, std::string_view device_kind) const override {
    if (HasRates(cluster.FindKind(device_kind))) return;
    throw InputError(fmt::format("kind \"{}\"", device_kind),
                     fmt::format("has no rates, so roofline has no time for any op on it (a kind of the file's kinds: "
                                 "with peak and memory rates, or one of the catalogue: {})",
                                 Listed(AllDeviceKinds())));
  }

  std::string WhyNoTime(const Graph& graph, OpId op) const override {
    const std::string_view kind = graph.op(op).kind;
    if (FindOpKind(kind) == nullptr) {
      return fmt::format(
          "roofline knows no op of kind \"{}\" (docs/model.md lists those it knows; or give time_us and name the costs "
          "measured, or give a profile)",
          kind);
    }
    return "roofline needs dtype and shape of all its tensors: give them, or give time_us and name the costs measured, "
           "or give a profile";
  }
};

}  // namespace

std::unique_ptr<CostModel> MakeRooflineCostModel() { return std::make_unique<RooflineCostModel>(); }

}  // namespace emplace
