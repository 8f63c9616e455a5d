#include "agents/bounds/relaxation.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "sim/base/check.h"

namespace emplace::agents {
namespace {

// A distinct way in which devices of one type are joined to devices of another.
struct Join {
  std::int64_t latency = 0;
  std::int64_t gap = 0;
  TransferRate rate;
  auto operator<=>(const Join&) const = default;
};

}  // namespace

Relaxation::Relaxation(const Graph& graph, const Cluster& cluster, const CostTable& costs, Types types)
    : num_ops_(graph.num_ops()), num_devices_(cluster.num_devices()) {
  EMPLACE_CHECK_EQ(costs.num_ops(), graph.num_ops());
  std::vector<std::size_t> type_of(num_devices_);
  std::vector<std::size_t> kinds;
  for (std::size_t d = 0; d < num_devices_; ++d) {
    const auto device = MakeId<DeviceId>(d);
    const std::size_t kind = costs.KindIndex(device);
    const std::int64_t gap = DurationFromMicros(cluster.device(device).op_gap_micros).count();
    std::size_t type = types == Types::kEachDevice ? types_.size() : 0;
    while (type < types_.size() && (kinds[type] != kind || types_[type].op_gap != gap)) ++type;
    if (type == types_.size()) {
      types_.push_back({{}, gap});
      kinds.push_back(kind);
    }
    types_[type].devices.push_back(device);
    type_of[d] = type;
  }
  const std::size_t num_types = types_.size();

  times_.resize(num_ops_ * num_types, kNever);
  shortest_.resize(num_ops_, kNever);
  for (std::size_t i = 0; i < num_ops_; ++i) {
    for (std::size_t t = 0; t < num_types; ++t) {
      if (!costs.Allowed(MakeId<OpId>(i), types_[t].devices.front())) continue;
      times_[i * num_types + t] = DurationFromMicros(costs.KindMicros(MakeId<OpId>(i), kinds[t])).count();
      shortest_[i] = std::min(shortest_[i], Time(i, t));
    }
  }

  std::vector<std::vector<Join>> joins(num_types * num_types);
  for (std::size_t a = 0; a < num_devices_; ++a) {
    for (std::size_t b = 0; b < num_devices_; ++b) {
      const Link& link = cluster.link(MakeId<DeviceId>(a), MakeId<DeviceId>(b));
      if (a == b || !link.exists()) continue;
      joins[type_of[a] * num_types + type_of[b]].push_back(
          {DurationFromMicros(link.latency_micros).count(), DurationFromMicros(link.gap_micros).count(), link.rate()});
    }
  }
  for (auto& of_pair : joins) {
    std::sort(of_pair.begin(), of_pair.end());
    of_pair.erase(std::unique(of_pair.begin(), of_pair.end()), of_pair.end());
  }

  std::vector<std::pair<std::uint32_t, Bytes>> reads;  // (producer, tensor) of one op
  std::vector<TensorId> tensors;
  for (std::size_t i = 0; i < num_ops_; ++i) {
    const auto op = MakeId<OpId>(i);
    tensors.assign(graph.inputs(op).begin(), graph.inputs(op).end());
    std::sort(tensors.begin(), tensors.end());
    tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
    reads.clear();
    for (const TensorId tensor : tensors) {
      reads.emplace_back(static_cast<std::uint32_t>(Index(graph.tensor(tensor).producer)), graph.tensor(tensor).size);
    }
    for (const OpId before : graph.control_inputs(op)) {
      reads.emplace_back(static_cast<std::uint32_t>(Index(before)), Bytes{-1});
    }
    std::stable_sort(reads.begin(), reads.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t k = 0; k < reads.size();) {
      const std::uint32_t from = reads[k].first;
      std::size_t end = k;
      while (end < reads.size() && reads[end].first == from) ++end;
      const bool together = graph.colocation_class(MakeId<OpId>(from)) == graph.colocation_class(op);
      std::int64_t shortest = kNever;
      for (const auto& of_pair : joins) {
        std::int64_t least = kNever;
        for (const Join& join : of_pair) {
          std::int64_t total = 0;
          std::int64_t sent = 0;
          for (std::size_t r = k; r < end; ++r) {
            if (reads[r].second.count < 0) {
              total = std::max(total, join.latency);
            } else {
              total = (sent++ == 0 ? 0 : total + join.gap) + join.latency +
                      TransferDuration(reads[r].second, join.rate).count();
            }
          }
          least = std::min(least, total);
        }
        if (together) least = kNever;
        transfers_.push_back(least);
        shortest = std::min(shortest, least);
      }
      shortest_transfer_.push_back(shortest);
      edges_.push_back({from, static_cast<std::uint32_t>(i)});
      k = end;
    }
  }
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    std::int64_t step = shortest_transfer_[e];
    for (std::size_t t = 0; t < num_types; ++t) {
      if (Time(edges_[e].from, t) != kNever) step = std::min(step, Gap(edges_[e].from, t));
    }
    shortest_step_.push_back(step);
  }
  IndexEdges();
}

void Relaxation::IndexEdges() {
  in_begin_.assign(num_ops_ + 1, 0);
  out_begin_.assign(num_ops_ + 1, 0);
  for (const Edge& edge : edges_) {
    ++in_begin_[edge.to + 1];
    ++out_begin_[edge.from + 1];
  }
  for (std::size_t i = 0; i < num_ops_; ++i) {
    in_begin_[i + 1] += in_begin_[i];
    out_begin_[i + 1] += out_begin_[i];
  }
  in_.resize(edges_.size());
  out_.resize(edges_.size());
  std::vector<std::uint32_t> in_at(in_begin_.begin(), in_begin_.end());
  std::vector<std::uint32_t> out_at(out_begin_.begin(), out_begin_.end());
  for (std::uint32_t e = 0; e < edges_.size(); ++e) {
    in_[in_at[edges_[e].to]++] = e;
    out_[out_at[edges_[e].from]++] = e;
  }
}

}  // namespace emplace::agents
