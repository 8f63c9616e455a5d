#include "sim/engines/placeto_reference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/engines/ready_queues.h"

namespace emplace {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The one edge between two ops (docs/model.md, P5 to P7).
struct Edge {
  std::uint32_t child = 0;
  std::uint32_t output = 0;  // position among the distinct outputs that the parent's edges name
};

// The kind of the last removal of a dependency of an op: among ops that become ready at one instant this decides
// who is queued first (docs/model.md, P16 to P20).
using Tie = std::uint64_t;
constexpr Tie OrdinaryTie(std::uint32_t producer_rank) { return producer_rank; }
constexpr Tie InstantTransferTie(std::uint32_t bus_rank, std::uint32_t transfer) {
  return (Tie{1} << 62) | (Tie{bus_rank} << 32) | transfer;
}
constexpr Tie SameInstantTie(std::uint64_t running_number) { return (Tie{2} << 62) | running_number; }

// An op that waits for its device.
struct Waiting {
  double ready = 0;
  Tie tie = 0;
  std::uint32_t rank = 0;  // rank of the name, or for an op without producers of its position in the file
  std::uint32_t op = 0;
  bool operator<(const Waiting& other) const {
    if (ready != other.ready) return ready < other.ready;
    return tie != other.tie ? tie < other.tie : rank < other.rank;
  }
  bool operator>(const Waiting& other) const { return other < *this; }
};

struct OpState {
  double ready = 0;
  Tie tie = 0;
  std::uint32_t waits = 0;
};

// A point in time, as a number that orders as times do, and the op whose outputs are allocated or freed then
// (docs/model.md, P24).
struct TimedOp {
  std::uint64_t key = 0;
  std::uint32_t op = 0;
};

// Doubles as integers in the same order: the sign bit turned for positive numbers, all bits for negative ones.
std::uint64_t KeyOfTime(double time) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63U;
  const auto bits = std::bit_cast<std::uint64_t>(time + 0.0);  // -0 becomes 0
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

// By key, equal ones in the order they had: a byte at a time, bytes that all keys share left out.
void SortByTime(std::vector<TimedOp>* ops, std::vector<TimedOp>* scratch) {
  constexpr std::size_t kBytes = sizeof(std::uint64_t);
  std::array<std::array<std::uint32_t, 256>, kBytes> counts{};
  for (const TimedOp& op : *ops) {
    for (std::size_t byte = 0; byte < kBytes; ++byte) ++counts[byte][(op.key >> (8 * byte)) & 0xFFU];
  }
  scratch->resize(ops->size());
  for (std::size_t byte = 0; byte < kBytes; ++byte) {
    std::array<std::uint32_t, 256>& next = counts[byte];
    if (std::find(next.begin(), next.end(), ops->size()) != next.end()) continue;
    std::uint32_t sum = 0;
    for (std::uint32_t& count : next) sum += std::exchange(count, sum);
    for (const TimedOp& op : *ops) (*scratch)[next[(op.key >> (8 * byte)) & 0xFFU]++] = op;
    ops->swap(*scratch);
  }
}

struct PlacetoWorkspace : Simulator::Workspace {
  std::vector<OpState> ops;
  ReadyQueues<Waiting> ready;
  std::vector<double> device_free;
  std::vector<double> next_start;
  std::vector<double> bus_free;
  std::vector<std::uint32_t> bus_transfers;
  std::vector<double> start;    // [num_ops]
  std::vector<double> arrival;  // indexed by output, scratch of one op
  std::vector<Tie> arrival_tie;
  std::vector<double> sent;
  std::vector<TimedOp> allocated;
  std::vector<TimedOp> freed;
  std::vector<TimedOp> sorting;
  std::vector<double> freed_at;      // [num_ops]; for a timeline only
  std::vector<std::int64_t> in_use;  // [num_devices]
};

class PlacetoReferenceEngine : public Simulator::Engine {
 public:
  PlacetoReferenceEngine(const Graph& graph, const Cluster& cluster, const CostTable& costs, const SimOptions& options);

  std::unique_ptr<Simulator::Workspace> MakeWorkspace() const override;
  void Run(std::span<const DeviceId> placement, Simulator::Workspace& workspace, StepResult* result,
           Timeline* timeline) const override;

 private:
  friend class PlacetoRun;
  void ReadConstants(const Cluster& cluster);
  void AddEdges(const Graph& graph);
  void RankNames(const Graph& graph, const Cluster& cluster);
  void ComputePeaks(std::span<const DeviceId> placement, PlacetoWorkspace& w, StepResult* result,
                    Timeline* timeline) const;
  double Cost(std::uint32_t op, std::size_t device) const {
    return costs_.Micros(MakeId<OpId>(op), MakeId<DeviceId>(device));
  }

