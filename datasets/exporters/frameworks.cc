#include "datasets/exporters/frameworks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "datasets/exporters/module_placement.h"
#include "datasets/exporters/tensor_parallel.h"
#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/base/registry.h"
#include "sim/device_catalog.h"
#include "sim/groupers/groupers.h"
#include "sim/op_kinds.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_csv.h"

namespace emplace::datasets {
namespace {

using Json = nlohmann::ordered_json;

std::string Pretty(const Json& json) { return json.dump(1) + "\n"; }

[[noreturn]] void CannotSay(std::string_view field, const std::string& value, std::string_view format,
                            std::string_view allowed) {
  throw InputError(std::string(field), fmt::format("is {}, which {} cannot say ({})", value, format, allowed));
}

void RequireOne(std::string_view format, std::initializer_list<std::pair<std::string_view, std::int64_t>> degrees) {
  for (const auto& [name, value] : degrees) {
    if (value != 1) CannotSay(name, std::to_string(value), format, "1");
  }
}

std::string RecomputeText(const ParallelPlan& plan) {
  const auto* const text = plan.recompute.As<std::string>();
  return text != nullptr ? *text : JsonText(plan.recompute);
}

// ---- Devices

bool IsCpu(const Cluster& cluster, DeviceId device) { return cluster.device(device).name.starts_with("cpu"); }

// "gpu:3" is 3: where the cluster counts, the framework does.
std::vector<DeviceId> Accelerators(const Cluster& cluster) {
  std::vector<DeviceId> devices;
  for (std::size_t i = 0; i < cluster.num_devices(); ++i) {
    if (!IsCpu(cluster, MakeId<DeviceId>(i))) devices.push_back(MakeId<DeviceId>(i));
  }
  return devices;
}

std::size_t AcceleratorNumber(const Cluster& cluster, DeviceId device) {
  const std::vector<DeviceId> all = Accelerators(cluster);
  return static_cast<std::size_t>(std::find(all.begin(), all.end(), device) - all.begin());
}

DeviceId AcceleratorOf(const Cluster& cluster, std::size_t number, const std::string& place) {
  const std::vector<DeviceId> all = Accelerators(cluster);
  if (number >= all.size()) {
    throw InputError(
        place, fmt::format("is on accelerator {} (cluster {} has {})", number, Quoted(cluster.name()), all.size()));
  }
  return all[number];
}

// ---- Accelerate

std::string DeviceMap(const FrameworkInput& input) {
  Json map = Json::object();
  std::optional<DeviceId> cpu;
  for (const ModuleDevice& module : ModuleDevices(*input.graph, *input.cluster, *input.placement)) {
    const std::string& name = input.cluster->device(module.device).name;
    if (name == "disk") {
      map[module.path] = "disk";
    } else if (IsCpu(*input.cluster, module.device)) {
      if (cpu.value_or(module.device) != module.device) {
        throw InputError(module.path, fmt::format("is on {}, and other modules on {}: Accelerate knows one CPU",
                                                  Quoted(name), Quoted(input.cluster->device(*cpu).name)));
      }
      cpu = module.device;
      map[module.path] = "cpu";
    } else {
      map[module.path] = AcceleratorNumber(*input.cluster, module.device);
    }
  }
  return Pretty(map);
}

JsonValue ParseArtefact(std::string_view text) { return ParseJson(text); }

DeviceId DeviceOfEntry(const JsonNode& node, const Cluster& cluster) {
  if (const auto* const name = node.value().As<std::string>()) {
    for (std::size_t i = 0; i < cluster.num_devices(); ++i) {
      const auto device = MakeId<DeviceId>(i);
      if (cluster.device(device).name == *name || (*name == "cpu" && IsCpu(cluster, device))) return device;
    }
    node.Refuse("the number of an accelerator, \"cpu\", or a device of the cluster");
  }
  return AcceleratorOf(cluster, static_cast<std::size_t>(node.Integer(0, 1 << 20)), node.Place());
}

// ---- Pipelines

// Each stage's paths of modules; without stages in the plan, blocks divided evenly with what runs before and after
// them.
std::vector<std::vector<std::string>> PathsOfStages(const ParallelPlan& plan, std::string_view format) {
  std::vector<std::vector<std::string>> paths;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    paths.emplace_back();
    for (const JsonValue& part : plan.stages[i]) {
      const auto* const path = part.As<std::string>();
      if (path == nullptr) {
        throw InputError(fmt::format("stages[{}]", i),
                         fmt::format("has numbers of layers ({} needs paths of modules)", format));
      }
      paths.back().push_back(*path);
    }
  }
  if (paths.empty()) throw InputError("stages", fmt::format("is missing ({} needs the modules of each stage)", format));
  return paths;
}

std::string Stages(const FrameworkInput& input) { return Pretty(Json(PathsOfStages(*input.plan, "stages"))); }

// pipeline() of PyTorch sends what a stage computes to the next stage only, and refuses gradients of anything else.
void CheckNeighbours(const FrameworkInput& input) {
  const Graph& graph = *input.graph;
  const auto ranks = static_cast<std::size_t>(input.plan->pp);
  const auto stages = PathsOfStages(*input.plan, "split-spec");
  std::vector<ModuleDevice> modules;  // "devices" are stages here
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const std::string& path : stages[s]) modules.push_back({path, MakeId<DeviceId>(s)});
  }
  if (ranks < 3) return;
  const Placement stage_of = PlaceModules(graph, *input.cluster, modules);
  for (const OpId id : graph.file_order()) {
    if (graph.op(id).pass != Pass::kForward) continue;
    for (const TensorId tensor : graph.inputs(id)) {
      const OpId producer = graph.tensor(tensor).producer;
      if (IsSourceKind(graph.op(producer).kind) || Index(stage_of[id]) <= Index(stage_of[producer]) + 1) continue;
      throw InputError(
          std::string(graph.op(id).layer),
          fmt::format("is in stage {} and reads {} of stage {}, but pipeline() of PyTorch sends values to the "
                      "next stage only (--to stages, for stages made by hand)",
                      Index(stage_of[id]), Quoted(graph.op(producer).name), Index(stage_of[producer])));
    }
  }
}

