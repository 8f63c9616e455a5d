#include "sim/groupers/group_graph.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "sim/base/check.h"
#include "sim/op_kinds.h"

namespace emplace {
namespace {

constexpr std::uint64_t kAnyKind = ~std::uint64_t{0};
// Up to this many neighbours are sorted each time; more are kept in order.
constexpr std::size_t kMostSorted = 64;

// The device kinds where an op has a time, as bits. If there are more than 64 kinds, the further ones share a bit.
std::vector<std::uint64_t> KindBits(const Graph& graph) {
  std::map<std::string_view, std::size_t> bit_of;
  std::vector<std::uint64_t> bits(graph.num_ops(), kAnyKind);
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    const bool on_all = op.time_micros || (op.queue_times != nullptr && op.queue_times->device_micros);
    const auto device_times =
        op.queue_times == nullptr ? std::span<const KindTime>() : op.queue_times->device_kind_times;
    if (on_all || (op.kind_times.empty() && device_times.empty()) || IsSourceKind(op.kind)) continue;
    bits[i] = 0;
    for (const auto times : {op.kind_times, device_times}) {
      for (const KindTime& time : times) {
        const std::size_t bit = bit_of.try_emplace(time.kind, bit_of.size()).first->second;
        bits[i] |= std::uint64_t{1} << std::min<std::size_t>(bit, 63);
      }
    }
  }
  return bits;
}

}  // namespace

GroupGraph::GroupGraph(const Graph& graph)
    : parent_(graph.num_ops()),
      slot_of_(graph.num_ops()),
      name_of_(graph.num_ops()),
      successors_(graph.num_ops()),
      predecessors_(graph.num_ops()),
      output_bytes_(graph.num_ops(), 0),
      kinds_(graph.num_ops(), kAnyKind) {
  std::iota(slot_of_.begin(), slot_of_.end(), Slot{0});
  std::iota(name_of_.begin(), name_of_.end(), std::size_t{0});
  const std::vector<std::uint64_t> bits = KindBits(graph);
  for (std::size_t op = 0; op < parent_.size(); ++op) {
    parent_[op] = Index(graph.colocation_class(MakeId<OpId>(op)));
    kinds_[parent_[op]] &= bits[op];
    if (parent_[op] == op) ++num_groups_;
  }
  const auto connect = [this](std::size_t from, std::size_t to, std::int64_t bytes) {
    if (from == to) return;
    Add(&successors_[from], static_cast<Slot>(to), bytes);
    Add(&predecessors_[to], static_cast<Slot>(from), bytes);
    output_bytes_[from] += bytes;
  };
  for (std::size_t t = 0; t < graph.num_tensors(); ++t) {
    const Tensor& tensor = graph.tensor(MakeId<TensorId>(t));
    std::set<std::size_t> readers;
    for (const OpId consumer : graph.consumers(MakeId<TensorId>(t))) readers.insert(parent_[Index(consumer)]);
    for (const std::size_t reader : readers) connect(parent_[Index(tensor.producer)], reader, tensor.size.count);
  }
  for (std::size_t op = 0; op < parent_.size(); ++op) {
    for (const OpId consumer : graph.control_consumers(MakeId<OpId>(op))) {
      connect(parent_[op], parent_[Index(consumer)], 0);
    }
  }
}

std::size_t GroupGraph::Find(std::size_t op) const {
  while (parent_[op] != op) op = parent_[op] = parent_[parent_[op]];
  return op;
}

GroupGraph::Neighbours GroupGraph::Named(std::size_t group, Direction direction) const {
  Neighbours named;
  for (const auto& [slot, bytes] : SideOf(slot_of_[group], direction).bytes) named.emplace(name_of_[slot], bytes);
  return named;
}

bool GroupGraph::AreNeighbours(std::size_t a, std::size_t b) const {
  return successors_[slot_of_[a]].bytes.contains(slot_of_[b]) || successors_[slot_of_[b]].bytes.contains(slot_of_[a]);
}

void GroupGraph::Order(Slot slot, Direction direction) {
  Side& side = direction == Direction::kSuccessors ? successors_[slot] : predecessors_[slot];
  if (side.is_ordered) return;
  side.is_ordered = true;
  ordered_.insert(slot);
  for (const auto& [neighbour, bytes] : side.bytes) side.heaviest.emplace(-bytes, name_of_[neighbour]);
}

