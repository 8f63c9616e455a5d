#include "experiments/plan/experiment_fields.h"

#include <gtest/gtest.h>

#include <string>

#include "datasets/models/registry.h"
#include "sim/base/registry.h"
#include "tests/testing/experiments.h"

namespace emplace::testing {
namespace experiment_fields_test {

// The error message for the experiment with this line.
std::string Refusal(const std::string& line) {
  return ErrorOf([&] { ReadText(WithLine(line)); });
}

experiments::ExperimentCell CellWith(const std::string& line) { return ReadText(WithLine(line)).cells.at(0); }

experiments::GraphSource Model(const std::string& name) { return {.model = name}; }

struct Case {
  std::string line;
  std::string error;
};

TEST(ExperimentFieldsTest, GraphsThatCannotBeAreRefused) {
  const Case cases[] = {
      {"graphs: 3", "graphs: is the number 3 (an object)"},
      {"graphs: {}", "graphs: names no graphs (dataset, instances, files, model or models)"},
      {"graphs: {data: x}",
       "graphs.data: unknown key (dataset, family_seed, split, sample, seed, index, instances, files, model, set, "
       "models, "
       "transform, together, "
       "grouping); did you mean dataset?"},
      {"graphs: {dataset: imagenet}", "graphs.dataset: unknown dataset \"imagenet\" (cifar10, ptb, nmt)"},
      {"graphs: {dataset: nmt, model: nmt}", "graphs.model: cannot be used together with dataset (one of them)"},
      {"graphs: {dataset: nmt, split: half}", "graphs.split: is the text \"half\" (all, train, test)"},
      {"graphs: {dataset: nmt, sample: 0}", "graphs.sample: is the number 0 (an integer from 1 to 32)"},
      {"graphs: {dataset: nmt, split: test, sample: 17}", "graphs.sample: is the number 17 (an integer from 1 to 16)"},
      {"graphs: {dataset: nmt, index: 32}", "graphs.index: is the number 32 (an integer from 0 to 31)"},
      {"graphs: {dataset: nmt, index: [1, 1]}", "graphs.index[1]: is a duplicate entry (each once)"},
      {"graphs: {dataset: nmt, index: []}",
       "graphs.index: is a list of 0 elements (a number of a graph, or a list of them)"},
      {"graphs: {dataset: nmt, index: 1, split: all}",
       "graphs.split: cannot be used together with index (one of them)"},
      {"graphs: {dataset: nmt, sample: 2, index: 1}",
       "graphs.sample: cannot be used together with index (one of them)"},
      {"graphs: {dataset: nmt, seed: -1}", "graphs.seed: is the number -1 (an integer from 0 to 9223372036854775807)"},
      {"graphs: {dataset: nmt, family_seed: x}",
       "graphs.family_seed: is the text \"x\" (an integer from 0 to 9223372036854775807)"},
      {"graphs: {model: nmt, models: [{model: nmt}]}",
       "graphs.models: cannot be used together with model (one of them)"},
      {"graphs: {models: [{model: nmt}, {model: nmt}]}", "graphs.models[1]: is a duplicate entry (each once)"},
      {"graphs: {models: []}", "graphs.models: is a list of 0 elements (a list of models)"},
      {"graphs: {models: [{set: {layers: 2}}]}", "graphs.models[0].model: is missing (a model)"},
      {"graphs: {models: [{model: nmt, sets: {}}]}",
       "graphs.models[0].sets: unknown key (model, set); did you mean set?"},
      {"graphs: {model: nmt, sample: 2}", "graphs.sample: is for a dataset only"},
      {"graphs: {dataset: nmt, set: {layers: 2}}", "graphs.set: is for a model only"},
      {"graphs: {files: []}", "graphs.files: is a list of 0 elements (a list of graph files)"},
      {"graphs: {files: g.json}", "graphs.files: is the text \"g.json\" (a list of graph files)"},
      {"graphs: {files: [g.json, g.json]}", "graphs.files[1]: is a duplicate entry (each once)"},
      {"graphs: {model: x}", "graphs.model: unknown model \"x\" (" + Listed(datasets::AllModels()) +
                                 ", or a network of `emplace list models`)"},
      {"graphs: {model: nmt, set: [1]}", "graphs.set: is not an object (option: value)"},
      {"graphs: {dataset: nmt, together: 1}", "graphs.together: is the number 1 (true or false)"},
      {"graphs: {dataset: nmt, grouping: {name: none}}",
       "graphs.grouping.name: unknown grouping \"none\" (identity, merge_and_colocate, colocation, modules, layers, "
       "ops)"},
      {"graphs: {dataset: nmt, grouping: {groups: 0}}",
       "graphs.grouping.groups: is the number 0 (an integer from 1 to 4294967296)"},
  };
  for (const Case& c : cases) EXPECT_EQ(Refusal(c.line), "x.yaml: " + c.error);
}

TEST(ExperimentFieldsTest, EverythingElseThatCannotBeIsRefused) {
  const Case cases[] = {
      {"cluster: {}", "cluster: names no cluster (name or file)"},
      {"cluster: {name: p2.8xlarge, file: c.yaml}", "cluster.file: cannot be used together with name (one of them)"},
      {"cluster: {name: p2.8xlarge, devices: [\"gpu:0\"], gpus: 2}",
       "cluster.gpus: cannot be used together with devices (one of them)"},
      {"cluster: {name: p2.8xlarge, gpus: two}", "cluster.gpus: is the text \"two\" (an integer from 0 to 1048576)"},
      {"cluster: {name: p2.8xlarge, memory: 12}", "cluster.memory: is the number 12 (unlimited)"},
      {"cluster: {name: p2.8xlarge, size: 2}", "cluster.size: unknown key (name, file, nodes, devices, gpus, memory)"},
      {"engine: steam", "engine: unknown engine \"steam\" (fifo, flow, placeto-reference)"},
      {"costs: {profile: 3}", "costs.profile: is the number 3 (a string that is not empty)"},
      {"costs: {file: p.json}", "costs.file: unknown key (profile)"},
      {"agent: {name: 3}", "agent.name: is the number 3 (an agent)"},
      {"reward: [a]", "reward: is a list of 1 element (a reward)"},
      {"reward_source: gpu", "reward_source: is \"gpu\" (simulator, hardware, mixed)"},
      {"validate_every: -1", "validate_every: is the number -1 (an integer from 0 to 4611686018427387903)"},
      {"hardware: {share: 1}", "hardware.share: is the number 1 (a number from 1e-04 to 0.9999)"},
      {"hardware: {steps: 0}", "hardware.steps: is the number 0 (an integer from 1 to 1000)"},
      {"hardware: {statistic: best}", "hardware.statistic: is \"best\" (median, mean)"},
      {"hardware: {devices: 2}",
       "hardware.devices: unknown key (share, warmups, steps, statistic, patience, interleave)"},
      {"agent: {}", "agent.name: is missing (an agent)"},
      {"agent: {name: annealing, label: ''}", "agent.label: is the text \"\" (a name)"},
      {"agent: {name: annealing, set: {magic: 1}}",
       "agent.set: annealing.magic: unknown option (final_ratio, use_cpus)"},
      {"agent: {name: annealing, set: {final_ratio: 5}}", "agent.set: annealing: final_ratio must be 1e-12..1, got 5"},
      {"agent: {name: annealing, set: {final_ratio: [1]}}",
       "agent.set.final_ratio: is not a plain value (a string, a number, true or false)"},
      {"budget: {evaluations: 0}", "budget.evaluations: is the number 0 (an integer from 1 to 1099511627776)"},
      {"budget: {evaluations: 1e3}",
       "budget.evaluations: is the number 1000 (an integer from 1 to 1099511627776, written without a point or an "
       "exponent)"},
      {"budget: {evaluations: 9, episodes: 9}",
       "budget.episodes: cannot be used together with budget.evaluations (one of them)"},
      {"budget: {steps: 9}", "budget.steps: unknown key (evaluations, episodes)"},
      {"seeds: 3", "seeds: is the number 3 (a list of seeds)"},
      {"seeds: []", "seeds: is a list of 0 elements (a list of seeds)"},
      {"seeds: [1, 2, 1]", "seeds[2]: is a duplicate entry (each once)"},
      {"transfer: {grouping: {name: identity}}",
       "transfer.grouping: unknown key (dataset, family_seed, split, sample, seed, index, files, model, set, models, "
       "transform)"},
      {"transfer: {split: test}", "transfer.split: is for a dataset only"},
      {"transfer: {model: x}", "transfer.model: unknown model \"x\" (" + Listed(datasets::AllModels()) +
                                   ", or a network of `emplace list models`)"},
  };
  for (const Case& c : cases) EXPECT_EQ(Refusal(c.line), "x.yaml: " + c.error);
  const std::string costs = Refusal("costs: free");
  EXPECT_TRUE(costs.starts_with("x.yaml: costs: is the text \"free\" (measured, roofline")) << costs;
  EXPECT_TRUE(costs.ends_with(" or profile: FILE)")) << costs;
  EXPECT_EQ(Refusal("agent: {name: wizard}").rfind("x.yaml: agent.name: unknown agent \"wizard\" (single_device, ", 0),
            0U);
  EXPECT_EQ(Refusal("reward: fame").rfind("x.yaml: reward: ", 0), 0U);
  EXPECT_NE(Refusal("reward: fame").find("log_runtime"), std::string::npos);
  const std::string unknown = Refusal("cluster: {name: cloud}");
  EXPECT_EQ(unknown.rfind("x.yaml: cluster.name: is the text \"cloud\" (", 0), 0U) << unknown;
  EXPECT_NE(unknown.find("p2.8xlarge"), std::string::npos);
}

TEST(ExperimentFieldsTest, WhatIsMissingIsNamed) {
  for (const char* const key : {"graphs", "cluster", "agent"}) {
    std::string text = kExperiment;
    const std::size_t at = text.find(std::string("\n") + key + ":");
    text.erase(at, text.find('\n', at + 1) - at);
    EXPECT_EQ(ErrorOf([&] { ReadText(text); }).rfind(std::string("x.yaml: ") + key + ": is missing (", 0), 0U) << key;
  }
}

TEST(ExperimentFieldsTest, ObjectivesAndSchedulesGoToTheTrial) {
  const std::string start = R"(schema: emplace.experiment
version: 1
name: pipes
graphs: {dataset: nmt}
cluster: {name: p2.8xlarge}
agent: {name: random}
)";
  EXPECT_EQ(ReadText(start + "objective: step_time").cells.at(0).objective, "step_time");
  EXPECT_EQ(ReadText(start + "objective: throughput:memory=none").cells.at(0).objective, "throughput:memory=none");
  const experiments::ExperimentCell cell = ReadText(start + "schedule: 1f1b\nmicro_batches: 8").cells.at(0);
  EXPECT_EQ(cell.schedule, "1f1b");
  EXPECT_EQ(cell.micro_batches, 8U);
  const auto refused = [&](const std::string& lines) { return ErrorOf([&] { ReadText(start + lines); }); };
  EXPECT_EQ(refused("objective: latency"), "x.yaml: objective: unknown objective \"latency\" (step_time, throughput)");
  EXPECT_EQ(refused("schedule: 1f1b"), "x.yaml: micro_batches: is missing (how many 1f1b is to run)");
  EXPECT_EQ(refused("schedule: gpipe\nmicro_batches: 2\nobjective: throughput"),
            "x.yaml: schedule: changes no load, so not with objective throughput (objective step_time)");
  EXPECT_EQ(refused("schedule: gpipe\nmicro_batches: 2\nengine: placeto-reference"),
            "x.yaml: engine: \"placeto-reference\" runs no schedules (fifo)");
  EXPECT_EQ(ReadText(start + "collectives: ring").cells.at(0).collectives, "ring");
  EXPECT_EQ(ReadText(start + "collectives: model").cells.at(0).collectives, "model");
  EXPECT_EQ(refused("collectives: star"), "x.yaml: collectives: is \"star\" (model, ring, tree)");
  EXPECT_EQ(refused("collectives: ring\nschedule: gpipe\nmicro_batches: 2"),
            "x.yaml: collectives: is \"ring\", but schedules time collectives by the model (model)");
  EXPECT_EQ(refused("draws: some"), "x.yaml: draws: is \"some\" (shared, per_graph)");
  EXPECT_EQ(refused("incumbent: annealing").rfind("x.yaml: incumbent: is \"annealing\" (none, best, ", 0), 0U);
  EXPECT_EQ(refused("start: fast").rfind("x.yaml: start: is \"fast\" (none, best, ", 0), 0U);
  EXPECT_EQ(refused("incumbent: best\nreward_source: hardware"),
            "x.yaml: incumbent: is simulated, so it cannot be combined with rewards from hardware (none)");
  EXPECT_EQ(refused("objective: throughput\nreward_source: hardware"),
            "x.yaml: objective: is simulated, so not with rewards from hardware");
}

TEST(ExperimentFieldsTest, AnInstanceOfTheLibraryDeterminesClusterTimesAndEngine) {
  const std::string start = R"(schema: emplace.experiment
version: 1
name: instances
agent: {name: random}
)";
  const std::string two = "graphs: {instances: [chain-8-equal-2, planted-800-equal-4]}\n";
  EXPECT_EQ(ReadText(start + two).cells.at(0).graphs.instances,
            (std::vector<std::string>{"chain-8-equal-2", "planted-800-equal-4"}));
  const auto refused = [&](const std::string& lines) { return ErrorOf([&] { ReadText(start + lines); }); };
  EXPECT_EQ(
      refused("graphs: {instances: [chain-8-equal-3]}")
          .rfind("x.yaml: graphs.instances[0]: unknown instance \"chain-8-equal-3\" (the nearest are chain-8-equal-2, ",
                 0),
      0U);
  for (const char* const line :
       {"cluster: {name: p2.8xlarge}", "costs: roofline", "engine: fifo", "objective: throughput"}) {
    const std::string key = std::string(line).substr(0, std::string(line).find(':'));
    EXPECT_EQ(refused(two + line),
              "x.yaml: " + key + ": is not chosen where graphs are instances of the library (leave it out)");
  }
  EXPECT_EQ(refused("graphs: {instances: [chain-8-equal-2], together: true}"),
            "x.yaml: graphs.together: is not for instances of the library (leave it out)");
}

