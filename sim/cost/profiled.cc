#include "sim/cost/profiled.h"

#include <functional>
#include <map>
#include <string>

namespace emplace {
namespace {

class ProfiledCostModel : public CostModel {
 public:
  explicit ProfiledCostModel(const Profile& profile) {
    for (const Profile::OpEntry& op : profile.ops) {
      micros_[op.device].emplace(CanonicalSignature(op.signature), op.median_micros);
    }
    for (const Profile::DeviceEntry& device : profile.devices) contention_[device.kind] = device.contention;
  }

  std::optional<double> OpMicros(const Graph& graph, OpId op, const Cluster&, std::string_view kind) const override {
    const auto of_kind = micros_.find(kind);
    if (of_kind == micros_.end()) return std::nullopt;
    auto found = of_kind->second.find(CanonicalSignature(FullSignature(graph, op)));
    if (found == of_kind->second.end()) found = of_kind->second.find(CanonicalSignature(Signature(graph, op)));
    if (found == of_kind->second.end()) return std::nullopt;
    return found->second;
  }
  double Contention(OpClass op_class, std::string_view kind) const override {
    const auto of_kind = contention_.find(kind);
    if (of_kind == contention_.end()) return 1;
    const auto factor = of_kind->second.find(Name(op_class));
    return factor == of_kind->second.end() || factor->second <= kLeastContention ? 1 : factor->second;
  }
  std::string HowToGiveATime() const override {
    return "the profile has no entry with its signature: profile it, or name other costs for such ops: --costs "
           "roofline";
  }

 private:
  std::map<std::string, std::map<std::string, double, std::less<>>, std::less<>> micros_;      // by kind, by signature
  std::map<std::string, std::map<std::string, double, std::less<>>, std::less<>> contention_;  // by kind, by class
};

}  // namespace

std::unique_ptr<CostModel> MakeProfiledCostModel(const Profile& profile) {
  return std::make_unique<ProfiledCostModel>(profile);
}

}  // namespace emplace
