#include "agents/heuristics/dp_contiguous.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agents/candidates.h"
#include "agents/heuristics/one_shot.h"
#include "agents/objective.h"
#include "sim/base/check.h"

namespace emplace::agents {

namespace {

Placement OfGroups(const Environment& env, const Placement& ops) {
  Placement groups(env.observation().num_groups());
  for (std::size_t group = 0; group < groups.num_ops(); ++group) {
    groups[MakeId<OpId>(group)] = ops[env.grouping().members(group)[0]];
  }
  return groups;
}

}  // namespace

Placement PlaceContiguously(const Environment& env, const DpContiguousOptions& options) {
  const Observation& seen = env.observation();
  const bool has_costs = env.stage_costs() != nullptr;
  const StageCostOptions& asked = has_costs ? env.stage_options() : options.costs;
  for (const StageMemory memory : {StageMemory::kAll, StageMemory::kPersistent, StageMemory::kNone}) {
    if (memory < asked.memory) continue;
    const bool use_given = has_costs && memory == asked.memory;
    const StageCosts made =
        use_given ? StageCosts()
                  : MakeStageCosts(env.op_graph(), seen.cluster, env.costs(), {.link = asked.link, .memory = memory});
    const auto plan = WithLocation("dp_contiguous", [&] {
      return PlanContiguous(env.op_graph(), env.grouping(), use_given ? *env.stage_costs() : made, options.plan);
    });
    if (plan) return OfGroups(env, plan->placement);
  }
  Placement groups(seen.num_groups());
  const std::vector<DeviceId> all = AllDevices(seen.cluster);
  for (std::size_t group = 0; group < seen.num_groups(); ++group) {
    groups[MakeId<OpId>(group)] = seen.Fastest(group, all);
  }
  return groups;
}

std::optional<Placement> FinestContiguousSplit(const Environment& env) {
  EMPLACE_CHECK(env.stage_costs() != nullptr);
  ContiguousOptions options{.units = {.layers = LayerUnits::kApart}};
  for (const bool linear : {false, true}) {
    options.linear = linear;
    try {
      const auto plan = PlanContiguous(env.op_graph(), env.grouping(), *env.stage_costs(), options);
      if (plan) return OfGroups(env, plan->placement);
      return std::nullopt;
    } catch (const InputError&) {
      continue;  // too many ideals, or too many sorts of devices
    }
  }
  return std::nullopt;
}

std::unique_ptr<Agent> MakeDpContiguousAgent(OptionReader& reader, const AgentContext&) {
  DpContiguousOptions options;
  auto max_ideals = static_cast<std::int64_t>(options.plan.max_ideals);
  std::string layers = "together";
  reader.Read("max_ideals", &max_ideals, 1, 10'000'000,
              "reject graphs of groups with more ideals; time can grow with their square");
  reader.Read("linear", &options.plan.linear, "split only one topological order: fast, but not optimal");
  ReadStageCostOptions(reader, &options.costs);
  reader.Read("layers", &layers, {"apart", "gradients", "together"},
              "ops placed with their layer: none, gradients without a forward op in their group, or all");
  reader.Finish();
  options.plan.max_ideals = static_cast<std::size_t>(max_ideals);
  if (layers == "apart") options.plan.units.layers = LayerUnits::kApart;
  if (layers == "gradients") options.plan.units.layers = LayerUnits::kGradients;
  return MakeOneShot([options](const Environment& env, Rng&) { return PlaceContiguously(env, options); });
}

}  // namespace emplace::agents
