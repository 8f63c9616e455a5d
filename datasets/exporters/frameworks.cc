#include "datasets/exporters/frameworks.h"
#include "datasets/inference/llama_cpp.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "datasets/exporters/framework_plans.h"
#include "datasets/exporters/module_placement.h"
#include "datasets/exporters/tensor_parallel.h"
#include "datasets/exporters/tensorflow_devices.h"
#include "datasets/models/named_network.h"
#include "datasets/models/transformer.h"
#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/base/registry.h"
#include "sim/base/whole_number.h"
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

constexpr std::string_view kModelMakesThem = "the model's code makes adapters";

void RequireOne(std::string_view format, std::initializer_list<std::pair<std::string_view, std::int64_t>> degrees) {
  for (const auto& [name, value] : degrees) {
    if (value != 1) CannotSay(name, std::to_string(value), format, "1");
  }
}

void RequireRankOrder(std::string_view format, const ParallelPlan& plan) {
  const std::string order = fmt::format("{}", fmt::join(plan.rank_order, "-"));
  if (!order.empty() && order != "tp-cp-dp-pp") CannotSay("rank_order", order, format, "tp-cp-dp-pp");
}

void RequireNoRecompute(std::string_view format, const ParallelPlan& plan) {
  const std::string recompute = plan.recompute_text();
  if (recompute != "none" && recompute != "0") {
    CannotSay("recompute", recompute, format, "none: the model's code switches it on");
  }
}

void RequireWholeProducts(std::string_view format, const ParallelPlan& plan) {
  if (plan.precision != "bf16") CannotSay("precision", plan.precision, format, "bf16: the model's code casts");
}

// `why`: what makes adapters instead.
void RequireNoAdapters(std::string_view format, const ParallelPlan& plan, std::string_view why) {
  if (plan.lora != 0) CannotSay("lora", std::to_string(plan.lora), format, fmt::format("none: {}", why));
}

void RequireNoZero(std::string_view server, const ParallelPlan& plan) {
  constexpr std::string_view kWhy = "it serves, and does not train";
  if (plan.dp_replicate != 1) {
    CannotSay("dp_replicate", std::to_string(plan.dp_replicate), server, fmt::format("1: {}", kWhy));
  }
  if (plan.zero != 0) CannotSay("zero", std::to_string(plan.zero), server, fmt::format("0: {}", kWhy));
}

// ---- Devices

bool IsCpu(const Cluster& cluster, DeviceId device) { return cluster.device(device).is_cpu; }

// "gpu:3" is 3: where the cluster counts, the framework does.
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

