#include "datasets/planner/plan_space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>
#include <utility>

#include "datasets/memory/transformer_setup.h"
#include "datasets/models/transformer.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/suggestion.h"

namespace emplace::datasets {
namespace {

std::vector<std::int64_t> Divisors(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t i = 1; i * i <= number; ++i) {
    if (number % i != 0) continue;
    divisors.push_back(i);
    if (i * i != number) divisors.push_back(number / i);
  }
  std::ranges::sort(divisors);
  return divisors;
}

class Enumeration {
 public:
  explicit Enumeration(const PlanQuestion& question)
      : question_(question), network_(question.network), allowed_(question) {}

  void ForEach(const std::function<void(ParallelPlan)>& visit) {
    const std::int64_t gpus = question_.machine.gpus();
    for (const std::int64_t tp : Divisors(gpus)) {
      if (!allowed_.Allows("tp", tp)) continue;
      if (tp > 1 && !question_.framework->has_tensor_parallel && !allowed_.Names("tp")) continue;
      if (network_.heads % tp != 0) {
        Refuse(WhyNotDivided());
        continue;
      }
      for (const std::int64_t pp : Divisors(gpus / tp)) {
        if (!allowed_.Allows("pp", pp)) continue;
        if (pp > 1 && !question_.framework->has_pipelines && !allowed_.Names("pp")) continue;
        if (pp > network_.layers) {
          Refuse("pp is more than the layers");
          continue;
        }
        for (const std::int64_t cp : ContextDegrees(gpus / tp / pp)) {
          const std::int64_t dp = gpus / tp / pp / cp;
          if (!allowed_.Allows("dp", dp) || !allowed_.Allows("cp", cp)) continue;
          if (question_.global_batch % dp != 0) {
            Refuse("dp does not divide the global batch");
            continue;
          }
          ParallelPlan plan;
          plan.tp = tp;
          plan.pp = pp;
          plan.cp = cp;
          plan.dp = dp;
          plan.precision = allowed_.Recipe();
          plan.lora = question_.lora.rank;
          plan.lora_targets = question_.lora.TargetNames();
          plan.sequence_parallel = SequenceParallel(plan);
          if (tp > 1 && !plan.sequence_parallel && !allowed_.AllowsText("sequence_parallel", "false")) {
            Refuse("tp does not divide the sequence of a rank");
            continue;
          }
          AddBatches(plan, visit);
        }
      }
    }
  }

  const std::map<std::string, std::size_t>& refused() const { return refused_; }

 private:
  void Refuse(const std::string& reason) { ++refused_[reason]; }
  bool HasModules() const { return question_.graph && question_.graph->modules; }

  std::string WhyNotDivided() const {
    if (!HasModules()) return "tp does not divide the heads";
    if (network_.heads > 1) return "tp does not divide the heads or widths of modules";
    return "tp needs pairs of linear modules, one behind the other, whose widths it divides";
  }

  bool SequenceParallel(const ParallelPlan& plan) const {
    if (plan.tp == 1 || HasModules() ||
        allowed_.AllowsText("sequence_parallel", "false") == allowed_.Names("sequence_parallel")) {
      return false;
    }
    return question_.sequence / plan.cp % plan.tp == 0;
  }

  std::vector<std::int64_t> ContextDegrees(std::int64_t ranks) const {
    // Each rank has two pieces of the sequence, the first and the last of those that are left, so that all have as much
    // of the causal mask.
    std::vector<std::int64_t> degrees;
    for (const std::int64_t cp : Divisors(ranks)) {
      const bool is_possible = cp == 1 || (question_.framework->has_context_parallel && !HasModules() &&
                                           question_.sequence % (2 * cp) == 0 && network_.encoder_layers == 0);
      if (is_possible) degrees.push_back(cp);
    }
    return degrees;
  }

