#include "sim/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/registry.h"
#include "sim/op_kinds.h"

namespace emplace {
namespace {

constexpr double kNoTime = std::numeric_limits<double>::quiet_NaN();

// The distinct kinds of a cluster's devices, in the order of the devices, and each device's.
std::vector<std::string_view> DistinctKinds(const Cluster& cluster, std::vector<std::size_t>* kind_of_device) {
  std::vector<std::string_view> kinds;
  for (const Device& device : cluster.devices()) {
    const auto found = std::find(kinds.begin(), kinds.end(), device.kind);
    kind_of_device->push_back(static_cast<std::size_t>(found - kinds.begin()));
    if (found == kinds.end()) kinds.push_back(device.kind);
  }
  return kinds;
}

double LargestTransferMicros(const Graph& graph, const Cluster& cluster, double* control) {
  double slowest_byte = 0;
  double fixed = 0;
  for (std::size_t from = 0; from < cluster.num_devices(); ++from) {
    for (std::size_t to = 0; to < cluster.num_devices(); ++to) {
      const Link& link = cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to));
      if (from == to || !link.exists()) continue;
      slowest_byte = std::max(slowest_byte, 1 / (link.bandwidth_gb_per_s * 1000.0));
      if (link.knee.count > 0) slowest_byte = std::max(slowest_byte, 1 / (link.beyond_gb_per_s * 1000.0));
      fixed = std::max(fixed, link.latency_micros + link.gap_micros);
    }
  }
  double total = 0;
  for (std::size_t t = 0; t < graph.num_tensors(); ++t) {
    const auto copies = std::min(graph.consumers(MakeId<TensorId>(t)).size(), cluster.num_devices() - 1);
    total += static_cast<double>(copies) *
             (fixed + slowest_byte * static_cast<double>(graph.tensor(MakeId<TensorId>(t)).size.count));
  }
  // Over its links a message goes twice for each member, at most, and no protocol reaches less than a fifth of a link.
  constexpr double kPasses = 10;
  constexpr double kHopMicros = 100;
  for (const Collective& collective : graph.collectives()) {
    const auto members = static_cast<double>(collective.members.size());
    const CollectiveCosts& costs = cluster.collective_costs();
    // Latencies of parts that follow one another: rounds of a ring, or the parts of a broadcast or a tree.
    constexpr double kMostParts = 160;
    total += costs.launch_micros + (2 * members + kMostParts) * (kHopMicros + fixed);
    double given = 0;
    for (const OpId member : collective.members) {
      const Op& op = graph.op(member);
      given = std::max(given, op.time_micros.value_or(0));
      for (const KindTime& time : op.kind_times) given = std::max(given, time.micros);
    }
    total += given;
    total += static_cast<double>(collective.size.count) *
             (1 / (costs.local_gb_per_s * 1000.0) + kPasses * members * slowest_byte);
  }
  *control = fixed;
  return total;
}

// Simulated time is a 64-bit count of ns, so refuses what could overflow it. No schedule takes longer than running
// everything one after the other.
void CheckTotalTime(const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  double gap = 0;
  for (const Device& device : cluster.devices()) gap = std::max(gap, device.op_gap_micros);
  double latency = 0;
  double total = LargestTransferMicros(graph, cluster, &latency);
  double launch = 0;
  double host = 0;
  for (const Device& device : cluster.devices()) {
    if (!device.issue) continue;
    launch = std::max(launch, device.issue->launch_latency_micros);
    host = std::max(host, device.issue->host_micros);
  }
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    total += costs.LongestMicros(op) + gap + latency;
    if (!costs.has_issue_lanes()) continue;
    double longest = host;
    for (std::size_t kind = 0; kind < costs.num_kinds(); ++kind)
      longest = std::fmax(longest, costs.HostMicros(op, kind));
    total += longest + launch;
  }
  if (total > 4e15) {
    throw InputError("", "all times and transfers together are longer than 4e15 us (about 126 years)");
  }
}

}  // namespace

