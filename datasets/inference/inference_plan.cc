#include "datasets/inference/inference_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/registry.h"
#include "sim/base/suggestion.h"

namespace emplace::datasets {
namespace {

constexpr InferenceObjectiveEntry kInferenceObjectives[] = {
    {"decode", InferenceObjective::kDecode, "time of one generated token, with a full context"},
    {"prefill", InferenceObjective::kPrefill, "time of a prompt as long as the context"},
    {"decode-throughput", InferenceObjective::kDecodeThroughput,
     "tokens generated per second by several texts in flight (--parallel)"},
};

constexpr double kNoSplit = std::numeric_limits<double>::infinity();
// From this latency on a link is a network.
constexpr double kNetworkMicros = 30;
// What the driver's context takes of a GPU, and what is left to the system of a machine's memory: our estimates.
constexpr std::int64_t kGpuContextBytes = std::int64_t{400} << 20;
constexpr std::int64_t kSystemBytes = std::int64_t{1} << 30;
// What a server costs each pass beside the network: 0.36 ms, measured with ggml-rpc-server of llama-cpp-python 0.3.36
// on the loopback device (one and two servers, 16 layers of 1,024 on one thread of a Zen 5).
constexpr double kServerMicros = 360;
constexpr std::int64_t kContextStep = 256;

InferencePass PassOf(const InferenceOptions& options) {
  InferencePass pass;
  const auto bytes = [](const GgmlType* type) {
    return type == nullptr ? 2 : static_cast<double>(type->block_bytes) / static_cast<double>(type->block);
  };
  pass.key_bytes = bytes(options.key_type);
  pass.value_bytes = bytes(options.value_type);
  pass.depth = static_cast<double>(options.depth.value_or(options.context));
  pass.sequences = static_cast<double>(options.parallel);
  pass.tokens = pass.sequences;
  if (options.objective == InferenceObjective::kDecode) {
    pass.tokens = 1;
    pass.sequences = 1;
  } else if (options.objective == InferenceObjective::kPrefill) {
    const std::int64_t prompt = options.prompt.value_or(options.context);
    pass.tokens = static_cast<double>(std::min(options.micro_batch, prompt));
    pass.sequences = 1;
    // The mean over the passes of the prompt.
    pass.depth = static_cast<double>(options.depth.value_or(0)) + (static_cast<double>(prompt) - pass.tokens) / 2;
  }
  return pass;
}

double MicrosOfTransfer(const Link& link, double bytes) { return link.latency_micros + link.MicrosOf(bytes); }

// The devices with one client, as a problem of splitting a chain.
class ClientProblem {
 public:
  ClientProblem(const InferenceModel& model, const Cluster& cluster, const InferenceOptions& options,
                const std::vector<std::string>& machines, std::string client)
      : model_(model),
        cluster_(cluster),
        options_(options),
        machines_(machines),
        client_(std::move(client)),
        pass_(PassOf(options)) {
    for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
      const Device& device = cluster.devices()[d];
      if (IsLocal(d) && device.is_cpu && !cpu_) cpu_ = d;
      if (!device.is_cpu) ++num_accelerators_;
    }
    // What the embedding and the buffers of the CPU take of the client's memory.
    if (cpu_) {
      const std::optional<Bytes> memory = MemoryOf(cluster, MakeId<DeviceId>(*cpu_));
      host_capacity_ = memory ? memory->count - kSystemBytes - model.embedding.bytes() - Compute(false, true)
                              : std::numeric_limits<std::int64_t>::max() / 4;
    }
    for (const InferenceLayer& layer : model.layers) experts_.push_back(layer.experts.bytes());
    experts_.push_back(0);
    for (std::size_t d = 0; d < cluster.num_devices(); ++d) devices_.push_back(DeviceOf(d));
    for (std::size_t d = 0; d < devices_.size(); ++d) devices_[d].likeness = LikenessOf(d);
  }

  std::optional<InferencePlan> Solve() const {
    const std::optional<LayerSplit> split =
        FindFastestSplit(devices_, model_.layers.size() + 1, experts_, host_capacity_, cpu_);
    if (!split) return std::nullopt;
    InferencePlan plan;
    plan.client = client_;
    if (cpu_) plan.client_cpu = MakeId<DeviceId>(*cpu_);
    plan.pass_micros = split->micros;
    plan.bound_micros = split->bound_micros;
    if (cpu_) plan.host_bytes = model_.embedding.bytes() + Compute(false, true);
    for (const SplitStage& stage : split->stages) {
      plan.stages.push_back(StageOf(stage));
      for (std::size_t i = stage.first; i < stage.first + stage.hosted; ++i) plan.host_bytes += experts_[i];
      if (cpu_ == stage.device) plan.host_bytes += plan.stages.back().bytes() - plan.stages.back().compute_bytes;
    }
    plan.tokens_per_s = pass_.tokens * 1e6 / plan.pass_micros;
    return plan;
  }

