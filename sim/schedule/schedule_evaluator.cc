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

ScheduleEvaluator::ScheduleEvaluator(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                     ScheduleChoice choice)
    : graph_(graph), cluster_(cluster), costs_(costs), choice_(std::move(choice)) {
  if (!choice_.given) ParseScheduleName(choice_.name, "");
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

ScheduleEvaluator::Step ScheduleEvaluator::Simulate(const Placement& placement) const {
  const std::size_t ranks = CountStageDevices(graph_, cluster_, costs_, placement);
  PipelineSchedule schedule =
      choice_.given ? *choice_.given : MakeSchedule(ParseScheduleName(choice_.name, ""), ranks, choice_.micro_batches);
  PlacedPipeline pipeline =
      MakePlacedPipeline(graph_, cluster_, costs_, placement, RankOfStage(schedule), choice_.name);
  ScheduleResult result = SimulateSchedule(schedule, pipeline.model);
  return {.schedule = std::move(schedule), .pipeline = std::move(pipeline), .result = std::move(result)};
}

StepResult ScheduleEvaluator::Run(const Placement& placement) const {
  StepResult result;
  try {
    const Step step = Simulate(placement);
    result.step_time_micros = MicrosFromDuration(step.result.step_time);
    result.peak_memory.resize(cluster_.num_devices());
    for (std::size_t rank = 0; rank < step.pipeline.devices.size(); ++rank) {
      const DeviceId device = step.pipeline.devices[rank];
      const Bytes peak = step.result.ranks[rank].peak;
      result.peak_memory[Index(device)] = peak;
      const std::optional<Bytes>& memory = cluster_.device(device).memory;
      result.fits_memory = result.fits_memory && (!memory || peak <= *memory);
    }
  } catch (const InputError&) {  // says in words why it is no pipeline, which a search does not ask
    result = {};
    result.step_time_micros = cannot_run_micros_;
    result.runs = false;
    result.fits_memory = false;
  }
  return result;
}

}  // namespace emplace