TEST(ExperimentFieldsTest, WhatIsNotSaidIsTheDefault) {
  const experiments::ExperimentCell cell = ReadText(R"(schema: emplace.experiment
version: 1
name: least
graphs: {dataset: nmt}
cluster: {name: p2.8xlarge}
agent: {name: random})")
                                               .cells.at(0);
  EXPECT_EQ(cell.graphs.family_seed, 42U);
  EXPECT_EQ(cell.graphs.seed, 42U);
  EXPECT_EQ(cell.graphs.split, "all");
  EXPECT_FALSE(cell.graphs.sample);
  EXPECT_FALSE(cell.graphs.together);
  EXPECT_FALSE(cell.transfer);
  EXPECT_EQ(cell.engine, "fifo");
  EXPECT_EQ(cell.costs.model, "measured");
  EXPECT_EQ(cell.label, "random");
  EXPECT_EQ(cell.evaluations, 100U);  // from the agent's registry entry
  EXPECT_EQ(cell.reward, "runtime");
  EXPECT_EQ(cell.seeds, (std::vector<std::uint64_t>{1}));
}

TEST(ExperimentFieldsTest, ANewSpecSaysWhatMemoryItsRewardHas) {
  EXPECT_EQ(CellWith("reward: memory_penalty").reward, "memory_penalty:M=capacity");
  EXPECT_EQ(CellWith("reward: \"memory_penalty:M=10.7\"").reward, "memory_penalty:M=10.7");
  EXPECT_EQ(CellWith("reward: sqrt").reward, "sqrt");
}