std::string SplitSpecText(const FrameworkInput& input) {
  Json spec = Json::object();
  const auto stages = PathsOfStages(*input.plan, "split-spec");
  if (input.graph != nullptr && input.cluster != nullptr) CheckNeighbours(input);
  for (std::size_t i = 1; i < stages.size(); ++i) spec[stages[i].front()] = "BEGINNING";
  return Pretty(spec);
}

Placement PlaceStages(const Graph& graph, const Cluster& cluster, const std::vector<std::vector<std::string>>& stages,
                      std::size_t ranks) {
  std::vector<ModuleDevice> modules;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const std::string& path : stages[s]) {
      modules.push_back({path, AcceleratorOf(cluster, s % ranks, fmt::format("stages[{}]", s))});
    }
  }
  return PlaceModules(graph, cluster, modules);
}

// The actions of each rank, as _load_csv of PyTorch's schedules reads them.
std::string ScheduleCsv(const FrameworkInput& input) {
  const ParallelPlan& plan = *input.plan;
  const ScheduleName name = ParseScheduleName(plan.schedule_name(), "schedule");
  std::ostringstream text;
  WithLocation("schedule", [&] {
    WriteScheduleCsv(
        text, MakeSchedule(name, static_cast<std::size_t>(plan.pp), static_cast<std::size_t>(plan.grad_accumulation)));
  });
  return std::move(text).str();
}

// ---- Layers

std::int64_t NumberOfBlock(std::string_view block) {
  std::int64_t number = 0;
  for (const char c : block.substr(block.find_last_of("./") + 1)) number = number * 10 + (c - '0');
  return number;
}

std::vector<std::int64_t> EvenLayers(const ParallelPlan& plan, const Graph* graph) {
  std::set<std::string_view> blocks;
  if (graph != nullptr) {
    for (std::size_t i = 0; i < graph->num_ops(); ++i) {
      const std::string_view block = NumberedBlock(graph->op(MakeId<OpId>(i)).layer);
      if (!block.empty()) blocks.insert(block);
    }
  }
  const std::int64_t stages = plan.pp * plan.vpp;
  const auto layers = static_cast<std::int64_t>(blocks.size());
  if (layers < stages) {
    throw InputError("stages",
                     fmt::format("is missing, and the graph has {} numbered layers for {} stages", layers, stages));
  }
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), layers / stages);
  for (std::int64_t i = 0; i < layers % stages; ++i) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

