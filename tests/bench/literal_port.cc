#include "tests/bench/literal_port.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>

namespace emplace::testing {
namespace {

template <typename NameOf>
std::vector<std::uint32_t> Ranks(std::size_t size, const NameOf& name_of) {
  std::vector<std::uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return name_of(a) < name_of(b); });
  std::vector<std::uint32_t> ranks(size);
  for (std::size_t i = 0; i < size; ++i) ranks[order[i]] = static_cast<std::uint32_t>(i);
  return ranks;
}

}  // namespace

bool LiteralPort::Event::operator>(const Event& other) const {
  return std::tie(time, kind, first, second) > std::tie(other.time, other.kind, other.first, other.second);
}

bool LiteralPort::Queued::operator>(const Queued& other) const {
  return std::tie(time, counter) > std::tie(other.time, other.counter);
}

LiteralPort::LiteralPort(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                         double initial_offset_micros)
    : costs_(costs),
      offset_(initial_offset_micros),
      children_(graph.num_ops()),
      output_bytes_(graph.num_ops()),
      num_parents_(graph.num_ops(), 0) {
  delta1_ = cluster.devices()[0].op_gap_micros;
  if (cluster.num_devices() > 1) {
    const Link& link = cluster.link(MakeId<DeviceId>(0), MakeId<DeviceId>(1));
    delta2_ = link.gap_micros;
    rate_ = link.bandwidth_gb_per_s * 1000.0;
  }
  for (const OpId child : graph.file_order()) {
    const auto id = static_cast<std::uint32_t>(child);
    std::map<OpId, std::uint32_t> output_of;  // the last mention of a parent determines its output
    for (const TensorId input : graph.inputs(child)) {
      output_of[graph.tensor(input).producer] = graph.tensor(input).output_index;
    }
    for (const OpId parent : graph.control_inputs(child)) output_of[parent] = 0;
    for (const auto& [parent, output] : output_of) children_[Index(parent)].push_back({id, output});
    num_parents_[id] = static_cast<std::uint32_t>(output_of.size());
    if (output_of.empty()) roots_.push_back(id);
  }
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      const TensorId tensor = MakeId<TensorId>(Index(graph.first_output(op)) + k);
      output_bytes_[i].push_back(static_cast<double>(graph.tensor(tensor).size.count));
    }
    if (output_bytes_[i].empty()) output_bytes_[i].push_back(0);  // the size of a control edge
  }
  op_rank_ = Ranks(graph.num_ops(), [&](std::uint32_t i) { return graph.op(MakeId<OpId>(i)).name; });
  device_rank_ = Ranks(cluster.num_devices(), [&](std::uint32_t i) { return cluster.devices()[i].name; });
  devices_.resize(cluster.num_devices());
  buses_.resize(cluster.num_devices());
}

double LiteralPort::Run(std::span<const DeviceId> placement) {
  placement_ = placement;
  events_.clear();
  transfers_.clear();
  for (Lane& lane : devices_) lane = {};
  for (Lane& lane : buses_) lane = {};
  waits_ = num_parents_;
  start_.assign(num_parents_.size(), 0);
  counter_ = 0;
  last_ = 0;
  for (const std::uint32_t op : roots_) Ready(op, offset_);
  while (!events_.empty()) {
    std::pop_heap(events_.begin(), events_.end(), std::greater<>());
    const Event event = events_.back();
    events_.pop_back();
    last_ = std::max(last_, event.time);
    if (event.kind == kRemoveDependency) RemoveDependency(event.target, event.time);
    if (event.kind == kRunBus) RunBus(event.target, event.time);
    if (event.kind == kRunDevice) RunDevice(event.target, event.time);
  }
  return last_;
}

void LiteralPort::Push(const Event& event) {
  events_.push_back(event);
  std::push_heap(events_.begin(), events_.end(), std::greater<>());
}

void LiteralPort::Enqueue(Lane& lane, double priority, std::uint32_t what) {
  lane.queue.push_back({priority, counter_++, what});
  std::push_heap(lane.queue.begin(), lane.queue.end(), std::greater<>());
}

void LiteralPort::Ready(std::uint32_t op, double now) {
  const auto device = static_cast<std::uint32_t>(placement_[op]);
  Enqueue(devices_[device], now, op);
  if (devices_[device].scheduled) return;
  devices_[device].scheduled = true;
  Push({now, kRunDevice, device_rank_[device], 0, device});
}

void LiteralPort::RemoveDependency(std::uint32_t op, double now) {
  if (--waits_[op] == 0) Ready(op, now);
}

void LiteralPort::RunDevice(std::uint32_t device, double now) {
  Lane& lane = devices_[device];
  if (lane.queue.empty()) {
    lane.scheduled = false;
    return;
  }
  std::pop_heap(lane.queue.begin(), lane.queue.end(), std::greater<>());
  const std::uint32_t op = lane.queue.back().what;
  lane.queue.pop_back();
  start_[op] = now;
  const double cost = costs_.Micros(MakeId<OpId>(op), MakeId<DeviceId>(device));
  const double end = now + cost;
  Push({cost == 0 ? end : end + delta1_, kRunDevice, device_rank_[device], 0, device});
  const std::size_t first_transfer = transfers_.size();
  for (const Child& child : children_[op]) {
    if (Index(placement_[child.op]) == device) {
      Push({end, kRemoveDependency, op_rank_[op], op_rank_[child.op], child.op});
      continue;
    }
    auto shared = std::find_if(transfers_.begin() + static_cast<std::ptrdiff_t>(first_transfer), transfers_.end(),
                               [&child](const Transfer& t) { return t.output == child.output; });
    if (shared == transfers_.end()) {
      Enqueue(buses_[device], end, static_cast<std::uint32_t>(transfers_.size()));
      shared = transfers_.insert(transfers_.end(), {op, child.output, {}});
    }
    shared->children.push_back(child.op);
  }
  if (transfers_.size() > first_transfer && !buses_[device].scheduled) {
    buses_[device].scheduled = true;
    Push({now, kRunBus, device_rank_[device], 0, device});
  }
}

void LiteralPort::RunBus(std::uint32_t device, double now) {
  Lane& lane = buses_[device];
  if (lane.queue.empty()) {
    lane.scheduled = false;
    return;
  }
  if (lane.queue.front().time > now) {  // its producer has not ended
    Push({lane.queue.front().time, kRunBus, device_rank_[device], 0, device});
    return;
  }
  std::pop_heap(lane.queue.begin(), lane.queue.end(), std::greater<>());
  const Transfer& transfer = transfers_[lane.queue.back().what];
  lane.queue.pop_back();
  const double arrival = now + output_bytes_[transfer.op][transfer.output] / rate_;
  for (const std::uint32_t child : transfer.children) {
    Push({arrival, kRemoveDependency, op_rank_[transfer.op], op_rank_[child], child});
  }
  Push({arrival + delta2_, kRunBus, device_rank_[device], 0, device});
}

}  // namespace emplace::testing
