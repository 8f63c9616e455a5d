#include "datasets/planner/plan_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "sim/base/progress.h"

namespace emplace::datasets {
namespace {

nlohmann::ordered_json PlanJson(const PlanQuestion& question, const PlanAnswer& answer, const ScoredPlan& scored,
                                StepTimer* timer) {
  const ParallelPlan& plan = scored.plan;
  nlohmann::ordered_json json = {{"dp", plan.dp},
                                 {"tp", plan.tp},
                                 {"pp", plan.pp},
                                 {"vpp", plan.vpp},
                                 {"cp", plan.cp},
                                 {"ep", plan.ep},
                                 {"etp", plan.etp},
                                 {"zero", plan.zero},
                                 {"micro_batch", plan.micro_batch},
                                 {"grad_accumulation", plan.grad_accumulation},
                                 {"sequence_parallel", plan.sequence_parallel}};
  if (const auto* const layers = plan.recompute.As<std::int64_t>()) {
    json["recompute"] = *layers;
  } else {
    json["recompute"] = plan.recompute_text();
  }
  json["precision"] = plan.precision;
  json["schedule"] = plan.schedule;
  json["step_time_us"] = scored.time.micros;
  if (scored.estimated_micros) json["estimated_us"] = *scored.estimated_micros;
  json["gpus"] = plan.devices();
  json["tokens_per_s"] = TokensPerSecond(question, scored.time.micros);
  json["tokens_per_s_per_gpu"] = TokensPerSecondOfGpu(question, scored);
  json["mfu_percent"] = MfuPercent(question, answer, scored);
  if (question.price) {
    json["cost_of_step"] = CostOfStep(question, scored);
    json["cost_of_billion_tokens"] = CostOfBillionTokens(question, scored);
  }
  json["peak_bytes"] = scored.peak.allocated_bytes;
  json["peak_reserved_bytes"] = scored.peak.reserved_bytes;
  json["needed_bytes"] = scored.needed_bytes;
  json["fits"] = scored.fits;
  if (!scored.refused.empty()) json["refused"] = scored.refused;
  json["fullest_pipeline_rank"] = scored.fullest_rank;
  for (std::size_t i = 0; i < kNumMemoryClasses; ++i) {
    json["memory"][std::string(Name(static_cast<MemoryClass>(i)))] = scored.peak.classes[i];
  }
  for (const TimePart& part : TimePartsOf(scored.time)) json["time_us"][std::string(part.key)] = part.micros;
  json["communication"] = nlohmann::ordered_json::array();
  for (const RankTraffic& row : TrafficOf(question, scored.plan, timer)) {
    json["communication"].push_back(
        {{"group", row.group}, {"operation", Name(row.kind)}, {"calls", row.calls}, {"bytes", row.bytes}});
  }
  return json;
}

nlohmann::ordered_json AnswerJson(const PlanQuestion& question, const PlanAnswer& answer) {
  nlohmann::ordered_json json = {{"schema", "emplace.plans"},
                                 {"version", 1},
                                 {"network", question.network.name},
                                 {"cluster", question.machine.name},
                                 {"gpus", question.machine.gpus()},
                                 {"framework", question.framework->name},
                                 {"global_batch", question.global_batch},
                                 {"sequence", question.sequence},
                                 {"objective", Name(question.objective)},
                                 {"legal", answer.legal},
                                 {"checked", answer.checked},
                                 {"fitting", answer.fitting},
                                 {"complete", answer.is_complete},
                                 {"lower_bound_us", answer.bound_micros}};
  if (question.graph && question.graph->modules) json["by_modules"] = question.graph->why_modules;
  if (question.lora.exist()) {
    json["lora"] = {{"rank", question.lora.rank},
                    {"targets", question.lora.TargetNames()},
                    {"trained_parameters", TrainedParameters(question)},
                    {"parameters", TrainedParameters(question) + Parameters(question.network).total}};
  }
  if (question.within) json["within_s"] = *question.within;
  if (question.price) json["price"] = *question.price;
  json["notes"] = answer.notes;
  json["refused"] = nlohmann::ordered_json::object();
  for (const auto& [reason, count] : answer.refused) json["refused"][reason] = count;
  StepTimer timer(question.machine, *question.framework);
  json["plans"] = nlohmann::ordered_json::array();
  for (const ScoredPlan& plan : answer.plans) json["plans"].push_back(PlanJson(question, answer, plan, &timer));
  if (answer.nearest) json["nearest"] = PlanJson(question, answer, *answer.nearest, &timer);
  if (answer.fastest) json["fastest"] = PlanJson(question, answer, *answer.fastest, &timer);
  return json;
}

}  // namespace

double TokensPerSecond(const PlanQuestion& question, double step_micros) {
  return static_cast<double>(question.global_batch * question.sequence) / step_micros * 1e6;
}

double TokensPerSecondOfGpu(const PlanQuestion& question, const ScoredPlan& scored) {
  return TokensPerSecond(question, scored.time.micros) / static_cast<double>(scored.plan.devices());
}

double MfuPercent(const PlanQuestion& question, const PlanAnswer& answer, const ScoredPlan& scored) {
  const double part = static_cast<double>(scored.plan.devices()) / static_cast<double>(question.machine.gpus());
  return 100 * answer.ideal_micros / (part * scored.time.micros);
}

double CostOfStep(const PlanQuestion& question, const ScoredPlan& scored) {
  constexpr double kMicrosOfHour = 3.6e9;
  return *question.price * static_cast<double>(scored.plan.devices()) * scored.time.micros / kMicrosOfHour;
}

double CostOfBillionTokens(const PlanQuestion& question, const ScoredPlan& scored) {
  return CostOfStep(question, scored) * 1e9 / static_cast<double>(question.global_batch * question.sequence);
}

std::string AdaptersText(const PlanQuestion& question) {
  if (!question.lora.exist()) return "";
  const auto trained = static_cast<std::uint64_t>(TrainedParameters(question));
  const auto frozen = static_cast<std::uint64_t>(Parameters(question.network).total);
  return fmt::format("Trains {} of {} parameters: adapters of {}.", WithThousands(trained),
                     WithThousands(trained + frozen), question.lora.Text());
}

std::vector<TimePart> TimePartsOf(const StepTime& time) {
  return {{"products", "products and attention", time.passes.products},
          {"elementwise", "other kernels", time.passes.elementwise},
          {"tensor_parallel", "tensor and context parallel exchange", time.passes.tensor},
          {"expert_parallel", "exchange of tokens between experts", time.passes.experts},
          {"sharded_weights", "gathering of weights", time.passes.weights},
          {"host", "waiting for the host", time.passes.waiting},
          {"bubble", "pipeline bubble", time.bubble},
          {"pipeline_messages", "messages between stages", time.messages},
          {"gradients", "exchange of gradients and weights", time.gradients},
          {"optimizer", "optimizer", time.optimizer},
          {"other", "other", time.other}};
}

void WritePlans(std::ostream& out, const PlanQuestion& question, const PlanAnswer& answer) {
  out << AnswerJson(question, answer).dump(1) << "\n";
}

void WritePlanCheck(std::ostream& out, const PlanQuestion& question, const PlanCheck& check) {
  nlohmann::ordered_json json = AnswerJson(question, check.answer);
  StepTimer timer(question.machine, *question.framework);
  json["checked"] = check.checked ? PlanJson(question, check.answer, *check.checked, &timer)
                                  : nlohmann::ordered_json{{"illegal", check.illegal}};
  json["helping"] = nlohmann::ordered_json::array();
  for (const PlanChange& change : check.helping) {
    json["helping"].push_back({{"text", change.text}, {"plan", PlanJson(question, check.answer, change.plan, &timer)}});
  }
  out << json.dump(1) << "\n";
}

ParallelPlan WithNetwork(const PlanQuestion& question, ParallelPlan plan, std::string network, OptionMap settings) {
  if (plan.pp > 1 && plan.stages.empty()) {
    for (const StageShape& stage : SetupOf(question, plan).stages) plan.AddStage(stage.layers);
  }
  if (question.graph) plan = WithPaths(*question.graph, std::move(plan));
  plan.network = std::move(network);
  plan.set = std::move(settings);
  return plan;
}

}  // namespace emplace::datasets
