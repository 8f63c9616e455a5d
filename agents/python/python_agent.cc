#include "agents/python/python_agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <map>
#include <mutex>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agents/python/agent_process.h"
#include "agents/rl/policy_file.h"
#include "agents/saved_state.h"
#include "agents/score.h"
#include "sim/base/check.h"
#include "sim/base/json_build.h"
#include "sim/base/json_fields.h"
#include "sim/base/printable.h"
#include "sim/graph_adjacency.h"

namespace emplace::agents {
namespace {

constexpr std::size_t kMostStateBytes = std::size_t{1} << 30;
constexpr std::size_t kMostPlacements = std::size_t{1} << 20;  // limit for one proposal
constexpr std::size_t kMostNoteBytes = 200;

template <typename Values, typename Function>
JsonList Listed(const Values& values, Function function) {
  JsonList list;
  for (const auto& value : values) list.push_back(ToJson(function(value)));
  return list;
}

JsonList TimesOf(const Observation& seen) {
  JsonList rows;
  for (std::size_t group = 0; group < seen.num_groups(); ++group) {
    JsonList row;
    for (std::size_t d = 0; d < seen.num_devices(); ++d) {
      const bool allowed = seen.Allowed(group, d);
      row.push_back(allowed ? ToJson(seen.TimeMicros(group, d)) : JsonValue{std::monostate()});
    }
    rows.push_back({std::move(row)});
  }
  return rows;
}

JsonList EdgesOf(const Graph& graph) {
  JsonList producers;
  JsonList consumers;
  for (std::size_t group = 0; group < graph.num_ops(); ++group) {
    for (const std::uint32_t consumer : graph.adjacency().successors(group)) {
      producers.push_back(ToJson(group));
      consumers.push_back(ToJson(consumer));
    }
  }
  JsonList both;
  both.push_back({std::move(producers)});
  both.push_back({std::move(consumers)});
  return both;
}

JsonList DevicesOf(const Placement& placement) {
  return Listed(placement.devices(), [](DeviceId device) { return Index(device); });
}

// One line that a terminal can show, cut where it is long.
std::string NoteOf(std::string_view text) {
  std::string note;
  while (!text.empty() && note.size() < kMostNoteBytes) {
    const std::size_t length = std::max<std::size_t>(Utf8Length(text), 1);
    note += Printable(text.substr(0, length));
    text.remove_prefix(length);
  }
  return text.empty() ? note : note + "..";
}

class PythonAgent : public SavedByFields<PythonAgent, Agent> {
 public:
  PythonAgent(std::string name, OptionMap settings, const AgentContext& context)
      : name_(std::move(name)), settings_(std::move(settings)), context_(context) {}

  Proposal Propose(const Environment& env, Mode mode, Rng& rng) override {
    const auto& best = best_[env.index()].value();
    if (mode == Mode::kExploit && best) return {.placements = {*best}};
    Describe(env);
    JsonObject question = Question("propose", env);
    AddMember(&question, "seed", rng.Next() >> 1U);  // Python's integers of JSON have a sign
    return {.placements = PlacementsOf(Ask(std::move(question)), env.observation())};
  }

  std::vector<EpisodeRecord> Observe(const Environment& env, std::span<const Placement> batch,
                                     std::span<const Outcome> outcomes) override {
    JsonObject question = Question("observe", env);
    AddMember(&question, "step_us", Listed(outcomes, [](const Outcome& o) { return o.result.step_time_micros; }));
    AddMember(&question, "fits",
              Listed(outcomes, [&](const Outcome& o) { return ScoreOf(o, env.observation().cluster).fits; }));
    AddMember(&question, "reward", Listed(outcomes, [](const Outcome& o) { return o.reward; }));
    const JsonValue answer = Ask(std::move(question));
    const JsonNode root(answer);
    note_ = WithLocation(name_, [&] { return NoteOf(NeedMember(root, "note", "a text").Text()); });
    for (std::size_t i = 0; i < batch.size(); ++i) {
      best_[env.index()].Keep(batch[i], ScoreOf(outcomes[i], env.observation().cluster));
    }
    return {};
  }

