#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "datasets/importers/kineto_events.h"
#include "datasets/importers/kineto_trace.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

// Evidence from a call's activities about the process to which it belongs.
struct ProcessFit {
  std::size_t group = 0;  // a group of activities
  std::size_t process = 0;
  std::size_t matches = 0;     // activities that have a call there
  std::size_t impossible = 0;  // those among them that start before the call
  std::int64_t delay = 0;      // ns from call to start: the 20th part of the activities has less
};

// "[TP03] 1234" is of "[TP03]", for those who merge write the rank there; "": of nobody.
std::string_view LabelOf(std::string_view process) {
  const std::size_t space = process.rfind(' ');
  return space == std::string_view::npos ? std::string_view() : process.substr(0, space);
}

class RankSplitter {
 public:
  explicit RankSplitter(KinetoTrace trace) : trace_(std::move(trace)), processes_(ProcessesWithCalls(trace_)) {}

  std::vector<KinetoTrace> Split() {
    if (processes_.size() < 2) return Alone();
    FindCalls();
    FindGroups();
    if (HaveSameIds()) {
      Assign();
    } else if (!AreApart()) {
      return Alone();
    }
    std::vector<KinetoTrace> ranks;
    for (std::size_t p = 0; p < processes_.size(); ++p) {
      if (std::find(process_of_group_.begin(), process_of_group_.end(), p) == process_of_group_.end()) continue;
      ranks.push_back(Rank(p));
    }
    return ranks;
  }

 private:
  static constexpr std::size_t kInvalidProcess = ~std::size_t{0};
  static constexpr std::int64_t kTolerance = 20'000;  // ns, of clocks of host and device

  std::vector<KinetoTrace> Alone() {
    MergeStreams(&trace_);
    std::vector<KinetoTrace> alone;
    alone.push_back(std::move(trace_));
    return alone;
  }

  std::size_t ProcessOf(const TraceEvent& event) const { return process_of_thread_[event.track]; }

  void FindCalls() {
    for (const TraceThread& thread : trace_.threads) {
      const auto found = std::find(processes_.begin(), processes_.end(), thread.process);
      process_of_thread_.push_back(found == processes_.end() ? kInvalidProcess
                                                             : static_cast<std::size_t>(found - processes_.begin()));
    }
    for (const TraceEvent& event : trace_.events) {
      if (event.category != TraceCategory::kCall || event.correlation < 0) continue;
      auto& calls = calls_[event.correlation];
      const std::size_t process = ProcessOf(event);
      const auto same =
          std::find_if(calls.begin(), calls.end(), [&](const auto& call) { return call.first == process; });
      if (same == calls.end()) calls.emplace_back(process, event.start);
    }
  }

  bool HaveSameIds() const {
    return std::any_of(trace_.events.begin(), trace_.events.end(), [&](const TraceEvent& event) {
      if (!IsActivity(event.category)) return false;
      const auto calls = calls_.find(event.correlation);
      return calls != calls_.end() && calls->second.size() > 1;
    });
  }

  // Whether each of several processes has GPUs of its own. Their ids say whose a GPU is.
  bool AreApart() {
    for (const TraceEvent& event : trace_.events) {
      if (!IsActivity(event.category)) continue;
      const auto calls = calls_.find(event.correlation);
      if (calls == calls_.end()) continue;
      std::size_t& process = process_of_group_[group_of_stream_[event.track]];
      if (process != kInvalidProcess && process != calls->second[0].first) return false;
      process = calls->second[0].first;
    }
    std::set<std::size_t> used;
    for (const std::size_t process : process_of_group_) {
      if (process != kInvalidProcess) used.insert(process);
    }
    return used.size() > 1;
  }

  // Activities are distinguished by the process that they are written under, and their device.
  void FindGroups() {
    std::map<std::pair<std::string_view, std::int64_t>, std::size_t> groups;
    for (const TraceStream& stream : trace_.streams) {
      group_of_stream_.push_back(groups.try_emplace({stream.process, stream.device}, groups.size()).first->second);
    }
    labels_.resize(groups.size());
    for (const auto& [key, group] : groups) labels_[group] = LabelOf(key.first);
    process_of_group_.assign(groups.size(), kInvalidProcess);
  }

  void Assign() {
    std::vector<ProcessFit> fits = Fits();
    std::sort(fits.begin(), fits.end(), [](const ProcessFit& a, const ProcessFit& b) {
      if ((a.impossible == 0) != (b.impossible == 0)) return a.impossible == 0;
      if (a.delay != b.delay) return a.delay < b.delay;
      return a.group != b.group ? a.group < b.group : a.process < b.process;
    });
    for (const ProcessFit& fit : fits) {
      if (process_of_group_[fit.group] != kInvalidProcess || fit.impossible > 0) continue;
      if (SharesIds(fit)) continue;
      process_of_group_[fit.group] = fit.process;
    }
    for (const ProcessFit& fit : fits) {
      const bool is_unknown = process_of_group_[fit.group] == kInvalidProcess;
      // Two processes that explain the starts alike: nothing says which is right.
      const bool is_other = !is_unknown && process_of_group_[fit.group] != fit.process && fit.impossible == 0 &&
                            fit.delay < 2 * DelayOf(fits, fit.group) + kTolerance;
      if (is_unknown || is_other) Refuse(fit.group);
    }
    RefuseSharedGpus();
  }

