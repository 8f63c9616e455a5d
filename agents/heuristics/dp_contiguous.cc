#include "agents/heuristics/dp_contiguous.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agents/candidates.h"
#include "agents/heuristics/one_shot.h"
#include "sim/base/check.h"

namespace emplace::agents {

Placement PlaceContiguously(const Environment& env, const DpContiguousOptions& options) {
  const Observation& seen = env.observation();
  Placement groups(seen.num_groups());
  for (const StageMemory memory : {StageMemory::kAll, StageMemory::kPersistent, StageMemory::kNone}) {
    if (memory < options.costs.memory) continue;
    const StageCosts costs =
        MakeStageCosts(env.op_graph(), seen.cluster, env.costs(), {.link = options.costs.link, .memory = memory});
    const auto plan =
        AtPlace("dp_contiguous", [&] { return PlanContiguous(env.op_graph(), env.grouping(), costs, options.plan); });
    if (!plan) continue;
    for (std::size_t group = 0; group < seen.num_groups(); ++group) {
      groups[MakeId<OpId>(group)] = plan->placement[env.grouping().members(group)[0]];
    }
    return groups;
  }
  const std::vector<DeviceId> all = AllDevices(seen.cluster);
  for (std::size_t group = 0; group < seen.num_groups(); ++group) {
    groups[MakeId<OpId>(group)] = seen.Fastest(group, all);
  }
  return groups;
}

std::unique_ptr<Agent> MakeDpContiguousAgent(OptionReader& reader, const AgentContext&) {
  DpContiguousOptions options;
  auto max_ideals = static_cast<std::int64_t>(options.plan.max_ideals);
  std::string crossing = "direct";
  std::string memory = "all";
  std::string layers = "together";
  reader.Read("max_ideals", &max_ideals, 1, 10'000'000,
              "refuse graphs of groups with more ideals; time may grow with the square");
  reader.Read("linear", &options.plan.linear, "only splits of one topological order: quick, not optimal");
  reader.Read("crossing", &crossing, {"direct", "host"},
              "links that values cross: between accelerators, or to the CPUs");
  reader.Read("memory", &memory, {"all", "persistent", "none"}, "bytes of an op that count against a device's memory");
  reader.Read("layers", &layers, {"apart", "gradients", "together"},
              "what goes with its layer: nothing, gradients without a forward op in their group, or all ops");
  reader.Finish();
  options.plan.max_ideals = static_cast<std::size_t>(max_ideals);
  if (layers == "apart") options.plan.units.layers = LayerUnits::kApart;
  if (layers == "gradients") options.plan.units.layers = LayerUnits::kGradients;
  if (crossing == "host") options.costs.link = CrossingLink::kHost;
  if (memory == "persistent") options.costs.memory = StageMemory::kPersistent;
  if (memory == "none") options.costs.memory = StageMemory::kNone;
  return MakeOneShot([options](const Environment& env, Rng&) { return PlaceContiguously(env, options); });
}

}  // namespace emplace::agents