CostTable::CostTable(const Graph& graph, const Cluster& cluster, const CostModel& model, const CostModel* fallback)
    : num_ops_(graph.num_ops()),
      times_collectives_(model.TimesCollectives() || (fallback != nullptr && fallback->TimesCollectives())) {
  std::vector<std::size_t> kind_of_device;
  const std::vector<std::string_view> kinds = DistinctKinds(cluster, &kind_of_device);
  num_kinds_ = kinds.size();
  std::vector<double> micros(num_kinds_ * num_ops_, kNoTime);
  for (std::size_t i = 0; i < num_ops_; ++i) {
    const OpId id = MakeId<OpId>(i);
    const Op& op = graph.op(id);
    bool fell_back = false;
    for (std::size_t kind = 0; kind < num_kinds_; ++kind) {
      // A collective is not work of its devices (docs/model.md, K3).
      std::optional<double> time = graph.CollectiveOf(id) ? 0.0 : model.OpMicros(graph, id, cluster, kinds[kind]);
      if (!time && IsSourceKind(op.kind)) time = 0.0;
      if (!time && fallback != nullptr) {
        time = fallback->OpMicros(graph, id, cluster, kinds[kind]);
        fell_back = fell_back || time.has_value();
      }
      if (!time) continue;
      EMPLACE_CHECK(*time >= 0);  // how long it may be is CheckTotalTime's question
      micros[kind * num_ops_ + i] = *time;
    }
    if (fell_back) ++fallback_ops_;
  }
  kind_of_device_ = std::make_shared<const std::vector<std::size_t>>(std::move(kind_of_device));
  if (cluster.has_issue_lanes()) SetQueues(graph, cluster, model, kinds, &micros);
  micros_ = std::make_shared<const std::vector<double>>(std::move(micros));
  SetContention(graph, model, kinds);
  CheckTotalTime(graph, cluster, *this);

  // The kinds where a whole colocation class has times, as bits by the class's smallest id.
  std::vector<std::vector<bool>> shared(num_ops_, std::vector<bool>());
  for (std::size_t i = 0; i < num_ops_; ++i) {
    const OpId id = MakeId<OpId>(i);
    bool anywhere = false;
    auto& common = shared[Index(graph.colocation_class(id))];
    if (common.empty()) common.assign(num_kinds_, true);
    for (std::size_t kind = 0; kind < num_kinds_; ++kind) {
      const bool has_time = !std::isnan(KindMicros(id, kind));
      anywhere = anywhere || has_time;
      common[kind] = common[kind] && has_time;
    }
    const std::string name(graph.op(id).name);
    if (!anywhere) {
      throw InputError("op \"" + name + "\"", "has no time on any device of cluster " + cluster.name() + " (kinds " +
                                                  Listed(kinds) + "); " + model.WhyNoTime(graph, id));
    }
    if (std::find(common.begin(), common.end(), true) == common.end()) {
      throw InputError("op \"" + name + "\"", "no device of cluster " + cluster.name() +
                                                  " has a time for all ops that colocate_with ties it to");
    }
  }
}

void CostTable::SetQueues(const Graph& graph, const Cluster& cluster, const CostModel& model,
                          const std::vector<std::string_view>& kinds, std::vector<double>* micros) {
  std::vector<double> host(num_kinds_ * num_ops_, kNoTime);
  std::vector<bool> is_checked(num_kinds_, false);
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    const std::size_t kind = KindIndex(MakeId<DeviceId>(d));
    if (!cluster.devices()[d].issue || is_checked[kind]) continue;
    is_checked[kind] = true;
    for (std::size_t i = 0; i < num_ops_; ++i) {
      const CostModel::QueueMicros times = model.TwoQueues(graph, MakeId<OpId>(i), kinds[kind]);
      if (times.host) {
        host[kind * num_ops_ + i] = *times.host;
      } else if (IsSourceKind(graph.op(MakeId<OpId>(i)).kind)) {
        host[kind * num_ops_ + i] = 0;
      }
      if (times.device) (*micros)[kind * num_ops_ + i] = *times.device;
    }
  }
  host_micros_ = std::make_shared<const std::vector<double>>(std::move(host));
}

