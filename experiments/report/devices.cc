#include "experiments/report/devices.h"

#include <fmt/format.h>

#include <set>

#include "experiments/report/document.h"
#include "experiments/report/published.h"
#include "sim/base/printable.h"

namespace emplace::experiments {
namespace {

struct DeviceCounts {
  std::size_t gpus = 0;
  std::size_t cpus = 0;
  std::size_t others = 0;
};

DeviceCounts CountDevices(const TrialRecord& trial) {
  DeviceCounts counts;
  const JsonValue* const value = FindPath(trial.spec, "cluster.devices");
  const auto* const names = value == nullptr ? nullptr : value->As<JsonList>();
  if (names == nullptr) return counts;
  for (const JsonValue& name : *names) {
    const std::string text = PlainText(name);
    if (text.starts_with("gpu")) {
      ++counts.gpus;
    } else if (text.starts_with("cpu")) {
      ++counts.cpus;
    } else {
      ++counts.others;
    }
  }
  return counts;
}

// Omits the CPUs if there are GPUs.
std::string ShortWords(const TrialRecord& trial) {
  const DeviceCounts counts = CountDevices(trial);
  return counts.gpus > 0 && counts.others == 0 ? Counted(counts.gpus, "GPU") : DevicesInWords(trial);
}

}  // namespace

std::string DevicesInWords(const TrialRecord& trial) {
  const DeviceCounts counts = CountDevices(trial);
  std::string gpus = Counted(counts.gpus, "GPU");
  std::string cpus = Counted(counts.cpus, "CPU");
  if (counts.others == 0 && counts.gpus > 0) return counts.cpus > 0 ? gpus + " and " + cpus : gpus;
  if (counts.others == 0 && counts.cpus > 0) return cpus;
  return MatchText(trial, "num_devices") + " devices";
}

std::map<std::string, std::string> DeviceTitles(const std::vector<TrialRecord>& trials) {
  std::map<std::string, std::set<std::string>> brief;
  std::map<std::string, std::set<std::string>> whole;
  for (const TrialRecord& trial : trials) {
    const std::string number = MatchText(trial, "num_devices");
    brief[number].insert(ShortWords(trial));
    whole[number].insert(DevicesInWords(trial));
  }
  std::map<std::string, std::size_t> uses;
  for (const auto& [number, words] : brief) ++uses[*words.begin()];
  std::map<std::string, std::string> titles;
  for (const auto& [number, words] : brief) {
    const std::set<std::string>& chosen = uses[*words.begin()] > 1 ? whole[number] : words;
    titles[number] = chosen.size() == 1 ? *chosen.begin() : number + " devices";
  }
  return titles;
}

}  // namespace emplace::experiments
