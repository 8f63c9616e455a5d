#include "agents/objective.h"

#include <string>

#include "sim/base/registry.h"

namespace emplace::agents {

void ReadStageCostOptions(OptionReader& reader, StageCostOptions* options) {
  std::string crossing = "direct";
  std::string memory = "all";
  reader.Read("crossing", &crossing, {"direct", "host"},
              "links that values cross: between accelerators, or to the CPUs");
  reader.Read("memory", &memory, {"all", "persistent", "none"}, "bytes of an op that count against a device's memory");
  if (crossing == "host") options->link = CrossingLink::kHost;
  if (memory == "persistent") options->memory = StageMemory::kPersistent;
  if (memory == "none") options->memory = StageMemory::kNone;
}

std::span<const ObjectiveEntry> AllObjectives() {
  static constexpr ObjectiveEntry kObjectives[] = {
      {.name = "step_time", .summary = "The time of one step.", .source = "the engine, or the schedule"},
      {.name = "throughput",
       .summary = "The largest load of a device: the time per micro-batch of a pipeline.",
       .source = "Tarnawski et al. 2020 (dnn-partitioning, throughput)",
       .read = [](OptionReader& reader, Objective* objective) { ReadStageCostOptions(reader, &objective->load); }},
  };
  return kObjectives;
}

Objective ParseObjective(std::string_view text) {
  if (text.empty()) return {};
  const ObjectiveEntry& entry = FindByName(AllObjectives(), text.substr(0, text.find(':')), "objective");
  const NamedOptions named = ParseNamedOptions(text);
  OptionReader reader(named.options, std::string(entry.name));
  Objective objective{.name = entry.name};
  if (entry.read != nullptr) entry.read(reader, &objective);
  reader.Finish();
  return objective;
}

}  // namespace emplace::agents
