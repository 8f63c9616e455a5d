// The settings of a search, given by each of the four doors.

#include "agents/settings.h"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "agents/settings_json.h"
#include "experiments/plan/experiment.h"
#include "experiments/plan/trial_choice.h"
#include "experiments/plan/trial_plan.h"
#include "sim/base/json_text.h"
#include "tests/e2e/samples.h"
#include "tests/testing/errors.h"

namespace emplace::testing {
namespace settings_test {

using agents::AllSettings;
using agents::Door;
using agents::SearchSettings;
using agents::Setting;
using ::testing::HasSubstr;

// The settings that are given, by name, with their values.
using Given = std::map<std::string, std::string>;

constexpr std::string_view kBaseAgent = "annealing";  // unless another is given

// Two settings, each with the example of its row, and what a schedule needs beside it.
Given PairOf(const Setting& a, const Setting& b) {
  Given given = {{std::string(a.name), std::string(a.example)}, {std::string(b.name), std::string(b.example)}};
  if (given.contains("schedule")) given.try_emplace("micro_batches", "4");
  return given;
}

std::string TextOf(const Given& given) {
  std::string text;
  for (const auto& [name, value] : given) text += name + " " + value + "; ";
  return text;
}

bool Takes(Door door, const Given& given) {
  return std::all_of(given.begin(), given.end(), [door](const auto& one) {
    // Python's simulator has the engine and the collectives.
    const bool of_simulator = door == Door::kPython && (one.first == "engine" || one.first == "collectives");
    return of_simulator || agents::FindSetting(one.first).Has(door);
  });
}

// A value of an option map is an object with one key.
std::string JsonOf(const Setting& setting, const std::string& value) {
  if (std::holds_alternative<std::string SearchSettings::*>(setting.member)) return "\"" + value + "\"";
  if (!std::holds_alternative<OptionMap SearchSettings::*>(setting.member)) return value;
  const std::size_t equals = value.find('=');
  return "{\"" + value.substr(0, equals) + "\": \"" + value.substr(equals + 1) + "\"}";
}

// `value` at a path of keys.
void SetAt(JsonObject* root, std::string_view path, const JsonValue& value) {
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  auto found = std::ranges::find(*root, key, &JsonMember::key);
  if (found == root->end()) {
    root->push_back({key, JsonValue{JsonObject{}}});
    found = root->end() - 1;
  }
  if (dot == std::string_view::npos) {
    found->value = value;
  } else {
    SetAt(&std::get<JsonObject>(found->value.data), path.substr(dot + 1), value);
  }
}

JsonValue WithSettings(JsonValue document, Door door, const Given& given) {
  auto& root = std::get<JsonObject>(document.data);
  for (const auto& [name, value] : given) {
    const Setting& setting = agents::FindSetting(name);
    SetAt(&root, PlaceOf(setting, door), ParseJson(JsonOf(setting, value)));
  }
  return document;
}

constexpr const char* kExperiment = R"({"schema": "emplace.experiment", "version": 1, "name": "x",
 "graphs": {"model": "rnnlm", "set": {"steps": 2, "hidden": 64}}, "cluster": {"name": "post-8k80", "gpus": 2},
 "costs": "roofline", "agent": {"name": "annealing"}})";

std::string OfExperiment(const Given& given) {
  std::istringstream in(JsonText(WithSettings(ParseJson(kExperiment), Door::kExperiment, given)));
  return ErrorOf([&] { experiments::ReadExperiment(in, "x"); });
}

std::string OfSpec(const Given& given) {
  std::istringstream in(kExperiment);
  const experiments::ExperimentSpec experiment = experiments::ReadExperiment(in, "x");
  static const JsonValue spec = experiments::PlanTrials(experiment, false).trials.at(0).spec;
  JsonValue changed = spec;
  // The resolved spec has a budget, which an experiment need not have.
  std::erase_if(std::get<JsonObject>(changed.data), [](const JsonMember& member) { return member.key == "budget"; });
  return ErrorOf([&] { experiments::ReadTrialChoice(WithSettings(changed, Door::kSpec, given)); });
}