  void AddBatches(ParallelPlan plan, const std::function<void(ParallelPlan)>& visit) {
    for (const std::int64_t micro_batch : Divisors(question_.global_batch / plan.dp)) {
      plan.micro_batch = micro_batch;
      plan.grad_accumulation = question_.global_batch / plan.dp / micro_batch;
      if (!allowed_.Allows("micro_batch", micro_batch) ||
          !allowed_.Allows("grad_accumulation", plan.grad_accumulation)) {
        continue;
      }
      for (const auto& [schedule, vpp] : SchedulesOf(plan)) {
        plan.vpp = vpp;
        plan.schedule = schedule;
        if (!allowed_.Allows("vpp", vpp) || !allowed_.AllowsText("schedule", schedule)) continue;
        const bool needs_even = schedule == kDualPipe;
        if (needs_even &&
            (plan.pp % 2 != 0 || plan.grad_accumulation % 2 != 0 || plan.grad_accumulation < 2 * plan.pp)) {
          Refuse("dualpipe needs an even pp and an even number of micro-batches, 2 pp or more");
          continue;
        }
        AddExperts(plan, visit);
      }
    }
  }

  // Schedules, and the stages that each rank then has.
  std::vector<std::pair<std::string, std::int64_t>> SchedulesOf(const ParallelPlan& plan) const {
    if (plan.pp == 1) return {{"1f1b", 1}};
    const auto is_wanted = [&](std::string_view schedule) {
      if (allowed_.Names("schedule")) return allowed_.AllowsText("schedule", schedule);
      const std::vector<std::string_view>& own = question_.framework->schedules;
      return schedule != "gpipe" && std::ranges::find(own, schedule) != own.end();
    };
    std::vector<std::pair<std::string, std::int64_t>> schedules;
    for (const std::string_view schedule :
         {std::string_view("1f1b"), std::string_view("gpipe"), std::string_view("zb-h1"), kDualPipe}) {
      if (is_wanted(schedule)) schedules.emplace_back(schedule, 1);
    }
    // Even stages, or those of a network whose layers are even with the embedding and the loss as two more, as the 126
    // of Llama 3.1 405B are; others only where they are asked for, also with stages for the embedding and the loss
    // alone.
    const auto is_possible = [&](std::int64_t vpp) {
      const std::int64_t stages = vpp * plan.pp;
      const bool counts_ends = network_.layers % plan.pp != 0 && (network_.layers + 2) % stages == 0;
      return network_.layers % stages == 0 || counts_ends || (stages <= network_.layers + 2 && allowed_.Names("vpp"));
    };
    if (is_wanted("zb-v") && is_possible(2)) schedules.emplace_back("zb-v", 2);
    // Interleaved schedules need micro-batches in groups of pp.
    if (is_wanted("interleaved") && plan.grad_accumulation % plan.pp == 0) {
      for (std::int64_t vpp = 2; vpp * plan.pp <= network_.layers + 2; ++vpp) {
        if (is_possible(vpp)) schedules.emplace_back("interleaved", vpp);
      }
    }
    return schedules;
  }

  void AddExperts(ParallelPlan plan, const std::function<void(ParallelPlan)>& visit) {
    if (network_.experts.count == 0) {
      if (allowed_.Allows("ep", 1) && allowed_.Allows("etp", 1)) AddState(plan, visit);
      return;
    }
    for (const std::int64_t ep : Divisors(network_.experts.count)) {
      for (const std::int64_t etp : std::set<std::int64_t>{1, plan.tp}) {
        plan.ep = ep;
        plan.etp = etp;
        if (!allowed_.Allows("ep", ep) || !allowed_.Allows("etp", etp)) continue;
        if (plan.dp * plan.cp * plan.tp % (ep * etp) != 0 || network_.experts.d_expert % etp != 0) {
          Refuse("ep times etp does not divide dp times cp times tp");
          continue;
        }
        AddState(plan, visit);
      }
    }
  }

  std::vector<JsonValue> Recomputations() const {
    if (const std::optional<JsonValue> wanted = allowed_.Recompute()) return {*wanted};
    if (!question_.framework->recomputes) return {ToJson("none")};
    // Beside fused attention, Megatron-LM's selective recomputation saves little.
    if (question_.framework->memory == TrainingFramework::kTorchtitan && IsLlama(network_)) {
      return {ToJson("none"), ToJson("selective"), ToJson("full")};
    }
    return {ToJson("none"), ToJson("full")};
  }

