#include "datasets/parallel_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <istream>
#include <ostream>
#include <string_view>

#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/schedule/schedule.h"

namespace emplace::datasets {
namespace {

constexpr std::string_view kPlanSchema = "emplace.plan";
const std::vector<std::string> kRankOrder = {"tp", "cp", "dp", "pp"};
constexpr std::string_view kRecomputeAllowed = "\"none\", \"selective\", \"full\", or a number of layers";

void CheckRecompute(const JsonNode& node) {
  if (const auto* const text = node.value().As<std::string>()) {
    for (const std::string_view known : {"none", "selective", "full"}) {
      if (*text == known) return;
    }
    node.Refuse(kRecomputeAllowed);
  }
  node.Integer(0, 1 << 20, kRecomputeAllowed);
}

// Groups of one rank would shard nothing, as zero 0 does: one plan says it.
void CheckReplicas(const ParallelPlan& plan) {
  if (plan.dp_replicate == 1) return;
  if (plan.zero == 0) {
    throw InputError("dp_replicate", fmt::format("is {}, but zero is 0, which shards nothing (1)", plan.dp_replicate));
  }
  if (plan.dp % plan.dp_replicate != 0 || plan.dp == plan.dp_replicate) {
    throw InputError("dp_replicate", fmt::format("is {} (a divisor of dp, which is {}, and smaller than it)",
                                                 plan.dp_replicate, plan.dp));
  }
}

void CheckStages(const ParallelPlan& plan) {
  if (plan.stages.empty()) return;
  const auto stages = static_cast<std::size_t>(plan.pp * plan.vpp);
  if (plan.stages.size() != stages) {
    throw InputError("stages", fmt::format("has {} lists (pp times vpp, which is {})", plan.stages.size(), stages));
  }
  for (std::size_t i = 0; i < stages; ++i) {
    const std::string place = fmt::format("stages[{}]", i);
    if (plan.stages[i].empty()) throw InputError(place, "is empty (paths of modules, or numbers of layers)");
    const bool is_path = plan.stages[i][0].As<std::string>() != nullptr;
    for (const JsonValue& part : plan.stages[i]) {
      if (is_path ? part.As<std::string>() == nullptr : part.As<std::int64_t>() == nullptr) {
        throw InputError(place, "holds something else than paths of modules, or numbers of layers");
      }
    }
  }
}

ParallelPlan ReadChecked(const JsonNode& node) {
  CheckSchema(node, kPlanSchema);
  auto plan = ReadFields<ParallelPlan>(node, {"schema", "version"});
  for (const auto& [key, value] : {std::pair<std::string_view, std::int64_t>{"dp", plan.dp},
                                   {"dp_replicate", plan.dp_replicate},
                                   {"tp", plan.tp},
                                   {"pp", plan.pp},
                                   {"vpp", plan.vpp},
                                   {"cp", plan.cp},
                                   {"ep", plan.ep},
                                   {"etp", plan.etp},
                                   {"micro_batch", plan.micro_batch},
                                   {"grad_accumulation", plan.grad_accumulation}}) {
    if (value < 1) throw InputError(std::string(key), "is 0 (an integer from 1)");
  }
  if (plan.zero > 3) throw InputError("zero", fmt::format("is {} (0 to 3)", plan.zero));
  CheckReplicas(plan);
  if (std::ranges::find(kProductRecipes, plan.precision) == kProductRecipes.end()) {
    throw InputError("precision", fmt::format("is {} ({})", Quoted(plan.precision), fmt::join(kProductRecipes, ", ")));
  }
  if (plan.lora == 0 && FindMember(node.value(), "lora") != nullptr) {
    throw InputError("lora", fmt::format("is 0 (a rank from 1 to {})", kMostLoraRank));
  }
  if (plan.lora == 0 && !plan.lora_targets.empty()) throw InputError("lora_targets", "needs a rank (lora)");
  if (const JsonValue* const recompute = FindMember(node.value(), "recompute")) {
    CheckRecompute(JsonNode(node, "recompute", *recompute));
  }
  if (plan.vpp > 1 && plan.pp == 1) throw InputError("vpp", fmt::format("is {}, but pp is 1 (1)", plan.vpp));
  const std::size_t chunks =
      plan.schedule == kDualPipe ? 1 : ParseScheduleName(plan.schedule_name(), "schedule").chunks;
  if (chunks != static_cast<std::size_t>(plan.vpp)) {
    throw InputError("schedule", fmt::format("is {}, which has {} stages on each rank (vpp is {})",
                                             Quoted(plan.schedule), chunks, plan.vpp));
  }
  CheckStages(plan);
  if (plan.rank_order.empty()) plan.rank_order = kRankOrder;
  std::vector<std::string> order = plan.rank_order;
  std::sort(order.begin(), order.end());
  if (order != std::vector<std::string>{"cp", "dp", "pp", "tp"}) {
    throw InputError("rank_order", R"(is no order of "tp", "cp", "dp" and "pp" (each once))");
  }
  return plan;
}

}  // namespace

std::string ParallelPlan::schedule_name() const {
  return schedule == "interleaved" ? fmt::format("interleaved:{}", vpp) : schedule;
}

std::string ParallelPlan::recompute_text() const {
  const std::string* const text = recompute.As<std::string>();
  return text != nullptr ? *text : JsonText(recompute);
}

ParallelPlan ReadPlan(std::istream& in, const std::string& file) {
  try {
    const JsonValue root = ParseJson(in);
    return ReadChecked(JsonNode(root));
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

void WritePlan(std::ostream& out, const ParallelPlan& given) {
  ParallelPlan plan = given;
  if (plan.rank_order.empty()) plan.rank_order = kRankOrder;
  JsonObject object;
  AddMember(&object, "schema", ToJson(kPlanSchema));
  AddMember(&object, "version", ToJson(std::int64_t{1}));
  for (JsonMember& member : FieldsToJson(plan)) object.push_back(std::move(member));
  out << JsonText(JsonValue{std::move(object)}) << '\n';
}

}  // namespace emplace::datasets