  // A GPU whose activities are written under one process may still be that of two ranks. Then ids occur twice.
  void RefuseSharedGpus() const {
    std::set<std::pair<std::size_t, std::int64_t>> seen;
    std::unordered_set<std::int64_t> of_graphs;
    for (const TraceEvent& event : trace_.events) {
      const bool is_graph =
          event.category == TraceCategory::kCall && trace_.text(event.name).find("Graph") != std::string_view::npos;
      if (is_graph) of_graphs.insert(event.correlation);
    }
    for (const TraceEvent& event : trace_.events) {
      if (!IsActivity(event.category) || of_graphs.contains(event.correlation)) continue;
      const auto calls = calls_.find(event.correlation);
      if (calls == calls_.end() || calls->second.size() < 2) continue;
      const std::size_t group = group_of_stream_[event.track];
      if (!seen.insert({group, event.correlation}).second) Refuse(group);
    }
  }

  bool HasLabel(std::size_t group) const {
    return std::any_of(processes_.begin(), processes_.end(), [&](const std::string& process) {
      return !labels_[group].empty() && LabelOf(process) == labels_[group];
    });
  }

  std::int64_t DelayOf(const std::vector<ProcessFit>& fits, std::size_t group) const {
    for (const ProcessFit& fit : fits) {
      if (fit.group == group && fit.process == process_of_group_[group]) return fit.delay;
    }
    return 0;
  }

  // Whether another group that has been given to the process has activities with the same ids: it would be of two.
  bool SharesIds(const ProcessFit& fit) const {
    for (std::size_t other = 0; other < process_of_group_.size(); ++other) {
      if (other == fit.group || process_of_group_[other] != fit.process) continue;
      const auto& a = ids_[fit.group];
      const auto& b = ids_[other];
      if (std::any_of(a.begin(), a.end(), [&](std::int64_t id) { return b.contains(id); })) return true;
    }
    return false;
  }

  std::vector<ProcessFit> Fits() {
    const std::size_t groups = process_of_group_.size();
    ids_.resize(groups);
    std::vector<std::vector<std::int64_t>> delays(groups * processes_.size());
    for (const TraceEvent& event : trace_.events) {
      if (!IsActivity(event.category)) continue;
      const auto calls = calls_.find(event.correlation);
      if (calls == calls_.end()) continue;
      const std::size_t group = group_of_stream_[event.track];
      ids_[group].insert(event.correlation);
      for (const auto& [process, start] : calls->second) {
        delays[group * processes_.size() + process].push_back(event.start - start);
      }
    }
    std::vector<ProcessFit> fits;
    for (std::size_t group = 0; group < groups; ++group) {
      for (std::size_t process = 0; process < processes_.size(); ++process) {
        std::vector<std::int64_t>& list = delays[group * processes_.size() + process];
        if (list.empty()) continue;
        if (HasLabel(group) && LabelOf(processes_[process]) != labels_[group]) continue;
        std::sort(list.begin(), list.end());
        ProcessFit fit{.group = group, .process = process, .matches = list.size()};
        fit.impossible =
            static_cast<std::size_t>(std::lower_bound(list.begin(), list.end(), -kTolerance) - list.begin());
        fit.delay = list[list.size() / 20];
        fits.push_back(fit);
      }
    }
    return fits;
  }

  [[noreturn]] void Refuse(std::size_t group) const {
    for (const TraceEvent& event : trace_.events) {
      if (!IsActivity(event.category) || group_of_stream_[event.track] != group) continue;
      const auto calls = calls_.find(event.correlation);
      if (calls == calls_.end() || calls->second.size() < 2) continue;
      throw InputError("traceEvents",
                       fmt::format("correlation {} is that of calls in the processes {} and {}, and nothing says which "
                                   "of them started {} (each rank's trace as a file of its own)",
                                   event.correlation, Quoted(processes_[calls->second[0].first]),
                                   Quoted(processes_[calls->second[1].first]), Quoted(trace_.text(event.name))));
    }
    throw InputError("traceEvents", "processes have the same correlation ids (each rank's trace as a file of its own)");
  }

  KinetoTrace Rank(std::size_t process) const {
    KinetoTrace rank = trace_;
    std::erase_if(rank.events, [&](const TraceEvent& event) {
      if (!IsActivity(event.category) && event.category != TraceCategory::kSync) return ProcessOf(event) != process;
      return process_of_group_[group_of_stream_[event.track]] != process;
    });
    std::erase_if(rank.steps, [&](const TraceStepMark& step) { return process_of_thread_[step.thread] != process; });
    rank.rank.reset();
    MergeStreams(&rank);
    return rank;
  }

  KinetoTrace trace_;
  std::vector<std::string> processes_;
  std::vector<std::size_t> process_of_thread_;
  std::unordered_map<std::int64_t, std::vector<std::pair<std::size_t, std::int64_t>>> calls_;  // process, start; by id
  std::vector<std::size_t> group_of_stream_;
  std::vector<std::string_view> labels_;               // indexed by group
  std::vector<std::unordered_set<std::int64_t>> ids_;  // indexed by group
  std::vector<std::size_t> process_of_group_;
};

}  // namespace

std::vector<KinetoTrace> SplitRanks(KinetoTrace trace) { return RankSplitter(std::move(trace)).Split(); }

}  // namespace emplace::datasets
