#ifndef EMPLACE_TOOLS_CLI_COMMANDS_H_
#define EMPLACE_TOOLS_CLI_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <functional>

namespace emplace::tools {

// Runs a command once its options are read; returns the exit status, throws InputError on bad input.
using Action = std::function<int()>;

// Each Add function adds one command with its options to `app`. The options live as long as the action.
struct Command {
  CLI::App* app = nullptr;
  Action run;
};
Command AddImport(CLI::App& app);
Command AddExport(CLI::App& app);
Command AddGenerate(CLI::App& app);
Command AddTransform(CLI::App& app);
Command AddDataset(CLI::App& app);
Command AddInspect(CLI::App& app);
Command AddSimulate(CLI::App& app);
Command AddBound(CLI::App& app);
Command AddMemory(CLI::App& app);
Command AddPlan(CLI::App& app);
Command AddExplain(CLI::App& app);
Command AddDiff(CLI::App& app);
Command AddWhatIf(CLI::App& app);
Command AddPlace(CLI::App& app);
Command AddProfile(CLI::App& app);
Command AddCalibrate(CLI::App& app);
Command AddMeasure(CLI::App& app);
Command AddValidate(CLI::App& app);
Command AddCompare(CLI::App& app);
Command AddReplay(CLI::App& app);
Command AddReport(CLI::App& app);
Command AddSweep(CLI::App& app);
Command AddTrial(CLI::App& app);
Command AddWorker(CLI::App& app);
Command AddStatus(CLI::App& app);
Command AddDashboard(CLI::App& app);
Command AddSubmit(CLI::App& app);
Command AddStatistics(CLI::App& app);
Command AddReproduce(CLI::App& app);
Command AddLibrary(CLI::App& app);
Command AddList(CLI::App& app);
Command AddConfig(CLI::App& app);
Command AddCompletion(CLI::App& app);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_COMMANDS_H_