  CostTable costs_;
  SimOptions options_;
  std::size_t num_ops_;
  std::size_t num_devices_;
  double delta1_ = 0;
  double delta2_ = 0;
  double rate_ = std::numeric_limits<double>::infinity();  // bytes per µs
  std::vector<std::uint32_t> edge_begin_;                  // [num_ops + 1]
  std::vector<Edge> edges_;                                // grouped by parent, with children in file order
  std::vector<std::uint32_t> output_begin_;                // [num_ops + 1]: the distinct outputs that edges name
  std::vector<double> output_bytes_;
  std::vector<std::optional<TensorId>> output_tensor_;  // none: a control edge from an op without outputs
  std::vector<std::uint32_t> producer_;                 // [num_tensors]
  std::size_t max_outputs_ = 0;
  std::vector<std::uint32_t> num_parents_;
  std::vector<std::uint32_t> op_rank_;
  std::vector<std::uint32_t> device_by_rank_;
  std::vector<std::uint32_t> device_rank_;
  std::vector<std::uint32_t> file_position_;
  std::vector<std::int64_t> memory_bytes_;  // [num_ops]: sum of all outputs
  std::vector<std::int64_t> capacity_;
};

template <typename Key>
std::vector<std::uint32_t> SortedPositions(std::size_t size, const Key& key) {
  std::vector<std::uint32_t> positions(size);
  std::iota(positions.begin(), positions.end(), 0U);
  std::sort(positions.begin(), positions.end(), [&key](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  return positions;
}

std::vector<std::uint32_t> Inverse(const std::vector<std::uint32_t>& order) {
  std::vector<std::uint32_t> rank(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<std::uint32_t>(i);
  return rank;
}

PlacetoReferenceEngine::PlacetoReferenceEngine(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                               const SimOptions& options)
    : costs_(costs), options_(options), num_ops_(graph.num_ops()), num_devices_(cluster.num_devices()) {
  if (!graph.collectives().empty()) {
    throw InputError("", "graph " + graph.name() + ": engine placeto-reference runs no collectives (use engine fifo)");
  }
  ReadConstants(cluster);
  AddEdges(graph);
  RankNames(graph, cluster);
  for (std::size_t i = 0; i < num_ops_; ++i) {
    const OpId id = MakeId<OpId>(i);
    std::int64_t bytes = 0;
    for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
      bytes += graph.tensor(MakeId<TensorId>(Index(graph.first_output(id)) + k)).size.count;
    }
    memory_bytes_.push_back(bytes);
    file_position_.push_back(graph.op(id).file_position);
  }
  for (std::size_t t = 0; t < graph.num_tensors(); ++t) {
    producer_.push_back(static_cast<std::uint32_t>(graph.tensor(MakeId<TensorId>(t)).producer));
  }
  for (const Device& device : cluster.devices()) {
    capacity_.push_back(device.memory ? device.memory->count : std::numeric_limits<std::int64_t>::max());
  }
}

void PlacetoReferenceEngine::ReadConstants(const Cluster& cluster) {
  const auto refuse = [&cluster](const std::string& what) {
    throw InputError(
        "", "cluster " + cluster.name() + ": engine placeto-reference supports " + what + " (use engine fifo)");
  };
  if (cluster.channels() != Channels::kPerDevice) refuse("one outgoing channel per device only");
  if (!cluster.has_plain_links()) refuse("links with contention and without receive only");
  delta1_ = cluster.device(MakeId<DeviceId>(0)).op_gap_micros;
  for (const Device& device : cluster.devices()) {
    if (device.issue) refuse("no issue lanes");
    if (device.op_gap_micros != delta1_) refuse("one op_gap_us for all devices only");
    if (!device.copy_engine) refuse("devices with a copy engine only");
  }
  bool first = true;
  Link common;
  for (std::size_t from = 0; from < num_devices_; ++from) {
    for (std::size_t to = 0; to < num_devices_; ++to) {
      if (from == to) continue;
      const Link& link = cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to));
      if (first) common = link;
      first = false;
      if (link != common) refuse("one link for all pairs of devices only");
    }
  }
  if (first) return;  // one device
  if (!common.exists()) refuse("clusters with links only");
  if (common.latency_micros != 0) refuse("no link latency");
  if (common.knee.count != 0) refuse("no knee in a link's speed");
  delta2_ = common.gap_micros;
  rate_ = common.bandwidth_gb_per_s * 1000.0;
}

void PlacetoReferenceEngine::AddEdges(const Graph& graph) {
  num_parents_.assign(num_ops_, 0);
  const std::vector<std::vector<PlacetoChild>> children = PlacetoChildren(graph);
  for (std::size_t parent = 0; parent < num_ops_; ++parent) {
    edge_begin_.push_back(static_cast<std::uint32_t>(edges_.size()));
    output_begin_.push_back(static_cast<std::uint32_t>(output_bytes_.size()));
    std::vector<std::uint32_t> outputs;
    for (const auto& [child, output] : children[parent]) {
      const auto found = std::find(outputs.begin(), outputs.end(), output);
      edges_.push_back({static_cast<std::uint32_t>(child), static_cast<std::uint32_t>(found - outputs.begin())});
      ++num_parents_[Index(child)];
      if (found != outputs.end()) continue;
      outputs.push_back(output);
      const OpId id = MakeId<OpId>(parent);
      const TensorId tensor = MakeId<TensorId>(Index(graph.first_output(id)) + output);
      const bool exists = output < graph.num_outputs(id);
      output_tensor_.push_back(exists ? std::optional(tensor) : std::nullopt);
      output_bytes_.push_back(exists ? static_cast<double>(graph.tensor(tensor).size.count) : 0.0);
    }
    max_outputs_ = std::max(max_outputs_, outputs.size());
  }
  edge_begin_.push_back(static_cast<std::uint32_t>(edges_.size()));
  output_begin_.push_back(static_cast<std::uint32_t>(output_bytes_.size()));
}

void PlacetoReferenceEngine::RankNames(const Graph& graph, const Cluster& cluster) {
  op_rank_ = Inverse(SortedPositions(num_ops_, [&graph](std::uint32_t i) { return graph.op(MakeId<OpId>(i)).name; }));
  device_by_rank_ = SortedPositions(
      num_devices_, [&cluster](std::uint32_t i) { return std::string_view(cluster.device(MakeId<DeviceId>(i)).name); });
  device_rank_ = Inverse(device_by_rank_);
}

std::unique_ptr<Simulator::Workspace> PlacetoReferenceEngine::MakeWorkspace() const {
  auto w = std::make_unique<PlacetoWorkspace>();
  w->ops.resize(num_ops_);
  w->ready.Prepare(num_ops_, num_devices_, {-kNever, 0, 0, 0}, {kNever, 0, 0, 0});
  w->device_free.resize(num_devices_);
  w->next_start.resize(num_devices_);
  w->bus_free.resize(num_devices_);
  w->bus_transfers.resize(num_devices_);
  w->start.resize(num_ops_);
  w->arrival.resize(max_outputs_);
  w->arrival_tie.resize(max_outputs_);
  w->sent.resize(max_outputs_);
  if (options_.peak_memory) {
    for (auto* const list : {&w->allocated, &w->freed, &w->sorting}) list->reserve(num_ops_);
  }
  return w;
}

// One run.
class PlacetoRun {
 public:
  PlacetoRun(const PlacetoReferenceEngine& engine, std::span<const DeviceId> placement, PlacetoWorkspace& workspace,
             Timeline* timeline)
      : e_(engine), placement_(placement), w_(workspace), timeline_(timeline) {}