std::string TensorFlowDevices(const FrameworkInput& input) {
  return WriteTensorFlowDevices(*input.graph, *input.cluster, *input.placement);
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

// A placement of whole modules: device_of(module) is called for the module of each forward op, in their order, and the
// first answer for a module counts.
template <typename DeviceOf>
Placement PlaceAsTheyRun(const Graph& graph, const Cluster& cluster, DeviceOf device_of) {
  const WholeModules whole = FindWholeModules(graph);
  std::vector<ModuleDevice> modules;
  std::map<std::string_view, DeviceId> placed;
  const auto place = [&](std::string_view module, DeviceId device) {
    if (placed.emplace(module, device).second) modules.push_back({std::string(module), device});
  };
  for (const OpId id : graph.file_order()) {
    const std::string_view module = whole.module_of_op[Index(id)];
    const Op& op = graph.op(id);
    if (module.empty() || op.pass != Pass::kForward || op.kind == "variable" || op.kind == "input") continue;
    place(module, device_of(module));
  }
  // Modules that only hold weights, or are called from others, are with what reads them.
  for (std::size_t group = 0; group < whole.grouping.num_groups(); ++group) {
    const auto members = whole.grouping.members(group);
    const auto known = std::find_if(members.begin(), members.end(),
                                    [&](OpId op) { return placed.count(whole.module_of_op[Index(op)]) > 0; });
    if (known == members.end()) continue;
    const DeviceId device = placed.at(whole.module_of_op[Index(*known)]);
    for (const OpId op : members) {
      if (!whole.module_of_op[Index(op)].empty()) place(whole.module_of_op[Index(op)], device);
    }
  }
  return PlaceModules(graph, cluster, modules);
}

// The actions of each rank, as _load_csv of PyTorch's schedules reads them.
PipelineSchedule ScheduleOf(const ParallelPlan& plan) {
  const ScheduleName name = ParseScheduleName(plan.schedule_name(), "schedule");
  return WithLocation("schedule", [&] {
    return MakeSchedule(name, static_cast<std::size_t>(plan.pp), static_cast<std::size_t>(plan.grad_accumulation));
  });
}

std::string ScheduleCsv(const FrameworkInput& input) {
  std::ostringstream text;
  WriteScheduleCsv(text, ScheduleOf(*input.plan));
  return std::move(text).str();
}

std::string ScheduleCommunicationCsv(const FrameworkInput& input) {
  const ParallelPlan& plan = *input.plan;
  if (plan.zero > 1) {
    CannotSay("zero", std::to_string(plan.zero), "schedule-comms-csv",
              "0 or 1: PyTorch adds the gathering of weights where it reads schedule-csv");
  }
  std::ostringstream text;
  WriteScheduleWithCommunication(text, ScheduleOf(plan));
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

// How many layers each stage has; `ends_may_be_empty`: the first and the last may have none.
std::vector<std::size_t> LayerCounts(const FrameworkInput& input, std::string_view format, bool ends_may_be_empty) {
  std::vector<std::size_t> counts;
  for (const auto& layers : LayersOfStages(*input.plan, input.graph)) counts.push_back(layers.size());
  for (std::size_t s = 0; s < counts.size(); ++s) {
    const bool is_end = s == 0 || s + 1 == counts.size();
    if (counts[s] > 0 || (is_end && ends_may_be_empty)) continue;
    throw InputError(fmt::format("stages[{}]", s), fmt::format("has no layers, which {} cannot say", format));
  }
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

// The plan's network if it is a preset, or a config.json that is there.
std::optional<TransformerNetwork> NetworkOfPlan(const ParallelPlan& plan) {
  const bool is_file = plan.network.ends_with(".json") && std::filesystem::exists(plan.network);
  if (!is_file && FindTransformer(plan.network) == nullptr) return std::nullopt;
  return NamedNetwork(plan.network, plan.set, "set");
}

// "MEM*|EME/*E": the parts of a network's layers as Megatron-LM has them, with the stages' ends and the layers of each
// module that predicts a further token.
std::string HybridPattern(const TransformerNetwork& network, const std::vector<std::size_t>& counts) {
  std::string pattern;
  std::size_t layer = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (i > 0) pattern += '|';
    pattern += network.pattern.substr(layer, counts[i]);
    layer += counts[i];
  }
  for (std::int64_t i = 0; i < network.mtp_layers; ++i) pattern += "/" + network.mtp_pattern;
  return pattern;
}

std::string Megatron(const FrameworkInput& input) {
  const ParallelPlan& plan = *input.plan;
  RequireNoAdapters("Megatron-LM", plan, "Megatron-Bridge's recipes make adapters");
  if (plan.schedule != "1f1b" && !plan.schedule.starts_with("interleaved")) {
    CannotSay("schedule", plan.schedule, "Megatron-LM", "1f1b or interleaved");
  }
  const std::string order = fmt::format("{}", fmt::join(plan.rank_order, "-"));
  if (order != "tp-cp-pp-dp") RequireRankOrder("Megatron-LM", plan);
  std::string text;
  const auto flag = [&](std::string_view name, const auto&... values) {
    text += fmt::format("--{}", name);
    ((text += fmt::format(" {}", values)), ...);
    text += '\n';
  };
  flag("tensor-model-parallel-size", plan.tp);
  flag("pipeline-model-parallel-size", plan.pp);
  const std::optional<TransformerNetwork> network = NetworkOfPlan(plan);
  const bool has_pattern = network && !network->pattern.empty();
  std::vector<std::size_t> counts;
  if (plan.pp > 1) counts = LayerCounts(input, "Megatron-LM", true);
  if (has_pattern) {
    if (counts.empty()) counts = {network->pattern.size()};
    flag("hybrid-layer-pattern", HybridPattern(*network, counts));
    if (network->mtp_shared && network->mtp_layers > 1) flag("mtp-use-repeated-layer");
  } else if (plan.pp > 1) {
    flag("pipeline-model-parallel-layout", MegatronLayout(counts));
  }
  if (order == "tp-cp-pp-dp") flag("use-tp-pp-dp-mapping");
  flag("context-parallel-size", plan.cp);
  if (plan.ep > 1) flag("expert-model-parallel-size", plan.ep);
  if (plan.etp > 1) flag("expert-tensor-parallel-size", plan.etp);
  if (plan.sequence_parallel) flag("sequence-parallel");
  if (plan.precision == "fp8" || plan.precision == "mxfp8") {
    flag("fp8-format", plan.precision == "fp8" ? "hybrid" : "e4m3");
    flag("fp8-recipe", plan.precision == "fp8" ? "tensorwise" : "mxfp8");
  }
  if (plan.precision == "nvfp4") {
    flag("fp4-format", "e2m1");
    flag("fp4-recipe", "nvfp4");
  }
  flag("micro-batch-size", plan.micro_batch);
  flag("global-batch-size", plan.micro_batch * plan.grad_accumulation * plan.dp);
  if (plan.zero == 1) flag("use-distributed-optimizer");
  if (plan.zero > 1) {
    flag("use-distributed-optimizer");
    flag("use-megatron-fsdp");
    flag("data-parallel-sharding-strategy", plan.zero == 2 ? "optim_grads" : "optim_grads_params");
  }
  // Predicted times assume these.
  if (plan.dp * plan.cp > 1) flag("overlap-grad-reduce");
  if (plan.dp * plan.cp > 1 && plan.zero > 0) flag("overlap-param-gather");
  if (plan.dp_replicate > 1) {
    if (plan.zero > 1 && plan.ep > 1) {
      CannotSay("dp_replicate", std::to_string(plan.dp_replicate), "Megatron-LM",
                "1: with ep and zero above 1, its FSDP has no groups of experts for replicas");
    }
    flag("num-distributed-optimizer-instances", plan.dp_replicate);
  }
  const std::string recompute = plan.recompute_text();
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
  RequireRankOrder("DeepSpeed's configuration", plan);
  RequireNoRecompute("DeepSpeed's configuration", plan);
  RequireWholeProducts("DeepSpeed's configuration", plan);
  RequireNoAdapters("DeepSpeed's configuration", plan, kModelMakesThem);
  if (plan.sequence_parallel) CannotSay("sequence_parallel", "true", "DeepSpeed's configuration", "false");
  if (plan.dp_replicate != 1) {
    CannotSay("dp_replicate", std::to_string(plan.dp_replicate), "DeepSpeed's configuration",
              "1: it has no MiCS any more, and zero_hpz_partition_size replicates weights only");
  }
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

// Its names of the modules of each stage, whose layers are paths or numbers.
std::vector<std::vector<std::string>> TitanStages(const ParallelPlan& plan) {
  std::vector<std::vector<std::string>> names;
  const auto is_number = [](const JsonValue& part) { return part.As<std::int64_t>() != nullptr; };
  if (std::ranges::all_of(plan.stages, [&](const auto& stage) { return std::ranges::all_of(stage, is_number); })) {
    for (const std::vector<JsonValue>& stage : plan.stages) {
      names.emplace_back();
      for (const JsonValue& layer : stage) {
        names.back().push_back(fmt::format("layers.{}", *layer.As<std::int64_t>()));
      }
    }
    names.front().insert(names.front().begin(), "tok_embeddings");
    names.back().insert(names.back().end(), {"norm", "lm_head"});
    return names;
  }
  for (const std::vector<std::string>& stage : PathsOfStages(plan, "torchtitan")) {
    names.emplace_back();
    for (const std::string& path : stage) {
      if (std::string name = TitanModule(path); !name.empty()) names.back().push_back(std::move(name));
    }
  }
  return names;
}

std::string Torchtitan(const FrameworkInput& input) {
  const ParallelPlan& plan = *input.plan;
  if (const auto network = NetworkOfPlan(plan); network && !network->pattern.empty()) {
    CannotSay("network", network->name, "torchtitan", "a network whose layers are all alike: it has none with Mamba");
  }
  RequireRankOrder("torchtitan", plan);
  if (plan.zero == 1) CannotSay("zero", "1", "torchtitan", "0, 2 or 3");
  RequireWholeProducts("torchtitan", plan);
  RequireNoAdapters("torchtitan", plan, kModelMakesThem);
  Json parallelism = {{"data_parallel_replicate_degree", plan.zero == 0 ? plan.dp : plan.dp_replicate},
                      {"data_parallel_shard_degree", plan.zero == 0 ? 1 : plan.dp_shard()},
                      {"tensor_parallel_degree", plan.tp},
                      {"context_parallel_degree", plan.cp},
                      {"expert_parallel_degree", plan.ep},
                      {"pipeline_parallel_degree", plan.pp}};
  RequireOne("torchtitan", {{"etp", plan.etp}});
  if (plan.zero > 1) parallelism["fsdp_reshard_after_forward"] = plan.zero == 2 ? "never" : "always";
  if (plan.tp > 1) parallelism["enable_sequence_parallel"] = plan.sequence_parallel;
  if (plan.pp > 1) {
    parallelism["pipeline_parallel_schedule"] = TorchSchedule(plan, "torchtitan");
    parallelism["pipeline_parallel_microbatch_size"] = plan.micro_batch;
    const std::int64_t stages_of_rank = plan.schedule.starts_with("interleaved") || plan.schedule == "zb-v" ? 2 : 1;
    if (plan.stages.empty() && plan.vpp != stages_of_rank) {
      throw InputError("stages", fmt::format("is missing (torchtitan divides by itself into {} stages of a rank, and "
                                             "vpp is {})",
                                             stages_of_rank, plan.vpp));
    }
    if (!plan.stages.empty()) parallelism["module_fqns_per_model_part"] = TitanStages(plan);
  }
  const std::string recompute = plan.recompute_text();
  if (recompute != "none" && recompute != "0" && recompute != "selective" && recompute != "full") {
    CannotSay("recompute", recompute, "torchtitan", "none, selective or full");
  }
  // A pipeline divides the local batch into micro-batches; without one, the trainer accumulates gradients of local
  // batches up to the global one.
  const std::int64_t local = plan.micro_batch * (plan.pp > 1 ? plan.grad_accumulation : 1);
  const Json config = {
      {"parallelism", std::move(parallelism)},
      {"training",
       {{"local_batch_size", local}, {"global_batch_size", plan.micro_batch * plan.grad_accumulation * plan.dp}}},
      {"activation_checkpoint", recompute == "full"        ? Json("FullAC")
                                : recompute == "selective" ? Json("SelectiveAC")
                                                           : Json(nullptr)}};
  return Pretty(config);
}

// ---- FSDP2 and tensor parallelism of torch.distributed

std::string Fsdp(const FrameworkInput& input) {
  const ParallelPlan& plan = *input.plan;
  RequireOne("fully_shard", {{"pp", plan.pp}, {"cp", plan.cp}, {"ep", plan.ep}, {"etp", plan.etp}});
  RequireRankOrder("fully_shard", plan);
  if (plan.zero == 1) CannotSay("zero", "1", "fully_shard", "0, 2 or 3");
  RequireNoRecompute("fully_shard", plan);
  RequireWholeProducts("fully_shard", plan);
  RequireNoAdapters("fully_shard", plan, kModelMakesThem);
  if (input.graph == nullptr) throw InputError("--graph", "is missing (the modules to shard)");
  Json shard = Json::array();
  std::set<std::string_view> seen;
  for (const OpId id : input.graph->file_order()) {
    const std::string_view block = NumberedBlock(input.graph->op(id).layer);
    if (!block.empty() && seen.insert(block).second) shard.push_back(block);
  }
  shard.push_back("");  // the model itself, last
  Json mesh = {{"dp", plan.dp}, {"tp", plan.tp}};
  if (plan.dp_replicate > 1) {
    mesh = {{"dp_replicate", plan.dp_replicate}, {"dp_shard", plan.dp_shard()}, {"tp", plan.tp}};
  }
  Json json = {{"mesh", std::move(mesh)},
               {"fully_shard", plan.zero == 0 ? Json::array() : std::move(shard)},
               {"reshard_after_forward", plan.zero == 3},
               {"micro_batch", plan.micro_batch},
               {"grad_accumulation", plan.grad_accumulation},
               {"sequence_parallel", plan.sequence_parallel}};
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
  RequireRankOrder("vLLM", plan);
  RequireNoRecompute("vLLM", plan);
  RequireNoZero("vLLM", plan);
  const std::int64_t ranks = plan.tp * plan.dp;
  if (plan.ep != 1 && plan.ep != ranks) {
    CannotSay("ep", std::to_string(plan.ep), "vLLM", fmt::format("1, or tp times dp, which is {}", ranks));
  }
  std::string text;
  if (plan.pp > 1) {
    text = fmt::format("VLLM_PP_LAYER_PARTITION={}\n", fmt::join(LayerCounts(input, "vLLM", false), ","));
  }
  text += fmt::format("--pipeline-parallel-size {}\n--tensor-parallel-size {}\n", plan.pp, plan.tp);
  if (plan.dp > 1) text += fmt::format("--data-parallel-size {}\n", plan.dp);
  if (plan.ep > 1) text += "--enable-expert-parallel\n";
  return text;
}

// llama.cpp loads all layers to GPUs with -ngl, and -ot sends tensors whose names match elsewhere.
std::string LlamaCpp(const FrameworkInput& input) {
  if (input.placement == nullptr) {
    const ParallelPlan& plan = *input.plan;
    RequireOne("llama.cpp", {{"tp", plan.tp}, {"dp", plan.dp}, {"cp", plan.cp}, {"ep", plan.ep}, {"etp", plan.etp}});
    RequireNoRecompute("llama.cpp", plan);
    RequireNoZero("llama.cpp", plan);
    std::vector<std::string> rules;
    const auto stages = LayersOfStages(*input.plan, input.graph);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      if (stages[s].empty()) {
        throw InputError(fmt::format("stages[{}]", s), "has no layers, which llama.cpp cannot say (whole layers)");
      }
      rules.push_back(
          fmt::format("blk\\.({})\\.=CUDA{}", fmt::join(stages[s], "|"), s % static_cast<std::size_t>(input.plan->pp)));
    }
    rules.push_back(fmt::format("output=CUDA{}", (stages.size() - 1) % static_cast<std::size_t>(input.plan->pp)));
    return fmt::format("-ngl 999\n-ot {}\n", fmt::join(rules, ","));
  }
  const Cluster& cluster = *input.cluster;
  std::vector<std::pair<DeviceId, std::vector<std::int64_t>>> layers;
  std::set<std::int64_t> seen;
  std::optional<DeviceId> head;
  for (const ModuleStage& stage : ModuleStages(*input.graph, cluster, *input.placement)) {
    layers.push_back({stage.device, {}});
    for (const std::string& path : stage.modules) {
      const std::string_view block = NumberedBlock(path);
      if (block.empty()) continue;
      if (block != path) throw InputError(path, "is inside of a layer (whole layers: --grouping layers)");
      if (!seen.insert(NumberOfBlock(block)).second) {
        throw InputError(path, "is a second layer of its number (llama.cpp numbers the layers of one stack)");
      }
      layers.back().second.push_back(NumberOfBlock(block));
    }
    head = stage.device;
  }
  if (seen.empty()) throw InputError(input.graph->name(), "has no numbered layers (those of a captured model)");
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

DeviceId LlamaCppDevice(const Cluster& cluster, const std::string& name) {
  if (name == "CPU") {
    for (std::size_t i = 0; i < cluster.num_devices(); ++i) {
      if (IsCpu(cluster, MakeId<DeviceId>(i))) return MakeId<DeviceId>(i);
    }
  }
  const auto number = name.starts_with("CUDA") ? WholeNumber<std::uint32_t>(name.substr(4)) : std::nullopt;
  if (!number)
    throw InputError("-ot", fmt::format("has the device {} (CPU or CUDA0, .. of the cluster)", Quoted(name)));
  return AcceleratorOf(cluster, *number, "-ot");
}

// ---- ONNX Runtime

constexpr std::string_view kOnnxSettings = "session.layer_assignment_settings";
constexpr std::string_view kOnnxAnnotations = "layer_ann";

bool IsOnnxNode(const Op& op) { return op.kind != "input" && op.kind != "variable"; }

std::optional<DeviceId> OnnxRuntimeDevice(const Cluster& cluster, std::string_view name) {
  for (std::size_t i = 0; i < cluster.num_devices(); ++i) {
    const auto device = MakeId<DeviceId>(i);
    const bool is_cpu = IsCpu(cluster, device);
    if (is_cpu ? name == "cpu" : name == fmt::format("gpu:{}", AcceleratorNumber(cluster, device))) return device;
  }
  return std::nullopt;
}

// One session holds one instance of a provider: a CPU and one GPU. The annotation of a node is its device.
std::string OnnxRuntime(const FrameworkInput& input) {
  const Cluster& cluster = *input.cluster;
  Json nodes = Json::object();
  std::set<DeviceId> accelerators;
  bool uses_cpu = false;
  for (const OpId id : input.graph->file_order()) {
    const Op& op = input.graph->op(id);
    if (!IsOnnxNode(op)) continue;
    const DeviceId device = (*input.placement)[id];
    if (!IsCpu(cluster, device)) accelerators.insert(device);
    uses_cpu = uses_cpu || IsCpu(cluster, device);
    nodes[std::string(op.name)] = IsCpu(cluster, device) ? "on_cpu" : "on_gpu";
  }
  if (accelerators.size() > 1) {
    std::vector<std::string> names;
    names.reserve(accelerators.size());
    for (const DeviceId device : accelerators) names.push_back(cluster.device(device).name);
    throw InputError("placement", fmt::format("uses {}: a session of ONNX Runtime has one GPU (the CPU and one GPU)",
                                              fmt::join(names, ", ")));
  }
  std::vector<std::string> rules;
  if (uses_cpu) rules.emplace_back("cpu(=on_cpu)");
  for (const DeviceId device : accelerators) {
    rules.push_back(fmt::format("gpu:{}(=on_gpu)", AcceleratorNumber(cluster, device)));
  }
  const Json json = {{kOnnxSettings, fmt::format("{}", fmt::join(rules, ";"))}, {kOnnxAnnotations, std::move(nodes)}};
  return Pretty(json);
}

}  // namespace

std::vector<DeviceId> Accelerators(const Cluster& cluster) {
  std::vector<DeviceId> devices;
  for (std::size_t i = 0; i < cluster.num_devices(); ++i) {
    if (!IsCpu(cluster, MakeId<DeviceId>(i))) devices.push_back(MakeId<DeviceId>(i));
  }
  return devices;
}

std::span<const FrameworkTarget> AllFrameworkTargets() {
  static constexpr std::array<FrameworkTarget, 13> kTargets = {{
      {"device-map", "Accelerate's device_map: a device for each module", true, DeviceMap},
      {"split-spec", "split_spec of torch.distributed.pipelining: the module at which each stage begins", false,
       SplitSpecText},
      {"stages", "the modules of each stage, for stages made by hand", false, Stages},
      {"schedule-csv", "the actions of each rank, as schedules of torch.distributed.pipelining read them", false,
       ScheduleCsv},
      {"schedule-comms-csv", "the same with what ranks send to one another", false, ScheduleCommunicationCsv},
      {"fsdp", "fully_shard and parallelize_module of PyTorch, by module", false, Fsdp},
      {"torchtitan", "the fields of torchtitan's configuration", false, Torchtitan},
      {"megatron", "Megatron-LM's command line", false, Megatron},
      {"deepspeed", "DeepSpeed's configuration", false, DeepSpeed},
      {"onnxruntime", "ONNX Runtime's layer assignment: a CPU and one GPU", true, OnnxRuntime},
      {"tensorflow", "TensorFlow's device of each node", true, TensorFlowDevices},
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
    const JsonValue root = ParseJson(text);
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
    const JsonValue root = ParseJson(text);
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
    const JsonValue root = ParseJson(text);
    const JsonNode node(root);
    std::vector<std::string> cuts;
    for (const JsonMember& member : node.Object("an object: SplitPoint of each module")) {
      const JsonNode entry(node, member.key, member.value);
      if (entry.Text() != "BEGINNING") entry.Refuse("\"BEGINNING\"");
      cuts.push_back(member.key);
    }
    // A whole module is of the stage whose first module is the last that has begun when it runs.
    std::size_t stage = 0;
    Placement placement = PlaceAsTheyRun(graph, cluster, [&](std::string_view module) {
      while (stage < cuts.size() && (module == cuts[stage] || module.starts_with(cuts[stage] + "."))) ++stage;
      return AcceleratorOf(cluster, stage, std::string(module));
    });
    if (stage < cuts.size()) throw InputError(cuts[stage], "is no module that runs after those before it");
    return placement;
  });
}

Placement ReadLlamaCpp(std::string_view text, const std::string& file, const Graph& graph, const Cluster& cluster) {
  if (IsInferenceGraph(graph)) {
    const LlamaCppArguments arguments = ReadLlamaCppArguments(text, file);
    return WithLocation(file, [&] { return PlacementOf(arguments, graph, cluster); });
  }
  return WithLocation(file, [&] {
    const LlamaCppRules rules = ReadLlamaCppRules(text);
    std::map<std::int64_t, DeviceId> device_of_layer;
    for (const auto& [name, layers] : rules.layers) {
      for (const std::int64_t layer : layers) {
        if (device_of_layer.emplace(layer, LlamaCppDevice(cluster, name)).second) continue;
        throw InputError("-ot", fmt::format("has layer {} twice (once)", layer));
      }
    }
    if (device_of_layer.empty()) throw InputError("-ot", "has no layers (blk\\.(0|1)\\.=CUDA0)");
    // What is not in a layer is beside the layer before it, or at the ends beside the first layer and the output.
    DeviceId device = device_of_layer.begin()->second;
    return PlaceAsTheyRun(graph, cluster, [&](std::string_view module) {
      const std::string_view block = NumberedBlock(module);
      if (block.empty()) return device;
      const auto found = device_of_layer.find(NumberOfBlock(block));
      if (found == device_of_layer.end()) throw InputError("-ot", fmt::format("has no rule for {}", Quoted(block)));
      const bool is_last = std::next(found) == device_of_layer.end() && !rules.output.empty();
      device = is_last ? LlamaCppDevice(cluster, rules.output) : found->second;
      return found->second;
    });
  });
}

Placement ReadOnnxRuntime(std::string_view text, const std::string& file, const Graph& graph, const Cluster& cluster) {
  return WithLocation(file, [&] {
    const JsonValue root = ParseJson(text);
    const JsonNode node(root);
    const JsonFields fields(node, {kOnnxSettings, kOnnxAnnotations});
    const JsonNode settings = fields.Get(kOnnxSettings, "cpu(=on_cpu);gpu:0(=on_gpu)");
    std::map<std::string, DeviceId, std::less<>> device_of;
    std::istringstream rules(settings.Text());
    for (std::string rule; std::getline(rules, rule, ';');) {
      const std::size_t open = rule.find("(=");
      if (open == std::string::npos || !rule.ends_with(')')) settings.Refuse("cpu(=on_cpu);gpu:0(=on_gpu)");
      const auto device = OnnxRuntimeDevice(cluster, std::string_view(rule).substr(0, open));
      if (!device) settings.Refuse("\"cpu\" and \"gpu:N\", devices of the cluster");
      device_of[rule.substr(open + 2, rule.size() - open - 3)] = *device;
    }
    Placement placement(graph.num_ops());
    std::vector<bool> placed(graph.num_ops(), false);
    const JsonNode nodes = fields.Get(kOnnxAnnotations, "an annotation for each node");
    for (const JsonMember& member : nodes.Object()) {
      const JsonNode entry(nodes, member.key, member.value);
      const auto op = graph.FindOp(member.key);
      if (!op) throw InputError(entry.Place(), "is no op of the graph");
      const auto device = device_of.find(entry.Text());
      if (device == device_of.end()) entry.Refuse("an annotation of the settings");
      placement[*op] = device->second;
      placed[Index(*op)] = true;
    }
    for (const OpId id : graph.file_order()) {
      if (IsOnnxNode(graph.op(id))) {
        if (!placed[Index(id)]) throw InputError(std::string(graph.op(id).name), "has no annotation");
        for (const TensorId tensor : graph.inputs(id)) {  // inputs and weights are beside what reads them first
          const OpId source = graph.tensor(tensor).producer;
          if (placed[Index(source)] || IsOnnxNode(graph.op(source))) continue;
          placement[source] = placement[id];
          placed[Index(source)] = true;
        }
      }
    }
    return placement;
  });
}

std::span<const std::string_view> PlacementFormats() {
  static constexpr std::array<std::string_view, 7> kNames = {"device-map", "split-spec",  "stages",    "plan",
                                                             "llama.cpp",  "onnxruntime", "tensorflow"};
  return kNames;
}

Placement ReadFrameworkPlacement(std::string_view target, std::string_view text, const std::string& file,
                                 const Graph& graph, const Cluster& cluster) {
  if (target == "device-map") return ReadDeviceMap(text, file, graph, cluster);
  if (target == "split-spec") return ReadSplitSpec(text, file, graph, cluster);
  if (target == "stages") return ReadStages(text, file, graph, cluster);
  if (target == "llama.cpp") return ReadLlamaCpp(text, file, graph, cluster);
  if (target == "onnxruntime") return ReadOnnxRuntime(text, file, graph, cluster);
  if (target == "tensorflow") return ReadTensorFlowDevices(text, file, graph, cluster);
  if (target != "plan") {
    throw InputError("--from", fmt::format("is {} ({})", Quoted(target), fmt::join(PlacementFormats(), ", ")));
  }
  std::istringstream in{std::string(text)};
  const ParallelPlan plan = ReadPlan(in, file);
  return WithLocation(file, [&] { return PlacementOfPlan(graph, cluster, plan); });
}

}  // namespace emplace::datasets
