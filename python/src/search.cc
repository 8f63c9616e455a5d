#include "agents/search.h"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agents/agent.h"
#include "agents/objective.h"
#include "agents/reward.h"
#include "python/src/batch_evaluator.h"
#include "python/src/bindings.h"
#include "python/src/worker_pool.h"
#include "sim/base/check.h"
#include "sim/base/registry.h"
#include "sim/grouping.h"

namespace emplace::python {
namespace {

// What the keywords of emplace.place are called here.
struct SearchChoice {
  std::string agent;
  OptionMap settings;
  std::string grouping;
  const Grouping* given_grouping = nullptr;
  std::size_t groups = 256;
  std::size_t evaluations = 0;
  std::string objective;
  std::string reward;
  std::string schedule;
  std::size_t micro_batches = 0;
  std::uint64_t seed = 1;
  std::size_t threads = 0;
  std::optional<PlacementArray> start;
  std::string checkpoint;
  std::string policy;
};

agents::SearchSpec MakeSpec(const BatchEvaluator& evaluator, const SearchChoice& choice) {
  AtPlace("--agent", [&] { agents::FindAgent(choice.agent); });
  AtPlace("--objective", [&] { agents::ParseObjective(choice.objective); });
  if (!choice.reward.empty()) AtPlace("--reward", [&] { agents::ParseReward(choice.reward); });
  if (!choice.grouping.empty()) AtPlace("--grouping", [&] { FindGrouper(choice.grouping); });
  agents::SearchSpec spec{.problem = {.graph = evaluator.graph(),
                                      .cluster = evaluator.cluster(),
                                      .costs = evaluator.costs(),
                                      .grouping = choice.grouping,
                                      .max_groups = choice.groups}};
  if (choice.given_grouping != nullptr) spec.problem.given_grouping = *choice.given_grouping;
  spec.engine = evaluator.simulator().options().engine;
  spec.objective = choice.objective;
  if (!choice.schedule.empty()) {
    ParseScheduleName(choice.schedule, "--schedule");
    if (choice.micro_batches == 0) throw InputError("--micro-batches", "is missing (how many the schedule is to run)");
    spec.schedule = ScheduleChoice{.name = choice.schedule, .micro_batches = choice.micro_batches};
  }
  spec.agent = choice.agent;
  spec.agent_options = choice.settings;
  spec.evaluations = choice.evaluations;
  spec.reward = choice.reward;
  spec.seed = choice.seed;
  spec.threads = NumThreads(choice.threads);
  spec.checkpoint = choice.checkpoint;
  spec.policy = choice.policy;
  spec.simulator = &evaluator.simulator();
  if (choice.start) {
    const PlacementArray& start = *choice.start;
    if (start.ndim() != 1 || static_cast<std::size_t>(start.size()) != evaluator.graph().num_ops()) {
      throw InputError("start", "has another shape (a device for each op)");
    }
    spec.start = evaluator.PlacementOf(
        {.devices = start.data(), .count = 1, .width = static_cast<std::size_t>(start.size()), .grouping = nullptr}, 0);
    if (!agents::FindAgent(choice.agent).searches()) {
      throw InputError("--start", "agent " + choice.agent + " does not search, so it has no start");
    }
  }
  return spec;
}

// Asks Python now and then whether Ctrl-C was pressed.
class InterruptCheck {
 public:
  bool operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (interrupted_ || now < next_) return interrupted_;
    next_ = now + std::chrono::milliseconds(50);
    const py::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() != 0) {
      interrupted_ = true;  // the exception stays set
    }
    return interrupted_;
  }
  bool interrupted() const { return interrupted_; }

 private:
  std::chrono::steady_clock::time_point next_;
  bool interrupted_ = false;
};

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

py::dict Place(const py::object& simulator, const std::string& agent,
               const std::map<std::string, std::string>& settings, const std::string& grouping,
               const Grouping* given_grouping, std::size_t groups, std::size_t evaluations,
               const std::string& objective, const std::string& reward, const std::string& schedule,
               std::size_t micro_batches, std::uint64_t seed, std::size_t threads,
               const std::optional<PlacementArray>& start, const std::string& checkpoint, const std::string& policy) {
  const std::shared_ptr<const BatchEvaluator> evaluator = EvaluatorOf(simulator);
  agents::SearchSpec spec = MakeSpec(*evaluator, {.agent = agent,
                                                  .settings = {settings.begin(), settings.end()},
                                                  .grouping = grouping,
                                                  .given_grouping = given_grouping,
                                                  .groups = groups,
                                                  .evaluations = evaluations,
                                                  .objective = objective,
                                                  .reward = reward,
                                                  .schedule = schedule,
                                                  .micro_batches = micro_batches,
                                                  .seed = seed,
                                                  .threads = threads,
                                                  .start = start,
                                                  .checkpoint = checkpoint,
                                                  .policy = policy});
  InterruptCheck interrupt;
  spec.stop = [&interrupt] { return interrupt(); };
  agents::SearchResult result;
  {
    const py::gil_scoped_release released;
    try {
      result = agents::RunSearch(spec);
    } catch (const InputError&) {
      if (!interrupt.interrupted()) throw;  // an agent that did not answer before Ctrl-C
    }
  }
  if (interrupt.interrupted()) throw py::error_already_set();
  return ResultColumns(result);
}

}  // namespace

void BindSearch(py::module_& module) {
  module.def("place", &Place, py::arg("simulator"), py::arg("agent"), py::arg("settings"), py::arg("grouping"),
             py::arg("given_grouping"), py::arg("groups"), py::arg("evaluations"), py::arg("objective"),
             py::arg("reward"), py::arg("schedule"), py::arg("micro_batches"), py::arg("seed"), py::arg("threads"),
             py::arg("start"), py::arg("checkpoint"), py::arg("policy"));
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