  // The step time in µs.
  double Simulate() {
    Reset();
    for (std::size_t left = e_.num_ops_; left > 0; --left) {
      // Events at one instant are handled in the order of device names (P18).
      std::size_t device = e_.device_by_rank_[0];
      for (const std::uint32_t d : e_.device_by_rank_) {
        if (w_.next_start[d] < w_.next_start[device]) device = d;
      }
      StartOp(device, w_.next_start[device]);
    }
    return last_event_;
  }

 private:
  void Reset() {
    EMPLACE_CHECK_EQ(placement_.size(), e_.num_ops_);
    std::fill(w_.device_free.begin(), w_.device_free.end(), 0.0);
    std::fill(w_.next_start.begin(), w_.next_start.end(), kNever);
    std::fill(w_.bus_free.begin(), w_.bus_free.end(), 0.0);
    std::fill(w_.bus_transfers.begin(), w_.bus_transfers.end(), 0U);
    w_.ready.Reset(placement_);
    const double offset = e_.options_.initial_offset_micros;
    if (e_.num_ops_ != 0) last_event_ = offset;
    for (std::size_t i = 0; i < e_.num_ops_; ++i) {
      w_.ops[i] = {0, 0, e_.num_parents_[i]};
      // Ops without producers are queued first, in the order of the file (P15).
      if (e_.num_parents_[i] == 0) MakeReady({offset, 0, e_.file_position_[i], static_cast<std::uint32_t>(i)});
    }
  }

