#include "agents/throughput/pipedream_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "sim/base/check.h"

namespace emplace::agents {
namespace {

constexpr double kMostSteps = 2e9;

// The times of all runs of layers on the components of one level, and how they come about.
class PlanLevel {
 public:
  // `inner` is null for devices. Only the last level may leave out runs that do not start at layer 0.
  PlanLevel(const LayerChain& chain, const BandwidthLevel& level, const PlanLevel* inner, bool replicas, bool last)
      : chain_(chain), level_(level), inner_(inner), replicas_(replicas), rows_(last ? 1 : chain.size()) {
    time_until_.push_back(0);
    weights_until_.push_back(0);
    for (std::size_t layer = 0; layer < chain.size(); ++layer) {
      time_until_.push_back(time_until_.back() + chain.micros[layer]);
      weights_until_.push_back(weights_until_.back() + chain.weight_bytes[layer]);
    }
    table_.resize(rows_ * level.components * chain.size());
    for (std::size_t first = 0; first < rows_; ++first) {
      for (std::size_t m = 1; m <= level.components; ++m) {
        for (std::size_t end = first; end < chain.size(); ++end) Fill(first, end, m);
      }
    }
  }

  // On all components.
  double Micros(std::size_t first, std::size_t last) const { return At(first, last, level_.components).micros; }

  // Appends the stages of these layers on m components, from this device on, each copied `copies` times.
  void AddStages(std::size_t first, std::size_t last, std::size_t m, std::size_t device, std::size_t copies,
                 std::vector<ReplicatedStage>* stages) const {
    const Entry* entry = &At(first, last, m);
    while (entry->fewer) entry = &At(first, last, --m);
    if (entry->of_last < m) {
      AddStages(first, entry->split, m - entry->of_last, device, copies, stages);
      first = entry->split + 1;
      device += (m - entry->of_last) * (inner_ == nullptr ? 1 : inner_->devices());
    }
    if (inner_ == nullptr) {
      stages->push_back({.first = first, .last = last, .replicas = copies * entry->of_last, .first_device = device});
    } else {
      inner_->AddStages(first, last, inner_->level_.components, device, copies * entry->of_last, stages);
    }
  }

  std::size_t components() const { return level_.components; }
  std::size_t devices() const { return level_.components * (inner_ == nullptr ? 1 : inner_->devices()); }

 private:
  struct Entry {
    double micros = std::numeric_limits<double>::infinity();
    std::uint32_t split = 0;    // the layer before the last stage, if that is not on all m
    std::uint32_t of_last = 0;  // components of the last stage
    bool fewer = false;         // the same plan as with one component less
  };

  const Entry& At(std::size_t first, std::size_t last, std::size_t m) const {
    return table_[(first * level_.components + m - 1) * chain_.size() + last];
  }

  // One stage on m components.
  double StageMicros(std::size_t first, std::size_t last, std::size_t m) const {
    const double compute = inner_ != nullptr ? inner_->Micros(first, last) : time_until_[last + 1] - time_until_[first];
    if (m == 1) return compute;
    const double weights = weights_until_[last + 1] - weights_until_[first];
    const auto count = static_cast<double>(m);
    return std::max(compute, 2 * (count - 1) * weights / level_.bytes_per_micro) / count;
  }

  void Fill(std::size_t first, std::size_t last, std::size_t m) {
    Entry best;
    if (replicas_ || m == 1) {
      best = {.micros = StageMicros(first, last, m), .of_last = static_cast<std::uint32_t>(m)};
    } else {
      best = {.micros = At(first, last, m - 1).micros, .fewer = true};
    }
    const std::size_t most = replicas_ ? m : std::min<std::size_t>(m, 2);
    for (std::size_t split = first; split < last; ++split) {
      const double sent = chain_.sent_bytes[split] / level_.bytes_per_micro;
      if (sent >= best.micros) continue;
      for (std::size_t n = 1; n < most; ++n) {
        const double before = At(first, split, m - n).micros;
        if (before >= best.micros) continue;
        const double micros = std::max({before, sent, StageMicros(split + 1, last, n)});
        if (micros >= best.micros) continue;
        best = {.micros = micros, .split = static_cast<std::uint32_t>(split), .of_last = static_cast<std::uint32_t>(n)};
      }
    }
    table_[(first * level_.components + m - 1) * chain_.size() + last] = best;
  }

