#include "tools/cli/library_score.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <new>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "agents/agent.h"
#include "agents/search.h"
#include "experiments/library/instances.h"
#include "experiments/library/known_results.h"
#include "experiments/library/library_files.h"
#include "experiments/library/score/library_score.h"
#include "experiments/plan/checked_json.h"
#include "experiments/report/html.h"
#include "experiments/version.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/fingerprint.h"
#include "sim/base/json_build.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_text.h"
#include "sim/base/progress.h"
#include "sim/base/table.h"
#include "sim/base/terminal.h"
#include "sim/base/units.h"
#include "sim/simulator.h"
#include "tools/cli/commands.h"
#include "tools/cli/problem.h"
#include "tools/cli/search.h"

namespace emplace::tools {
namespace {

namespace fs = std::filesystem;
using experiments::BudgetResult;
using experiments::InstanceScore;
using experiments::LibraryInstance;
using experiments::LibraryProblem;
using experiments::LibraryScores;

// Measured times on one instance: times.json.
struct InstanceTimes {
  std::string instance;
  std::vector<double> seconds;     // duration of the search for each budget
  double seconds_limit = 0;        // duration of the search with a time limit; 0: there was none
  BudgetResult by_the_clock = {};  // its result

  static void Fields(auto& visit, auto& self) {
    visit("instance", self.instance);
    visit("seconds", self.seconds);
    visit("seconds_limit", self.seconds_limit);
    visit("by_the_clock", self.by_the_clock);
  }
};

// The results on one instance, in a separate file, which is used if `key` is that of the options.
struct InstanceFile {
  std::string key;
  InstanceScore score;
  InstanceTimes times;

  static void Fields(auto& visit, auto& self) {
    visit("key", self.key);
    visit("score", self.score);
    visit("times", self.times);
  }
};

std::string LabelOf(const ScoreOptions& options) {
  if (!options.label.empty()) return options.label;
  std::string label = options.agent;
  for (const auto& [key, value] : ParseSettings(options.settings)) label += fmt::format(" {}={}", key, value);
  return label;
}

std::string ProgramText() { return fmt::format("{} ({})", experiments::Version(), experiments::Revision()); }

std::string KeyOf(const ScoreOptions& options, const LibraryInstance& instance) {
  std::string text = fmt::format("{} {} {} {} {} {}", ProgramText(), instance.name, instance.hash, options.agent,
                                 options.seed, options.seconds);
  for (const auto& [key, value] : ParseSettings(options.settings)) text += fmt::format(" {}={}", key, value);
  for (const std::uint64_t budget : options.budgets) text += fmt::format(" {}", budget);
  return FingerprintText(text);
}

class InstanceScorer {
 public:
  InstanceScorer(const ScoreOptions& options, const LibraryInstance& instance)
      : options_(options),
        instance_(instance),
        entry_(agents::FindAgent(options.agent)),
        problem_(experiments::LoadFrozenInstance(instance)),
        simulator_(problem_.graph, problem_.cluster, problem_.costs,
                   {.engine = std::string(experiments::kLibraryEngine)}) {}