  bool Finished() const override { return finished_; }
  double CpuSecondsElsewhere() const override { return process_ ? process_->CpuSeconds() : 0; }
  std::string Note() const override { return note_; }

  // A class that can give what it has learned to another of its kind has a policy.
  bool HasPolicy() const override { return has_policy_; }
  void SavePolicy(std::ostream& out) const override { WritePolicy(out, name_, TextOfClass("policy")); }
  void LoadPolicy(std::istream& in) override { GiveToClass("load_policy", ReadPolicy(in, name_)); }
  void SetHasPolicy(bool has_policy) { has_policy_ = has_policy; }

  template <typename State>
  static void SavedFields(State& state, auto& self) {
    std::string of_class = State::kLoads ? "" : self.TextOfClass("save");
    state.Text(of_class, kMostStateBytes);
    state.Text(self.note_, kMostStateBytes);
    state(self.best_);
    if constexpr (State::kLoads) {
      self.note_ = NoteOf(self.note_);
      self.GiveToClass("load", of_class);
    }
  }

  // Starts the process and makes the agent, if that has not been done.
  void Start() const {
    if (process_) return;
    process_ = std::make_unique<AgentProcess>(name_, context_.stop);
    JsonObject settings;
    for (const auto& [key, text] : settings_) AddMember(&settings, key, std::string_view(text));
    JsonObject question;
    AddMember(&question, "ask", "make");
    AddMember(&question, "settings", std::move(settings));
    const JsonValue answer = process_->Ask(std::move(question));
    has_policy_ =
        WithLocation(name_, [&] { return NeedMember(JsonNode(answer), "has_policy", "true or false").Flag(); });
  }

 private:
  static JsonObject Question(const char* what, const Environment& env) {
    JsonObject question;
    AddMember(&question, "ask", what);
    AddMember(&question, "index", env.index());
    return question;
  }

  JsonValue Ask(JsonObject question) const {
    Start();
    JsonValue answer = process_->Ask(std::move(question));
    const JsonValue* const finished = FindMember(answer, "finished");
    finished_ = finished != nullptr && WithLocation(name_, [&] { return JsonNode(*finished).Flag(); });
    return answer;
  }

  // What the class keeps, as a text: its state ("save") or its policy ("policy").
  std::string TextOfClass(const std::string& asked) const {
    const JsonValue answer = Ask({{"ask", {asked}}});
    return WithLocation(name_, [&] { return NeedMember(JsonNode(answer), "state", "a text").Text(); });
  }

  void GiveToClass(const char* what, const std::string& text) {
    JsonObject question;
    AddMember(&question, "ask", what);
    AddMember(&question, "state", text);
    Ask(std::move(question));
  }

  // Tells the process of a graph, once.
  void Describe(const Environment& env) {
    if (!described_.insert(env.index()).second) return;
    const Observation& seen = env.observation();
    JsonObject question = Question("problem", env);
    AddMember(&question, "num_groups", seen.num_groups());
    AddMember(&question, "num_devices", seen.num_devices());
    AddMember(&question, "evaluations", context_.evaluations);
    AddMember(&question, "num_graphs", context_.num_graphs);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < seen.num_groups(); ++i) names.emplace_back(seen.graph.op(MakeId<OpId>(i)).name);
    AddMember(&question, "group_names", Listed(names, [](const std::string& name) { return std::string_view(name); }));
    const auto& devices = seen.cluster.devices();
    AddMember(&question, "device_names", Listed(devices, [](const Device& d) { return std::string_view(d.name); }));
    AddMember(&question, "is_cpu", Listed(devices, [](const Device& d) { return d.is_cpu; }));
    AddMember(&question, "accelerators", Listed(seen.accelerators, [](DeviceId d) { return Index(d); }));
    AddMember(&question, "time_us", TimesOf(seen));
    const auto count = [](const Bytes& size) { return size.count; };
    AddMember(&question, "persistent_bytes", Listed(seen.persistent, count));
    AddMember(&question, "temp_bytes", Listed(seen.temp, count));
    AddMember(&question, "output_bytes", Listed(seen.output, count));
    AddMember(&question, "edges", EdgesOf(seen.graph));
    AddMember(&question, "start", env.start() ? JsonValue{DevicesOf(*env.start())} : JsonValue{std::monostate()});
    Ask(std::move(question));
  }

