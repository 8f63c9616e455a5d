#include "datasets/inference/llama_cpp.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <regex>
#include <sstream>

#include "datasets/inference/inference_plan.h"
#include "datasets/inference/token_time.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

// Words of a command line as sh reads them: quotes, and a backslash before any character.
std::vector<std::string> ShellWords(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool is_open = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c == '\\' && quote == '"' && i + 1 < text.size() ? text[++i] : c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      is_open = true;
    } else if (c == '\\' && i + 1 < text.size()) {
      if (text[++i] != '\n') {
        word += text[i];
        is_open = true;
      }
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      if (is_open || !word.empty()) words.push_back(std::move(word));
      word.clear();
      is_open = false;
    } else if (c == '#' && word.empty() && !is_open) {
      i = std::min(text.find('\n', i), text.size() - 1);
    } else {
      word += c;
    }
  }
  if (is_open || !word.empty()) words.push_back(std::move(word));
  return words;
}

std::vector<std::string> SplitAt(const std::string& text, std::string_view separators) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (separators.find(c) != std::string_view::npos) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::int64_t WholeNumber(const std::string& flag, const std::string& text, std::int64_t least) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > (std::int64_t{1} << 30)) {
    throw InputError(flag, fmt::format("{}: expected an integer from {} to 2^30", Quoted(text), least));
  }
  return value;
}

double Share(const std::string& flag, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || value > 1e12) {
    throw InputError(flag, fmt::format("{}: expected shares of at least 0", Quoted(text)));
  }
  return value;
}

const char* const kAllExperts = R"(\.ffn_(up|down|gate|gate_up)_(ch|)exps)";

// Arguments with a value that change neither where a tensor is nor what it takes.
constexpr std::string_view kIgnoredWithValue[] = {
    "-m", "--model",  "-t",  "--threads",    "-tb",  "--threads-batch", "--host",   "--port",  "-n", "--predict",
    "-p", "--prompt", "-b",  "--batch-size", "-s",   "--seed",          "--temp",   "--alias", "-a", "-r",
    "-o", "--output", "-fa", "--flash-attn", "-fit", "--fit",           "--api-key"};
constexpr std::string_view kIgnored[] = {"--mlock", "--jinja",    "--verbose", "-v",   "--no-warmup",  "--no-repack",
                                         "-nr",     "--no-webui", "--metrics", "-kvu", "--kv-unified", "--no-mmap"};

template <std::size_t kCount>
bool IsListed(const std::string& word, const std::string_view (&list)[kCount]) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

// One argument with its value. False: the argument is not of those that matter.
bool TakeArgument(const std::string& flag, const std::string& value, LlamaCppArguments* arguments) {
  if (flag == "-c" || flag == "--ctx-size") {
    arguments->context = WholeNumber(flag, value, 1);
  } else if (flag == "-ub" || flag == "--ubatch-size") {
    arguments->micro_batch = WholeNumber(flag, value, 1);
  } else if (flag == "-np" || flag == "--parallel") {
    arguments->parallel = WholeNumber(flag, value, 1);
  } else if (flag == "-ngl" || flag == "--gpu-layers" || flag == "--n-gpu-layers") {
    arguments->gpu_layers =
        value == "all" || value == "auto" ? std::nullopt : std::optional(WholeNumber(flag, value, 0));
  } else if (flag == "-ts" || flag == "--tensor-split") {
    arguments->tensor_split.clear();
    for (const std::string& share : SplitAt(value, ",/")) arguments->tensor_split.push_back(Share(flag, share));
  } else if (flag == "-dev" || flag == "--device") {
    arguments->is_without_devices = value == "none";
    arguments->devices = value == "none" ? std::vector<std::string>() : SplitAt(value, ",");
  } else if (flag == "--rpc") {
    arguments->servers = SplitAt(value, ",");
  } else if (flag == "-ot" || flag == "--override-tensor") {
    for (const std::string& rule : SplitAt(value, ",;")) {
      const std::size_t equals = rule.rfind('=');
      if (equals == std::string::npos) throw InputError(flag, fmt::format("{}: expected PATTERN=DEVICE", Quoted(rule)));
      arguments->overrides.emplace_back(rule.substr(0, equals), rule.substr(equals + 1));
    }
  } else if (flag == "-ncmoe" || flag == "--n-cpu-moe") {
    const std::int64_t layers = WholeNumber(flag, value, 0);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(layers, 10'000); ++i) {
      arguments->overrides.emplace_back(fmt::format("blk\\.{}{}", i, kAllExperts), "CPU");
    }
  } else if (flag == "-ctk" || flag == "--cache-type-k") {
    arguments->key_type = value;
  } else if (flag == "-ctv" || flag == "--cache-type-v") {
    arguments->value_type = value;
  } else {
    return false;
  }
  return true;
}