  InstanceFile Run() {
    InstanceFile file{.key = KeyOf(options_, instance_),
                      .score = {.instance = instance_.name, .hash = instance_.hash, .results = {}, .trace = {}},
                      .times = {.instance = instance_.name, .seconds = {}}};
    for (const std::uint64_t budget : options_.budgets) {
      // A heuristic with one placement gives the same with every budget.
      if (IsOneShot() && !file.score.results.empty()) {
        file.score.results.push_back(file.score.results.front());
        file.score.results.back().budget = budget;
        file.times.seconds.push_back(file.times.seconds.front());
        continue;
      }
      const auto started = Clock::now();
      const agents::SearchResult result = SearchUnlessRefused(budget, {}, &file.score.refused);
      file.times.seconds.push_back(std::chrono::duration<double>(Clock::now() - started).count());
      file.score.results.push_back(ResultOf(result, budget));
      file.score.trace.clear();
      for (const auto& [evaluations, micros] : result.trace) {
        file.score.trace.emplace_back(evaluations, Nanos(micros));
      }
    }
    if (options_.seconds > 0) {
      file.times.seconds_limit = options_.seconds;
      const std::size_t budget =
          IsOneShot() ? 1
                      : EvaluationsIn(options_.seconds, 1, entry_, simulator_,
                                      OnOneDevice(problem_.graph, problem_.cluster, problem_.costs, simulator_));
      const auto started = Clock::now();
      const double limit = options_.seconds;
      const agents::SearchResult result = Search(
          budget, [started, limit] { return std::chrono::duration<double>(Clock::now() - started).count() >= limit; });
      file.times.by_the_clock = ResultOf(result, budget);
    }
    return file;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static std::uint64_t Nanos(double micros) { return static_cast<std::uint64_t>(DurationFromMicros(micros).count()); }

  bool IsOneShot() const { return !entry_.searches(); }

  static BudgetResult ResultOf(const agents::SearchResult& result, std::uint64_t budget) {
    return {.budget = budget,
            .evaluations = result.evaluations,
            .step_time_ns = result.best ? Nanos(result.best_result.step_time_micros) : 0,
            .found = result.best.has_value()};
  }

  // An agent may not be able to place an instance, as cpu_only without a CPU: then it finds nothing there.
  agents::SearchResult SearchUnlessRefused(std::uint64_t budget, const std::function<bool()>& stop,
                                           std::string* refused) const {
    const bool has_cpu = std::any_of(problem_.cluster.devices().begin(), problem_.cluster.devices().end(),
                                     [](const Device& device) { return device.is_cpu; });
    if (entry_.needs_cpu && !has_cpu) {
      *refused = "the cluster has no CPU";
      return {};
    }
    try {
      return Search(budget, stop);
    } catch (const InputError& error) {
      *refused = error.what();
      return {};
    }
  }

  agents::SearchResult Search(std::uint64_t budget, const std::function<bool()>& stop) const {
    agents::SearchSpec spec{{}, {.graph = problem_.graph, .cluster = problem_.cluster, .costs = problem_.costs}};
    spec.engine = experiments::kLibraryEngine;
    spec.agent = options_.agent;
    spec.agent_options = ParseSettings(options_.settings);
    spec.evaluations = IsOneShot() ? 0 : static_cast<std::size_t>(budget);
    spec.seed = options_.seed;
    spec.simulator = &simulator_;
    spec.stop = stop;
    return agents::RunSearch(spec);
  }

  const ScoreOptions& options_;
  const LibraryInstance& instance_;
  const agents::AgentEntry& entry_;
  LibraryProblem problem_;
  Simulator simulator_;
};

std::vector<const LibraryInstance*> ChosenInstances(const ScoreOptions& options) {
  std::vector<experiments::Tier> tiers;
  for (const std::string& tier : options.tiers) {
    tiers.push_back(WithLocation("--tier", [&] { return experiments::FindTier(tier); }));
  }
  for (const std::string& name : options.instances)
    WithLocation("--instances", [&] { experiments::FindInstance(name); });
  const auto contains = [](const auto& list, const auto& value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  };
  std::vector<const LibraryInstance*> chosen;
  for (const LibraryInstance& instance : experiments::LibraryInstances()) {
    if (!contains(tiers, instance.tier) || !contains(options.instances, instance.name)) continue;
    if (experiments::FindKnownResult(instance.name) == nullptr) {
      PrintMessage(instance.name + ": left out, nothing is known to compare with");
    } else {
      chosen.push_back(&instance);
    }
  }
  if (chosen.empty()) throw InputError("", "no instance is chosen (--tier and --instances)");
  return chosen;
}

// The file of an instance that is done with these options.
std::optional<InstanceFile> Finished(const std::string& path, const std::string& key) {
  if (!fs::exists(path)) return std::nullopt;
  try {
    const JsonValue root = experiments::ReadJsonFile(path);
    InstanceFile file = ReadFields<InstanceFile>(JsonNode(root));
    return file.key == key ? std::optional(std::move(file)) : std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;  // a file of another version, or a damaged one; the instance is run again
  }
}

// Processes that each score one instance: partitioners keep random numbers in global variables, which the instances
// before would have changed.
class ScorePool {
 public:
  explicit ScorePool(const ScoreOptions& options) : options_(options) {
    if (pipe2(failure_pipe_.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
      throw InputError("", "no pipe for the searches (" + std::generic_category().message(errno) + ")");
    }
  }
  ~ScorePool() {
    for (const auto& [pid, name] : running_) kill(pid, SIGKILL);
    while (!running_.empty()) Reap();
    for (const int end : failure_pipe_) close(end);
  }
  ScorePool(const ScorePool&) = delete;
  ScorePool& operator=(const ScorePool&) = delete;

  std::size_t running() const { return running_.size(); }

  void Start(const LibraryInstance& instance, const std::string& path) {
    std::cout.flush();
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0) throw InputError("", "no further process can be started");
    if (pid > 0) {
      running_[pid] = instance.name;
      return;
    }
    int status = kBug;
    try {
      const InstanceFile file = InstanceScorer(options_, instance).Run();
      experiments::WriteJsonFile(path, {FieldsToJson(file)});
      status = kSuccess;
    } catch (const InputError& error) {
      SendFailure(instance.name + ": " + error.what());
      status = kBadInput;
    } catch (const std::bad_alloc&) {
      SendFailure(instance.name + ": out of memory");
      status = kOutOfMemory;
    } catch (const std::exception& error) {
      SendFailure(fmt::format("{}: internal error: {} (please report this)", instance.name, error.what()));
    }
    std::fflush(nullptr);
    _exit(status);
  }

