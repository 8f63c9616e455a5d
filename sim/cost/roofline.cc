#include "sim/cost/roofline.h"

#include <algorithm>

#include "sim/device_catalog.h"
#include "sim/ops/op_catalog.h"

namespace emplace {
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

class RooflineCostModel : public CostModel {
 public:
  std::optional<double> OpMicros(const Graph& graph, OpId op, const Cluster& cluster,
                                 std::string_view device_kind) const override {
    const OpKind* kind = FindOpKind(graph.op(op).kind);
    if (kind == nullptr) return std::nullopt;
    if (kind->op_class == OpClass::kNone) return 0.0;
    const DeviceKind* device = cluster.FindKind(device_kind);
    if (device == nullptr || device->peak.count <= 0 || device->memory_bandwidth.count <= 0) return std::nullopt;
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

  std::string HowToGiveATime() const override {
    return "roofline knows ops of the catalogue's kinds whose tensors all have dtype and shape, on device kinds with "
           "peak rates: use such a kind, or give time_us and name the costs measured, or give a profile";
  }
};

}  // namespace

std::unique_ptr<CostModel> MakeRooflineCostModel() { return std::make_unique<RooflineCostModel>(); }

}  // namespace emplace