// How many layers each stage has.
std::vector<std::size_t> LayerCounts(const FrameworkInput& input) {
  std::vector<std::size_t> counts;
  for (const auto& layers : LayersOfStages(*input.plan, input.graph)) counts.push_back(layers.size());
  return counts;
}

// ---- Megatron-LM

// "t*8": Megatron's layout repeats with a star.
std::string Repeated(std::string_view what, std::size_t count) {
  return count == 1 ? std::string(what) : fmt::format("{}*{}", what, count);
}

std::string MegatronLayout(const std::vector<std::size_t>& counts) {
  std::string layout;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (i > 0) layout += '|';
    if (i == 0) layout += 'E';
    if (counts[i] > 0) layout += Repeated("t", counts[i]);
    if (i + 1 == counts.size()) layout += 'L';
  }
  return layout;
}

std::string Megatron(const FrameworkInput& input) {
  const ParallelPlan& plan = *input.plan;
  if (plan.schedule != "1f1b" && !plan.schedule.starts_with("interleaved")) {
    CannotSay("schedule", plan.schedule, "Megatron-LM", "1f1b or interleaved");
  }
  std::string text;
  const auto flag = [&](std::string_view name, const auto&... values) {
    text += fmt::format("--{}", name);
    ((text += fmt::format(" {}", values)), ...);
    text += '\n';
  };
  flag("tensor-model-parallel-size", plan.tp);
  flag("pipeline-model-parallel-size", plan.pp);
  if (plan.pp > 1) flag("pipeline-model-parallel-layout", MegatronLayout(LayerCounts(input)));
  flag("context-parallel-size", plan.cp);
  if (plan.ep > 1) flag("expert-model-parallel-size", plan.ep);
  if (plan.etp > 1) flag("expert-tensor-parallel-size", plan.etp);
  if (plan.sequence_parallel) flag("sequence-parallel");
  flag("micro-batch-size", plan.micro_batch);
  flag("global-batch-size", plan.micro_batch * plan.grad_accumulation * plan.dp);
  if (plan.zero == 1) flag("use-distributed-optimizer");
  if (plan.zero > 1) {
    flag("use-distributed-optimizer");
    flag("use-megatron-fsdp");
    flag("data-parallel-sharding-strategy", plan.zero == 2 ? "optim_grads" : "optim_grads_params");
  }
  const std::string recompute = RecomputeText(plan);
  if (recompute == "selective") flag("recompute-activations");
  if (recompute != "none" && recompute != "selective" && recompute != "0") {
    flag("recompute-granularity", "full");
    flag("recompute-method", recompute == "full" ? "uniform" : "block");
    flag("recompute-num-layers", recompute == "full" ? "1" : recompute);
  }
  return text;
}

// ---- DeepSpeed

std::string DeepSpeed(const FrameworkInput& input) {
  const ParallelPlan& plan = *input.plan;
  RequireOne("DeepSpeed's configuration", {{"pp", plan.pp}, {"cp", plan.cp}, {"ep", plan.ep}, {"etp", plan.etp}});
  if (RecomputeText(plan) != "none") {
    CannotSay("recompute", RecomputeText(plan), "DeepSpeed's configuration", "none: the model's code switches it on");
  }
  if (plan.sequence_parallel) CannotSay("sequence_parallel", "true", "DeepSpeed's configuration", "false");
  Json config = {{"train_batch_size", plan.micro_batch * plan.grad_accumulation * plan.dp},
                 {"train_micro_batch_size_per_gpu", plan.micro_batch},
                 {"gradient_accumulation_steps", plan.grad_accumulation},
                 {"zero_optimization", {{"stage", plan.zero}}}};
  if (plan.tp > 1) config["tensor_parallel"] = {{"autotp_size", plan.tp}};
  return Pretty(config);
}

// ---- torchtitan

