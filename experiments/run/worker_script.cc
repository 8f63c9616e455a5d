#include "experiments/run/worker_script.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string_view>
#include <system_error>

#include "experiments/run/plan_file.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"

namespace emplace::experiments {
namespace {

namespace fs = std::filesystem;

// A word of a POSIX shell.
std::string ShellQuoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + "'";
}

// A word of a #SBATCH line, which sbatch splits at blanks outside quotes.
std::string SbatchQuoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=.,:/@%+*[]&|!~^(){}<>?$;";
  if (word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') quoted.push_back('\\');
    quoted.push_back(c);
  }
  return quoted + "\"";
}

bool IsGiven(const WorkerScript& script, std::string_view name) {
  return std::any_of(script.sbatch_options.begin(), script.sbatch_options.end(),
                     [name](const std::string& line) { return line.substr(0, line.find_first_of("= ")) == name; });
}

// Without the folder, which is quoted.
std::string WorkerCommand(const WorkerScript& script, const std::string& jobs) {
  std::string command =
      fmt::format("exec {} worker {} --jobs {}", ShellQuoted(script.program), ShellQuoted(script.folder), jobs);
  if (script.lease_seconds > 0) command += " --lease " + NumberText(script.lease_seconds);
  return command + "\n";
}

std::string LogsOf(const WorkerScript& script) { return (fs::path(script.folder) / kWorkersFolder).string(); }

struct Piped {
  int status = 0;
  std::string output;  // output of both streams
};

Piped RunCommand(const std::string& command) {
  Piped result;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "re");
  if (pipe == nullptr) throw InputError("", "no process for sbatch (" + std::generic_category().message(errno) + ")");
  std::array<char, 4096> buffer{};
  for (std::size_t count = 0; (count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    result.output.append(buffer.data(), count);
  }
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  while (!result.output.empty() && result.output.back() == '\n') result.output.pop_back();
  return result;
}

}  // namespace

std::vector<std::string> SbatchLines(const std::vector<std::string>& words) {
  std::vector<std::string> lines;
  for (const std::string& word : words) {
    if (Printable(word) != word || word.find_first_of("\n#") != std::string::npos) {
      throw InputError("slurm", fmt::format("{} is not an option of sbatch (printable text without #)", Quoted(word)));
    }
    if (word.starts_with('-') && word != "-" && word != "--") {
      lines.push_back(SbatchQuoted(word));
    } else if (lines.empty()) {
      throw InputError("", fmt::format("unknown: {} (see emplace submit --help)", word));
    } else {
      lines.back() += " " + SbatchQuoted(word);
    }
  }
  return lines;
}

std::string SlurmScript(const WorkerScript& script) {
  std::string text = "#!/bin/sh\n";
  const auto add = [&text](const std::string& line) { text += "#SBATCH " + line + "\n"; };
  add(SbatchQuoted("--job-name=emplace-" + script.experiment));
  add(fmt::format("--array=1-{}", script.workers));
  add("--ntasks=1");
  if (!IsGiven(script, "-c") && !IsGiven(script, "--cpus-per-task")) {
    add(fmt::format("--cpus-per-task={}", script.jobs));
  }
  add("--requeue");
  add("--open-mode=append");
  add(SbatchQuoted(fmt::format("--output={}/%A_%a.log", LogsOf(script))));
  for (const std::string& line : script.sbatch_options) add(line);
  text += "# A stopped worker (SIGTERM) saves checkpoints; a requeued one goes on where it was.\n";
  return text + WorkerCommand(script, fmt::format("\"${{SLURM_CPUS_PER_TASK:-{}}}\"", script.jobs));
}

std::string ShellScript(const WorkerScript& script) {
  return fmt::format(
             "#!/bin/sh\n"
             "# One worker of {}: start it {}. Workers may start and end at any time.\n"
             "# SIGTERM saves checkpoints. What is left: emplace status {}\n",
             script.experiment,
             script.workers == 1 ? "once on each machine" : fmt::format("{} times, on any machines", script.workers),
             ShellQuoted(script.folder)) +
         WorkerCommand(script, std::to_string(script.jobs));
}

std::string FindSbatch() {
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const fs::path file = fs::path(rest.substr(0, end)) / "sbatch";
    std::error_code ignored;
    if (end > 0 && fs::is_regular_file(file, ignored)) return file.string();
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  throw InputError("slurm", "there is no sbatch in PATH (Slurm's client; --print shows the script)");
}

std::string SubmitToSlurm(const WorkerScript& script, const std::string& text) {
  const std::string file = (fs::path(script.folder) / "workers.sh").string();
  std::error_code error;
  fs::create_directories(LogsOf(script), error);  // sbatch does not make the folder of --output
  if (error) throw InputError(LogsOf(script), "cannot be created (" + error.message() + ")");
  WriteFile(file, [&text](std::ostream& out) { out << text; });
  const Piped ran = RunCommand(ShellQuoted(FindSbatch()) + " --parsable " + ShellQuoted(file));
  const std::string last = ran.output.substr(ran.output.rfind('\n') + 1);
  if (ran.status != 0) throw InputError("sbatch", last.empty() ? "failed" : last);
  return last.substr(0, last.find(';'));
}

}  // namespace emplace::experiments