  const LayerChain& chain_;
  BandwidthLevel level_;
  const PlanLevel* inner_;
  bool replicas_;
  std::size_t rows_;
  std::vector<double> time_until_;     // [num_layers + 1]
  std::vector<double> weights_until_;  // [num_layers + 1]
  std::vector<Entry> table_;           // [rows, components, num_layers]
};

void CheckSteps(std::size_t num_layers, const std::vector<BandwidthLevel>& levels, bool replicas) {
  const auto layers = static_cast<double>(num_layers);
  double steps = 0;
  for (std::size_t k = 0; k < levels.size(); ++k) {
    const auto components = static_cast<double>(levels[k].components);
    const double runs = k + 1 == levels.size() ? 1 : layers / 3;
    steps += runs * layers * layers * components * (replicas ? components : 1) / 4;
  }
  if (steps <= kMostSteps) return;
  throw InputError("", fmt::format("{} layers on {} levels of links take {:.2g} steps (at most {:.2g}: --grouping "
                                   "merge_and_colocate --groups N, or links=flat)",
                                   num_layers, levels.size(), steps, kMostSteps));
}

}  // namespace

LayerChain MakeLayerChain(const Graph& graph, const ContiguousUnits& units, const StageCosts& costs,
                          const std::vector<DeviceId>& devices) {
  LayerChain chain{.micros = std::vector<double>(units.size(), 0),
                   .sent_bytes = std::vector<double>(units.size(), 0),
                   .weight_bytes = std::vector<double>(units.size(), 0)};
  std::vector<std::size_t> chosen(costs.classes.size(), 0);  // devices of each class
  for (std::size_t c = 0; c < costs.classes.size(); ++c) {
    for (const DeviceId device : costs.classes[c].devices) {
      chosen[c] += static_cast<std::size_t>(std::ranges::count(devices, device));
    }
  }
  std::vector<double> variables(units.size(), 0);
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    const std::size_t unit = units.unit_of[i];
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t c = 0; c < costs.classes.size(); ++c) {
      if (chosen[c] == 0 || std::isnan(costs.classes[c].op_micros[i])) continue;
      sum += static_cast<double>(chosen[c]) * costs.classes[c].op_micros[i];
      count += chosen[c];
    }
    if (count > 0) chain.micros[unit] += sum / static_cast<double>(count);
    chain.weight_bytes[unit] += static_cast<double>(graph.op(op).persistent.count);
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      const auto tensor = MakeId<TensorId>(Index(graph.first_output(op)) + k);
      const auto bytes = static_cast<double>(graph.tensor(tensor).size.count);
      if (graph.op(op).kind == "variable") variables[unit] += bytes;
      std::size_t first = unit;
      std::size_t last = unit;
      for (const OpId reader : graph.consumers(tensor)) {
        first = std::min(first, units.unit_of[Index(reader)]);
        last = std::max(last, units.unit_of[Index(reader)]);
      }
      for (std::size_t cut = first; cut < last; ++cut) chain.sent_bytes[cut] += bytes;
    }
  }
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    if (variables[unit] > 0) chain.weight_bytes[unit] = variables[unit];
  }
  return chain;
}

DeviceHierarchy FindHierarchy(const Cluster& cluster, const std::vector<DeviceId>& devices, bool flat) {
  EMPLACE_CHECK(!devices.empty());
  const std::size_t count = devices.size();
  const auto bandwidth = [&](std::size_t a, std::size_t b) {
    return (cluster.link(devices[a], devices[b]).bandwidth_gb_per_s +
            cluster.link(devices[b], devices[a]).bandwidth_gb_per_s) /
           2;
  };
  std::vector<double> speeds;
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < a; ++b) speeds.push_back(bandwidth(a, b));
  }
  std::sort(speeds.rbegin(), speeds.rend());
  speeds.erase(std::unique(speeds.begin(), speeds.end()), speeds.end());
  if (flat && !speeds.empty()) speeds = {speeds.back()};  // the slowest links
  std::vector<std::size_t> within(count);  // the component of each device on the level within, by its first device
  std::iota(within.begin(), within.end(), std::size_t{0});
  std::vector<std::vector<std::size_t>> nested;  // `within` of each level, outermost last
  DeviceHierarchy hierarchy;
  for (const double speed : speeds) {
    std::vector<std::size_t> group = within;
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (bandwidth(a, b) < speed || group[a] == group[b]) continue;
        const std::size_t gone = std::max(group[a], group[b]);
        const std::size_t kept = std::min(group[a], group[b]);
        std::replace(group.begin(), group.end(), gone, kept);
      }
    }
    std::map<std::size_t, std::size_t> sizes;
    for (const std::size_t of_device : group) ++sizes[of_device];
    const bool equal =
        std::ranges::all_of(sizes, [&](const auto& size) { return size.second == sizes.begin()->second; });
    if (!equal || group == within) continue;
    std::map<std::size_t, std::size_t> inner_sizes;
    for (const std::size_t of_device : within) ++inner_sizes[of_device];
    double sum = 0;
    std::size_t links = 0;
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (group[a] != group[b] || within[a] == within[b]) continue;
        sum += bandwidth(a, b);
        ++links;
      }
    }
    hierarchy.levels.push_back({.components = sizes.begin()->second / inner_sizes.begin()->second,
                                .bytes_per_micro = 1000 * sum / static_cast<double>(links)});
    nested.push_back(group);
    within = std::move(group);
  }
  if (hierarchy.levels.empty()) hierarchy.levels.push_back({.components = 1, .bytes_per_micro = 1});
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    for (std::size_t k = nested.size(); k-- > 0;) {
      if (nested[k][a] != nested[k][b]) return nested[k][a] < nested[k][b];
    }
    return false;
  });
  for (const std::size_t i : order) hierarchy.devices.push_back(devices[i]);
  return hierarchy;
}

PipeDreamPlan PlanPipeDream(const LayerChain& chain, const std::vector<BandwidthLevel>& levels, bool replicas) {
  EMPLACE_CHECK(chain.size() > 0 && !levels.empty());
  CheckSteps(chain.size(), levels, replicas);
  std::vector<std::unique_ptr<PlanLevel>> plans;
  for (std::size_t k = 0; k < levels.size(); ++k) {
    plans.push_back(std::make_unique<PlanLevel>(chain, levels[k], k > 0 ? plans.back().get() : nullptr, replicas,
                                                k + 1 == levels.size()));
  }
  const PlanLevel& outermost = *plans.back();
  PipeDreamPlan plan{.stages = {}, .micros = outermost.Micros(0, chain.size() - 1)};
  outermost.AddStages(0, chain.size() - 1, outermost.components(), 0, 1, &plan.stages);
  return plan;
}

}  // namespace emplace::agents
