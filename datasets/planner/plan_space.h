#ifndef EMPLACE_DATASETS_PLANNER_PLAN_SPACE_H_
#define EMPLACE_DATASETS_PLANNER_PLAN_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/parallel_plan.h"
#include "datasets/planner/plan_search.h"
#include "sim/base/json_value.h"
#include "sim/base/registry.h"

namespace emplace::datasets {

// Orders of ranks, the fastest-changing degree first, in the words of Megatron-LM.
inline constexpr std::string_view kUsualRankOrder = "tp-cp-dp-pp";
inline constexpr std::string_view kPipelinesFirst = "tp-cp-pp-dp";

// Which values the fields of plans may have.
class AllowedValues {
 public:
  explicit AllowedValues(const PlanQuestion& question);

  bool Allows(const std::string& field, std::int64_t value) const;
  bool AllowsText(const std::string& field, std::string_view value) const;
  bool Names(const std::string& field) const { return only_.contains(field); }
  // Fewer bits change what a network learns: they are only where they are asked for.
  std::string Recipe() const;
  // none, selective, full, or a number of layers, if it is given.
  std::optional<JsonValue> Recompute() const;

 private:
  void OneOf(const std::string& field, const std::vector<std::string_view>& values) const;
  std::optional<std::int64_t> Degree(const std::string& field) const;
  std::int64_t Integer(const std::string& field, const std::string& text, std::int64_t least,
                       std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;

  const OptionMap& only_;
  std::string place_;
};

// Calls `visit` with every plan that divides what the question has and keeps what it gives; MakeTrainingSetup may still
// refuse it. Returns how many are refused, by the reason.
std::map<std::string, std::size_t> ForEachPlan(const PlanQuestion& question,
                                               const std::function<void(ParallelPlan)>& visit);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PLANNER_PLAN_SPACE_H_