double CacheBytesOf(const std::string& flag, const std::string& type) {
  const GgmlType* const found = FindGgmlType(type);
  if (found == nullptr) throw InputError(flag, fmt::format("{}: expected a type such as f16 or q8_0", Quoted(type)));
  return static_cast<double>(found->block_bytes) / static_cast<double>(found->block);
}

// The device of the cluster on a server, HOST:PORT.
std::vector<DeviceId> DevicesOfServers(const std::vector<std::string>& servers,
                                       const std::vector<std::string>& machines, const std::string& client) {
  std::vector<DeviceId> devices;
  std::map<std::string, std::vector<int>> ports;  // of each machine, in the order of its devices
  for (const std::string& server : servers) {
    const std::size_t colon = server.rfind(':');
    if (colon == std::string::npos) throw InputError("--rpc", Quoted(server) + ": expected HOST:PORT");
    ports[server.substr(0, colon)].push_back(static_cast<int>(WholeNumber("--rpc", server.substr(colon + 1), 0)));
  }
  for (auto& [host, list] : ports) std::sort(list.begin(), list.end());
  // Devices of other machines, for servers that no machine is named after.
  std::vector<std::size_t> others;
  for (std::size_t d = 0; d < machines.size(); ++d) {
    if (machines[d] != client) others.push_back(d);
  }
  std::size_t next_other = 0;
  for (const std::string& server : servers) {
    const std::size_t colon = server.rfind(':');
    const std::string host = server.substr(0, colon);
    std::vector<std::size_t> own;
    for (std::size_t d = 0; d < machines.size(); ++d) {
      if (machines[d] == host && host != client) own.push_back(d);
    }
    if (own.empty()) {
      if (next_other == others.size()) {
        throw InputError("--rpc", fmt::format("{}: the cluster has no device on another machine for it", server));
      }
      devices.push_back(MakeId<DeviceId>(others[next_other++]));
      continue;
    }
    const auto port = static_cast<int>(WholeNumber("--rpc", server.substr(colon + 1), 0));
    // Our own scripts count ports from the first; other servers take devices in the order of their ports.
    const auto ordinal =
        port >= kFirstRpcPort && port < kFirstRpcPort + static_cast<int>(own.size())
            ? static_cast<std::size_t>(port - kFirstRpcPort)
            : static_cast<std::size_t>(std::find(ports[host].begin(), ports[host].end(), port) - ports[host].begin());
    if (ordinal >= own.size())
      throw InputError("--rpc", fmt::format("{}: {} has {} devices", server, host, own.size()));
    devices.push_back(MakeId<DeviceId>(own[ordinal]));
  }
  return devices;
}

}  // namespace

LlamaCppArguments ReadLlamaCppArguments(std::string_view text, const std::string& file) {
  return WithLocation(file, [&] {
    LlamaCppArguments arguments;
    const std::vector<std::string> words = ShellWords(text);
    std::size_t i = 0;
    // What stands before the program, such as exec, and the program.
    while (i < words.size() && !words[i].starts_with("-")) ++i;
    if (i == words.size()) throw InputError("", "has no arguments of llama.cpp: expected -ngl, -ts and the like");
    for (; i < words.size(); ++i) {
      const std::string& flag = words[i];
      if (IsListed(flag, kIgnored)) {
        arguments.ignored.push_back(flag);
        continue;
      }
      if (flag == "--cpu-moe" || flag == "-cmoe") {
        arguments.overrides.emplace_back(kAllExperts, "CPU");
        continue;
      }
      if (i + 1 == words.size()) throw InputError(flag, "has no value, or is not known");
      if (IsListed(flag, kIgnoredWithValue)) {
        arguments.ignored.push_back(flag);
      } else if (!TakeArgument(flag, words[i + 1], &arguments)) {
        throw InputError(flag,
                         "is not modelled: expected -c, -ub, -np, -ngl, -ts, -dev, --rpc, -ot, --n-cpu-moe, "
                         "--cpu-moe, -ctk or -ctv");
      }
      ++i;
    }
    return arguments;
  });
}

