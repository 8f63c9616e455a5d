#include "agents/candidates.h"
#include "agents/heuristics/partitioners.h"

#include <scotch.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "agents/heuristics/one_shot.h"
#include "agents/heuristics/solver_input.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

static_assert(sizeof(SCOTCH_Num) == sizeof(std::int32_t), "weights are scaled for a Scotch of 32-bit numbers");

// Scotch adds up loads, and products of edge loads and distances, in 32 bits.
constexpr std::int64_t kMaxLoadSum = std::int64_t{1} << 24;
constexpr std::int64_t kMaxCost = std::int64_t{1} << 30;
constexpr double kFastest = 1000;  // the speed of the fastest device
constexpr double kClosest = 8;     // the distance of the closest pair of devices
constexpr double kFarthest = 100 * kClosest;

void Check(int status, const std::string& call) {
  if (status != 0) throw InputError("scotch", call + " failed");
}

// Owns one of Scotch's objects: a struct of known size with an init and an exit function.
template <typename T, int (*kInit)(T*), void (*kExit)(T*)>
class Owned {
 public:
  Owned() { Check(kInit(&value_), "starting the library"); }
  ~Owned() { kExit(&value_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T* get() { return &value_; }

 private:
  T value_{};
};
using ScotchContext = Owned<SCOTCH_Context, SCOTCH_contextInit, SCOTCH_contextExit>;
using ScotchGraph = Owned<SCOTCH_Graph, SCOTCH_graphInit, SCOTCH_graphExit>;
using ScotchArch = Owned<SCOTCH_Arch, SCOTCH_archInit, SCOTCH_archExit>;
using ScotchStrategy = Owned<SCOTCH_Strat, SCOTCH_stratInit, SCOTCH_stratExit>;

// Arrays of a graph; the library's graph refers to them.
struct GraphArrays {
  std::vector<SCOTCH_Num> first;
  std::vector<SCOTCH_Num> neighbours;
  std::vector<SCOTCH_Num> edge_loads;
  std::vector<SCOTCH_Num> vertex_loads;

  void Build(SCOTCH_Graph* graph) {
    const std::size_t num_edges = neighbours.size();
    neighbours.reserve(1);  // Scotch needs non-null edge arrays even without edges
    edge_loads.reserve(1);
    Check(SCOTCH_graphBuild(graph, 0, static_cast<SCOTCH_Num>(vertex_loads.size()), first.data(), first.data() + 1,
                            vertex_loads.data(), nullptr, static_cast<SCOTCH_Num>(num_edges), neighbours.data(),
                            edge_loads.data()),
          "SCOTCH_graphBuild");
    Check(SCOTCH_graphCheck(graph), "SCOTCH_graphCheck");
  }
};

// The devices in Scotch's units.
struct Target {
  std::vector<SCOTCH_Num> speeds;     // [num_devices]
  std::vector<SCOTCH_Num> distances;  // [num_devices, num_devices]; empty if all are equal
};

double FastestMicros(const Observation& observation, std::size_t group, const std::vector<DeviceId>& devices) {
  return observation.TimeMicros(group, Index(observation.Fastest(group, devices)));
}

std::vector<SCOTCH_Num> Speeds(const Observation& observation, const std::vector<DeviceId>& devices) {
  std::vector<double> speeds;
  for (const DeviceId device : devices) {
    double fastest = 0;
    double here = 0;
    for (std::size_t group = 0; group < observation.num_groups(); ++group) {
      if (!observation.Allowed(group, Index(device))) continue;
      fastest += FastestMicros(observation, group, devices);
      here += observation.TimeMicros(group, Index(device));
    }
    speeds.push_back(here > 0 ? fastest / here : 1);
  }
  const double top = *std::max_element(speeds.begin(), speeds.end());
  std::vector<SCOTCH_Num> scaled;
  scaled.reserve(speeds.size());
  for (const double speed : speeds) {
    scaled.push_back(static_cast<SCOTCH_Num>(top > 0 ? std::max(1.0, std::round(kFastest * speed / top)) : 1));
  }
  return scaled;
}

// Empty if all links are equal, or there is only one device.
std::vector<SCOTCH_Num> Distances(const Cluster& cluster, const std::vector<DeviceId>& devices, std::int64_t bytes) {
  std::vector<double> times;
  for (const DeviceId a : devices) {
    for (const DeviceId b : devices) {
      times.push_back(
          static_cast<double>((LinkTime(cluster, a, b, Bytes{bytes}) + LinkTime(cluster, b, a, Bytes{bytes})).count()));
    }
  }
  double closest = std::numeric_limits<double>::infinity();
  double farthest = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (i / devices.size() == i % devices.size()) continue;
    closest = std::min(closest, times[i]);
    farthest = std::max(farthest, times[i]);
  }
  if (closest >= farthest) return {};
  std::vector<SCOTCH_Num> distances;
  for (const double time : times) {
    const double relative = closest > 0 ? kClosest * time / closest : (time > 0 ? kFarthest : kClosest);
    distances.push_back(static_cast<SCOTCH_Num>(std::round(std::min(relative, kFarthest))));
  }
  return distances;
}

GraphArrays SourceArrays(const Observation& observation, const std::vector<DeviceId>& devices, const ByteGraph& bytes,
                         std::int64_t farthest) {
  EMPLACE_CHECK_LT(bytes.neighbours.size(), static_cast<std::size_t>(std::numeric_limits<SCOTCH_Num>::max()));
  GraphArrays arrays;
  arrays.first.assign(bytes.first.begin(), bytes.first.end());
  arrays.neighbours.assign(bytes.neighbours.begin(), bytes.neighbours.end());
  arrays.edge_loads = ScaledWeights(bytes.bytes, kMaxCost / farthest);
  std::vector<std::int64_t> loads;
  for (std::size_t group = 0; group < observation.num_groups(); ++group) {
    loads.push_back(DurationFromMicros(FastestMicros(observation, group, devices)).count());
  }
  arrays.vertex_loads = ScaledWeights(loads, kMaxLoadSum);
  for (SCOTCH_Num& load : arrays.vertex_loads) load = std::max(load, SCOTCH_Num{1});
  return arrays;
}

GraphArrays TargetArrays(const Target& target) {
  GraphArrays arrays;
  const std::size_t num_devices = target.speeds.size();
  arrays.vertex_loads = target.speeds;
  arrays.first.push_back(0);
  for (std::size_t a = 0; a < num_devices; ++a) {
    for (std::size_t b = 0; b < num_devices; ++b) {
      if (a == b) continue;
      arrays.neighbours.push_back(static_cast<SCOTCH_Num>(b));
      arrays.edge_loads.push_back(target.distances[a * num_devices + b]);
    }
    arrays.first.push_back(static_cast<SCOTCH_Num>(arrays.neighbours.size()));
  }
  return arrays;
}

std::vector<SCOTCH_Num> Map(GraphArrays source, const Target& target, double imbalance, SCOTCH_Num seed) {
  const auto num_devices = static_cast<SCOTCH_Num>(target.speeds.size());
  // The context limits the library to one thread and has its own random numbers; building an architecture uses no
  // context.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  ScotchContext context;
  Check(SCOTCH_contextOptionSetNum(context.get(), SCOTCH_OPTIONNUMDETERMINISTIC, 1), "SCOTCH_contextOptionSetNum");
  SCOTCH_contextRandomSeed(context.get(), seed);
  Check(SCOTCH_contextThreadSpawn(context.get(), 1, nullptr), "SCOTCH_contextThreadSpawn");

  // Destroyed in reverse order: architectures and bound graphs refer to graphs, and graphs to arrays.
  GraphArrays devices;
  ScotchGraph device_graph;
  ScotchGraph bound_device_graph;
  ScotchArch architecture;
  ScotchStrategy default_strategy;
  if (target.distances.empty()) {
    Check(SCOTCH_archCmpltw(architecture.get(), num_devices, target.speeds.data()), "SCOTCH_archCmpltw");
  } else {
    devices = TargetArrays(target);
    devices.Build(device_graph.get());
    Check(SCOTCH_contextBindGraph(context.get(), device_graph.get(), bound_device_graph.get()),
          "SCOTCH_contextBindGraph");
    Check(SCOTCH_archBuild(architecture.get(), bound_device_graph.get(), 0, nullptr, default_strategy.get()),
          "SCOTCH_archBuild");
  }

  ScotchGraph graph;
  ScotchGraph bound_graph;
  source.Build(graph.get());
  Check(SCOTCH_contextBindGraph(context.get(), graph.get(), bound_graph.get()), "SCOTCH_contextBindGraph");
  ScotchStrategy strategy;
  Check(SCOTCH_stratGraphMapBuild(strategy.get(), SCOTCH_STRATDEFAULT, num_devices, imbalance),
        "SCOTCH_stratGraphMapBuild");
  std::vector<SCOTCH_Num> parts(source.vertex_loads.size(), -1);
  Check(SCOTCH_graphMap(bound_graph.get(), architecture.get(), strategy.get(), parts.data()), "SCOTCH_graphMap");
  if (std::any_of(parts.begin(), parts.end(), [&](SCOTCH_Num part) { return part < 0 || part >= num_devices; })) {
    throw InputError("scotch", "the library left groups without a device");
  }
  return parts;
}

}  // namespace