 private:
  bool IsLocal(std::size_t device) const { return machines_[device] == client_; }
  // On the CPU of the client, whose buffers are not copied, or on an accelerator beside others.
  std::int64_t Compute(bool has_output, bool is_client) const {
    const DevicePart part = {.has_layers = true,
                             .has_output = has_output,
                             .is_client = is_client,
                             .is_pipelined = !is_client && num_accelerators_ > 1};
    return ComputeBytes(model_, part, options_.context * options_.parallel, options_.micro_batch);
  }
  const InferenceLayer& Layer(std::size_t i) const { return model_.layers[i]; }
  std::int64_t LayerBytes(std::size_t i) const {
    return Layer(i).attention.bytes() + Layer(i).feed_forward.bytes() + Layer(i).experts.bytes();
  }
  std::int64_t Caches(std::size_t i) const {
    InferencePass pass = pass_;
    pass.sequences = static_cast<double>(options_.parallel);
    return CacheBytes(Layer(i), pass, options_.context, options_.micro_batch);
  }

  InferenceRates RatesOfDevice(std::size_t d) const {
    const Device& device = cluster_.devices()[d];
    if (const auto measured = options_.rates.find(device.kind); measured != options_.rates.end())
      return measured->second;
    const DeviceKind* const kind = cluster_.FindKind(device.kind);
    const std::optional<InferenceRates> rates = kind == nullptr ? std::nullopt : RatesOf(*kind);
    if (!rates) {
      throw InputError("device " + device.name,
                       fmt::format("its kind {} has no rates: expected a kind of `emplace list devices`, or one under "
                                   "kinds: with memory_bandwidth_gb_per_s and peak_tflop_per_s{}",
                                   device.kind, DidYouMean(device.kind, NamesOf(AllDeviceKinds()))));
    }
    return *rates;
  }