void CostTable::SetContention(const Graph& graph, const CostModel& model, const std::vector<std::string_view>& kinds) {
  std::vector<double> factors(num_kinds_ * num_ops_, 1);
  for (std::size_t kind = 0; kind < num_kinds_; ++kind) {
    if (std::count(kind_of_device_->begin(), kind_of_device_->end(), kind) < 2) continue;
    for (std::size_t i = 0; i < num_ops_; ++i) {
      double& factor = factors[kind * num_ops_ + i];
      factor = model.Contention(graph, MakeId<OpId>(i), kinds[kind]);
      EMPLACE_CHECK(factor >= 1);
    }
  }
  if (std::all_of(factors.begin(), factors.end(), [](double factor) { return factor == 1; })) return;
  contention_ = std::make_shared<const std::vector<double>>(std::move(factors));
}

double CostTable::LongestMicros(OpId op) const {
  double longest = 0;
  for (std::size_t kind = 0; kind < num_kinds_; ++kind) {
    if (std::isnan(KindMicros(op, kind))) continue;
    longest = std::max(longest, KindMicros(op, kind) * KindContention(op, kind));
  }
  return longest;
}

CostTable CostTable::WithFactors(const std::vector<double>& factors) const {
  EMPLACE_CHECK_EQ(factors.size(), micros_->size());
  CostTable copy = *this;
  std::vector<double> micros = *micros_;
  for (std::size_t i = 0; i < micros.size(); ++i) micros[i] *= factors[i];
  copy.micros_ = std::make_shared<const std::vector<double>>(std::move(micros));
  return copy;
}

CostTable CostTable::Without(const std::vector<DeviceId>& devices, const std::vector<bool>& ops) const {
  CostTable copy = *this;
  std::vector<std::size_t> kinds = *kind_of_device_;
  std::vector<double> micros = *micros_;
  std::vector<double> contention = contention_ != nullptr ? *contention_ : std::vector<double>();
  std::vector<double> host = host_micros_ != nullptr ? *host_micros_ : std::vector<double>();
  // The devices get kinds of their own, as others may be of theirs.
  std::vector<std::size_t> own(num_kinds_, kinds.size() + num_kinds_);
  for (const DeviceId device : devices) {
    std::size_t& kind = kinds[Index(device)];
    std::size_t& own_kind = own[kind];
    if (own_kind >= kinds.size() + num_kinds_) {
      own_kind = copy.num_kinds_++;
      const auto first = static_cast<std::ptrdiff_t>(kind * num_ops_);
      for (std::vector<double>* const rows : {&micros, &contention, &host}) {
        if (rows->empty()) continue;
        const std::vector<double> row(rows->begin() + first,
                                      rows->begin() + first + static_cast<std::ptrdiff_t>(num_ops_));
        rows->insert(rows->end(), row.begin(), row.end());
      }
      for (std::size_t op = 0; op < num_ops_; ++op) {
        if (ops[op]) micros[own_kind * num_ops_ + op] = kNoTime;
      }
    }
    kind = own_kind;
  }
  copy.kind_of_device_ = std::make_shared<const std::vector<std::size_t>>(std::move(kinds));
  copy.micros_ = std::make_shared<const std::vector<double>>(std::move(micros));
  if (contention_ != nullptr) copy.contention_ = std::make_shared<const std::vector<double>>(std::move(contention));
  if (host_micros_ != nullptr) copy.host_micros_ = std::make_shared<const std::vector<double>>(std::move(host));
  return copy;
}

bool CostTable::Allowed(OpId op, DeviceId device) const { return !std::isnan(Micros(op, device)); }

}  // namespace emplace
