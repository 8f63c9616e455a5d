// An experiment with its sweep expanded gives cells, or InputError.
#include "experiments/plan/experiment.h"
#include "tests/fuzz/round_trip.h"

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
