#include "tests/testing/graphs.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "sim/cost/cost_models.h"
#include "sim/formats/graph_json.h"
#include "sim/ops/op_catalog.h"

namespace emplace::testing {
namespace {

std::string Numbered(const std::string& stem, std::size_t i) { return stem + std::to_string(i); }

Device TestGpu(std::size_t i, double op_gap_micros, std::optional<Bytes> memory) {
  return {.name = Numbered("gpu:", i),
          .kind = "test-gpu",
          .memory = memory,
          .op_gap_micros = op_gap_micros,
          .is_cpu = false};
}

}  // namespace

std::string GraphText(const Graph& graph) {
  std::ostringstream out;
  WriteGraph(out, graph);
  return out.str();
}

OpSpec MakeOp(std::string name, double micros, std::vector<std::string> inputs,
              const std::vector<std::int64_t>& output_bytes) {
  OpSpec spec;
  spec.name = std::move(name);
  spec.kind = "test";
  spec.inputs = std::move(inputs);
  spec.time_micros = micros;
  for (const std::int64_t bytes : output_bytes) spec.outputs.push_back({.size = Bytes{bytes}, .shape = {}});
  return spec;
}

Graph Build(const std::vector<OpSpec>& specs) {
  GraphBuilder builder("g");
  for (const OpSpec& spec : specs) builder.Add(spec);
  return builder.Build();
}

Graph MakeChain(std::size_t length, double micros, std::int64_t bytes) {
  GraphBuilder builder("chain");
  for (std::size_t i = 0; i < length; ++i) {
    std::vector<std::string> inputs;
    if (i > 0) inputs.push_back(Numbered("op", i - 1));
    builder.Add(MakeOp(Numbered("op", i), micros, inputs, {bytes}));
  }
  return builder.Build();
}

Graph MakeTwoChains() {
  return Build({MakeOp("a0", 30, {}, {20'000}), MakeOp("a1", 30, {"a0"}, {20'000}), MakeOp("a2", 30, {"a1"}),
                MakeOp("b0", 25, {}, {20'000}), MakeOp("b1", 25, {"b0"}, {20'000}), MakeOp("b2", 25, {"b1"})});
}

Graph MakeTwoChainsOfKinds() {
  std::vector<OpSpec> ops = {MakeOp("a0", 0, {}, {2000}), MakeOp("a1", 0, {"a0"}, {2000}), MakeOp("a2", 0, {"a1"}),
                             MakeOp("b0", 0, {}, {2000}), MakeOp("b1", 0, {"b0"}, {2000}), MakeOp("b2", 0, {"b1"})};
  for (OpSpec& op : ops) {
    const bool first = op.name[0] == 'a';
    op.kind = first ? "relu" : "tanh";
    op.time_micros = std::nullopt;
    op.kind_times = {{"test-cpu", first ? 30 : 60}, {"test-gpu", first ? 60 : 25}};
  }
  return Build(ops);
}

Graph MakeTwoOpsForTheAccelerator() {
  std::vector<OpSpec> ops;
  for (const char* const name : {"a", "b"}) {
    OpSpec op = MakeOp(name, 0);
    op.time_micros = std::nullopt;
    op.kind_times = {{"test-cpu", 100}, {"test-gpu", 10}};
    ops.push_back(op);
  }
  return Build(ops);
}

Graph MakeDiamond(double micros, std::int64_t bytes) {
  GraphBuilder builder("diamond");
  builder.Add(MakeOp("a", micros, {}, {bytes}));
  builder.Add(MakeOp("b", micros, {"a"}, {bytes}));
  builder.Add(MakeOp("c", micros, {"a"}, {bytes}));
  builder.Add(MakeOp("d", micros, {"b", "c"}, {bytes}));
  return builder.Build();
}

Graph MakeForkJoin(std::size_t branches, double micros, std::int64_t bytes) {
  GraphBuilder builder("fork-join");
  builder.Add(MakeOp("source", micros, {}, {bytes}));
  std::vector<std::string> joined;
  for (std::size_t i = 0; i < branches; ++i) {
    builder.Add(MakeOp(Numbered("branch", i), micros, {"source"}, {bytes}));
    joined.push_back(Numbered("branch", i));
  }
  builder.Add(MakeOp("sink", micros, joined, {bytes}));
  return builder.Build();
}

Cluster MakeCluster(std::size_t count, Link link, double op_gap_micros, std::optional<Bytes> memory) {
  std::vector<Device> devices;
  for (std::size_t i = 0; i < count; ++i) devices.push_back(TestGpu(i, op_gap_micros, memory));
  return Cluster::Uniform("test", std::move(devices), link);
}

Cluster TwoDevices() { return MakeCluster(2); }

Cluster MakeMixedCluster(std::size_t gpus, std::optional<Bytes> gpu_memory) {
  std::vector<Device> devices;
  devices.push_back({.name = "cpu:0", .kind = "test-cpu", .memory = std::nullopt, .op_gap_micros = 0, .is_cpu = true});
  for (std::size_t i = 0; i < gpus; ++i) devices.push_back(TestGpu(i, 0, gpu_memory));
  return Cluster::Uniform("mixed", std::move(devices), {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0});
}

std::optional<double> FixedCostModel::OpMicros(const Graph& graph, OpId op, const Cluster&, std::string_view) const {
  const auto found = by_name_.find(graph.op(op).name);
  return found != by_name_.end() ? found->second : micros_;
}

CostTable MeasuredCosts(const Graph& graph, const Cluster& cluster) {
  return CostTable(graph, cluster, *MakeMeasuredCostModel());
}

CostTable ContendedCosts(const Graph& graph, const Cluster& cluster, std::map<OpClass, double> factors) {
  class Contended : public CostModel {
   public:
    explicit Contended(std::map<OpClass, double> factors) : factors_(std::move(factors)) {}
    std::optional<double> OpMicros(const Graph& graph, OpId op, const Cluster& cluster,
                                   std::string_view kind) const override {
      return measured_->OpMicros(graph, op, cluster, kind);
    }
    double Contention(const Graph& graph, OpId op, std::string_view) const override {
      const OpKind* const kind = FindOpKind(graph.op(op).kind);
      const auto found = factors_.find(kind != nullptr ? kind->op_class : OpClass::kNone);
      return found == factors_.end() ? 1 : found->second;
    }
    std::string WhyNoTime(const Graph& graph, OpId op) const override { return measured_->WhyNoTime(graph, op); }

   private:
    std::unique_ptr<CostModel> measured_ = MakeMeasuredCostModel();
    std::map<OpClass, double> factors_;
  };
  return CostTable(graph, cluster, Contended(std::move(factors)));
}

namespace {

// A copy, a matrix product, two elementwise ones, and one of no class.
constexpr std::array<const char*, 5> kKindsOfClasses = {"concat", "matmul", "relu", "tanh", "test"};

double RandomMicros(Rng& rng, const RandomDagOptions& options) {
  if (rng.Uniform() < options.zero_time_probability) return 0;
  const auto whole = static_cast<double>(rng.Between(1, options.max_micros));
  return options.fractional ? whole + rng.Uniform() : whole;
}

std::int64_t RandomBytes(Rng& rng, const RandomDagOptions& options) {
  if (rng.Uniform() < options.zero_bytes_probability) return 0;
  return 1000 * rng.Between(1, options.max_kilobytes);
}

void AddRandomTimes(Rng& rng, const RandomDagOptions& options, OpSpec* spec) {
  if (!options.kinds_differ) {
    spec->time_micros = RandomMicros(rng, options);
    return;
  }
  const std::uint64_t where = rng.Below(8);  // 0: CPU only, 1: GPU only, else both
  if (where != 1) spec->kind_times.emplace_back("test-cpu", RandomMicros(rng, options));
  if (where != 0) spec->kind_times.emplace_back("test-gpu", RandomMicros(rng, options));
}

bool SameKinds(const OpSpec& a, const OpSpec& b) {
  return std::equal(a.kind_times.begin(), a.kind_times.end(), b.kind_times.begin(), b.kind_times.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first; });
}

}  // namespace

