#include "sim/schedule/teams.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace {
namespace {

// Sets of numbers, each known by its smallest member.
class Sets {
 public:
  explicit Sets(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }
  std::size_t Find(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void Join(std::size_t a, std::size_t b) {
    const std::size_t of_a = Find(a);
    const std::size_t of_b = Find(b);
    parent_[std::max(of_a, of_b)] = std::min(of_a, of_b);
  }

 private:
  std::vector<std::size_t> parent_;
};

}  // namespace

Teams FindTeams(const PlacedGraph& placed, const std::vector<PipelineRole>& roles) {
  const Graph& graph = placed.graph;
  const std::size_t num_devices = placed.cluster.num_devices();
  std::vector<bool> has_stage(num_devices, false);
  for (std::size_t i = 0; i < roles.size(); ++i) {
    if (roles[i] == PipelineRole::kForwardOp) has_stage[Index(placed.placement[MakeId<OpId>(i)])] = true;
  }
  Sets joined(num_devices);
  for (const Collective& collective : graph.collectives()) {
    if (roles[Index(collective.members.front())] == PipelineRole::kFinalOp) continue;
    if (collective.kind == CollectiveKind::kSendReceive) {
      throw InputError(fmt::format("ops[{}]", Quoted(graph.op(collective.members.front()).name)),
                       "sends in a pass (a stage's tensors go to their readers without)");
    }
    for (const OpId op : collective.members) {
      joined.Join(Index(placed.placement[op]), Index(placed.placement[collective.members.front()]));
    }
  }
  Teams teams;
  teams.team_of_device.assign(num_devices, Teams::kNone);
  std::map<std::size_t, std::size_t> team_of_set;
  for (std::size_t d = 0; d < num_devices; ++d) {
    if (!has_stage[d]) continue;
    const std::size_t team = team_of_set.try_emplace(joined.Find(d), teams.members.size()).first->second;
    if (team == teams.members.size()) teams.members.emplace_back();
    teams.members[team].push_back(MakeId<DeviceId>(d));
    teams.team_of_device[d] = team;
  }
  Sets connected(teams.members.size());
  if (graph.collectives().empty()) {
    for (std::size_t team = 1; team < teams.members.size(); ++team) connected.Join(0, team);
  }
  const auto team_of = [&](OpId op) { return teams.team_of_device[Index(placed.placement[op])]; };
  for (std::size_t i = 0; i < roles.size(); ++i) {
    if (roles[i] != PipelineRole::kForwardOp) continue;
    ForEachProducer(graph, MakeId<OpId>(i), [&](OpId producer) {
      if (roles[Index(producer)] != PipelineRole::kForwardOp) return;
      connected.Join(team_of(producer), team_of(MakeId<OpId>(i)));
    });
  }
  std::map<std::size_t, std::size_t> pipeline_of_set;
  for (std::size_t team = 0; team < teams.members.size(); ++team) {
    const std::size_t pipeline =
        pipeline_of_set.try_emplace(connected.Find(team), teams.pipelines.size()).first->second;
    if (pipeline == teams.pipelines.size()) teams.pipelines.emplace_back();
    teams.pipelines[pipeline].push_back(team);
    teams.pipeline_of_team.push_back(pipeline);
  }
  return teams;
}

}  // namespace emplace