  // What goes to the device and back in each pass. The client is the hub: servers send nothing to one another.
  double StageMicros(std::size_t d) const {
    const std::size_t hub = cpu_ ? *cpu_ : FirstLocal();
    if (d == hub) return 0;
    const double mask = (pass_.depth + pass_.tokens) * pass_.tokens * 4;
    const double hidden = pass_.tokens * static_cast<double>(model_.width) * 4;
    return (IsLocal(d) ? 0 : kServerMicros) + MicrosOfTransfer(LinkOf(hub, d), hidden + (IsLocal(d) ? 0 : mask)) +
           MicrosOfTransfer(LinkOf(d, hub), hidden);
  }
  double LogitsMicros(std::size_t d) const {
    const std::size_t hub = cpu_ ? *cpu_ : FirstLocal();
    if (d == hub) return 0;
    return LinkOf(d, hub).MicrosOf(pass_.sequences * static_cast<double>(model_.vocabulary) * 4);
  }
  const Link& LinkOf(std::size_t from, std::size_t to) const {
    const Link& link = cluster_.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to));
    if (!link.exists()) {
      throw InputError("link", fmt::format("there is none from {} to {}: the machine that runs the model is joined to "
                                           "every other",
                                           cluster_.devices()[from].name, cluster_.devices()[to].name));
    }
    return link;
  }
  std::size_t FirstLocal() const {
    return static_cast<std::size_t>(std::find(machines_.begin(), machines_.end(), client_) - machines_.begin());
  }

  SplitDevice DeviceOf(std::size_t d) const {
    const Device& device = cluster_.devices()[d];
    const InferenceRates rates = RatesOfDevice(d);
    SplitDevice split;
    split.stage_micros = StageMicros(d);
    split.is_first_only = cpu_ == d;
    split.capacity = std::numeric_limits<std::int64_t>::max() / 4;
    if (cpu_ == d) {
      split.capacity = host_capacity_;
    } else if (const std::optional<Bytes> memory = MemoryOf(cluster_, MakeId<DeviceId>(d))) {
      split.capacity = memory->count - Compute(false, false) - (device.is_cpu ? kSystemBytes : kGpuContextBytes);
    }
    const bool may_host = cpu_ && IsLocal(d) && cpu_ != d;
    const std::optional<InferenceRates> host_rates = may_host ? std::optional(RatesOfDevice(*cpu_)) : std::nullopt;
    const double hop = may_host ? StageMicros(d) : 0;
    for (std::size_t i = 0; i < model_.layers.size(); ++i) {
      const double without = LayerMicros(model_, Layer(i), pass_, rates);
      const std::int64_t experts = Layer(i).experts.bytes();
      split.micros.push_back(without + ExpertMicros(model_, Layer(i), pass_, rates));
      split.bytes.push_back(LayerBytes(i) + Caches(i));
      const bool hosts = may_host && experts > 0;
      double hosted = kNoSplit;
      if (may_host) hosted = split.micros.back();
      if (hosts) hosted = without + hop + ExpertMicros(model_, Layer(i), pass_, *host_rates);
      split.hosted_micros.push_back(hosted);
      split.hosted_bytes.push_back(split.bytes.back() - (hosts ? experts : 0));
    }
    split.micros.push_back(OutputMicros(model_, pass_, rates) + LogitsMicros(d));
    split.bytes.push_back(OutputBytes(d));
    split.hosted_micros.push_back(kNoSplit);
    if (may_host) split.hosted_micros.back() = split.micros.back();
    split.hosted_bytes.push_back(split.bytes.back());
    return split;
  }

  // The last norm, the logits' weights (a copy of the embedding, where they are that and it is not in the same memory),
  // and what the buffers of the logits take beyond those of a layer.
  std::int64_t OutputBytes(std::size_t d) const {
    return OutputWeights(d) + Compute(true, cpu_ == d) - Compute(false, cpu_ == d);
  }
  std::int64_t OutputWeights(std::size_t d) const {
    return model_.output.bytes() + (model_.is_tied && cpu_ != d ? model_.embedding.bytes() : 0);
  }

  // The first device with the same numbers.
  int LikenessOf(std::size_t d) const {
    for (std::size_t other = 0; other < d; ++other) {
      const SplitDevice& a = devices_[other];
      const SplitDevice& b = devices_[d];
      if (a.stage_micros == b.stage_micros && a.capacity == b.capacity && a.is_first_only == b.is_first_only &&
          a.micros == b.micros && a.hosted_micros == b.hosted_micros && a.bytes == b.bytes) {
        return static_cast<int>(other);
      }
    }
    return static_cast<int>(d);
  }

  InferenceStage StageOf(const SplitStage& split) const {
    InferenceStage stage;
    stage.device = MakeId<DeviceId>(split.device);
    stage.first = split.first;
    stage.end = std::min(split.end, model_.layers.size());
    stage.hosted = split.hosted;
    stage.has_output = split.end > model_.layers.size();
    stage.micros = SplitMicros(devices_, {split});
    for (std::size_t i = stage.first; i < stage.end; ++i) {
      stage.weight_bytes += LayerBytes(i) - (i < stage.first + stage.hosted ? experts_[i] : 0);
      stage.cache_bytes += Caches(i);
    }
    if (stage.has_output) stage.weight_bytes += OutputWeights(split.device);
    stage.compute_bytes = Compute(stage.has_output, cpu_ == split.device);
    if (!cluster_.devices()[split.device].is_cpu) stage.reserved_bytes = kGpuContextBytes;
    return stage;
  }

  const InferenceModel& model_;
  const Cluster& cluster_;
  const InferenceOptions& options_;
  const std::vector<std::string>& machines_;
  std::string client_;
  InferencePass pass_;
  std::optional<std::size_t> cpu_;  // the client's
  std::int64_t num_accelerators_ = 0;
  std::int64_t host_capacity_ = 0;
  std::vector<std::int64_t> experts_;  // bytes of each layer's, 0 of the output
  std::vector<SplitDevice> devices_;
};

std::vector<std::string> DistinctMachines(const std::vector<std::string>& machines) {
  std::vector<std::string> distinct;
  for (const std::string& machine : machines) {
    if (std::find(distinct.begin(), distinct.end(), machine) == distinct.end()) distinct.push_back(machine);
  }
  return distinct;
}

