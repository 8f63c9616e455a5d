#ifndef EMPLACE_TESTS_PROFILER_RECORDED_GRAPHS_H_
#define EMPLACE_TESTS_PROFILER_RECORDED_GRAPHS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "profiler/hardware.h"
#include "profiler/torchscript.h"

namespace emplace::testing {

// A module written by tests/testing/make_torchscript.py.
inline std::string ModuleFile(const std::string& name) {
  return std::string(EMPLACE_TEST_SOURCE_DIR) + "/profiler/data/" + name + ".pt";
}

inline Graph Recorded(const std::string& name, const std::vector<std::string>& inputs, bool backward = false) {
  profiler::TorchScriptOptions options{.file = ModuleFile(name), .inputs = {}, .backward = backward};
  for (const std::string& input : inputs) options.inputs.push_back(profiler::ParseTorchScriptInput(input, "--input"));
  return profiler::GraphFromTorchScript(options);
}

// Empty if the op does not exist.
inline std::vector<std::string> InputsOf(const Graph& graph, const std::string& name) {
  std::vector<std::string> inputs;
  const auto op = graph.FindOp(name);
  if (!op) return inputs;
  for (const TensorId id : graph.inputs(*op)) {
    const Tensor& tensor = graph.tensor(id);
    inputs.push_back(std::string(graph.op(tensor.producer).name) + ":" + std::to_string(tensor.output_index));
  }
  return inputs;
}

inline std::vector<std::string> ControlInputsOf(const Graph& graph, const std::string& name) {
  std::vector<std::string> inputs;
  const auto op = graph.FindOp(name);
  if (!op) return inputs;
  for (const OpId input : graph.control_inputs(*op)) inputs.emplace_back(graph.op(input).name);
  return inputs;
}

inline std::string AttrsOf(const Graph& graph, const std::string& name) {
  const auto op = graph.FindOp(name);
  return op ? std::string(graph.op(*op).attrs) : "(no such op)";
}

inline std::string LayerOf(const Graph& graph, const std::string& name) {
  const auto op = graph.FindOp(name);
  return op ? std::string(graph.op(*op).layer) : "(no such op)";
}

// Names in the order of execution.
inline std::vector<std::string> OpsOfKind(const Graph& graph, const std::string& kind) {
  std::vector<std::string> names;
  for (const OpId op : graph.file_order()) {
    if (graph.op(op).kind == kind) names.emplace_back(graph.op(op).name);
  }
  return names;
}

inline double FlopOf(const Graph& graph, Pass pass) {
  double flop = 0;
  for (const OpId op : graph.file_order()) flop += graph.op(op).pass == pass ? graph.op(op).flop : 0;
  return flop;
}

// Runs the graph on a CPU core, with ops in the order of their ids, which depends only on edges. Tensors that `values`
// does not name are random. Expects every output to have as many elements as in the graph; returns them by
// "NAME:OUTPUT".
inline std::map<std::string, std::vector<double>> RunAgain(const Graph& graph,
                                                           const std::map<std::string, std::vector<double>>& values) {
  std::map<std::string, std::vector<double>> results;
  std::thread([&] {
    const std::unique_ptr<profiler::HardwareDevice> device = profiler::TorchHardware().Open("cpu:0");
    device->Attach();
    const std::vector<profiler::OpRecipe> recipes = profiler::RecipesOf(graph);
    std::vector<profiler::TensorHandle> tensors(graph.num_tensors());
    for (std::size_t n = 0; n < graph.num_ops(); ++n) {
      const OpId op = MakeId<OpId>(n);
      const std::string name(graph.op(op).name);
      std::vector<profiler::TensorHandle> outputs;
      if (graph.op(op).kind == "input" || graph.op(op).kind == "variable") {
        const auto given = values.find(name);
        const profiler::TensorSpec& spec = recipes[n].outputs[0];
        outputs = {given == values.end() ? device->Make(spec, n) : device->From(spec, given->second)};
      } else {
        std::vector<profiler::TensorHandle> inputs;
        for (const TensorId input : graph.inputs(op)) inputs.push_back(tensors[Index(input)]);
        device->Prepare(recipes[n])->Run(inputs, &outputs);
      }
      ASSERT_EQ(outputs.size(), graph.num_outputs(op)) << name;
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        const std::size_t tensor = Index(graph.first_output(op)) + o;
        tensors[tensor] = outputs[o];
        std::vector<double>& result = results[name + ":" + std::to_string(o)];
        result = device->Values(outputs[o]);
        std::size_t elements = 1;
        for (const std::int64_t dim : graph.tensor(MakeId<TensorId>(tensor)).shape) {
          elements *= static_cast<std::size_t>(dim);
        }
        ASSERT_EQ(result.size(), elements) << name;
      }
    }
  }).join();
  return results;
}

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_PROFILER_RECORDED_GRAPHS_H_
