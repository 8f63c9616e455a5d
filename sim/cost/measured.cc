#include "sim/cost/measured.h"

namespace emplace {
namespace {

class MeasuredCostModel : public CostModel {
 public:
  std::optional<double> OpMicros(const Graph& graph, OpId op, const Cluster&, std::string_view kind) const override {
    return graph.MeasuredMicros(op, kind);
  }
  std::string HowToGiveATime() const override {
    return "give it a time_us in the graph, or name other costs: --costs roofline, --profile FILE";
  }
};

}  // namespace

std::unique_ptr<CostModel> MakeMeasuredCostModel() { return std::make_unique<MeasuredCostModel>(); }

}  // namespace emplace
