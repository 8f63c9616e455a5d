// emplace completion: scripts with which shells complete commands, options and names.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agents/agent.h"
#include "agents/settings.h"
#include "datasets/families/families.h"
#include "datasets/importers/registry.h"
#include "datasets/models/registry.h"
#include "datasets/shipped_clusters.h"
#include "experiments/library/instances.h"
#include "sim/base/exit_status.h"
#include "sim/base/registry.h"
#include "sim/cost_model.h"
#include "tools/cli/commands.h"

namespace emplace::tools {
namespace {

using Names = std::vector<std::string>;

// The names that an option or an argument may have, beside files; empty: none are known.
Names ValuesOf(const std::string& command, const std::string& option) {
  static const std::map<std::string, Names> known = [] {
    std::map<std::string, Names> names;
    for (const agents::Setting& setting : agents::AllSettings()) {
      const std::string name = PlaceOf(setting, agents::Door::kCommandLine);
      if (setting.known != nullptr) names[name] = setting.known->names();
      for (const std::string_view word : setting.words) names[name].emplace_back(word);
    }
    names["--cluster"] = NamesOf(datasets::AllShippedClusters());
    names["--agents"] = names["--agent"];
    names["--costs"] = {"curves", "measured", "roofline"};
    names["generate model"] = NamesOf(datasets::AllModelNames());
    names["dataset family"] = NamesOf(datasets::AllFamilies());
    names["import --from"] = NamesOf(datasets::AllImporters());
    names["score agent"] = names["--agent"];
    names["show name"] = NamesOf(experiments::LibraryInstances());
    return names;
  }();
  for (const std::string& key : {command + " " + option, option}) {
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  return {};
}

// The first sentence of a help text, without the hints behind it.
std::string Short(const std::string& help) {
  const std::string first = help.substr(0, help.find_first_of(";:("));
  return first.substr(0, first.find_last_not_of(' ') + 1);
}

// Whether the value of an option may be the path of a file or a folder.
bool TakesPath(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return std::ranges::any_of(std::initializer_list<const char*>{"FILE", "DIR", "KINETO", "TRACE", "RUNS", "PREFIX"},
                             [&](const char* path) { return type.find(path) != std::string::npos; });
}

// A word of a shell, in single quotes.
std::string Quote(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

struct Part {
  std::string path;  // "library show"
  const CLI::App* app = nullptr;
};

// Commands and their parts, those that are hidden aside.
std::vector<Part> PartsOf(const CLI::App& program) {
  std::vector<Part> parts;
  for (const CLI::App* const command : program.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;
    parts.push_back({command->get_name(), command});
    for (const CLI::App* const part : command->get_subcommands([](const CLI::App*) { return true; })) {
      parts.push_back({command->get_name() + " " + part->get_name(), part});
    }
  }
  return parts;
}

Names SubcommandsOf(const CLI::App& app) {
  Names names;
  for (const CLI::App* const part : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!part->get_group().empty()) names.push_back(part->get_name());
  }
  return names;
}

Names OptionsOf(const CLI::App& app) {
  Names names;
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Names that come first as an argument: parts of a command, or what its arguments may be.
Names ArgumentsOf(const CLI::App& app) {
  Names names = SubcommandsOf(app);
  for (const CLI::Option* const option : app.get_options()) {
    if (!option->get_positional()) continue;
    const Names values = ValuesOf(app.get_name(), option->get_name(true));
    names.insert(names.end(), values.begin(), values.end());
  }
  if (app.get_name() == "list") {
    names = {"agents",    "models",     "datasets", "devices",  "clusters",    "engines",
             "schedules", "objectives", "rewards",  "groupers", "cost-models", "importers"};
  }
  return names;
}

// Completes by the words of the command line before the cursor: the value of an option, else options and names; files
// where nothing else is known. zsh reads the same script.
void PrintBash(std::ostream& out, const CLI::App& program) {
  out << "# bash completion of emplace: source <(emplace completion bash)\n"
         "_emplace() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} words=\n"
         "  case $command in library) ((COMP_CWORD > 2)) && command=\"$command ${COMP_WORDS[2]}\" ;; esac\n"
         "  if ((COMP_CWORD == 1)); then\n";
  out << fmt::format("    words={}\n",
                     Quote(fmt::format("{} help --help --version", fmt::join(SubcommandsOf(program), " "))));
  out << "  else\n    case \"$command $before\" in\n";
  for (const Part& part : PartsOf(program)) {
    for (const std::string& option : OptionsOf(*part.app)) {
      const Names values = ValuesOf(part.app->get_name(), option);
      if (values.empty()) continue;
      out << fmt::format("      {}) words={} ;;\n", Quote(part.path + " " + option),
                         Quote(fmt::format("{}", fmt::join(values, " "))));
    }
  }
  out << "      *) case $command in\n";
  out << fmt::format("        help) words={} ;;\n", Quote(fmt::format("{}", fmt::join(SubcommandsOf(program), " "))));
  for (const Part& part : PartsOf(program)) {
    out << fmt::format("        {}) if [[ $word == -* ]]; then words={}; else words={}; fi ;;\n", Quote(part.path),
                       Quote(fmt::format("{}", fmt::join(OptionsOf(*part.app), " "))),
                       Quote(fmt::format("{}", fmt::join(ArgumentsOf(*part.app), " "))));
  }
  out << "      esac ;;\n    esac\n  fi\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "  [[ $word == -* ]] || COMPREPLY+=($(compgen -f -- \"$word\"))\n"
         "}\n"
         "complete -o filenames -o bashdefault -F _emplace emplace\n";
}

void PrintZsh(std::ostream& out, const CLI::App& program) {
  out << "#compdef emplace\n# zsh completion of emplace: source <(emplace completion zsh)\n"
         "autoload -U +X compinit && compinit -u\nautoload -U +X bashcompinit && bashcompinit\n";
  PrintBash(out, program);
}

void PrintFish(std::ostream& out, const CLI::App& program) {
  out << "# fish completion of emplace: emplace completion fish | source\n";
  for (const CLI::App* const command : program.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;
    out << fmt::format("complete -c emplace -n __fish_use_subcommand -f -a {} -d {}\n", command->get_name(),
                       Quote(Short(command->get_description())));
  }
  for (const Part& part : PartsOf(program)) {
    const std::string seen = Quote("__fish_seen_subcommand_from " + part.app->get_name());
    if (const Names names = ArgumentsOf(*part.app); !names.empty()) {
      out << fmt::format("complete -c emplace -n {} -a {}\n", seen, Quote(fmt::format("{}", fmt::join(names, " "))));
    }
    for (const CLI::Option* const option : part.app->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        const Names values = ValuesOf(part.app->get_name(), "--" + name);
        const char* const takes = option->get_expected_max() == 0 ? "" : TakesPath(*option) ? " -r" : " -x";
        out << fmt::format("complete -c emplace -n {} -l {}{}{} -d {}\n", seen, name, takes,
                           values.empty() ? "" : " -a " + Quote(fmt::format("{}", fmt::join(values, " "))),
                           Quote(Short(option->get_description())));
      }
    }
  }
}

}  // namespace

Command AddCompletion(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("completion", "Print a shell script that completes commands, options and names");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->type_name("SHELL")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
  return {command, [shell, &app] {
            (*shell == "fish" ? PrintFish : *shell == "zsh" ? PrintZsh : PrintBash)(std::cout, app);
            return kSuccess;
          }};
}

}  // namespace emplace::tools