namespace {

void AddRandomHostTimes(Rng& rng, const RandomDagOptions& options, OpSpec* spec) {
  if (rng.Below(2) == 0) return;
  spec->host_micros = RandomMicros(rng, options);
  if (rng.Below(2) == 0) return;
  if (spec->time_micros) spec->device_micros = RandomMicros(rng, options);
  for (const auto& [kind, micros] : spec->kind_times) {
    spec->device_kind_times.emplace_back(kind, RandomMicros(rng, options));
  }
}

}  // namespace

std::vector<Device> RowOfDevices(std::size_t count) {
  std::vector<Device> devices;
  for (std::size_t i = 0; i < count; ++i) {
    devices.push_back({.name = "d" + std::to_string(i), .kind = "test-gpu", .memory = {}});
  }
  return devices;
}

Cluster RandomTree(Rng& rng) {
  const std::size_t devices = 2 + rng.Below(5);
  const std::size_t switches = 1 + rng.Below(3);
  std::vector<Topology::Link> links;
  const auto join = [&](std::size_t a, std::size_t b) {
    Topology::Link link{static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b),
                        rng.Below(2) == 0 ? 1 : 0.3 * static_cast<double>(1 + rng.Below(9)),
                        static_cast<double>(rng.Below(3)) / 2};
    links.push_back(link);
    std::swap(link.from, link.to);
    links.push_back(link);
  };
  for (std::size_t device = 0; device < devices; ++device) join(device, devices + rng.Below(switches));
  for (std::size_t k = 0; k + 1 < switches; ++k) join(devices + k, devices + k + 1);
  std::vector<Device> members = RowOfDevices(devices);
  for (Device& device : members) {
    device.op_gap_micros = static_cast<double>(rng.Below(3)) / 2;
    device.copy_engine = rng.Below(4) != 0;
  }
  std::vector<std::string> names(switches);
  for (std::size_t k = 0; k < switches; ++k) names[k] = "s" + std::to_string(k);
  return Cluster("tree", "", members, Topology(devices, names, links),
                 rng.Below(2) == 0 ? Channels::kPerPair : Channels::kPerDevice);
}