// Its name of a schedule of ours.
std::string TorchSchedule(const ParallelPlan& plan, std::string_view format) {
  if (plan.schedule == "gpipe") return "GPipe";
  if (plan.schedule == "1f1b") return "1F1B";
  if (plan.schedule.starts_with("interleaved")) return "Interleaved1F1B";
  if (plan.schedule == "zb-v") return "ZBVZeroBubble";
  CannotSay("schedule", plan.schedule, format, "gpipe, 1f1b, interleaved or zb-v");
}

// torchtitan's name of a module; "" for one without weights, which its models do not have.
std::string TitanModule(const std::string& path) {
  const std::string_view block = NumberedBlock(path);
  if (!block.empty()) {
    if (block != path) throw InputError(path, "is inside of a layer (whole layers)");
    return fmt::format("layers.{}", NumberOfBlock(block));
  }
  const std::string last = path.substr(path.rfind('.') + 1);
  if (last.find("rotary") != std::string::npos) return "";
  if (last.find("embed") != std::string::npos || last == "wte" || last == "tok_embeddings") return "tok_embeddings";
  if (last == "lm_head" || last == "output") return "lm_head";
  if (last.find("norm") != std::string::npos || last == "ln_f") return "norm";
  throw InputError(path, "is no module of torchtitan's models (embeddings, numbered layers, norm, head)");
}

std::string Torchtitan(const FrameworkInput& input) {
  const ParallelPlan& plan = *input.plan;
  if (plan.zero == 1) CannotSay("zero", "1", "torchtitan", "0, 2 or 3");
  Json parallelism = {{"data_parallel_replicate_degree", plan.zero == 0 ? plan.dp : 1},
                      {"data_parallel_shard_degree", plan.zero == 0 ? 1 : plan.dp},
                      {"tensor_parallel_degree", plan.tp},
                      {"context_parallel_degree", plan.cp},
                      {"expert_parallel_degree", plan.ep},
                      {"pipeline_parallel_degree", plan.pp}};
  RequireOne("torchtitan", {{"etp", plan.etp}});
  if (plan.zero > 1) parallelism["fsdp_reshard_after_forward"] = plan.zero == 2 ? "never" : "always";
  if (plan.tp > 1 && !plan.sequence_parallel) {
    CannotSay("sequence_parallel", "false", "torchtitan", "true with tp: its tensor parallelism includes it");
  }
  if (plan.pp > 1) {
    parallelism["pipeline_parallel_schedule"] = TorchSchedule(plan, "torchtitan");
    parallelism["pipeline_parallel_microbatch_size"] = plan.micro_batch;
    if (!plan.stages.empty()) {
      Json parts = Json::array();
      for (const auto& stage : PathsOfStages(plan, "torchtitan")) {
        Json names = Json::array();
        for (const std::string& path : stage) {
          if (const std::string name = TitanModule(path); !name.empty()) names.push_back(name);
        }
        parts.push_back(std::move(names));
      }
      parallelism["module_fqns_per_model_part"] = std::move(parts);
    }
  }
  const std::string recompute = RecomputeText(plan);
  if (recompute != "none" && recompute != "selective" && recompute != "full") {
    CannotSay("recompute", recompute, "torchtitan", "none, selective or full");
  }
  const Json config = {{"parallelism", std::move(parallelism)},
                       {"training", {{"local_batch_size", plan.micro_batch * plan.grad_accumulation}}},
                       {"activation_checkpoint", {{"mode", recompute}}}};
  return Pretty(config);
}

// ---- FSDP2 and tensor parallelism of torch.distributed