  void MakeReady(const Waiting& waiting) {
    const std::size_t device = Index(placement_[waiting.op]);
    w_.ready.Push(device, waiting);
    UpdateNextStart(device);
  }

  void UpdateNextStart(std::size_t device) {
    w_.next_start[device] = std::max(w_.ready.front(device).ready, w_.device_free[device]);
  }

  void StartOp(std::size_t device, double start) {
    const std::uint32_t op = w_.ready.front(device).op;
    w_.ready.Pop(device);
    const double cost = e_.Cost(op, device);
    const double end = start + cost;
    const double free = end + (cost == 0 ? 0.0 : e_.delta1_);
    w_.start[op] = start;
    w_.device_free[device] = free;
    last_event_ = std::max(last_event_, free);
    UpdateNextStart(device);
    if (timeline_ != nullptr) {
      timeline_->ops.push_back({MakeId<OpId>(op), MakeId<DeviceId>(device), start, end});
    }

    // Local children are released at the op's end, before any transfer of the same instant.
    const Tie local_tie = end == start ? SameInstantTie(running_number_++) : OrdinaryTie(e_.op_rank_[op]);
    SendOutputs(op, device, start, end);
    for (std::uint32_t k = e_.edge_begin_[op]; k < e_.edge_begin_[op + 1]; ++k) {
      const Edge& edge = e_.edges_[k];
      if (Index(placement_[edge.child]) == device) {
        Release(edge.child, end, local_tie);
      } else {
        Release(edge.child, w_.arrival[edge.output], w_.arrival_tie[edge.output]);
      }
    }
  }

  // One transfer for each output that a child on another device names, in the order in which children in file order
  // name them (P11).
  void SendOutputs(std::uint32_t op, std::size_t device, double start, double end) {
    const std::uint32_t outputs = e_.output_begin_[op + 1] - e_.output_begin_[op];
    std::fill_n(w_.arrival.begin(), outputs, kNever);
    for (std::uint32_t k = e_.edge_begin_[op]; k < e_.edge_begin_[op + 1]; ++k) {
      const Edge& edge = e_.edges_[k];
      const DeviceId to = placement_[edge.child];
      if (Index(to) == device) continue;
      if (w_.arrival[edge.output] == kNever) Send(op, device, edge.output, start, end);
      if (timeline_ != nullptr) TellTransfer(op, device, to, edge.output);
    }
  }

  void Send(std::uint32_t op, std::size_t device, std::uint32_t output, double producer_start, double end) {
    const double sent = std::max(end, w_.bus_free[device]);
    const double delay = e_.output_bytes_[e_.output_begin_[op] + output] / e_.rate_;
    const double arrival = sent + delay;
    w_.bus_free[device] = arrival + e_.delta2_;
    last_event_ = std::max(last_event_, w_.bus_free[device]);
    w_.arrival[output] = arrival;
    const std::uint32_t number = w_.bus_transfers[device]++;
    if (arrival == producer_start) {
      w_.arrival_tie[output] = SameInstantTie(running_number_++);
    } else if (arrival == sent) {
      w_.arrival_tie[output] = InstantTransferTie(e_.device_rank_[device], number);
    } else {
      w_.arrival_tie[output] = OrdinaryTie(e_.op_rank_[op]);
    }
    w_.sent[output] = sent;
  }

  // A transfer serves all destinations at once; the timeline shows one for each.
  void TellTransfer(std::uint32_t op, std::size_t device, DeviceId to, std::uint32_t output) {
    const std::optional<TensorId> tensor = e_.output_tensor_[e_.output_begin_[op] + output];
    if (!tensor) return;
    for (auto it = timeline_->transfers.rbegin(); it != timeline_->transfers.rend(); ++it) {
      if (e_.producer_[Index(it->tensor)] != op) break;
      if (it->tensor == *tensor && it->to == to) return;
    }
    timeline_->transfers.push_back({*tensor, MakeId<DeviceId>(device), to, w_.sent[output], w_.arrival[output]});
  }

  void Release(std::uint32_t child, double when, Tie tie) {
    OpState& state = w_.ops[child];
    if (when > state.ready || (when == state.ready && tie > state.tie)) {
      state.ready = when;
      state.tie = tie;
    }
    if (--state.waits == 0) MakeReady({state.ready, state.tie, e_.op_rank_[child], child});
  }