Placement PlaceByScotch(const Observation& observation, const ScotchOptions& options, Rng& rng) {
  const std::vector<DeviceId> devices =
      options.accelerators_only ? observation.accelerators : AllDevices(observation.cluster);
  const std::size_t num_groups = observation.num_groups();
  std::vector<std::int32_t> parts(num_groups, 0);
  if (num_groups > 0 && devices.size() > 1) {
    const ByteGraph bytes = MakeByteGraph(num_groups, GroupEdges(observation.graph));
    double sum = 0;
    for (const std::int64_t edge : bytes.bytes) sum += static_cast<double>(edge);
    const double mean = bytes.bytes.empty() ? 0 : sum / static_cast<double>(bytes.bytes.size());
    const Target target = {.speeds = Speeds(observation, devices),
                           .distances = Distances(observation.cluster, devices, RoundToInteger(mean))};
    const std::int64_t farthest =
        target.distances.empty() ? 1 : *std::max_element(target.distances.begin(), target.distances.end());
    const auto seed = static_cast<SCOTCH_Num>(rng.Below(std::numeric_limits<SCOTCH_Num>::max()));
    parts = Map(SourceArrays(observation, devices, bytes, farthest), target, options.imbalance, seed);
  }
  return PlaceParts(observation, devices, parts);
}

std::unique_ptr<Agent> MakeScotchAgent(OptionReader& reader, const AgentContext&) {
  ScotchOptions options;
  reader.Read("imbalance", &options.imbalance, 0.001, 1, "the load of a device may be (1 + imbalance) times its share");
  reader.Read("accelerators_only", &options.accelerators_only, "use accelerators only: the baseline MinCut");
  reader.Finish();
  return MakeOneShot(
      [options](const Environment& env, Rng& rng) { return PlaceByScotch(env.observation(), options, rng); });
}

}  // namespace emplace::agents