  std::vector<Placement> PlacementsOf(const JsonValue& answer, const Observation& seen) const {
    return WithLocation(name_ + ": propose", [&] {
      const JsonNode root(answer);
      const JsonNode list = NeedMember(root, "placements", "a list");
      std::vector<Placement> placements;
      for (const JsonValue& value : list.List()) {
        placements.push_back(PlacementOf(JsonNode(list, placements.size(), value), seen));
      }
      if (placements.empty() || placements.size() > kMostPlacements) {
        throw InputError("placements", fmt::format("has {} placements (1 to {})", placements.size(), kMostPlacements));
      }
      return placements;
    });
  }

  static Placement PlacementOf(const JsonNode& node, const Observation& seen) {
    const JsonList& row = node.List();
    if (row.size() != seen.num_groups()) {
      throw InputError(node.Place(),
                       fmt::format("has {} devices (one for each of {} groups)", row.size(), seen.num_groups()));
    }
    std::vector<DeviceId> devices;
    for (std::size_t group = 0; group < row.size(); ++group) {
      const JsonNode one(node, group, row[group]);
      const std::int64_t device = one.Integer(0, static_cast<std::int64_t>(seen.num_devices()) - 1);
      devices.push_back(MakeId<DeviceId>(static_cast<std::size_t>(device)));
      if (seen.Allowed(group, Index(devices.back()))) continue;
      throw InputError(one.Place(), fmt::format("is {}, where group {} has no time (see `allowed`)", device, group));
    }
    return Placement(std::move(devices));
  }

  std::string name_;
  OptionMap settings_;
  AgentContext context_;
  mutable std::unique_ptr<AgentProcess> process_;  // null: not started
  mutable bool finished_ = false;
  mutable bool has_policy_ = false;
  std::string note_;
  std::set<std::size_t> described_;
  std::map<std::size_t, BestPlacement> best_;  // keyed by Environment::index()
};

bool IsPythonName(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  bool begins = true;
  for (const char c : text) {
    if (c == '.') {
      if (begins) return false;
      begins = true;
      continue;
    }
    if (!letter(c) && (begins || c < '0' || c > '9')) return false;
    begins = false;
  }
  return !begins;
}

}  // namespace

bool IsPythonAgent(std::string_view name) { return name.find(':') != std::string_view::npos; }

const AgentEntry& FindPythonAgent(std::string_view name) {
  const std::size_t colon = name.find(':');
  if (!IsPythonName(name.substr(0, colon)) || !IsPythonName(name.substr(colon + 1))) {
    throw InputError("", fmt::format("agent \"{}\" is not a Python class (MODULE:CLASS)", name));
  }
  static std::mutex mutex;
  static std::map<std::string, AgentEntry, std::less<>> entries;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = entries.try_emplace(std::string(name));
  if (is_new) {
    found->second = {.name = found->first,
                     .summary = "A class in Python.",
                     .source = "the user",
                     .make = MakePythonAgent,
                     .grouping = "merge_and_colocate",
                     .default_evaluations = 1000,
                     .may_end = true};
  }
  return found->second;
}

std::unique_ptr<Agent> MakePythonAgent(OptionReader& reader, const AgentContext& context) {
  auto agent = std::make_unique<PythonAgent>(reader.owner(), reader.values(), context);
  static std::mutex mutex;
  static std::map<std::pair<std::string, OptionMap>, bool> have_policies;  // of those checked
  const std::lock_guard lock(mutex);
  const auto checked = have_policies.find({reader.owner(), reader.values()});
  if (checked != have_policies.end()) {
    agent->SetHasPolicy(checked->second);
    return agent;
  }
  agent->Start();
  have_policies.emplace(std::pair(reader.owner(), reader.values()), agent->HasPolicy());
  return agent;
}

}  // namespace emplace::agents
