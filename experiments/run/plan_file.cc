#include "experiments/run/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>
#include <unordered_map>
#include <utility>

#include "experiments/plan/checked_json.h"
#include "experiments/version.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/fingerprint.h"
#include "sim/base/json_build.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"
#include "sim/base/whole_number.h"

namespace emplace::experiments {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPlanAgain = "the same sweep, or submit, writes it again";
constexpr std::size_t kMostShardDigits = 4;

std::string PlanOf(const std::string& folder) { return (fs::path(folder) / "plan.jsonl").string(); }

bool IsHex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

bool IsShard(const std::string& name) { return name.size() <= kMostShardDigits && IsHex(name); }

// Names of the folders in a folder.
std::vector<std::string> FolderNames(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->is_directory()) names.push_back(entry->path().filename().string());
  }
  if (error) throw InputError(folder.string(), "cannot be read (" + error.message() + ")");
  return names;
}

// The smallest number of leading digits such that no more than kMostTrialsInAFolder IDs share them.
std::size_t ShardDigits(const std::vector<PlannedTrial>& trials) {
  for (std::size_t digits = 0; digits < kMostShardDigits; ++digits) {
    std::unordered_map<std::string, std::size_t> counts;
    std::size_t most = 0;
    for (const PlannedTrial& trial : trials) most = std::max(most, ++counts[trial.id.substr(0, digits)]);
    if (most <= kMostTrialsInAFolder) return digits;
  }
  return kMostShardDigits;
}

// Takes `text` up to `end` from the front of `rest`; nullopt if there is none.
std::optional<std::string_view> ConsumeUpTo(std::string_view* rest, std::string_view begin, std::string_view end) {
  if (!rest->starts_with(begin)) return std::nullopt;
  rest->remove_prefix(begin.size());
  const std::size_t found = rest->find(end);
  if (found == std::string_view::npos) return std::nullopt;
  const std::string_view taken = rest->substr(0, found);
  rest->remove_prefix(found);
  return taken;
}

// A line as WritePlanFile writes it. Not read as JSON, because a plan may have 100,000 of them.
PlanFile::Trial ReadTrialLine(std::string_view line) {
  PlanFile::Trial trial;
  const auto folder = ConsumeUpTo(&line, R"({"folder":")", "\"");
  const auto work = folder ? ConsumeUpTo(&line, R"(","work":)", ",") : std::nullopt;
  constexpr std::string_view kSpec = R"(,"spec":)";
  if (!work || !line.starts_with(kSpec) || !line.ends_with('}')) throw InputError("", "is not a trial");
  const std::optional<double> number = WholeNumber<double>(*work);
  if (!number) throw InputError("work", "is not a number");
  trial.work = *number;
  trial.folder = std::string(*folder);
  if (trial.folder.find_first_not_of("0123456789abcdef/") != std::string::npos || trial.folder.starts_with('/')) {
    throw InputError("folder", fmt::format("is {} (the folder of a trial)", Quoted(trial.folder)));
  }
  trial.spec = line.substr(kSpec.size(), line.size() - kSpec.size() - 1);
  return trial;
}

}  // namespace

std::string PlanFile::Trial::id() const { return folder.substr(folder.rfind('/') + 1); }

PlanFile::PlanFile(const std::string& experiment_folder) : folder_(experiment_folder) {
  const std::string path = PlanOf(experiment_folder);
  text_ = ReadWholeFile(path, InputKind::kPlan);
  std::string_view rest = text_;
  const auto take_line = [&rest] {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return line;
  };
  WithLocation(path, [&] {
    const JsonValue root = ParseJson(take_line());
    const JsonNode node(root);
    CheckSchema(node, "emplace.plan");
    const JsonFields fields(node, {"schema", "version", "experiment", "emplace", "hardware", "trials", "checksum"});
    experiment_ = fields.Get("experiment", "a name").NonEmptyText();
    version_ = fields.Get("emplace", "a version").Text();
    hardware_ = fields.Get("hardware", "true or false").Flag();
    if (fields.Get("checksum", "a checksum").Text() != FingerprintText(rest)) {
      throw InputError("", fmt::format("is damaged or was changed ({})", kPlanAgain));
    }
    while (!rest.empty()) {
      trials_.push_back(
          WithLocation(fmt::format("line {}", trials_.size() + 2), [&] { return ReadTrialLine(take_line()); }));
    }
    const std::int64_t trials = fields.Get("trials", "the number of lines that follow").Integer(0, kMaxJsonInteger);
    if (std::cmp_not_equal(trials, trials_.size())) {
      throw InputError("trials",
                       fmt::format("is {}, but {} follow ({})", trials, Counted(trials_.size(), "trial"), kPlanAgain));
    }
  });
}

std::string ProgramVersion() { return fmt::format("{} {}", Version(), Revision()); }

bool HasPlan(const std::string& experiment_folder) { return fs::exists(PlanOf(experiment_folder)); }

std::vector<std::string> ListTrialFolders(const std::string& experiment_folder) {
  std::vector<std::string> folders;
  for (const std::string& name : FolderNames(experiment_folder)) {
    if (name == kWorkersFolder) continue;
    const fs::path path = fs::path(experiment_folder) / name;
    if (!IsShard(name) || fs::exists(path / "spec.json") || fs::exists(path / "trial.json")) {
      folders.push_back(name);
      continue;
    }
    for (const std::string& inner : FolderNames(path)) folders.push_back(name + "/" + inner);
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::vector<std::string> ChooseTrialFolders(const std::string& experiment_folder, const TrialPlan& plan) {
  std::unordered_map<std::string, std::string> present;
  if (fs::exists(experiment_folder)) {
    for (std::string& folder : ListTrialFolders(experiment_folder)) {
      std::string id = folder.substr(folder.rfind('/') + 1);
      present.try_emplace(std::move(id), std::move(folder));
    }
  }
  const std::size_t digits = ShardDigits(plan.trials);
  std::vector<std::string> folders;
  folders.reserve(plan.trials.size());
  for (const PlannedTrial& trial : plan.trials) {
    const auto found = present.find(trial.id);
    if (found != present.end()) {
      folders.push_back(found->second);
    } else {
      folders.push_back(digits == 0 ? trial.id : trial.id.substr(0, digits) + "/" + trial.id);
    }
  }
  return folders;
}

void WritePlanFile(const std::string& experiment_folder, const std::string& experiment, const TrialPlan& plan,
                   const std::vector<std::string>& folders, bool hardware) {
  EMPLACE_CHECK_EQ(folders.size(), plan.trials.size());
  std::string lines;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    lines += R"({"folder":")" + folders[i] + R"(","work":)";
    AppendNumber(&lines, plan.trials[i].work);
    lines += R"(,"spec":)";
    AppendJson(&lines, plan.trials[i].spec);
    lines += "}\n";
  }
  JsonObject header;
  AddMember(&header, "schema", "emplace.plan");
  AddMember(&header, "version", 1);
  AddMember(&header, "experiment", experiment);
  AddMember(&header, "emplace", ProgramVersion());
  AddMember(&header, "hardware", hardware);
  AddMember(&header, "trials", folders.size());
  AddMember(&header, "checksum", FingerprintText(lines));
  const std::string first = JsonText({std::move(header)});
  WriteFiles({{.path = PlanOf(experiment_folder),
               .write = [&](std::ostream& out) { out << first << '\n'
                                                     << lines; },
               .only_regular = true}});
}

}  // namespace emplace::experiments