std::vector<int> LayerDevices(std::size_t num_layers, std::int64_t gpu_layers,
                              const std::vector<double>& tensor_split) {
  // In f32, as there: a layer on the border of two shares goes where it goes.
  std::vector<float> splits(tensor_split.begin(), tensor_split.end());
  float sum = 0;
  for (float& split : splits) {
    sum += split;
    split = sum;
  }
  for (float& split : splits) split /= sum;
  const auto all = static_cast<std::int64_t>(num_layers) + 1;
  const std::int64_t first = std::max<std::int64_t>(all - gpu_layers, 0);
  const std::int64_t count = splits.empty() ? 0 : std::min(gpu_layers, all);
  std::vector<int> devices;
  for (std::int64_t i = 0; i < all; ++i) {
    if (i < first || i - first >= count) {
      devices.push_back(-1);
      continue;
    }
    const float position = static_cast<float>(i - first) / static_cast<float>(count);
    const auto found = std::upper_bound(splits.begin(), splits.end(), position);
    devices.push_back(static_cast<int>(std::min<std::ptrdiff_t>(found - splits.begin(), std::ssize(splits) - 1)));
  }
  return devices;
}

LlamaCppSplit SplitOf(const LlamaCppArguments& arguments, const InferenceModel& model, const Cluster& cluster) {
  LlamaCppSplit split;
  const std::vector<std::string> machines = MachinesOf(cluster);
  // The client is the machine that no server is on.
  split.client = machines.front();
  for (const std::string& machine : machines) {
    const bool is_server =
        std::any_of(arguments.servers.begin(), arguments.servers.end(),
                    [&](const std::string& server) { return server.substr(0, server.rfind(':')) == machine; });
    if (!is_server) {
      split.client = machine;
      break;
    }
  }
  const std::vector<std::string> local = LlamaCppNames(cluster);
  const std::vector<DeviceId> servers = DevicesOfServers(arguments.servers, machines, split.client);
  std::map<std::string, DeviceId, std::less<>> known;
  std::vector<std::string> usual;
  for (std::size_t s = 0; s < servers.size(); ++s) {
    usual.push_back("RPC" + std::to_string(s));
    known[usual.back()] = servers[s];
  }
  std::optional<DeviceId> cpu;
  for (std::size_t d = 0; d < machines.size(); ++d) {
    if (machines[d] != split.client) continue;
    if (cluster.devices()[d].is_cpu) {
      if (!cpu) cpu = MakeId<DeviceId>(d);
    } else {
      usual.push_back(local[d]);
      known[local[d]] = MakeId<DeviceId>(d);
    }
  }
  std::vector<std::string> names = arguments.devices.empty() ? usual : arguments.devices;
  if (arguments.is_without_devices) names.clear();
  for (const std::string& name : names) {
    const auto found = known.find(name);
    if (found == known.end()) {
      throw InputError("-dev", fmt::format("{}: expected one of {}", Quoted(name), fmt::join(usual, ", ")));
    }
    split.devices.push_back({.name = name, .device = found->second});
  }
  std::vector<double> shares = arguments.tensor_split;
  if (shares.empty()) {
    for (const LlamaCppMemory& device : split.devices) {
      const auto& memory = cluster.device(*device.device).memory;
      shares.push_back(memory ? static_cast<double>(memory->count) : 1);
    }
  }
  if (shares.size() > split.devices.size() && !split.devices.empty()) {
    throw InputError(
        "-ts", fmt::format("has {} shares: expected at most {}, one a device", shares.size(), split.devices.size()));
  }
  shares.resize(split.devices.size(), 0);
  if (!shares.empty() && std::all_of(shares.begin(), shares.end(), [](double share) { return share == 0; })) {
    throw InputError("-ts", "all shares are 0");
  }
  const auto host = static_cast<int>(split.devices.size());
  split.devices.push_back({.name = "Host", .device = cpu});
  const auto all = static_cast<std::int64_t>(model.layers.size()) + 1;
  const std::int64_t gpu_layers = std::min(arguments.gpu_layers.value_or(all), all);
  split.layers = LayerDevices(model.layers.size(), gpu_layers, shares);
  for (int& device : split.layers) device = device < 0 ? host : device;
  std::vector<std::pair<std::regex, int>> overrides;
  for (const auto& [pattern, name] : arguments.overrides) {
    int device = name == "CPU" || name == "Host" ? host : -1;
    for (int d = 0; d < host && device < 0; ++d) {
      // A server's buffer is also named with its address.
      if (split.devices[static_cast<std::size_t>(d)].name == name ||
          name.starts_with(split.devices[static_cast<std::size_t>(d)].name + "[")) {
        device = d;
      }
    }
    if (device < 0) throw InputError("-ot", fmt::format("{}: expected CPU or a device of -dev", Quoted(name)));
    try {
      overrides.emplace_back(std::regex(pattern), device);
    } catch (const std::regex_error&) {
      throw InputError("-ot", Quoted(pattern) + ": expected a regular expression");
    }
  }
  for (const GgufTensor& tensor : model.tensors) {
    const std::optional<std::int64_t> layer = GgufLayerOf(tensor.name);
    int device = host;
    if (layer && model.layers[static_cast<std::size_t>(*layer)].is_idle) {
      split.tensors.push_back(-1);  // not loaded
      continue;
    }
    if (layer) {
      device = split.layers[static_cast<std::size_t>(*layer)];
    } else if (IsOfOutput(tensor.name)) {
      device = split.layers.back();
    }
    for (const auto& [pattern, other] : overrides) {
      if (!std::regex_search(tensor.name, pattern)) continue;
      device = other;
      break;
    }
    split.tensors.push_back(device);
    split.devices[static_cast<std::size_t>(device)].weights += tensor.bytes;
  }
  if (model.is_tied && split.layers.back() != host) {
    for (const GgufTensor& tensor : model.tensors) {
      if (tensor.name == "token_embd.weight")
        split.devices[static_cast<std::size_t>(split.layers.back())].weights += tensor.bytes;
    }
  }
  InferencePass pass;
  pass.sequences = static_cast<double>(arguments.parallel);
  pass.key_bytes = CacheBytesOf("-ctk", arguments.key_type);
  pass.value_bytes = CacheBytesOf("-ctv", arguments.value_type);
  const std::int64_t context = arguments.context / arguments.parallel;
  int used = 0;
  for (int d = 0; d < host; ++d) used += std::count(split.layers.begin(), split.layers.end(), d) > 0 ? 1 : 0;
  const bool is_pipelined = used > 1 && gpu_layers == all && arguments.overrides.empty();
  for (std::size_t d = 0; d < split.devices.size(); ++d) {
    LlamaCppMemory& device = split.devices[d];
    DevicePart part = {.has_layers = false,
                       .has_output = split.layers.back() == static_cast<int>(d),
                       .is_client = static_cast<int>(d) == host,
                       .is_pipelined = is_pipelined};
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      if (split.layers[i] != static_cast<int>(d)) continue;
      part.has_layers = true;
      device.caches += CacheBytes(model.layers[i], pass, context, arguments.micro_batch);
    }
    // Experts that are computed on the host take buffers there.
    if (static_cast<int>(d) == host && !arguments.overrides.empty()) part.has_layers = true;
    part.has_experts = false;
    for (std::size_t i = 0; i < model.tensors.size() && !part.has_experts; ++i) {
      part.has_experts = split.tensors[i] == static_cast<int>(d) && IsOfExperts(model.tensors[i].name);
    }
    device.compute = ComputeBytes(model, part, arguments.context, arguments.micro_batch);
  }
  return split;
}