Cluster WithIssueLanes(Rng& rng, const Cluster& cluster) {
  std::vector<Device> devices = cluster.devices();
  const bool all = rng.Below(2) == 0;
  for (Device& device : devices) {
    device.copy_engine = rng.Below(4) != 0;
    if (device.is_cpu && !all) continue;
    device.issue = {.lane = rng.Below(2) == 0 ? "" : "host:" + std::to_string(rng.Below(2)),
                    .host_micros = static_cast<double>(rng.Below(3)) / 2,
                    .launch_latency_micros = rng.Below(2) == 0 ? 0.0 : static_cast<double>(rng.Below(5)) / 2,
                    .max_queued = static_cast<std::int64_t>(rng.Below(5))};
  }
  std::vector<Link> links;
  for (std::size_t from = 0; from < devices.size(); ++from) {
    for (std::size_t to = 0; to < devices.size(); ++to) {
      links.push_back(cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to)));
    }
  }
  return Cluster("lanes", "", devices, links, cluster.channels());
}

Graph RandomDag(Rng& rng, const RandomDagOptions& options) {
  const std::size_t n = options.num_ops;
  // The order of names is independent of the topological one: ties are broken by name.
  std::vector<std::size_t> label(n);
  for (std::size_t i = 0; i < n; ++i) label[i] = i;
  rng.Shuffle(label);
  std::vector<OpSpec> specs;
  for (std::size_t i = 0; i < n; ++i) {
    OpSpec spec;
    spec.name = Numbered("n", label[i]);
    spec.kind = options.classes ? kKindsOfClasses[rng.Below(kKindsOfClasses.size())] : "test";
    if (options.layers) spec.layer = Numbered("m.", i % 7);
    AddRandomTimes(rng, options, &spec);
    if (options.host_times) AddRandomHostTimes(rng, options, &spec);
    const std::uint64_t outputs = rng.Below(options.max_outputs + 1);
    for (std::uint64_t k = 0; k < outputs; ++k) {
      spec.outputs.push_back({.size = Bytes{RandomBytes(rng, options)}, .shape = {}});
    }
    if (options.memory) {
      spec.temp = Bytes{RandomBytes(rng, options)};
      spec.persistent = Bytes{RandomBytes(rng, options)};
    }
    const std::uint64_t inputs = i == 0 ? 0 : rng.Below(options.max_inputs + 1);
    for (std::uint64_t k = 0; k < inputs; ++k) {
      const OpSpec& producer = specs[rng.Below(i)];
      if (producer.outputs.empty()) continue;
      spec.inputs.push_back(producer.name + ":" + std::to_string(rng.Below(producer.outputs.size())));
    }
    if (i > 0 && rng.Uniform() < options.control_probability) {
      spec.control_inputs.push_back(specs[rng.Below(i)].name);
    }
    if (options.colocated && i > 0 && rng.Below(4) == 0) {
      const OpSpec& earlier = specs[rng.Below(i)];
      if (SameKinds(spec, earlier)) spec.colocate_with = earlier.name;
    }
    specs.push_back(std::move(spec));
  }
  rng.Shuffle(specs);  // the file order is not topological either
  GraphBuilder builder("random");
  for (const OpSpec& spec : specs) builder.Add(spec);
  return builder.Build();
}

Placement RandomPlacement(Rng& rng, const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  const std::size_t devices = cluster.num_devices();
  std::vector<char> allowed(graph.num_ops() * devices, 1);  // indexed by colocation class
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    for (std::size_t d = 0; d < devices; ++d) {
      if (!costs.Allowed(id, MakeId<DeviceId>(d))) allowed[Index(graph.colocation_class(id)) * devices + d] = 0;
    }
  }
  Placement placement(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    const OpId first = graph.colocation_class(id);
    if (first != id) {
      placement[id] = placement[first];
      continue;
    }
    std::vector<DeviceId> choices;
    for (std::size_t d = 0; d < devices; ++d) {
      if (allowed[i * devices + d] != 0) choices.push_back(MakeId<DeviceId>(d));
    }
    placement[id] = choices[rng.Below(choices.size())];
  }
  return placement;
}

}  // namespace emplace::testing
