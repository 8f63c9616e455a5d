#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "datasets/parallel_plan.h"
#include "datasets/planner/plan_json.h"
#include "datasets/planner/plan_search.h"
#include "python/src/bindings.h"
#include "sim/base/file_io.h"

namespace emplace::python {
namespace {

using datasets::PlanAnswer;
using datasets::PlanQuestion;

// `given`: the arguments of emplace.plan by name, checked there.
PlanQuestion QuestionOf(const PlacedCluster& cluster, const py::kwargs& given) {
  const auto options = [&](const char* name) {
    const auto map = given[name].cast<std::map<std::string, std::string>>();
    return OptionMap(map.begin(), map.end());
  };
  PlanQuestion question;
  const auto sequence = given["sequence"].cast<std::optional<std::int64_t>>().value_or(0);
  if (const auto* const graph = given["graph"].cast<const PlacedGraph*>()) {
    datasets::SetNetwork(graph->graph, sequence, &question);
  } else {
    datasets::SetNetwork(given["network"].cast<std::string>(), options("set"), sequence, &question);
  }
  question.machine = datasets::MakePlanMachine(cluster.cluster, given["nodes"].cast<std::int64_t>(),
                                               given["gpus"].cast<std::optional<std::int64_t>>());
  const bool has_modules = question.graph && question.graph->modules;
  question.framework = &datasets::NamedFramework(
      given["framework"].cast<std::optional<std::string>>().value_or(has_modules ? "pytorch" : "megatron"),
      "framework");
  datasets::SetLora(given["lora"].cast<std::optional<std::int64_t>>(),
                    given["lora_targets"].cast<std::optional<std::string>>().value_or(""), &question);
  question.global_batch = given["global_batch"].cast<std::int64_t>();
  question.only = options("only");
  if (given["all"].cast<bool>()) question.best = 0;
  question.objective = datasets::NamedObjective(given["objective"].cast<std::string>(), "objective");
  question.within = given["within"].cast<std::optional<double>>();
  question.price = given["price"].cast<std::optional<double>>();
  question.threads = given["threads"].cast<std::size_t>();
  question.seconds = given["seconds"].cast<double>();
  return question;
}

// What `plan --json` prints, and a plan.json for each of its plans, the nearest or fastest one being the last.
py::tuple SearchForPlans(const PlacedCluster& cluster, const py::kwargs& given) {
  PlanQuestion question = QuestionOf(cluster, given);
  InterruptCheck interrupt;
  question.is_stopped = [&interrupt] { return interrupt(); };
  PlanAnswer answer;
  {
    const py::gil_scoped_release released;
    answer = datasets::SearchPlans(question);
  }
  if (interrupt.interrupted()) throw py::error_already_set();
  std::ostringstream json;
  datasets::WritePlans(json, question, answer);
  auto network = given["network"].cast<std::string>();
  if (network.empty()) network = question.network.name;
  const auto settings = given["set"].cast<std::map<std::string, std::string>>();
  py::list plans;
  const auto add = [&](const datasets::ScoredPlan& scored) {
    std::ostringstream text;
    datasets::WritePlan(
        text, datasets::WithNetwork(question, scored.plan, network, OptionMap(settings.begin(), settings.end())));
    plans.append(std::move(text).str());
  };
  for (const datasets::ScoredPlan& scored : answer.plans) add(scored);
  if (answer.nearest) add(*answer.nearest);
  if (answer.fastest) add(*answer.fastest);
  return py::make_tuple(std::move(json).str(), plans);
}

}  // namespace

void BindPlanning(py::module_& module) {
  module.def("search_plans", &SearchForPlans, py::arg("cluster"));
  module.def(
      "write_text",
      [](const std::string& text, const std::string& path) {
        WriteFile(path, [&](std::ostream& out) { out << text; });
      },
      py::arg("text"), py::arg("path"));
}

}  // namespace emplace::python