std::optional<std::size_t> GroupGraph::FindHeaviest(std::size_t group, Direction direction,
                                                    const std::function<bool(std::size_t)>& accept) {
  const Slot slot = slot_of_[group];
  const Side& side = SideOf(slot, direction);
  const auto first = [&accept](const auto& heaviest) -> std::optional<std::size_t> {
    for (const auto& [bytes, name] : heaviest) {
      if (accept(name)) return name;
    }
    return std::nullopt;
  };
  if (side.is_ordered || side.bytes.size() > kMostSorted) {
    Order(slot, direction);
    return first(side.heaviest);
  }
  std::vector<std::pair<std::int64_t, std::size_t>> heaviest;
  heaviest.reserve(side.bytes.size());
  for (const auto& [neighbour, bytes] : side.bytes) heaviest.emplace_back(-bytes, name_of_[neighbour]);
  std::sort(heaviest.begin(), heaviest.end());
  return first(heaviest);
}

void GroupGraph::Add(Side* side, Slot neighbour, std::int64_t bytes) const {
  const auto [found, is_new] = side->bytes.try_emplace(neighbour, 0);
  if (side->is_ordered && !is_new) side->heaviest.erase({-found->second, name_of_[neighbour]});
  found->second += bytes;
  if (side->is_ordered) side->heaviest.emplace(-found->second, name_of_[neighbour]);
}

void GroupGraph::Remove(Side* side, Slot neighbour) const {
  const auto found = side->bytes.find(neighbour);
  if (side->is_ordered) side->heaviest.erase({-found->second, name_of_[neighbour]});
  side->bytes.erase(found);
}

void GroupGraph::MoveEdges(Slot from, Slot to, std::vector<Side>& out, std::vector<Side>& back) {
  for (const auto& [neighbour, bytes] : out[from].bytes) {
    Remove(&back[neighbour], from);
    if (neighbour == to) continue;
    Add(&out[to], neighbour, bytes);
    Add(&back[neighbour], to, bytes);
  }
  out[from] = {};
}

void GroupGraph::Rename(Slot slot, std::size_t name) {
  const std::size_t old = name_of_[slot];
  if (name == old) return;
  const auto rename = [&](Side* side) {
    if (!side->is_ordered) return;
    const auto found = side->bytes.find(slot);
    if (found == side->bytes.end()) return;
    side->heaviest.erase({-found->second, old});
    side->heaviest.emplace(-found->second, name);
  };
  if (ordered_.size() < successors_[slot].bytes.size() + predecessors_[slot].bytes.size()) {
    for (const Slot other : ordered_) {
      rename(&successors_[other]);
      rename(&predecessors_[other]);
    }
  } else {
    for (const auto& [other, bytes] : successors_[slot].bytes) rename(&predecessors_[other]);
    for (const auto& [other, bytes] : predecessors_[slot].bytes) rename(&successors_[other]);
  }
  name_of_[slot] = name;
  slot_of_[name] = slot;
}

std::size_t GroupGraph::Merge(std::size_t a, std::size_t b) {
  EMPLACE_CHECK(a != b && IsGroup(a) && IsGroup(b));
  const auto degree = [this](Slot slot) { return successors_[slot].bytes.size() + predecessors_[slot].bytes.size(); };
  const bool a_stays = degree(slot_of_[a]) >= degree(slot_of_[b]);
  const Slot stays = slot_of_[a_stays ? a : b];
  const Slot goes = slot_of_[a_stays ? b : a];
  const auto between = [this](Slot from, Slot to) {
    const auto found = successors_[from].bytes.find(to);
    return found == successors_[from].bytes.end() ? std::int64_t{0} : found->second;
  };
  const std::int64_t output = output_bytes_[a] + output_bytes_[b] - between(stays, goes) - between(goes, stays);
  const std::uint64_t kinds = kinds_[a] & kinds_[b];
  const std::size_t name = std::min(a, b);
  shared_predecessors_.clear();
  for (const auto& [neighbour, bytes] : predecessors_[goes].bytes) {
    if (predecessors_[stays].bytes.contains(neighbour)) shared_predecessors_.push_back(name_of_[neighbour]);
  }
  MoveEdges(goes, stays, successors_, predecessors_);
  MoveEdges(goes, stays, predecessors_, successors_);
  ordered_.erase(goes);
  Rename(stays, name);
  parent_[std::max(a, b)] = name;
  output_bytes_[name] = output;
  kinds_[name] = kinds;
  --num_groups_;
  return name;
}

std::vector<std::size_t> GroupGraph::Labels() const {
  std::vector<std::size_t> labels(parent_.size());
  for (std::size_t op = 0; op < labels.size(); ++op) labels[op] = Find(op);
  return labels;
}

}  // namespace emplace
