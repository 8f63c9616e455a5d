#include "agents/heuristics/baselines.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agents/candidates.h"
#include "agents/heuristics/one_shot.h"
#include "agents/heuristics/solver_input.h"
#include "sim/base/check.h"

namespace emplace::agents {

std::unique_ptr<Agent> MakeSingleDeviceAgent(OptionReader& reader, const AgentContext&) {
  std::string name;
  reader.Read("device", &name, {}, "the device's name; empty: the accelerator where all groups together are fastest");
  reader.Finish();
  return MakeOneShot([name](const Environment& env, Rng&) {
    const Observation& seen = env.observation();
    if (name.empty()) return OnOneOf(seen, seen.accelerators);
    const auto device = seen.cluster.FindDevice(name);
    if (!device) throw InputError("single_device.device", "unknown device \"" + name + "\"");
    return OnOneOf(seen, {&*device, 1});
  });
}

std::unique_ptr<Agent> MakeCpuOnlyAgent(OptionReader& reader, const AgentContext&) {
  reader.Finish();
  return MakeOneShot([](const Environment& env, Rng&) {
    const Observation& seen = env.observation();
    std::vector<DeviceId> cpus;
    for (std::size_t d = 0; d < seen.num_devices(); ++d) {
      if (seen.cluster.devices()[d].is_cpu) cpus.push_back(MakeId<DeviceId>(d));
    }
    if (cpus.empty()) throw InputError("cpu_only", "cluster " + seen.cluster.name() + " has no CPU");
    return OnOneOf(seen, cpus);
  });
}

std::unique_ptr<Agent> MakeRoundRobinAgent(OptionReader& reader, const AgentContext&) {
  reader.Finish();
  return MakeOneShot([](const Environment& env, Rng&) {
    const Observation& seen = env.observation();
    Placement placement(seen.num_groups());
    for (std::size_t group = 0; group < seen.num_groups(); ++group) {
      const DeviceId turn = seen.accelerators[group % seen.accelerators.size()];
      placement[MakeId<OpId>(group)] = seen.Allowed(group, Index(turn)) ? turn : seen.Fastest(group, seen.accelerators);
    }
    return placement;
  });
}

std::unique_ptr<Agent> MakeBlocksAgent(OptionReader& reader, const AgentContext&) {
  reader.Finish();
  return MakeOneShot([](const Environment& env, Rng&) { return PlaceInBlocks(env.observation()); });
}

Placement PlaceInBlocks(const Observation& seen) {
  std::vector<double> micros;
  double total = 0;
  for (std::size_t group = 0; group < seen.num_groups(); ++group) {
    micros.push_back(MeanMicros(seen, group, Candidates(seen, group, seen.accelerators)));
    total += micros.back();
  }
  const auto devices = static_cast<double>(seen.accelerators.size());
  Placement placement(seen.num_groups());
  double before = 0;
  for (std::size_t group = 0; group < seen.num_groups(); ++group) {
    // The block that contains the midpoint of the group's time interval.
    const double part = total > 0 ? (before + micros[group] / 2) / total : 0;
    const auto block = static_cast<std::size_t>(std::clamp(part * devices, 0.0, devices - 1));
    const DeviceId device = seen.accelerators[block];
    placement[MakeId<OpId>(group)] =
        seen.Allowed(group, Index(device)) ? device : seen.Fastest(group, seen.accelerators);
    before += micros[group];
  }
  return placement;
}

namespace {

// The number k in "WORD<k>" in a layer's name.
std::optional<std::size_t> NumberBehind(std::string_view layer, std::string_view word) {
  std::size_t at = layer.find(word);
  if (at == std::string_view::npos) return std::nullopt;
  at += word.size();
  if (at >= layer.size() || std::isdigit(static_cast<unsigned char>(layer[at])) == 0) return std::nullopt;
  std::size_t k = 0;
  for (; at < layer.size() && k < 1'000'000 && std::isdigit(static_cast<unsigned char>(layer[at])) != 0; ++at) {
    k = 10 * k + static_cast<std::size_t>(layer[at] - '0');
  }
  return k;
}

std::optional<std::size_t> RecurrentLayer(std::string_view layer) {
  const std::optional<std::size_t> lstm = NumberBehind(layer, "lstm");
  return lstm ? lstm : NumberBehind(layer, "rnn");
}

bool Holds(std::string_view layer, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [layer](std::string_view word) { return layer.find(word) != std::string_view::npos; });
}

std::string_view LayerOf(const Observation& seen, std::size_t group) {
  return seen.graph.op(MakeId<OpId>(group)).layer;
}

DeviceId AllowedOr(const Observation& seen, std::size_t group, DeviceId device) {
  return seen.Allowed(group, Index(device)) ? device : seen.Fastest(group, seen.accelerators);
}

// The recurrent layer with which each group is placed.
std::vector<std::size_t> RecurrentLayers(const Observation& seen, std::size_t last) {
  std::vector<std::optional<std::size_t>> known(seen.num_groups());
  for (std::size_t group = 0; group < seen.num_groups(); ++group) {
    const std::string_view layer = LayerOf(seen, group);
    known[group] = RecurrentLayer(layer);
    if (known[group]) continue;
    if (Holds(layer, {"embedding"})) known[group] = 0;
    if (Holds(layer, {"attention", "projection", "softmax", "loss"})) known[group] = last;
  }
  // A remaining group gets the layer of a consumer, in reverse order; then that of a producer.
  for (std::size_t group = seen.num_groups(); group-- > 0;) {
    const OpId id = MakeId<OpId>(group);
    for (std::size_t k = 0; k < seen.graph.num_outputs(id) && !known[group]; ++k) {
      for (const OpId reader : seen.graph.consumers(MakeId<TensorId>(Index(seen.graph.first_output(id)) + k))) {
        if (!known[group]) known[group] = known[Index(reader)];
      }
    }
  }
  std::vector<std::size_t> layers;
  for (std::size_t group = 0; group < seen.num_groups(); ++group) {
    for (const TensorId input : seen.graph.inputs(MakeId<OpId>(group))) {
      if (!known[group]) known[group] = layers[Index(seen.graph.tensor(input).producer)];
    }
    layers.push_back(known[group].value_or(0));
    known[group] = layers.back();
  }
  return layers;
}

Placement ByRecurrentLayer(const Observation& seen, std::size_t last) {
  const std::vector<std::size_t> layers = RecurrentLayers(seen, last);
  Placement placement(seen.num_groups());
  for (std::size_t group = 0; group < seen.num_groups(); ++group) {
    const DeviceId device = seen.accelerators[layers[group] % seen.accelerators.size()];
    placement[MakeId<OpId>(group)] = AllowedOr(seen, group, device);
  }
  return placement;
}

// Layers numbered by their first group, cut into blocks of equal numbers of layers.
Placement ByLayerBlocks(const Observation& seen) {
  std::map<std::string_view, std::size_t> number;
  for (std::size_t group = 0; group < seen.num_groups(); ++group)
    number.try_emplace(LayerOf(seen, group), number.size());
  Placement placement(seen.num_groups());
  for (std::size_t group = 0; group < seen.num_groups(); ++group) {
    const std::size_t block = number[LayerOf(seen, group)] * seen.accelerators.size() / number.size();
    placement[MakeId<OpId>(group)] = AllowedOr(seen, group, seen.accelerators[block]);
  }
  return placement;
}

// Whether some convolution reads an image: more than one row, as far as shapes are known. (Audio has one row.)
bool ReadsImages(const Graph& graph) {
  for (std::size_t op = 0; op < graph.num_ops(); ++op) {
    const OpId id = MakeId<OpId>(op);
    if (!Holds(graph.op(id).kind, {"conv2d", "Conv2d"})) continue;
    const auto inputs = graph.inputs(id);
    if (inputs.empty()) return true;
    const auto shape = graph.tensor(inputs[0]).shape;
    if (shape.size() != 4 || shape[2] > 1) return true;
  }
  return false;
}

Placement PlaceLikeAnExpert(const Environment& env) {
  const Observation& seen = env.observation();
  std::optional<std::size_t> last;
  std::set<std::string_view> layers;
  for (std::size_t group = 0; group < seen.num_groups(); ++group) {
    const auto layer = RecurrentLayer(LayerOf(seen, group));
    if (layer) last = std::max(last.value_or(0), *layer);
    layers.insert(LayerOf(seen, group));
  }
  if (last) return ByRecurrentLayer(seen, *last);
  if (ReadsImages(env.op_graph())) return OnOneOf(seen, seen.accelerators);
  return layers.size() > 1 ? ByLayerBlocks(seen) : PlaceInBlocks(seen);
}

}  // namespace

std::unique_ptr<Agent> MakeExpertAgent(OptionReader& reader, const AgentContext&) {
  reader.Finish();
  return MakeOneShot([](const Environment& env, Rng&) { return PlaceLikeAnExpert(env); });
}

}  // namespace emplace::agents
