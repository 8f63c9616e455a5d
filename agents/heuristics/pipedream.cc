#include "agents/heuristics/pipedream.h"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>

#include "agents/candidates.h"
#include "agents/saved_state.h"
#include "agents/throughput/stage_costs.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

constexpr std::size_t kMostText = 1'000'000;  // largest size of a note

// "2 stages, 3-1", as PipeDream's paper writes replicas; "4 stages, straight" without any.
std::string StagesText(const PipeDreamPlan& plan) {
  std::string replicas;
  bool straight = true;
  for (const ReplicatedStage& stage : plan.stages) {
    replicas += fmt::format("{}{}", replicas.empty() ? "" : "-", stage.replicas);
    straight = straight && stage.replicas == 1;
  }
  return fmt::format("{} stage{}, {}", plan.stages.size(), plan.stages.size() == 1 ? "" : "s",
                     straight ? "straight" : replicas);
}

std::string NoteOf(const PipeDreamPlan& replicated, const PipeDreamPlan& straight) {
  std::string layers;
  for (const ReplicatedStage& stage : replicated.stages) {
    layers += fmt::format("{}{} to {} on {}", layers.empty() ? "" : ", ", stage.first, stage.last, stage.replicas);
  }
  return fmt::format(
      "plan with replicas: {}, {:.3f} ms for each micro-batch (layers {}); this placement, as planned: {}, {:.3f} ms",
      StagesText(replicated), replicated.micros / 1000, layers, StagesText(straight), straight.micros / 1000);
}

class PipeDream : public SavedByFields<PipeDream, Agent> {
 public:
  explicit PipeDream(const PipeDreamOptions& options) : options_(options) {}

  Proposal Propose(const Environment& env, Mode, Rng&) override {
    if (!has_answer_) {
      PipeDreamAnswer answer = PlaceAsPipeDream(env, options_);
      placement_ = std::move(answer.placement);
      note_ = std::move(answer.note);
      has_answer_ = true;
    }
    return {.placements = {placement_}};
  }
  bool Finished() const override { return has_answer_; }
  std::string Note() const override { return note_; }

  static void SavedFields(auto& state, auto& self) {
    state.Word("pipedream");
    state(self.has_answer_, self.placement_);
    state.Text(self.note_, kMostText);
  }

 private:
  PipeDreamOptions options_;
  bool has_answer_ = false;
  Placement placement_;
  std::string note_;
};

}  // namespace

PipeDreamAnswer PlaceAsPipeDream(const Environment& env, const PipeDreamOptions& options) {
  const Observation& seen = env.observation();
  PipeDreamAnswer answer{.placement = Placement(seen.num_groups()), .straight = {}, .replicated = {}, .note = {}};
  if (seen.num_groups() == 0) return answer;
  const StageCosts made = MakeStageCosts(env.op_graph(), seen.cluster, env.costs());
  const ContiguousUnits units = MakeContiguousUnits(env.op_graph(), env.grouping(), made, {.layers = options.layers});
  const DeviceHierarchy hierarchy = FindHierarchy(seen.cluster, seen.accelerators, options.flat);
  const LayerChain chain = MakeLayerChain(env.op_graph(), units, made, hierarchy.devices);
  WithLocation("pipedream", [&] {
    answer.straight = PlanPipeDream(chain, hierarchy.levels, /*replicas=*/false);
    answer.replicated = PlanPipeDream(chain, hierarchy.levels, /*replicas=*/true);
  });
  answer.note = NoteOf(answer.replicated, answer.straight);
  std::vector<DeviceId> device_of_unit;
  for (const ReplicatedStage& stage : answer.straight.stages) {
    device_of_unit.resize(stage.last + 1, hierarchy.devices[stage.first_device]);
  }
  for (std::size_t group = 0; group < seen.num_groups(); ++group) {
    const DeviceId device = device_of_unit[units.unit_of[Index(env.grouping().members(group)[0])]];
    answer.placement[MakeId<OpId>(group)] = seen.Fastest(group, {&device, 1});
  }
  return answer;
}

std::unique_ptr<Agent> MakePipeDreamAgent(OptionReader& reader, const AgentContext&) {
  PipeDreamOptions options;
  std::string layers = "together";
  std::string links = "levels";
  reader.Read("layers", &layers, {"apart", "gradients", "together"},
              "ops placed with their layer: none, gradients without a forward op in their group, or all");
  reader.Read("links", &links, {"levels", "flat"}, "levels of links, fast ones within slower ones, or a single level");
  reader.Finish();
  if (layers == "apart") options.layers = LayerUnits::kApart;
  if (layers == "gradients") options.layers = LayerUnits::kGradients;
  options.flat = links == "flat";
  return std::make_unique<PipeDream>(options);
}

}  // namespace emplace::agents