  void AddState(ParallelPlan plan, const std::function<void(ParallelPlan)>& visit) {
    for (std::int64_t zero = 0; zero <= 3; ++zero) {
      if (!allowed_.Allows("zero", zero)) continue;
      const bool is_usual = std::ranges::find(question_.framework->zero, zero) != question_.framework->zero.end();
      if (!is_usual && !allowed_.Names("zero")) continue;
      if (zero > 1 && plan.pp > 1 && !question_.framework->shards_in_pipelines) {
        Refuse("ZeRO 2 and 3 gather and scatter in every micro-batch of a pipeline");
        continue;
      }
      plan.zero = zero;
      for (const JsonValue& recompute : Recomputations()) {
        plan.recompute = recompute;
        visit(plan);
      }
    }
  }

  const PlanQuestion& question_;
  const TransformerNetwork& network_;
  AllowedValues allowed_;
  std::map<std::string, std::size_t> refused_;
};

}  // namespace

AllowedValues::AllowedValues(const PlanQuestion& question) : only_(question.only), place_(question.prefix + "only") {
  constexpr std::string_view kFields[] = {"dp",          "tp",
                                          "pp",          "vpp",
                                          "cp",          "ep",
                                          "etp",         "zero",
                                          "micro_batch", "grad_accumulation",
                                          "recompute",   "sequence_parallel",
                                          "schedule",    "attention",
                                          "stages",      "rank_order",
                                          "precision"};
  for (const auto& [key, value] : only_) {
    if (std::ranges::find(kFields, key) != std::end(kFields)) continue;
    throw InputError(place_, fmt::format("has {} ({}){}", Quoted(key), fmt::join(kFields, ", "),
                                         DidYouMean(key, {std::begin(kFields), std::end(kFields)})));
  }
  for (const char* const degree :
       {"dp", "tp", "pp", "vpp", "cp", "ep", "etp", "zero", "micro_batch", "grad_accumulation"}) {
    Degree(degree);
  }
  Recompute();
  OneOf("sequence_parallel", {"true", "false"});
  OneOf("schedule", {"1f1b", "interleaved", "gpipe", "zb-h1", "zb-v", kDualPipe});
  OneOf("attention", {"fused", "unfused"});
  OneOf("stages", {"even", "balanced"});
  OneOf("rank_order", {kUsualRankOrder, kPipelinesFirst});
  OneOf("precision", {kProductRecipes.begin(), kProductRecipes.end()});
}

bool AllowedValues::Allows(const std::string& field, std::int64_t value) const {
  const std::optional<std::int64_t> wanted = Degree(field);
  return !wanted || *wanted == value;
}

bool AllowedValues::AllowsText(const std::string& field, std::string_view value) const {
  const auto found = only_.find(field);
  return found == only_.end() || found->second == value;
}

std::string AllowedValues::Recipe() const {
  const auto found = only_.find("precision");
  return found == only_.end() ? std::string(kProductRecipes[0]) : found->second;
}

std::optional<JsonValue> AllowedValues::Recompute() const {
  const auto found = only_.find("recompute");
  if (found == only_.end()) return std::nullopt;
  for (const std::string_view known : {"none", "selective", "full"}) {
    if (found->second == known) return ToJson(known);
  }
  return ToJson(Integer("recompute", found->second, 0));
}

void AllowedValues::OneOf(const std::string& field, const std::vector<std::string_view>& values) const {
  for (const std::string_view value : values) {
    if (AllowsText(field, value)) return;
  }
  throw InputError(place_, fmt::format("{} is {} ({})", field, Quoted(only_.at(field)), fmt::join(values, ", ")));
}

std::optional<std::int64_t> AllowedValues::Degree(const std::string& field) const {
  const auto found = only_.find(field);
  if (found == only_.end()) return std::nullopt;
  if (field == "zero") return Integer(field, found->second, 0, 3);
  return Integer(field, found->second, 1);
}

std::int64_t AllowedValues::Integer(const std::string& field, const std::string& text, std::int64_t least,
                                    std::int64_t most) const {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw InputError(place_, fmt::format("{} is {} (an integer of at least {}{})", field, Quoted(text), least,
                                         field == "recompute" ? ", none, selective or full"
                                         : field == "zero"    ? ", at most 3"
                                                              : ""));
  }
  return value;
}

std::map<std::string, std::size_t> ForEachPlan(const PlanQuestion& question,
                                               const std::function<void(ParallelPlan)>& visit) {
  Enumeration enumeration(question);
  enumeration.ForEach(visit);
  return enumeration.refused();
}

}  // namespace emplace::datasets