  // Prints the message of the first process that failed: on a full disk all of them fail.
  void PrintFailure() const {
    std::array<char, kMostMessage> text{};
    const ssize_t count = read(failure_pipe_[0], text.data(), text.size());
    const std::string_view message(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
    if (!message.empty()) PrintMessage(message.substr(0, message.find('\0')));
  }

  // Waits for one to end; returns its status, 128 + signal if it was killed.
  int Reap() {
    int status = 0;
    pid_t pid = -1;
    do {
      pid = waitpid(-1, &status, 0);
    } while (pid < 0 && errno == EINTR);
    running_.erase(pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  static constexpr std::size_t kMostMessage = 4096;  // largest atomic write to a pipe

  // A NUL ends the line.
  void SendFailure(std::string line) const {
    line.resize(std::min(line.size(), kMostMessage - 1));
    if (write(failure_pipe_[1], line.c_str(), line.size() + 1) < 0) PrintMessage(line);
  }

  const ScoreOptions& options_;
  std::map<pid_t, std::string> running_;
  std::array<int, 2> failure_pipe_{};
};

// Scores every instance that is not done. Returns the first status that is not 0.
int ScoreAll(const ScoreOptions& options, const std::vector<const LibraryInstance*>& instances,
             const std::vector<std::string>& paths) {
  const std::size_t jobs = options.jobs > 0 ? options.jobs : std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    if (!Finished(paths[i], KeyOf(options, *instances[i]))) open.push_back(i);
  }
  Progress progress(options.agent);
  ScorePool pool(options);
  std::size_t next = 0;
  std::size_t done = instances.size() - open.size();
  while (next < open.size() || pool.running() > 0) {
    if (next < open.size() && pool.running() < jobs) {
      pool.Start(*instances[open[next]], paths[open[next]]);
      ++next;
      continue;
    }
    if (const int status = pool.Reap(); status != kSuccess) {
      pool.PrintFailure();
      return status;
    }
    progress.Show({.done = ++done, .total = instances.size(), .things = "instances"});
  }
  return kSuccess;
}

// The scores of other searchers: those in the folder, and of the others those of the library.
std::vector<LibraryScores> OtherScores(const fs::path& folder, const std::string& own_folder,
                                       const std::string& own_label) {
  std::vector<LibraryScores> others;
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path file = entry.path() / "scores.json";
    if (entry.path().filename() != own_folder && fs::exists(file)) files.push_back(file.string());
  }
  std::sort(files.begin(), files.end());
  const auto is_new = [&](const LibraryScores& scores) {
    return scores.label != own_label && std::none_of(others.begin(), others.end(), [&](const LibraryScores& other) {
             return other.label == scores.label;
           });
  };
  for (const std::string& file : files) {
    const auto in = OpenForReading(file, InputKind::kMeasurement);
    LibraryScores scores = experiments::ReadLibraryScores(*in, file);
    if (is_new(scores)) others.push_back(std::move(scores));
  }
  for (const auto& [name, text] : experiments::LibraryScoreFiles()) {
    std::istringstream in{std::string(text)};
    LibraryScores scores = experiments::ReadLibraryScores(in, std::string(name));
    if (is_new(scores)) others.push_back(std::move(scores));
  }
  return others;
}

void PrintScores(const ScoreOptions& options, const LibraryScores& own, const std::vector<LibraryScores>& others) {
  std::vector<std::string> header = {"tier", "searcher", "instances"};
  for (const std::uint64_t budget : options.budgets) header.push_back(fmt::format("gap % at {}", budget));
  header.insert(header.end(), {"primal integral %", "nothing found", "records"});
  Table table(header);
  for (const auto& [tier, scores] : experiments::CompareScores(own, others)) {
    for (const experiments::TierScore& score : scores) {
      std::vector<std::string> row = {tier, score.label, std::to_string(score.instances)};
      for (const std::optional<double>& gap : score.gaps) row.push_back(gap ? fmt::format("{:.2f}", *gap) : "-");
      row.insert(row.end(), {fmt::format("{:.2f}", score.primal_integral), std::to_string(score.not_found),
                             std::to_string(score.records)});
      table.Add(row);
    }
  }
  table.PrintText(std::cout);
}

}  // namespace

std::string ScoreFolder(std::string label) {
  std::replace_if(
      label.begin(), label.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-' && c != '=' && c != '_'; }, '_');
  return label.front() == '.' ? "_" + label : label;
}

int RunScore(const ScoreOptions& given) {
  ScoreOptions options = given;
  std::sort(options.budgets.begin(), options.budgets.end());
  options.budgets.erase(std::unique(options.budgets.begin(), options.budgets.end()), options.budgets.end());
  WithLocation("AGENT", [&] { agents::FindAgent(options.agent); });
  agents::MakeAgent(options.agent, ParseSettings(options.settings), {.evaluations = 1});  // refuses wrong settings now
  const std::vector<const LibraryInstance*> instances = ChosenInstances(options);
  const std::string label = LabelOf(options);
  const std::string name = ScoreFolder(label);
  const fs::path folder = fs::path(options.output) / name;
  std::error_code error;
  fs::create_directories(folder / "instances", error);
  if (error) throw InputError(folder.string(), "cannot be created (" + error.message() + ")");
  for (const fs::path& path : {folder / "scores.json", folder / "times.json", fs::path(options.output) / "index.html",
                               folder / "instances" / "score.json"}) {
    CheckCanBeWritten(path.string());
  }
  std::vector<std::string> paths;
  paths.reserve(instances.size());
  for (const LibraryInstance* instance : instances) {
    paths.push_back((folder / "instances" / (instance->name + ".json")).string());
  }
  if (const int status = ScoreAll(options, instances, paths); status != kSuccess) {
    if (status >= 128) PrintMessage("a search was killed; the same command resumes with the others");
    return status >= 128 ? kNotFound : status;
  }
  LibraryScores scores;
  scores.label = label;
  scores.agent = options.agent;
  scores.set = ParseSettings(options.settings);
  scores.seed = options.seed;
  scores.emplace = ProgramText();
  JsonList times;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    std::optional<InstanceFile> file = Finished(paths[i], KeyOf(options, *instances[i]));
    if (!file) throw InputError(paths[i], "cannot be read again (was it changed meanwhile?)");
    if (!file->score.refused.empty())
      PrintMessage(fmt::format("{}: nothing found: {}", instances[i]->name, file->score.refused));
    scores.instances.push_back(std::move(file->score));
    times.push_back({FieldsToJson(file->times)});
  }
  const std::vector<LibraryScores> others = OtherScores(options.output, name, label);
  JsonObject measured;
  AddMember(&measured, "schema", "emplace.library_times");
  AddMember(&measured, "version", 1);
  AddMember(&measured, "instances", std::move(times));
  const std::string measured_text = JsonText({std::move(measured)});
  WriteFiles(
      {{(folder / "scores.json").string(), [&](std::ostream& out) { experiments::WriteLibraryScores(out, scores); }},
       {(folder / "times.json").string(), [&](std::ostream& out) { out << measured_text << '\n'; }},
       {(fs::path(options.output) / "index.html").string(),
        [&](std::ostream& out) { experiments::WriteHtml(out, experiments::MakeScorePage(scores, others)); }}});
  PrintScores(options, scores, others);
  return kSuccess;
}

}  // namespace emplace::tools
