#ifndef EMPLACE_SIM_COST_MODEL_H_
#define EMPLACE_SIM_COST_MODEL_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/device_catalog.h"
#include "sim/graph.h"

namespace emplace {

// How long an op takes on a kind of device. (How long a tensor takes on a link is the link's own affair: cluster.h.)
class CostModel {
 public:
  virtual ~CostModel() = default;

  // Time in µs, >= 0; nullopt if this model has none. `cluster` says what its kinds are (Cluster::FindKind).
  virtual std::optional<double> OpMicros(const Graph& graph, OpId op, const Cluster& cluster,
                                         std::string_view device_kind) const = 0;

  // For a device that an issue lane feeds (docs/model.md, F15): the time of the lane and that of the device, in µs, >=
  // 0. nullopt: the lane's host_us, and OpMicros.
  struct QueueMicros {
    std::optional<double> host = {};
    std::optional<double> device = {};
  };
  virtual QueueMicros TwoQueues(const Graph&, OpId, std::string_view /*device_kind*/) const { return {}; }

  // How many times as long an op takes on a device of this kind if it starts while another of the kind is busy; >= 1.
  virtual double Contention(const Graph&, OpId, std::string_view) const { return 1; }

  // Whether collectives take the times of curves in a node whose devices have them (sim/cost/curves.h).
  virtual bool TimesCollectives() const { return false; }

  // Throws InputError if this model has no time for any op on devices of this kind.
  virtual void CheckKind(const Cluster&, std::string_view /*device_kind*/) const {}

  // Why an op has no time on any device, and what to do about it.
  virtual std::string WhyNoTime(const Graph& graph, OpId op) const = 0;
};

// The times of every op of a graph on every device of a cluster, asked of a cost model once. Ops of kind `input` and
// `variable` take 0 where the model has no time; members of a collective always. Copies share their
// storage.
class CostTable {
 public:
  // `fallback` (may be null) answers where `model` has no time; fallback_ops() counts the ops it answered for.
  // Throws InputError if an op has no time on any device of the cluster, or none on any device that its colocation
  // class could share; or if all times and transfers together overflow 62 bits of nanoseconds.
  CostTable(const Graph& graph, const Cluster& cluster, const CostModel& model, const CostModel* fallback = nullptr);

  std::size_t num_ops() const { return num_ops_; }
  std::size_t num_kinds() const { return num_kinds_; }  // distinct device kinds of the cluster
  std::size_t KindIndex(DeviceId device) const { return (*kind_of_device_)[Index(device)]; }
  // In µs as the model gave it; NaN where the op may not go. On a device that an issue lane feeds: the device's own
  // time.
  double Micros(OpId op, DeviceId device) const { return KindMicros(op, KindIndex(device)); }
  double KindMicros(OpId op, std::size_t kind) const { return (*micros_)[kind * num_ops_ + Index(op)]; }
  // Whether an issue lane feeds a device of the cluster; if not, HostMicros() need not be asked.
  bool has_issue_lanes() const { return host_micros_ != nullptr; }
  // The time on the issue lane, in µs; NaN where the op has no host time of its own.
  double HostMicros(OpId op, std::size_t kind) const { return (*host_micros_)[kind * num_ops_ + Index(op)]; }
  bool Allowed(OpId op, DeviceId device) const;
  // Whether the model has a factor above 1 for any op on any kind; if not, KindContention() is 1 and need not be asked.
  bool has_contention() const { return contention_ != nullptr; }
  // CostModel::Contention; 1 where there is one such device.
  double KindContention(OpId op, std::size_t kind) const {
    return has_contention() ? (*contention_)[kind * num_ops_ + Index(op)] : 1;
  }
  // On the slowest kind, beside a busy neighbour. In µs.
  double LongestMicros(OpId op) const;
  std::size_t fallback_ops() const { return fallback_ops_; }
  // CostModel::TimesCollectives, of the model or its fallback.
  bool times_collectives() const { return times_collectives_; }
  // A copy whose times of ops on devices are multiplied by the factors, [num_kinds][num_ops]; those of issue lanes
  // stay. Requires: factors above 0.
  CostTable WithFactors(const std::vector<double>& factors) const;
  // A copy in which the ops with a mark, [num_ops], have no time on these devices. An op may then have none at all.
  CostTable Without(const std::vector<DeviceId>& devices, const std::vector<bool>& ops) const;

 private:
  void SetQueues(const Graph& graph, const Cluster& cluster, const CostModel& model,
                 const std::vector<std::string_view>& kinds, std::vector<double>* micros);
  void SetContention(const Graph& graph, const CostModel& model, const std::vector<std::string_view>& kinds);

  std::size_t num_ops_ = 0;
  std::size_t num_kinds_ = 0;
  std::size_t fallback_ops_ = 0;
  bool times_collectives_ = false;
  std::shared_ptr<const std::vector<std::size_t>> kind_of_device_;
  std::shared_ptr<const std::vector<double>> micros_;       // [num_kinds][num_ops]
  std::shared_ptr<const std::vector<double>> contention_;   // [num_kinds][num_ops]; null: 1 everywhere
  std::shared_ptr<const std::vector<double>> host_micros_;  // [num_kinds][num_ops]; null: no issue lanes
};

// A row of `emplace list cost-models`. `profiled` needs a file and is made by MakeProfiledCostModel
// (cost/cost_models.h).
struct CostModelEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  std::unique_ptr<CostModel> (*make)();  // null: needs a file
};
std::vector<CostModelEntry> AllCostModels();
// Throws InputError("", ...) that lists the known names.
std::unique_ptr<CostModel> MakeCostModel(std::string_view name);

}  // namespace emplace

#endif  // EMPLACE_SIM_COST_MODEL_H_
