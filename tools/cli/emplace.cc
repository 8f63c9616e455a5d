// emplace: device placement of neural-network training graphs, and the simulator that evaluates placements.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/json_text.h"
#include "sim/base/suggestion.h"
#include "sim/base/terminal.h"
#include "sim/base/vector_targets.h"
#include "tools/cli/commands.h"
#include "tools/cli/examples.h"
#include "tools/cli/numbers.h"

namespace emplace::tools {
namespace {

constexpr const char* kExitStatuses =
    "Exit status: 0 done; 1 a negative answer, such as no placement that fits; 2 invalid input; 70 a bug in emplace; "
    "71 "
    "out of "
    "memory;\n"
    "128 + N if signal N ended it.\n"
    "Files: `-` is standard input or output; a name that ends in .gz is compressed.";

int Complain(int status, std::string_view line) {
  std::cout.flush();
  PrintMessage(line);
  return status;
}

// The first line of a library's message.
std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

int ReportBug(const std::exception& error) {
  return Complain(kBug, fmt::format("emplace: internal error: {} (please report this)", FirstLine(error.what())));
}

// Allocates no memory.
int PrintOutOfMemory() {
  std::fputs("emplace: out of memory\n", stderr);
  return kOutOfMemory;
}

// The exit status after an exception that no thread caught.
int UncaughtExitStatus() {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    return PrintOutOfMemory();
  } catch (...) {
    // As below.
  }
  std::fputs("emplace: internal error: an uncaught exception (please report this)\n", stderr);
  return kBug;
}

// The commands, and the parts of those that have parts, such as `list` of `emplace library`.
std::vector<CLI::App*> WithParts(const std::vector<Command>& commands) {
  std::vector<CLI::App*> all;
  for (const Command& command : commands) {
    all.push_back(command.app);
    for (CLI::App* const part : command.app->get_subcommands({})) all.push_back(part);
  }
  return all;
}

// An empty value is an error: it usually comes from an unset variable in a script.
void RefuseEmptyValues(CLI::App* command) {
  for (CLI::Option* const option : command->get_options()) {
    if (option->get_expected_max() > 0) option->check(NotEmpty());
  }
}

// Versions of CLI11 print captured default values in their own ways.
void DescribeDefaults(CLI::App* command) {
  for (CLI::Option* const option : command->get_options()) {
    const std::string value = option->get_default_str();
    if (value.empty()) continue;
    option->description(fmt::format("{} (default: {})", option->get_description(), value));
    option->default_str("");
  }
}

[[noreturn]] void RefuseCommand(const std::string& of, const char* given, const std::vector<std::string>& known) {
  throw InputError("", fmt::format("{}unknown command {} ({}){}", of, Quoted(given), fmt::join(known, ", "),
                                   DidYouMean(given, known)));
}

// The parts of a command: as CheckCommand.
void CheckPart(int argc, char** argv, const CLI::App& command) {
  std::vector<std::string> known;
  for (const CLI::App* const part : command.get_subcommands({})) {
    if (argc > 2 && part->get_name() == argv[2]) return;
    known.push_back(part->get_name());
  }
  const std::string& name = command.get_name();
  if (known.empty() || (argc > 2 && argv[2][0] == '-')) return;
  if (argc < 3) {
    throw InputError(
        "", fmt::format("{}: a command is missing ({}; emplace {} --help)", name, fmt::join(known, ", "), name));
  }
  RefuseCommand(name + ": ", argv[2], known);
}

// CLI11's own message only says that a sub-command is required.
void CheckCommand(int argc, char** argv, const std::vector<Command>& commands) {
  std::vector<std::string> known;
  for (const Command& command : commands) {
    if (argc > 1 && command.app->get_name() == argv[1]) return CheckPart(argc, argv, *command.app);
    if (command.app->get_group().empty()) continue;  // hidden
    known.push_back(command.app->get_name());
  }
  if (argc < 2) throw InputError("", fmt::format("a command is missing ({}; emplace --help)", fmt::join(known, ", ")));
  if (argv[1][0] == '-') return;
  RefuseCommand("", argv[1], known);
}

// The unknown arguments, and the option that the first one may be meant to be.
std::string UnknownText(const CLI::App& app, const CLI::App* chosen) {
  const std::vector<std::string> unknown = app.remaining(true);  // the parser lists them from the last to the first
  std::vector<std::string> known;
  while (chosen != nullptr && !chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  for (const CLI::Option* const option :
       chosen != nullptr ? chosen->get_options() : std::vector<const CLI::Option*>()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const auto first = std::find_if(unknown.begin(), unknown.end(),
                                  [](const std::string& argument) { return argument.starts_with("--"); });
  const std::string name = first == unknown.end() ? "" : first->substr(0, first->find('='));
  return fmt::format("unknown: {}{}", fmt::join(unknown, " "), DidYouMean(name, known));
}

// The parser's own message, in the terms of the other messages.
std::string InOurWords(const CLI::App& app, const CLI::App* chosen, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return UnknownText(app, chosen);
  std::string text = error.what();
  // An option that is missing may be one that is misspelt.
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && app.remaining_size(true) > 0) {
    return fmt::format("{}; {}", text, UnknownText(app, chosen));
  }
  constexpr std::string_view kOnce = ": At Most 1 required but received ";
  if (const std::size_t found = text.find(kOnce); found != std::string::npos) {
    text = fmt::format("{}: is given {} times (once)", text.substr(0, found), text.substr(found + kOnce.size()));
  }
  return text;
}

struct NamedCommand {
  std::string_view name;
  Command (*add)(CLI::App& app);
};
constexpr NamedCommand kCommands[] = {
    {"import", AddImport},       {"export", AddExport},         {"generate", AddGenerate},
    {"transform", AddTransform}, {"dataset", AddDataset},       {"inspect", AddInspect},
    {"simulate", AddSimulate},   {"bound", AddBound},           {"explain", AddExplain},
    {"diff", AddDiff},           {"what-if", AddWhatIf},        {"profile", AddProfile},
    {"calibrate", AddCalibrate}, {"measure", AddMeasure},       {"validate", AddValidate},
    {"place", AddPlace},         {"compare", AddCompare},       {"sweep", AddSweep},
    {"worker", AddWorker},       {"submit", AddSubmit},         {"status", AddStatus},
    {"dashboard", AddDashboard}, {"trial", AddTrial},           {"memory", AddMemory},
    {"plan", AddPlan},           {"replay", AddReplay},         {"report", AddReport},
    {"reproduce", AddReproduce}, {"library", AddLibrary},       {"list", AddList},
    {"config", AddConfig},       {"completion", AddCompletion}, {"statistics", AddStatistics},
};

// Adds only the command `name`, so that the program starts sooner. If there is no such command, or if it prints the
// others, adds all.
std::vector<Command> AddCommands(CLI::App& app, std::string_view name) {
  const bool is_alone =
      name != "completion" && std::ranges::find(kCommands, name, &NamedCommand::name) != std::end(kCommands);
  std::vector<Command> added;
  for (const NamedCommand& command : kCommands) {
    if (is_alone && command.name != name) continue;
    added.push_back(command.add(app));
    EMPLACE_CHECK(added.back().app->get_name() == command.name);
  }
  return added;
}

const CLI::App* running = nullptr;  // the command; null before it runs

int RunProgram(int argc, char** argv) {
  static CLI::App app(
      "Search and simulate device placements: which device should run each op of a training graph, and how long does a "
      "step take?");
  app.name("emplace");
  app.set_version_flag("--version", "emplace " EMPLACE_VERSION);
  app.require_subcommand(1);
  app.footer(kExitStatuses);
  const std::vector<Command> commands = AddCommands(app, argc > 1 ? argv[1] : "");
  for (CLI::App* const command : WithParts(commands)) {
    const std::string parent = command->get_parent() == &app ? "" : command->get_parent()->get_name() + " ";
    const std::string examples = ExamplesOf(parent + command->get_name());
    command->footer(examples + (examples.empty() ? "" : "\n") + kExitStatuses);
    RefuseEmptyValues(command);
    DescribeDefaults(command);
  }
  CheckCommand(argc, argv, commands);
  const auto chosen = [&commands] {
    return std::find_if(commands.begin(), commands.end(), [](const Command& c) { return c.app->parsed(); });
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked, std::cout, std::cerr);
  } catch (const CLI::ParseError& error) {
    const CLI::App* const command = chosen() == commands.end() ? nullptr : chosen()->app;
    const std::string name = command == nullptr ? "emplace" : "emplace " + command->get_name();
    return Complain(kBadInput, InOurWords(app, command, error) + (" (see " + name + " --help)"));
  }
  running = chosen()->app;
  while (!running->get_subcommands().empty()) running = running->get_subcommands().front();
  const int status = chosen()->run();
  if (!std::cout.flush()) throw InputError("-", "standard output cannot be written");
  return status;
}

// Below the command line, errors name a setting; here it is an option of the command that runs.
std::string WithDashes(std::string_view error) {
  std::string option(error.substr(0, error.find_first_of(": ")));
  std::ranges::replace(option, '_', '-');
  const bool is_option = running != nullptr && !option.empty() && option[0] != '-' &&
                         running->get_option_no_throw("--" + option) != nullptr;
  return is_option ? "--" + option + std::string(error.substr(option.size())) : std::string(error);
}

int Main(int argc, char** argv) {
  try {
    HoldStandardDescriptors();
    ChooseVectorTargetByEnvironment();
    if (argc > 1 && std::string_view(argv[1]) == "help") {  // help COMMAND is COMMAND --help
      std::vector<char*> asked = {argv[0]};
      asked.insert(asked.end(), argv + 2, argv + argc);
      std::string help = "--help";
      asked.push_back(help.data());
      return RunProgram(static_cast<int>(asked.size()), asked.data());
    }
    return RunProgram(argc, argv);
  } catch (const InputError& error) {
    // Readers name their file, which is "-" for standard input.
    const std::string_view text = error.what();
    const bool of_stream = text.starts_with("-: ") && text.find("standard ") == std::string_view::npos;
    return Complain(kBadInput, of_stream ? fmt::format("standard input{}", text.substr(1)) : WithDashes(text));
  } catch (const std::filesystem::filesystem_error& error) {
    // Users' paths can fail: a name that is too long, a link to itself, a folder without read permission.
    const InputError named(error.path1().string(), "cannot be used (" + error.code().message() + ")");
    return Complain(kBadInput, named.what());
  } catch (const std::bad_alloc&) {
    return PrintOutOfMemory();
  } catch (const std::system_error& error) {
    // Limits of the machine, most often on threads.
    if (error.code() == std::errc::resource_unavailable_try_again) {
      return Complain(kBadInput,
                      "emplace: no further thread or process can be started (a higher limit: ulimit -u, ulimit -v)");
    }
    return Complain(kBadInput,
                    fmt::format("emplace: the operating system refused a request ({})", error.code().message()));
  } catch (const std::exception& error) {
    return ReportBug(error);
  }
}

}  // namespace
}  // namespace emplace::tools

int main(int argc, char** argv) {
  // Exceeding the file size limit (ulimit -f) is then reported as a write error.
  std::signal(SIGXFSZ, SIG_IGN);
  // Handles exceptions that escape from a thread of a search.
  std::set_terminate([] { std::_Exit(emplace::tools::UncaughtExitStatus()); });
  return emplace::tools::Main(argc, argv);
}