TEST(ExperimentFieldsTest, AProfileIsNamedEitherWay) {
  for (const char* const line : {"costs: {profile: p.json}", "costs: \"profile: p.json\""}) {
    const experiments::ExperimentCell cell = CellWith(line);
    EXPECT_EQ(cell.costs.profile, "p.json");
    EXPECT_EQ(cell.costs.model, "");
  }
}

TEST(ExperimentFieldsTest, TransferTakesFromGraphsWhatItDoesNotContradict) {
  const auto transfer = [](const std::string& graphs, const std::string& line) {
    return ReadText(WithLine("transfer: " + line, WithLine("graphs: " + graphs))).cells.at(0).transfer.value();
  };
  const experiments::GraphChoice other_half =
      transfer("{dataset: ptb, split: train, sample: 4, seed: 7, family_seed: 3, together: true}", "{split: test}");
  EXPECT_EQ(other_half.dataset, "ptb");
  EXPECT_EQ(other_half.split, "test");
  EXPECT_EQ(other_half.sample, 4U);
  EXPECT_EQ(other_half.seed, 7U);
  EXPECT_EQ(other_half.family_seed, 3U);
  EXPECT_FALSE(other_half.together);
  EXPECT_EQ(transfer("{dataset: ptb, index: 3}", "{split: test}").index.size(), 0U);
  EXPECT_FALSE(transfer("{dataset: ptb, sample: 3}", "{index: 5}").sample);
  const experiments::GraphChoice model = transfer("{dataset: ptb, sample: 3}", "{model: nmt}");
  EXPECT_EQ(model.models, (std::vector{Model("nmt")}));
  EXPECT_EQ(model.dataset, "");
  // A single network replaces a whole list of networks.
  const std::string three = "{models: [{model: nmt}, {model: nmt, set: {layers: 4}}, {model: rnnlm}], together: true}";
  EXPECT_EQ(transfer(three, "{model: wavenet}").models, (std::vector{Model("wavenet")}));
  EXPECT_EQ(transfer(three, "{}").models.size(), 3U);
}

}  // namespace experiment_fields_test
}  // namespace emplace::testing
