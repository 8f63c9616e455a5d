#include "tests/testing/reference_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/file_io.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

// The published program treats a missing output of a producer as one of 0 bytes (docs/model.md, P6). graph.json does
// not allow that, so the output is added.
void AddMissingOutputs(std::vector<OpSpec>& specs) {
  std::map<std::string, OpSpec*, std::less<>> by_name;
  for (OpSpec& spec : specs) by_name[spec.name] = &spec;
  for (const OpSpec& spec : specs) {
    for (const std::string& input : spec.inputs) {
      const std::size_t colon = input.find(':');
      const std::size_t index = colon == std::string::npos ? 0 : std::stoul(input.substr(colon + 1));
      std::vector<OutputSpec>& outputs = by_name.at(input.substr(0, colon))->outputs;
      while (outputs.size() <= index) outputs.push_back({.size = Bytes{0}, .shape = {}});
    }
  }
}

Graph BuildGraph(const std::string& name, std::vector<OpSpec> specs) {
  AddMissingOutputs(specs);
  GraphBuilder builder(name);
  for (OpSpec& spec : specs) builder.Add(spec);
  return builder.Build();
}

// {ops: [{name, op, cost_us, outputs, inputs}], runs: [...]}; "^producer" is a control input.
void ReadMadeGraph(const json& file, ReferenceCase* reference) {
  std::vector<OpSpec> specs;
  for (const json& op : file.at("ops")) {
    OpSpec spec = MakeOp(op.at("name"), op.at("cost_us"), {}, op.at("outputs"));
    spec.kind = op.at("op");
    // The last of several mentions of one producer counts, control or data; in graph.json control inputs come last.
    std::map<std::string, std::string> last_mention;
    for (const json& input : op.at("inputs")) {
      const auto text = input.get<std::string>();
      const std::size_t begin = text.front() == '^' ? 1 : 0;
      last_mention[text.substr(begin, text.find(':') - begin)] = text;
    }
    for (const auto& [producer, text] : last_mention) {
      (text.front() == '^' ? spec.control_inputs : spec.inputs).push_back(text.front() == '^' ? producer : text);
    }
    specs.push_back(std::move(spec));
  }
  reference->graph = BuildGraph(reference->name, std::move(specs));
  for (const json& run : file.at("runs")) {
    reference->runs.push_back({.devices = run.at("devices"),
                               .placement = run.at("placement"),
                               .step_time_micros = run.at("step_time_us"),
                               .start_micros = run.value("start_us", std::vector<double>()),
                               .peak_bytes = run.at("peak_bytes")});
  }
}

// {cost_us, output_bytes, edges, cases}: op i is "n<i>" with one output, device i "/device:GPU:i".
void ReadRealGraph(const json& file, ReferenceCase* reference) {
  const auto costs = file.at("cost_us").get<std::vector<double>>();
  const auto bytes = file.at("output_bytes").get<std::vector<std::int64_t>>();
  std::vector<OpSpec> specs;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    specs.push_back(MakeOp(fmt::format("n{}", i), costs[i], {}, {bytes[i]}));
  }
  for (const json& edge : file.at("edges")) {
    specs[edge.at(1).get<std::size_t>()].inputs.push_back(fmt::format("n{}", edge.at(0).get<std::size_t>()));
  }
  reference->graph = BuildGraph(reference->name, std::move(specs));
  for (const json& run : file.at("cases")) {
    ReferenceRun read{.devices = {},
                      .placement = run.at("placement"),
                      .step_time_micros = run.at("makespan_us"),
                      .start_micros = run.at("start_us"),
                      .peak_bytes = run.at("peak_output_bytes")};
    for (std::size_t d = 0; d < run.at("n_devices"); ++d) read.devices.push_back(fmt::format("/device:GPU:{}", d));
    reference->runs.push_back(std::move(read));
  }
}

Cluster MakeReferenceCluster(const ReferenceCase& reference, const ReferenceRun& run) {
  std::vector<Device> devices;
  for (const std::string& name : run.devices) {
    devices.push_back({.name = name,
                       .kind = "reference",
                       .memory = std::nullopt,
                       .op_gap_micros = reference.delta1_micros,
                       .is_cpu = false});
  }
  return Cluster::Uniform("reference", std::move(devices),
                          {.bandwidth_gb_per_s = reference.bytes_per_micro / 1000.0,
                           .latency_micros = 0,
                           .gap_micros = reference.delta2_micros});
}

void CheckRun(const ReferenceCase& reference, std::size_t index, ReferenceReport* report) {
  const ReferenceRun& run = reference.runs[index];
  const Graph& graph = reference.graph;
  const Cluster cluster = MakeReferenceCluster(reference, run);
  const SimOptions options{.engine = "placeto-reference",
                           .peak_memory = true,
                           .start_times = true,
                           .initial_offset_micros = reference.offset_micros};
  const Simulator simulator(graph, cluster, MeasuredCosts(graph, cluster), options);
  Placement placement(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    placement[graph.file_order()[i]] = MakeId<DeviceId>(run.placement.at(i));
  }
  const StepResult result = simulator.Run(placement);
  const auto differs = [&](const std::string& what, double ours, double theirs) {
    if (ours == theirs) return;
    report->worst_micros = std::max(report->worst_micros, std::abs(ours - theirs));
    report->differences.push_back(
        fmt::format("{} run {}: {} is {}, not {}", reference.name, index, what, ours, theirs));
  };
  differs("step time", result.step_time_micros, run.step_time_micros);
  for (std::size_t i = 0; i < run.start_micros.size(); ++i) {
    const OpId op = graph.file_order()[i];
    differs(fmt::format("start of {}", graph.op(op).name), result.start_micros[Index(op)], run.start_micros[i]);
    ++report->starts;
  }
  for (std::size_t d = 0; d < run.peak_bytes.size(); ++d) {
    if (result.peak_memory[d].count != run.peak_bytes[d]) {
      report->differences.push_back(fmt::format("{} run {}: peak of {} is {} bytes, not {}", reference.name, index,
                                                run.devices[d], result.peak_memory[d].count, run.peak_bytes[d]));
    }
  }
  ++report->runs;
}

}  // namespace

ReferenceCase ReadReferenceCase(const std::string& path) {
  const json file = json::parse(ReadWholeFile(path));
  ReferenceCase reference;
  reference.name = std::filesystem::path(path).filename().string();
  const json params = file.value("params", json::object());
  reference.delta1_micros = params.value("delta1", 5.7);
  reference.delta2_micros = params.value("delta2", 25.0);
  reference.offset_micros = params.value("init_offset", 0.0);
  reference.bytes_per_micro = params.value("transfer_speed", 7600.0);
  if (file.contains("ops")) {
    ReadMadeGraph(file, &reference);
  } else {
    ReadRealGraph(file, &reference);
  }
  return reference;
}

std::vector<std::string> ReferenceFiles(const std::string& folder) {
  std::vector<std::string> files;
  if (!std::filesystem::is_directory(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".gz") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

ReferenceReport CheckReferenceCase(const ReferenceCase& reference) {
  ReferenceReport report;
  for (std::size_t run = 0; run < reference.runs.size(); ++run) CheckRun(reference, run, &report);
  return report;
}

}  // namespace emplace::testing
