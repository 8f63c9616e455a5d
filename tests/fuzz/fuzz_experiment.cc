// An experiment with its sweep expanded gives cells, or InputError. In a fuzzer agents and instances of the library are
// stubs: the real ones would be most of what is to be compiled.
#include <array>

#include "agents/agent.h"
#include "agents/named_placement.h"
#include "experiments/library/instances.h"
#include "experiments/plan/experiment.h"
#include "tests/fuzz/round_trip.h"

#ifdef EMPLACE_FUZZ
namespace emplace::agents {
namespace {

std::unique_ptr<Agent> MakeNone(OptionReader& reader, const AgentContext&) {
  double rate = 0.5;
  reader.Read("rate", &rate, 0, 1, "");
  reader.Finish();
  return nullptr;
}

constexpr std::array<AgentEntry, 2> kAgents = {{{.name = "annealing",
                                                 .summary = "",
                                                 .source = "",
                                                 .make = MakeNone,
                                                 .grouping = "merge_and_colocate",
                                                 .default_evaluations = 5000},
                                                {.name = "random", .summary = "", .source = "", .make = MakeNone}}};

}  // namespace

const AgentEntry& FindAgent(std::string_view name) {
  for (const AgentEntry& entry : kAgents) {
    if (entry.name == name) return entry;
  }
  throw InputError("", "unknown agent");
}
std::unique_ptr<Agent> MakeAgent(std::string_view name, const OptionMap& options, const AgentContext& context) {
  OptionReader reader(options, std::string(name));
  return FindAgent(name).make(reader, context);
}
std::vector<std::string_view> PlacementNames() { return {kBestPlacement}; }

}  // namespace emplace::agents

namespace emplace::experiments {

const LibraryInstance& FindInstance(std::string_view name) {
  static const LibraryInstance instance = [] {
    LibraryInstance made;
    made.name = "chain-8-equal-2";
    return made;
  }();
  if (name != instance.name) throw InputError("", "unknown instance");
  return instance;
}

}  // namespace emplace::experiments

#endif  // EMPLACE_FUZZ

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream in(emplace::fuzz::Text(data, size));
  try {
    const emplace::experiments::ExperimentSpec experiment = emplace::experiments::ReadExperiment(in, "FILE");
    emplace::fuzz::Expect(!experiment.cells.empty() && !experiment.name.empty(), "no cell or no name", "");
    for (const emplace::experiments::ExperimentCell& cell : experiment.cells) {
      emplace::fuzz::Expect(!cell.agent.empty() && !cell.label.empty(), "no agent", experiment.name);
      emplace::fuzz::Expect((cell.evaluations == 0) != (cell.episodes == 0), "no budget", experiment.name);
      emplace::fuzz::Expect(!cell.seeds.empty() && cell.costs.model.empty() != cell.costs.profile.empty(),
                            "no seed or no costs", experiment.name);
    }
  } catch (const emplace::InputError& error) {
    emplace::fuzz::CheckMessage(error, "FILE");
  }
  return 0;
}
