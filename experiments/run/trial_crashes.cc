#include "experiments/run/trial_crashes.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "experiments/run/line_file.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_build.h"
#include "sim/base/json_text.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {
namespace {

constexpr std::size_t kMostLogBytes = 20'000;

std::string CrashesOf(const std::string& folder) { return (std::filesystem::path(folder) / "crashes.jsonl").string(); }

// The end of a log as valid UTF-8.
std::string EndOf(const std::string& log) {
  std::string end = log.size() > kMostLogBytes ? log.substr(log.size() - kMostLogBytes) : log;
  if (!IsValidUtf8(end)) {
    std::replace_if(
        end.begin(), end.end(), [](char c) { return static_cast<unsigned char>(c) > 0x7e; }, '?');
  }
  return end;
}

std::string CrashText(const JsonValue& json, std::string_view key) {
  const JsonValue* value = FindMember(json, key);
  const auto* text = value == nullptr ? nullptr : value->As<std::string>();
  return text == nullptr ? "" : *text;
}

}  // namespace

void RecordCrash(const std::string& trial_folder, const TrialCrash& crash) {
  JsonObject json;
  AddMember(&json, "host", crash.host);
  AddMember(&json, "lost", crash.lost);
  AddMember(&json, "how", crash.how);
  AddMember(&json, "log", EndOf(crash.log));
  const LineFile file(CrashesOf(trial_folder));
  file.Append(JsonText({std::move(json)}));
}

std::vector<TrialCrash> ReadCrashes(const std::string& trial_folder) {
  std::vector<TrialCrash> crashes;
  if (!std::filesystem::exists(CrashesOf(trial_folder))) return crashes;
  std::istringstream lines(ReadWholeFile(CrashesOf(trial_folder), InputKind::kTrialFile));
  for (std::string line; std::getline(lines, line);) {
    try {
      const JsonValue json = ParseJson(line);
      const JsonValue* lost = FindMember(json, "lost");
      const auto* flag = lost == nullptr ? nullptr : lost->As<bool>();
      crashes.push_back({.host = CrashText(json, "host"),
                         .lost = flag != nullptr && *flag,
                         .how = CrashText(json, "how"),
                         .log = CrashText(json, "log")});
    } catch (const InputError&) {
      // A machine that failed may have left a part of a line.
    }
  }
  return crashes;
}

std::string CrashVerdict(const std::vector<TrialCrash>& crashes) {
  const auto losses =
      static_cast<std::size_t>(std::count_if(crashes.begin(), crashes.end(), [](const auto& c) { return c.lost; }));
  if (losses >= kMostLosses) {
    return fmt::format("its worker was lost {} times while it ran, last on {}", losses, crashes.back().host);
  }
  if (crashes.size() - losses < kMostCrashes) return "";
  const auto last = std::find_if(crashes.rbegin(), crashes.rend(), [](const auto& c) { return !c.lost; });
  std::string line = last->log;
  while (!line.empty() && line.back() == '\n') line.pop_back();
  line = line.substr(line.rfind('\n') + 1);
  return fmt::format("crashed {} times (crashes.jsonl has its log), last on {}: {}{}{}", crashes.size() - losses,
                     last->host, last->how, line.empty() ? "" : ": ", line);
}

}  // namespace emplace::experiments