// The error, with the names of settings at `door` replaced by plain ones; "" if there is none.
std::string Plain(std::string error, Door door) {
  if (error == "(no error)") return "";
  if (error.starts_with("x: ")) error = error.substr(3);
  std::vector<std::pair<std::string, std::string>> names;
  for (const Setting& setting : AllSettings()) names.emplace_back(PlaceOf(setting, door), std::string(setting.name));
  // The longest first: agent.set before agent.
  std::ranges::sort(names, [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  for (const auto& [place, name] : names) {
    if (!error.starts_with(place + ": ")) continue;
    error = name + error.substr(place.size());
    break;
  }
  for (const auto& [place, name] : names) {
    if (place == name) continue;
    for (std::size_t at = error.find(place); at != std::string::npos; at = error.find(place, at + name.size())) {
      error.replace(at, place.size(), name);
    }
  }
  return error;
}

constexpr const char* kAskPython = R"py(import json, sys
import emplace

graph, cluster = emplace.Graph.from_file("g.json"), emplace.Cluster("c.yaml")
answers = []
for given in json.load(open("pairs.json")):
    simulation = {key: given.pop(key) for key in ("engine", "collectives") if key in given}
    if "episodes" not in given:
        given.setdefault("evaluations", 5)
    try:
        simulator = emplace.Simulator(graph, cluster, **simulation)
        emplace.place(simulator, given.pop("agent", "annealing"), **given)
        answers.append("(no error)")
    except emplace.InputError as error:
        answers.append(str(error))
json.dump(answers, sys.stdout)
)py";

class SettingsTest : public EmplaceTest {
 protected:
  std::string OfCommandLine(const Given& given) const {
    std::string options = given.contains("agent") ? "" : " --agent " + std::string(kBaseAgent);
    if (!given.contains("evaluations") && !given.contains("episodes")) options += " --evaluations 5";
    for (const auto& [name, value] : given) options += " " + agents::PlaceOf(name, Door::kCommandLine) + " " + value;
    const Ran ran = Emplace("place --graph g.json --cluster c.yaml -o out.json" + options);
    return ran.status == 2 ? ran.err.substr(0, ran.err.size() - 1) : "(no error)";
  }

  // One process answers for all.
  std::vector<std::string> OfPython(const std::vector<Given>& all) const {
    JsonList pairs;
    for (const Given& given : all) {
      JsonObject keywords;
      for (const auto& [name, value] : given) {
        const Setting& setting = agents::FindSetting(name);
        keywords.push_back({PlaceOf(setting, Door::kPython), ParseJson(JsonOf(setting, value))});
      }
      pairs.push_back({std::move(keywords)});
    }
    Write("pairs.json", JsonText({std::move(pairs)}));
    Write("ask.py", kAskPython);
    const Ran ran = Shell("PYTHONPATH=" EMPLACE_PYTHON_BUILD " " EMPLACE_PYTHON_PROGRAM " ask.py");
    EXPECT_EQ(ran.status, 0) << ran.err;
    std::vector<std::string> answers;
    if (ran.status != 0) return answers;
    const JsonValue read = ParseJson(ran.out);
    for (const JsonValue& answer : *read.As<JsonList>()) answers.push_back(*answer.As<std::string>());
    return answers;
  }
};

std::vector<Given> Pairs() {
  std::vector<Given> pairs;
  for (const Setting& a : AllSettings()) {
    for (const Setting& b : AllSettings()) {
      if (a.name < b.name) pairs.push_back(PairOf(a, b));
    }
  }
  return pairs;
}

// With LibTorch alone can a device be tried that is not there.
bool NeedsCuda(const Given& given) { return given.contains("torch_device"); }
// The command line opens the devices that measure, which the cluster's GPUs are not here.
bool NeedsDevices(const Given& given) { return NeedsCuda(given) || given.contains("validate_every"); }

TEST_F(SettingsTest, EveryPairHasOneAnswerAtEveryDoorSlow) {
  std::size_t refused = 0;
  std::set<std::string> answers;
  std::vector<Given> in_python;
  std::vector<std::string> expected;
  for (const Given& given : Pairs()) {
    SCOPED_TRACE(TextOf(given));
    std::map<Door, std::string> answer;
    if (Takes(Door::kExperiment, given)) answer[Door::kExperiment] = Plain(OfExperiment(given), Door::kExperiment);
    if (Takes(Door::kSpec, given)) answer[Door::kSpec] = Plain(OfSpec(given), Door::kSpec);
    if (Takes(Door::kCommandLine, given) && !NeedsDevices(given)) {
      answer[Door::kCommandLine] = Plain(OfCommandLine(given), Door::kCommandLine);
    }
    for (const auto& [door, text] : answer) EXPECT_EQ(text, answer.begin()->second) << static_cast<int>(door);
    if (answer.empty()) continue;
    if (!answer.begin()->second.empty()) ++refused;
    answers.insert(answer.begin()->second);
    if (Takes(Door::kPython, given) && !NeedsCuda(given)) {
      in_python.push_back(given);
      expected.push_back(answer.begin()->second);
    }
  }
  EXPECT_GT(refused, 10U);
  EXPECT_GT(answers.size(), 8U);
  EXPECT_GT(in_python.size(), 50U);
  if (!EMPLACE_HAS_PYTHON) GTEST_SKIP() << "without the Python package: its door was not tried";
  const std::vector<std::string> answered = OfPython(in_python);
  ASSERT_EQ(answered.size(), in_python.size());
  for (std::size_t i = 0; i < in_python.size(); ++i) {
    EXPECT_EQ(Plain(answered[i], Door::kPython), expected[i]) << TextOf(in_python[i]);
  }
}

}  // namespace settings_test
}  // namespace emplace::testing