std::string Fsdp(const FrameworkInput& input) {
  const ParallelPlan& plan = *input.plan;
  RequireOne("fully_shard", {{"pp", plan.pp}, {"cp", plan.cp}, {"ep", plan.ep}, {"etp", plan.etp}});
  if (plan.zero == 1) CannotSay("zero", "1", "fully_shard", "0, 2 or 3");
  if (input.graph == nullptr) throw InputError("--graph", "is missing (the modules to shard)");
  Json shard = Json::array();
  std::set<std::string_view> seen;
  for (const OpId id : input.graph->file_order()) {
    const std::string_view block = NumberedBlock(input.graph->op(id).layer);
    if (!block.empty() && seen.insert(block).second) shard.push_back(block);
  }
  shard.push_back("");  // the model itself, last
  Json json = {
      {"mesh", {{"dp", plan.dp}, {"tp", plan.tp}}},  {"fully_shard", plan.zero == 0 ? Json::array() : std::move(shard)},
      {"reshard_after_forward", plan.zero == 3},     {"micro_batch", plan.micro_batch},
      {"grad_accumulation", plan.grad_accumulation}, {"sequence_parallel", plan.sequence_parallel}};
  json["parallelize_plan"] = Json::object();
  if (plan.tp > 1) {
    for (const auto& [path, style] : TensorParallelStyles(*input.graph)) json["parallelize_plan"][path] = style;
  }
  return Pretty(json);
}

// ---- Inference servers

std::string Vllm(const FrameworkInput& input) {
  const ParallelPlan& plan = *input.plan;
  RequireOne("vLLM", {{"vpp", plan.vpp}, {"cp", plan.cp}, {"etp", plan.etp}});
  return fmt::format("VLLM_PP_LAYER_PARTITION={}\n--pipeline-parallel-size {}\n--tensor-parallel-size {}\n",
                     fmt::join(LayerCounts(input), ","), plan.pp, plan.tp);
}

// llama.cpp loads all layers to GPUs with -ngl, and -ot sends tensors whose names match elsewhere.
std::string LlamaCpp(const FrameworkInput& input) {
  if (input.placement == nullptr) {
    RequireOne("llama.cpp", {{"tp", input.plan->tp}, {"dp", input.plan->dp}, {"cp", input.plan->cp}});
    std::vector<std::string> rules;
    const auto stages = LayersOfStages(*input.plan, input.graph);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      rules.push_back(
          fmt::format("blk\\.({})\\.=CUDA{}", fmt::join(stages[s], "|"), s % static_cast<std::size_t>(input.plan->pp)));
    }
    rules.push_back(fmt::format("output=CUDA{}", (stages.size() - 1) % static_cast<std::size_t>(input.plan->pp)));
    return fmt::format("-ngl 999\n-ot {}\n", fmt::join(rules, ","));
  }
  const Cluster& cluster = *input.cluster;
  std::vector<std::pair<DeviceId, std::vector<std::int64_t>>> layers;
  std::optional<DeviceId> head;
  for (const ModuleStage& stage : ModuleStages(*input.graph, cluster, *input.placement)) {
    layers.push_back({stage.device, {}});
    for (const std::string& path : stage.modules) {
      const std::string_view block = NumberedBlock(path);
      if (block.empty()) continue;
      if (block != path) throw InputError(path, "is inside of a layer (whole layers: --grouping layers)");
      layers.back().second.push_back(NumberOfBlock(block));
    }
    head = stage.device;
  }
  const auto name = [&](DeviceId device) {
    return IsCpu(cluster, device) ? std::string("CPU") : fmt::format("CUDA{}", AcceleratorNumber(cluster, device));
  };
  std::vector<std::string> rules;
  for (const auto& [device, numbers] : layers) {
    if (!numbers.empty()) rules.push_back(fmt::format("blk\\.({})\\.={}", fmt::join(numbers, "|"), name(device)));
  }
  if (head) rules.push_back(fmt::format("output={}", name(*head)));
  return fmt::format("-ngl 999\n-ot {}\n", fmt::join(rules, ","));
}

// ---- ONNX Runtime