  const PlacetoReferenceEngine& e_;
  std::span<const DeviceId> placement_;
  PlacetoWorkspace& w_;
  Timeline* timeline_;
  std::uint64_t running_number_ = 0;
  double last_event_ = 0;
};

void PlacetoReferenceEngine::Run(std::span<const DeviceId> placement, Simulator::Workspace& workspace,
                                 StepResult* result, Timeline* timeline) const {
  auto& w = static_cast<PlacetoWorkspace&>(workspace);
  result->step_time_micros = PlacetoRun(*this, placement, w, timeline).Simulate();
  result->fits_memory = true;
  result->start_micros.clear();
  if (options_.start_times) result->start_micros = w.start;
  result->peak_memory.clear();
  if (options_.peak_memory) ComputePeaks(placement, w, result, timeline);
}

void PlacetoReferenceEngine::ComputePeaks(std::span<const DeviceId> placement, PlacetoWorkspace& w, StepResult* result,
                                          Timeline* timeline) const {
  w.allocated.clear();
  w.freed.clear();
  if (timeline != nullptr) w.freed_at.resize(num_ops_);
  for (std::uint32_t op = 0; op < num_ops_; ++op) {
    if (memory_bytes_[op] == 0) continue;
    double freed = w.start[op];
    for (std::uint32_t k = edge_begin_[op]; k < edge_begin_[op + 1]; ++k) {
      const std::uint32_t child = edges_[k].child;
      freed = std::max(freed, std::trunc(w.start[child]) + std::trunc(Cost(child, Index(placement[child]))) - 1);
    }
    w.allocated.push_back({KeyOfTime(w.start[op]), op});
    w.freed.push_back({KeyOfTime(freed), op});
    if (timeline != nullptr) w.freed_at[op] = freed;
  }
  SortByTime(&w.allocated, &w.sorting);
  SortByTime(&w.freed, &w.sorting);
  w.in_use.assign(num_devices_, 0);
  result->peak_memory.assign(num_devices_, Bytes{0});
  const auto change = [&](std::uint32_t op, std::int64_t bytes, double time) {
    const DeviceId device = placement[op];
    std::int64_t& now = w.in_use[Index(device)];
    now += bytes;
    if (timeline != nullptr) timeline->memory.push_back({device, time, Bytes{now}});
    return now;
  };
  // At one instant allocations come before frees. The order among equals changes no peak: all of them have one sign.
  std::size_t next_free = 0;
  const auto free_until = [&](std::uint64_t key) {
    for (; next_free < w.freed.size() && w.freed[next_free].key < key; ++next_free) {
      const std::uint32_t op = w.freed[next_free].op;
      change(op, -memory_bytes_[op], timeline != nullptr ? w.freed_at[op] : 0);
    }
  };
  for (const TimedOp& allocation : w.allocated) {
    free_until(allocation.key);
    const std::int64_t now = change(allocation.op, memory_bytes_[allocation.op], w.start[allocation.op]);
    Bytes& peak = result->peak_memory[Index(placement[allocation.op])];
    peak.count = std::max(peak.count, now);
  }
  free_until(std::numeric_limits<std::uint64_t>::max());
  for (std::size_t d = 0; d < num_devices_; ++d) {
    if (result->peak_memory[d].count > capacity_[d]) result->fits_memory = false;
  }
  if (timeline != nullptr) {
    std::stable_sort(timeline->memory.begin(), timeline->memory.end(),
                     [](const auto& a, const auto& b) { return a.device < b.device; });
  }
}

}  // namespace

std::vector<std::vector<PlacetoChild>> PlacetoChildren(const Graph& graph) {
  std::vector<std::vector<PlacetoChild>> children(graph.num_ops());
  std::vector<std::pair<OpId, std::uint32_t>> parents;  // (parent, output index)
  for (const OpId child : graph.file_order()) {
    parents.clear();
    const auto mention = [&parents](OpId parent, std::uint32_t output) {
      const auto found = std::find_if(parents.begin(), parents.end(), [=](const auto& p) { return p.first == parent; });
      if (found == parents.end()) {
        parents.emplace_back(parent, output);
      } else {
        found->second = output;
      }
    };
    for (const TensorId input : graph.inputs(child)) {
      mention(graph.tensor(input).producer, graph.tensor(input).output_index);
    }
    for (const OpId parent : graph.control_inputs(child)) mention(parent, 0);
    for (const auto& [parent, output] : parents) children[Index(parent)].push_back({child, output});
  }
  return children;
}

std::unique_ptr<Simulator::Engine> MakePlacetoReferenceEngine(const Graph& graph, const Cluster& cluster,
                                                              const CostTable& costs, const SimOptions& options) {
  return std::make_unique<PlacetoReferenceEngine>(graph, cluster, costs, options);
}

}  // namespace emplace