// llama.cpp's name of a device: of its backend, counted in the machine, or of a server, counted over all.
std::string_view BackendOf(const std::string& kind) {
  if (kind.starts_with("rx-") || kind.starts_with("radeon") || kind.starts_with("mi") || kind.starts_with("ryzen"))
    return "ROCm";
  if (kind.starts_with("arc-")) return "SYCL";
  if (kind.size() >= 2 && kind[0] == 'm' && kind[1] >= '1' && kind[1] <= '9') return "MTL";
  return "CUDA";
}

struct LlamaCppDevices {
  std::vector<std::string> names;           // [stage]; "CPU" of the client's CPU
  std::vector<std::string> servers;         // HOST:PORT in the order of RPC0, RPC1, ..
  std::vector<std::string> server_devices;  // what each server computes on
};

LlamaCppDevices NamesOfStages(const InferencePlan& plan, const Cluster& cluster) {
  const std::vector<std::string> machines = MachinesOf(cluster);
  const std::vector<std::string> local = LlamaCppNames(cluster);
  LlamaCppDevices devices;
  for (const InferenceStage& stage : plan.stages) {
    const std::size_t d = Index(stage.device);
    if (machines[d] == plan.client) {
      devices.names.push_back(local[d]);
      continue;
    }
    const auto ordinal = std::count(machines.begin(), machines.begin() + static_cast<std::ptrdiff_t>(d), machines[d]);
    devices.names.push_back("RPC" + std::to_string(devices.servers.size()));
    devices.servers.push_back(fmt::format("{}:{}", machines[d], kFirstRpcPort + ordinal));
    devices.server_devices.push_back(local[d]);
  }
  return devices;
}

// The text as one word of sh.
std::string ShellWord(const std::string& text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// The flags of experts in the client's memory: of the first layers of all by their number, of others by their names.
std::string ExpertFlags(const InferencePlan& plan) {
  std::vector<std::size_t> hosted;
  for (const InferenceStage& stage : plan.stages) {
    for (std::size_t i = stage.first; i < stage.first + stage.hosted; ++i) hosted.push_back(i);
  }
  if (hosted.empty()) return "";
  if (hosted.back() + 1 == hosted.size()) return fmt::format(" --n-cpu-moe {}", hosted.size());
  return " -ot " +
         ShellWord(fmt::format("blk\\.({})\\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU", fmt::join(hosted, "|")));
}

}  // namespace

std::span<const InferenceObjectiveEntry> AllInferenceObjectives() { return kInferenceObjectives; }

std::optional<Bytes> MemoryOf(const Cluster& cluster, DeviceId device) {
  const Device& of = cluster.device(device);
  if (of.memory) return of.memory;
  const DeviceKind* const kind = cluster.FindKind(of.kind);
  return kind == nullptr ? std::nullopt : kind->memory;
}

std::string InferenceStage::LayersText() const {
  std::string text;
  if (end > first) text = fmt::format("{} to {}", first, end - 1);
  if (has_output) text += text.empty() ? "output" : ", output";
  return text;
}

std::vector<std::string> MachinesOf(const Cluster& cluster) {
  std::vector<std::string> machines;
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    const Device& device = cluster.devices()[d];
    std::string machine = device.host.empty() ? device.name : device.host;
    for (std::size_t other = 0; other < d && device.host.empty(); ++other) {
      const Link& link = cluster.link(MakeId<DeviceId>(other), MakeId<DeviceId>(d));
      if (link.exists() && link.latency_micros < kNetworkMicros) {
        machine = machines[other];
        break;
      }
    }
    machines.push_back(std::move(machine));
  }
  return machines;
}

std::vector<std::string> LlamaCppNames(const Cluster& cluster) {
  const std::vector<std::string> machines = MachinesOf(cluster);
  std::vector<std::string> names;
  std::map<std::string, int> counts;
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    const Device& device = cluster.devices()[d];
    if (device.is_cpu) {
      names.emplace_back("CPU");
      continue;
    }
    const std::string backend(BackendOf(device.kind));
    names.push_back(backend + std::to_string(counts[machines[d] + " " + backend]++));
  }
  return names;
}