// One session holds one instance of a provider: a CPU and one GPU. The annotation of a node is its device.
std::string OnnxRuntime(const FrameworkInput& input) {
  const Cluster& cluster = *input.cluster;
  Json nodes = Json::object();
  std::set<DeviceId> accelerators;
  bool uses_cpu = false;
  for (const OpId id : input.graph->file_order()) {
    const Op& op = input.graph->op(id);
    if (op.kind == "input" || op.kind == "variable") continue;
    const DeviceId device = (*input.placement)[id];
    if (!IsCpu(cluster, device)) accelerators.insert(device);
    uses_cpu = uses_cpu || IsCpu(cluster, device);
    nodes[std::string(op.name)] = IsCpu(cluster, device) ? "on_cpu" : "on_gpu";
  }
  if (accelerators.size() > 1) {
    std::vector<std::string> names;
    for (const DeviceId device : accelerators) names.push_back(cluster.device(device).name);
    throw InputError("placement", fmt::format("uses {}: a session of ONNX Runtime has one GPU (the CPU and one GPU)",
                                              fmt::join(names, ", ")));
  }
  std::vector<std::string> rules;
  if (uses_cpu) rules.emplace_back("cpu(=on_cpu)");
  for (const DeviceId device : accelerators) {
    rules.push_back(fmt::format("gpu:{}(=on_gpu)", AcceleratorNumber(cluster, device)));
  }
  const Json json = {{"session.layer_assignment_settings", fmt::format("{}", fmt::join(rules, ";"))},
                     {"layer_ann", std::move(nodes)}};
  return Pretty(json);
}

}  // namespace

std::span<const FrameworkTarget> AllFrameworkTargets() {
  static constexpr std::array<FrameworkTarget, 11> kTargets = {{
      {"device-map", "Accelerate's device_map: a device for each module", true, DeviceMap},
      {"split-spec", "split_spec of torch.distributed.pipelining: the module at which each stage begins", false,
       SplitSpecText},
      {"stages", "the modules of each stage, for stages made by hand", false, Stages},
      {"schedule-csv", "the actions of each rank, as schedules of torch.distributed.pipelining read them", false,
       ScheduleCsv},
      {"fsdp", "fully_shard and parallelize_module of PyTorch, by module", false, Fsdp},
      {"torchtitan", "the fields of torchtitan's configuration", false, Torchtitan},
      {"megatron", "Megatron-LM's command line", false, Megatron},
      {"deepspeed", "DeepSpeed's configuration", false, DeepSpeed},
      {"onnxruntime", "ONNX Runtime's layer assignment: a CPU and one GPU", true, OnnxRuntime},
      {"vllm", "vLLM's division of layers", false, Vllm},
      {"llama.cpp", "llama.cpp's flags: a device for each layer", true, LlamaCpp},
  }};
  return kTargets;
}

const FrameworkTarget& FindFrameworkTarget(std::string_view name) {
  return FindByName(AllFrameworkTargets(), name, "--to");
}

ParallelPlan PlanOfPlacement(const Graph& graph, const Cluster& cluster, const Placement& placement,
                             std::int64_t micro_batches, const std::string& schedule) {
  ParallelPlan plan;
  plan.network = graph.name();
  plan.grad_accumulation = micro_batches;
  if (!schedule.empty()) plan.schedule = schedule;
  for (const ModuleStage& stage : ModuleStages(graph, cluster, placement)) {
    // A stage begins with the module that runs first in it.
    std::vector<JsonValue> paths = {ToJson(stage.first)};
    for (const std::string& path : stage.modules) {
      if (path != stage.first) paths.push_back(ToJson(path));
    }
    plan.stages.push_back(std::move(paths));
  }
  plan.pp = static_cast<std::int64_t>(plan.stages.size());
  return plan;
}

Placement PlacementOfPlan(const Graph& graph, const Cluster& cluster, const ParallelPlan& plan) {
  RequireOne("a placement", {{"dp", plan.dp}, {"tp", plan.tp}, {"cp", plan.cp}});
  return PlaceStages(graph, cluster, PathsOfStages(plan, "a placement"), static_cast<std::size_t>(plan.pp));
}

std::vector<std::vector<std::int64_t>> LayersOfStages(const ParallelPlan& plan, const Graph* graph) {
  std::vector<std::vector<std::int64_t>> layers;
  std::int64_t next = 0;
  if (plan.stages.empty()) {
    for (const std::int64_t count : EvenLayers(plan, graph)) {
      layers.emplace_back(static_cast<std::size_t>(count));
      std::iota(layers.back().begin(), layers.back().end(), next);
      next += count;
    }
    return layers;
  }
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::string place = fmt::format("stages[{}]", s);
    layers.emplace_back();
    for (const JsonValue& part : plan.stages[s]) {
      if (const auto* const number = part.As<std::int64_t>()) {
        layers.back().push_back(*number);
      } else if (const auto* const path = part.As<std::string>()) {
        const std::string_view block = NumberedBlock(*path);
        if (block.empty()) continue;
        if (block != *path)
          throw InputError(place, fmt::format("has {}, which is inside of a layer (whole layers)", Quoted(*path)));
        layers.back().push_back(NumberOfBlock(block));
      }
    }
    for (const std::int64_t layer : layers.back()) {
      if (layer != next)
        throw InputError(place, fmt::format("has layer {} where {} follows (all layers in their order)", layer, next));
      ++next;
    }
  }
  return layers;
}