bool IsInferenceGraph(const Graph& graph) {
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    if (graph.op(MakeId<OpId>(i)).kind == kStoredWeights) return true;
  }
  return false;
}

Placement PlacementOf(const LlamaCppArguments& arguments, const Graph& graph, const Cluster& cluster) {
  // Each op as a tensor whose name the arguments' patterns match as they do those of its part.
  InferenceModel model;
  std::vector<OpId> ops;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    if (op.kind != kStoredWeights) continue;
    std::string name(op.name);
    const auto replace_end = [&](std::string_view end, std::string_view by) {
      if (name.ends_with(end)) name.replace(name.size() - end.size(), end.size(), by);
    };
    replace_end(".attn", ".attn_norm");
    replace_end(".ffn", ".ffn_up");
    replace_end(".exps", ".ffn_up_exps");
    name += ".weight";
    if (const auto layer = GgufLayerOf(name)) {
      model.layers.resize(std::max(model.layers.size(), static_cast<std::size_t>(*layer) + 1));
    }
    ops.push_back(MakeId<OpId>(i));
    model.tensors.push_back(
        {.name = std::move(name), .shape = {}, .type = nullptr, .elements = 0, .bytes = op.persistent.count});
  }
  const LlamaCppSplit split = SplitOf(arguments, model, cluster);
  const auto device_of = [&](int index) {
    const LlamaCppMemory& device = split.devices[static_cast<std::size_t>(index)];
    if (device.device) return *device.device;
    throw InputError("-ngl", fmt::format("some of the model is on the CPU of {}: expected a CPU of that machine in {}",
                                         split.client, cluster.name()));
  };
  std::optional<DeviceId> host = split.devices.back().device;
  Placement placement(graph.num_ops(), host.value_or(device_of(split.layers.front())));
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const bool is_embedding = !GgufLayerOf(model.tensors[i].name) && !IsOfOutput(model.tensors[i].name);
    if (!is_embedding || host) placement[ops[i]] = device_of(split.tensors[i]);
  }
  return placement;
}

}  // namespace emplace::datasets
