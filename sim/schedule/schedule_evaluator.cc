#include "sim/schedule/schedule_evaluator.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "sim/base/check.h"

namespace emplace {

std::vector<std::size_t> ScheduleChoice::StageRanks(std::size_t ranks) const {
  return given ? RankOfStage(*given) : RankOfStage(ParseScheduleName(name, ""), ranks);
}

ScheduledStep SimulatePlacedSchedule(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                     const Placement& placement, const ScheduleChoice& choice,
                                     const SchedulePlaces& places) {
  ScheduledStep step;
  const std::size_t ranks =
      WithLocation(places.graph, [&] { return CountStageDevices(graph, cluster, costs, placement); });
  step.schedule = WithLocation(places.schedule, [&] {
    return choice.given ? *choice.given : MakeSchedule(ParseScheduleName(choice.name, ""), ranks, choice.micro_batches);
  });
  step.pipeline = WithLocation(places.placement, [&] {
    return MakePlacedPipeline(graph, cluster, costs, placement, RankOfStage(step.schedule), choice.name);
  });
  step.result = WithLocation(places.schedule, [&] { return SimulateSchedule(step.schedule, step.pipeline.model); });
  return step;
}

ScheduleEvaluator::ScheduleEvaluator(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                     ScheduleChoice choice)
    : graph_(graph), cluster_(cluster), costs_(costs), choice_(std::move(choice)) {
  if (!choice_.given) ParseScheduleName(choice_.name, "");
  if (!cluster.has_plain_links()) {
    throw InputError("", "cluster " + cluster.name() +
                             " has links without contention or with receive, which schedules do not support");
  }
  double slowest = 0;
  for (std::size_t op = 0; op < graph.num_ops(); ++op) {
    double most = 0;
    for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
      const double micros = costs.Micros(MakeId<OpId>(op), MakeId<DeviceId>(d));
      if (!std::isnan(micros)) most = std::max(most, micros + cluster.devices()[d].op_gap_micros);
    }
    slowest += most;
  }
  constexpr double kLonger = 10;
  const std::size_t times = choice_.given ? choice_.given->micro_batches : choice_.micro_batches;
  cannot_run_micros_ = kLonger * slowest * static_cast<double>(times);
}

ScheduledStep ScheduleEvaluator::Simulate(const Placement& placement) const {
  return SimulatePlacedSchedule(graph_, cluster_, costs_, placement, choice_);
}

StepResult ScheduleEvaluator::Run(const Placement& placement) const {
  StepResult result;
  try {
    const ScheduledStep step = Simulate(placement);
    result.step_time_micros = MicrosFromDuration(step.result.step_time);
    result.peak_memory.resize(cluster_.num_devices());
    for (std::size_t rank = 0; rank < step.pipeline.devices.size(); ++rank) {
      const DeviceId device = step.pipeline.devices[rank];
      const Bytes peak = step.result.ranks[rank].peak;
      result.peak_memory[Index(device)] = peak;
      const std::optional<Bytes>& memory = cluster_.device(device).memory;
      result.fits_memory = result.fits_memory && (!memory || peak <= *memory);
    }
  } catch (const InputError&) {  // says in words why it is not a pipeline, which a search does not ask
    result = {};
    result.step_time_micros = cannot_run_micros_;
    result.runs = false;
    result.fits_memory = false;
  }
  return result;
}

}  // namespace emplace