std::optional<InferencePlan> PlanInference(const InferenceModel& model, const Cluster& cluster,
                                           const InferenceOptions& options) {
  if (options.context < 1) throw InputError("--context", fmt::format("{}: expected at least 1", options.context));
  if (options.parallel < 1) throw InputError("--parallel", fmt::format("{}: expected at least 1", options.parallel));
  const std::vector<std::string> machines = MachinesOf(cluster);
  std::vector<std::string> clients = DistinctMachines(machines);
  if (!options.client.empty()) {
    if (std::find(clients.begin(), clients.end(), options.client) == clients.end()) {
      throw InputError("--client", fmt::format("{}: there is no such machine (known: {})", options.client,
                                               fmt::join(clients, ", ")));
    }
    clients = {options.client};
  }
  std::optional<InferencePlan> best;
  double bound = kNoSplit;
  for (const std::string& client : clients) {
    std::optional<InferencePlan> plan = ClientProblem(model, cluster, options, machines, client).Solve();
    if (!plan) continue;
    bound = std::min(bound, plan->bound_micros);
    if (!best || plan->pass_micros < best->pass_micros) best = std::move(plan);
  }
  if (best) best->bound_micros = std::min(bound, best->pass_micros);
  return best;
}

std::int64_t LongestContext(const InferenceModel& model, const Cluster& cluster, const InferenceOptions& options) {
  const auto fits = [&](std::int64_t steps) {
    InferenceOptions longer = options;
    longer.context = steps * kContextStep;
    return PlanInference(model, cluster, longer).has_value();
  };
  if (!fits(1)) return 0;
  std::int64_t low = 1;
  std::int64_t high = std::max<std::int64_t>(1, model.context_length / kContextStep) + 1;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low * kContextStep;
}

Placement PlacementOf(const InferencePlan& plan, const Graph& graph) {
  std::map<std::string, DeviceId, std::less<>> of_part;
  for (const InferenceStage& stage : plan.stages) {
    for (std::size_t i = stage.first; i < stage.end; ++i) {
      const std::string layer = fmt::format("blk.{}", i);
      for (const std::string_view part : {".attn", ".ffn", ".exps", ".idle"}) {
        of_part[layer + std::string(part)] = stage.device;
      }
      if (i < stage.first + stage.hosted) of_part[layer + ".exps"] = *plan.client_cpu;
    }
    if (stage.has_output) of_part["output"] = stage.device;
  }
  const DeviceId first = plan.client_cpu.value_or(plan.stages.front().device);
  std::vector<DeviceId> devices;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto found = of_part.find(graph.op(MakeId<OpId>(i)).name);
    devices.push_back(found == of_part.end() ? first : found->second);
  }
  return Placement(std::move(devices));
}

std::string LlamaCppScript(const InferencePlan& plan, const InferenceModel& model, const Cluster& cluster,
                           const InferenceOptions& options, const std::string& file) {
  const LlamaCppDevices devices = NamesOfStages(plan, cluster);
  std::string script =
      fmt::format("#!/bin/sh\n# {} on {}: {:.1f} tokens/s predicted\n", model.name, cluster.name(), plan.tokens_per_s);
  for (std::size_t i = 0; i < devices.servers.size(); ++i) {
    const std::string& server = devices.servers[i];
    const std::size_t colon = server.rfind(':');
    script += fmt::format("# on {}: ggml-rpc-server -H 0.0.0.0 -p {} -d {}\n", server.substr(0, colon),
                          server.substr(colon + 1), devices.server_devices[i]);
  }
  script += fmt::format("# on {}:\nexec llama-server -m {} -c {} -ub {}", plan.client, ShellWord(file),
                        options.context * options.parallel, options.micro_batch);
  if (options.parallel > 1) script += fmt::format(" -np {}", options.parallel);
  std::vector<std::string> names;
  std::vector<std::size_t> layers;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    if (devices.names[i] == "CPU") continue;
    names.push_back(devices.names[i]);
    layers.push_back(plan.stages[i].end - plan.stages[i].first + (plan.stages[i].has_output ? 1 : 0));
  }
  if (!devices.servers.empty()) script += fmt::format(" --rpc {}", fmt::join(devices.servers, ","));
  std::size_t offloaded = 0;
  for (const std::size_t count : layers) offloaded += count;
  script +=
      fmt::format(" -dev {} -ngl {}", names.empty() ? "none" : fmt::format("{}", fmt::join(names, ",")), offloaded);
  if (names.size() > 1) script += fmt::format(" -ts {}", fmt::join(layers, ","));
  script += ExpertFlags(plan);
  if (options.key_type != nullptr) script += fmt::format(" -ctk {}", options.key_type->name);
  if (options.value_type != nullptr) {
    script += fmt::format(" -ctv {}", options.value_type->name);
    if (options.value_type->block > 1) script += " -fa on";  // values in blocks need fused attention
  }
  return script + "\n";
}

}  // namespace emplace::datasets