Placement ReadDeviceMap(std::string_view text, const std::string& file, const Graph& graph, const Cluster& cluster) {
  return WithLocation(file, [&] {
    const JsonValue root = ParseArtefact(text);
    const JsonNode node(root);
    std::vector<ModuleDevice> modules;
    for (const JsonMember& member : node.Object("an object: a device for each module")) {
      modules.push_back({member.key, DeviceOfEntry(JsonNode(node, member.key, member.value), cluster)});
    }
    return PlaceModules(graph, cluster, modules);
  });
}

Placement ReadStages(std::string_view text, const std::string& file, const Graph& graph, const Cluster& cluster) {
  return WithLocation(file, [&] {
    const JsonValue root = ParseArtefact(text);
    const JsonNode node(root);
    std::vector<std::vector<std::string>> stages;
    const JsonList& list = node.List("a list of stages, each a list of paths");
    for (std::size_t s = 0; s < list.size(); ++s) {
      const JsonNode stage(node, s, list[s]);
      stages.emplace_back();
      const JsonList& paths = stage.List("a list of paths");
      for (std::size_t i = 0; i < paths.size(); ++i) stages.back().push_back(JsonNode(stage, i, paths[i]).Text());
    }
    return PlaceStages(graph, cluster, stages, std::max<std::size_t>(1, stages.size()));
  });
}

Placement ReadSplitSpec(std::string_view text, const std::string& file, const Graph& graph, const Cluster& cluster) {
  return WithLocation(file, [&] {
    const JsonValue root = ParseArtefact(text);
    const JsonNode node(root);
    std::vector<std::string> cuts;
    for (const JsonMember& member : node.Object("an object: SplitPoint of each module")) {
      const JsonNode entry(node, member.key, member.value);
      if (entry.Text() != "BEGINNING") entry.Refuse("\"BEGINNING\"");
      cuts.push_back(member.key);
    }
    // A whole module is of the stage whose first module is the last that has begun when it runs.
    const WholeModules whole = FindWholeModules(graph);
    std::vector<ModuleDevice> modules;
    std::set<std::string_view> placed;
    std::size_t stage = 0;
    for (const OpId id : graph.file_order()) {
      const std::string_view module = whole.module_of_op[Index(id)];
      const Op& op = graph.op(id);
      if (module.empty() || op.pass != Pass::kForward || op.kind == "variable" || op.kind == "input") continue;
      while (stage < cuts.size() && (module == cuts[stage] || module.starts_with(cuts[stage] + "."))) ++stage;
      if (placed.insert(module).second) {
        modules.push_back({std::string(module), AcceleratorOf(cluster, stage, std::string(module))});
      }
    }
    if (stage < cuts.size()) throw InputError(cuts[stage], "is no module that runs after those before it");
    // Modules that only hold weights, or are called from others, are with what reads them.
    for (std::size_t group = 0; group < whole.grouping.num_groups(); ++group) {
      const auto members = whole.grouping.members(group);
      const auto known = std::find_if(members.begin(), members.end(),
                                      [&](OpId op) { return placed.count(whole.module_of_op[Index(op)]) > 0; });
      if (known == members.end()) continue;
      const auto device = std::find_if(modules.begin(), modules.end(), [&](const ModuleDevice& module) {
                            return module.path == whole.module_of_op[Index(*known)];
                          })->device;
      for (const OpId op : members) {
        const std::string_view module = whole.module_of_op[Index(op)];
        if (!module.empty() && placed.insert(module).second) modules.push_back({std::string(module), device});
      }
    }
    return PlaceModules(graph, cluster, modules);
  });
}

}  // namespace emplace::datasets
