#include "python/src/batch_evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/worker_pool.h"
#include "sim/placement.h"

namespace emplace::python {
namespace {

SimOptions WithPeakMemory(SimOptions options, bool peak_memory) {
  options.peak_memory = peak_memory;
  return options;
}

}  // namespace

BatchEvaluator::BatchEvaluator(Graph graph, Cluster cluster, CostTable costs, const SimOptions& options)
    : graph_(std::move(graph)),
      cluster_(std::move(cluster)),
      costs_(std::move(costs)),
      with_memory_(graph_, cluster_, costs_, WithPeakMemory(options, true)),
      check_links_(cluster_.FindMissingLink().has_value() || !graph_.collectives().empty()) {
  const std::size_t devices = cluster_.num_devices();
  allowed_.resize(graph_.num_ops() * devices);
  for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    for (std::size_t d = 0; d < devices; ++d)
      allowed_[i * devices + d] = costs_.Allowed(op, MakeId<DeviceId>(d)) ? 1 : 0;
    if (graph_.colocation_class(op) != op) bound_.push_back(op);
  }
  if (std::find(allowed_.begin(), allowed_.end(), 0) == allowed_.end()) allowed_ = {};
}

const Simulator& BatchEvaluator::WithoutMemory() const {
  std::call_once(once_, [this] {
    without_memory_.emplace(graph_, cluster_, costs_, WithPeakMemory(with_memory_.options(), false));
  });
  return *without_memory_;
}

// Each number is read once: another thread of Python may write to the array meanwhile.
void BatchEvaluator::Expand(const PlacementRows& rows, std::size_t row, std::vector<DeviceId>* devices) const {
  const std::int16_t* const given = rows.devices + row * rows.width;
  const auto most = static_cast<std::uint16_t>(cluster_.num_devices());
  std::vector<DeviceId> groups;
  std::vector<DeviceId>* const copied = rows.grouping == nullptr ? devices : &groups;
  copied->resize(rows.width);
  std::uint16_t largest = 0;
  for (std::size_t i = 0; i < rows.width; ++i) {
    const auto device = static_cast<std::uint16_t>(given[i]);  // a negative number becomes a large one
    largest = std::max(largest, device);
    (*copied)[i] = static_cast<DeviceId>(device);
  }
  if (largest >= most && rows.width > 0) {
    const auto bad =
        std::find_if(copied->begin(), copied->end(), [&](DeviceId device) { return Index(device) >= most; });
    throw InputError(fmt::format("placements[{}, {}]", row, bad - copied->begin()),
                     fmt::format("is {} (0 to {})", static_cast<std::int16_t>(Index(*bad)), most - 1));
  }
  if (rows.grouping == nullptr) return;
  devices->resize(graph_.num_ops());
  for (std::size_t i = 0; i < devices->size(); ++i) (*devices)[i] = groups[rows.grouping->group_of(MakeId<OpId>(i))];
}

bool BatchEvaluator::CanRun(std::span<const DeviceId> devices) const {
  if (!allowed_.empty()) {
    const std::size_t num_devices = cluster_.num_devices();
    std::uint8_t all = 1;
    for (std::size_t i = 0; i < devices.size(); ++i) all &= allowed_[i * num_devices + Index(devices[i])];
    if (all == 0) return false;
  }
  const bool together = std::all_of(bound_.begin(), bound_.end(), [&](OpId op) {
    return devices[Index(op)] == devices[Index(graph_.colocation_class(op))];
  });
  if (!together) return false;
  if (!check_links_) return true;
  try {
    CheckPlacement(Placement(std::vector<DeviceId>(devices.begin(), devices.end())), graph_, cluster_, costs_);
  } catch (const InputError&) {
    return false;
  }
  return true;
}

void BatchEvaluator::Refuse(std::size_t row, std::vector<DeviceId> devices) const {
  WithLocation(fmt::format("placements[{}]", row),
               [&] { CheckPlacement(Placement(std::move(devices)), graph_, cluster_, costs_); });
  EMPLACE_CHECK(false);  // CanRun and CheckPlacement disagree
  std::abort();
}

BatchEvaluator::Scratch BatchEvaluator::TakeScratch(bool peak_memory) const {
  const Simulator& simulator = peak_memory ? with_memory_ : WithoutMemory();
  {
    const std::lock_guard lock(idle_mutex_);
    std::vector<Scratch>& idle = idle_[peak_memory ? 1 : 0];
    if (!idle.empty()) {
      Scratch scratch = std::move(idle.back());
      idle.pop_back();
      return scratch;
    }
  }
  return {.workspace = simulator.MakeWorkspace(), .devices = {}, .result = {}};
}

void BatchEvaluator::GiveBack(Scratch scratch, bool peak_memory) const {
  const std::lock_guard lock(idle_mutex_);
  idle_[peak_memory ? 1 : 0].push_back(std::move(scratch));
}

std::int64_t BatchEvaluator::Run(Scratch* scratch, std::int64_t* peak_bytes) const {
  const Simulator& simulator = peak_bytes != nullptr ? with_memory_ : *without_memory_;
  simulator.Run(scratch->devices, *scratch->workspace, &scratch->result);
  if (peak_bytes != nullptr) {
    for (std::size_t d = 0; d < cluster_.num_devices(); ++d) peak_bytes[d] = scratch->result.peak_memory[d].count;
  }
  return DurationFromMicros(scratch->result.step_time_micros).count();
}

void BatchEvaluator::Evaluate(const PlacementRows& rows, std::size_t threads, std::int64_t* step_ns,
                              std::int64_t* peak_bytes) const {
  std::vector<Scratch> scratches;
  for (std::size_t t = 0; t < std::min(threads, std::max<std::size_t>(rows.count, 1)); ++t) {
    scratches.push_back(TakeScratch(peak_bytes != nullptr));
  }
  const std::size_t devices = cluster_.num_devices();
  RunOnThreads(threads, rows.count, [&](std::size_t worker, std::size_t row) {
    Scratch& scratch = scratches[worker];
    Expand(rows, row, &scratch.devices);
    if (!CanRun(scratch.devices)) Refuse(row, scratch.devices);
    step_ns[row] = Run(&scratch, peak_bytes == nullptr ? nullptr : peak_bytes + row * devices);
  });
  for (Scratch& scratch : scratches) GiveBack(std::move(scratch), peak_bytes != nullptr);
}

Placement BatchEvaluator::PlacementOf(const PlacementRows& rows, std::size_t row) const {
  std::vector<DeviceId> devices;
  Expand(rows, row, &devices);
  if (!CanRun(devices)) Refuse(row, devices);
  return Placement(std::move(devices));
}

}  // namespace emplace::python
