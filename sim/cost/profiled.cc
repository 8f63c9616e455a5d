#include "sim/cost/profiled.h"

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "sim/ops/op_catalog.h"

namespace emplace {
namespace {

class ProfiledCostModel : public CostModel {
 public:
  explicit ProfiledCostModel(const Profile& profile) {
    for (const Profile::OpEntry& op : profile.ops) {
      ops_[op.device].emplace(CanonicalSignature(op.signature), Known{op.median_micros, op.contention});
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
  double Contention(const Graph& graph, OpId op, std::string_view kind) const override {
    if (!any_contention_) return 1;
    const Known* const known = Find(graph, op, kind);
    const double factor = known != nullptr && known->contention ? *known->contention : OfClass(graph.op(op).kind, kind);
    return factor > kLeastContention ? factor : 1;
  }
  std::string HowToGiveATime() const override {
    return "the profile has no entry with its signature: profile it, or name other costs for such ops: --costs "
           "roofline";
  }

 private:
  struct Known {
    double micros;
    std::optional<double> contention;
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

}  // namespace emplace
