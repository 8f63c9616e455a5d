#include "agents/search.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agents/agent.h"
#include "agents/named_placement.h"
#include "agents/settings.h"
#include "python/src/batch_evaluator.h"
#include "python/src/bindings.h"
#include "sim/base/check.h"
#include "sim/grouping.h"

namespace emplace::python {
namespace {

using agents::SearchSettings;
using agents::Setting;
using LabelArray = py::array_t<std::uint32_t, py::array::c_style>;

// Sets a setting to a value that search.py has checked.
struct ValueSetter {
  const py::handle& value;
  SearchSettings* settings;

  template <typename T>
  void operator()(T SearchSettings::*member) const {
    settings->*member = value.cast<T>();
  }
  void operator()(OptionMap SearchSettings::*member) const {
    const auto options = value.cast<std::map<std::string, std::string>>();
    settings->*member = {options.begin(), options.end()};
  }
};

// The settings that are keywords, by keyword.
SearchSettings SettingsOf(const py::dict& given) {
  SearchSettings settings;
  for (const Setting& setting : agents::AllSettings()) {
    const std::string keyword = PlaceOf(setting, agents::Door::kPython);
    if (setting.Has(agents::Door::kPython) && given.contains(keyword)) {
      const py::object value = given[keyword.c_str()];
      std::visit(ValueSetter{value, &settings}, setting.member);
    }
  }
  return settings;
}

// The list from which search.py checks arguments and builds the signature.
py::list SearchSettingRows() {
  static constexpr std::string_view kKinds[] = {"text", "integer", "number", "flag", "options"};
  py::list rows;
  for (const Setting& setting : agents::AllSettings()) {
    if (!setting.Has(agents::Door::kPython)) continue;
    py::dict row;
    row["keyword"] = PlaceOf(setting, agents::Door::kPython);
    row["kind"] = kKinds[setting.member.index()];
    row["least"] = setting.least;
    row["most"] = setting.most;
    row["low"] = setting.low;
    row["high"] = setting.high;
    row["help"] = HelpOf(setting, agents::Door::kPython);
    rows.append(row);
  }
  return rows;
}

agents::SearchSpec MakeSpec(const BatchEvaluator& evaluator, SearchSettings settings) {
  const SimOptions& simulation = evaluator.simulator().options();
  settings.engine = simulation.engine;
  settings.collectives = simulation.collectives;
  CheckSettings(settings, agents::Door::kPython);
  settings = Resolved(settings);
  agents::SearchSpec spec{{}, {.graph = evaluator.graph(), .cluster = evaluator.cluster(), .costs = evaluator.costs()}};
  spec.problem.SetGrouping(settings.grouping, settings.groups);
  spec.settings() = settings;
  spec.pipeline = LoadSchedule(settings, agents::Door::kPython);
  spec.simulator = &evaluator.simulator();
  return spec;
}

Placement StartOf(const BatchEvaluator& evaluator, const PlacementArray& start, const std::string& agent) {
  const std::size_t ops = evaluator.graph().num_ops();
  if (start.ndim() != 1 || static_cast<std::size_t>(start.size()) != ops) {
    throw InputError("start", "has another shape (a device for each op)");
  }
  if (!agents::FindAgent(agent).searches()) {
    throw InputError("start", "agent " + agent + " does not search, so it has no start");
  }
  return evaluator.PlacementOf({.devices = start.data(), .count = 1, .width = ops, .grouping = nullptr}, 0);
}

py::dict ResultColumns(const agents::SearchResult& result) {
  py::dict columns;
  columns["found"] = result.best.has_value();
  columns["placement"] = result.best ? py::object(PlacementToArray(*result.best)) : py::none();
  columns["step_ns"] =
      result.best ? py::object(py::int_(DurationFromMicros(result.best_result.step_time_micros).count())) : py::none();
  py::list peaks;
  for (const Bytes& peak : result.best_result.peak_memory) peaks.append(peak.count);
  columns["peak_bytes"] = peaks;
  columns["evaluations"] = result.evaluations;
  columns["num_groups"] = result.num_groups;
  columns["fitting"] = result.fitting;
  columns["single_device_us"] = result.single_device_micros;
  columns["single_ops_us"] = result.single_ops_micros;
  columns["overflow_bytes"] = result.smallest_overflow_bytes;
  columns["trace"] = result.trace;
  columns["note"] = result.note;
  columns["policy"] = py::bytes(result.policy);
  py::list episodes;
  for (const agents::EpisodeRecord& record : result.episodes) {
    episodes.append(py::make_tuple(record.evaluations, record.final_micros, record.best_micros, record.entropy));
  }
  columns["episodes"] = episodes;
  return columns;
}

Grouping GroupingOf(const Graph& graph, const LabelArray& labels) {
  if (labels.ndim() != 1 || static_cast<std::size_t>(labels.size()) != graph.num_ops()) {
    throw InputError("grouping", "is of another graph (a grouping of the simulator's)");
  }
  return Grouping(graph, std::vector<std::size_t>(labels.data(), labels.data() + labels.size()));
}

// grouping: the group of each op.
py::dict Place(const py::object& simulator, const py::dict& settings, const std::optional<LabelArray>& grouping,
               const std::optional<PlacementArray>& start, const std::string& checkpoint, const std::string& policy) {
  const std::shared_ptr<const BatchEvaluator> evaluator = EvaluatorOf(simulator);
  agents::SearchSpec spec = MakeSpec(*evaluator, SettingsOf(settings));
  if (grouping) spec.problem.given_grouping = GroupingOf(evaluator->graph(), *grouping);
  if (start) spec.given_start = StartOf(*evaluator, *start, spec.agent);
  spec.checkpoint = checkpoint;
  spec.policy = policy;
  InterruptCheck interrupt;
  spec.stop = [&interrupt] { return interrupt(); };
  agents::SearchResult result;
  {
    const py::gil_scoped_release released;
    try {
      result = agents::RunSearch(agents::WithNamedPlacements(spec));
      result.single_ops_micros = agents::MicrosOfSingleOps(spec, result);
    } catch (const InputError&) {
      if (!interrupt.interrupted()) throw;  // an agent that did not respond before Ctrl-C
    }
  }
  if (interrupt.interrupted()) throw py::error_already_set();
  return ResultColumns(result);
}

}  // namespace

void BindSearch(py::module_& module) {
  module.def("place", &Place, py::arg("simulator"), py::arg("settings"), py::arg("grouping"), py::arg("start"),
             py::arg("checkpoint"), py::arg("policy"));
  module.def(
      "needs_libtorch", [](const py::dict& settings) { return agents::NeedsLibTorch(SettingsOf(settings)); },
      py::arg("settings"));
  module.def("search_settings", &SearchSettingRows);
  module.def("agent_defaults", [](const std::string& agent) {
    const agents::AgentEntry& entry = agents::FindAgent(agent);
    py::dict defaults;
    defaults["evaluations"] = entry.default_evaluations;
    defaults["searches"] = entry.searches();
    defaults["needs_cpu"] = entry.needs_cpu;
    return defaults;
  });
}

}  // namespace emplace::python
