#include "sim/schedule/schedule_trace.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <ostream>
#include <string>
#include <string_view>

#include "sim/base/json_text.h"
#include "sim/schedule/schedule_messages.h"

namespace emplace {
namespace {

class ScheduleTrace {
 public:
  explicit ScheduleTrace(std::ostream& out) : out_(out) {}

  void NameDevice(std::size_t device, const std::string& name) {
    Begin();
    fmt::print(out_, R"({{"ph": "M", "name": "process_name", "pid": {}, "tid": 0, "args": {{"name": {}}}}})", device,
               Quoted(name));
  }
  void Add(std::size_t device, std::string_view name, std::string_view category, Duration start, Duration time) {
    Begin();
    fmt::print(out_, R"({{"ph": "X", "name": {}, "cat": "{}", "pid": {}, "tid": 0, "ts": {}, "dur": {}}})",
               Quoted(name), category, device, MicrosFromDuration(start), MicrosFromDuration(time));
  }

 private:
  void Begin() {
    out_ << (first_ ? "\n" : ",\n");
    first_ = false;
  }

  std::ostream& out_;
  bool first_ = true;
};

std::string_view CategoryOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return "forward";
    case ActionKind::kBackward:
      return "backward";
    case ActionKind::kBackwardInput:
      return "backward input";
    case ActionKind::kBackwardWeight:
      break;
  }
  return "backward weight";
}

}  // namespace

void WriteScheduleTrace(std::ostream& out, const PipelineSchedule& schedule, const PlacedPipeline& pipeline,
                        const ScheduleResult& result, const Graph& graph, const Cluster& cluster) {
  out << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  ScheduleTrace trace(out);
  for (std::size_t device = 0; device < cluster.num_devices(); ++device) {
    trace.NameDevice(device, cluster.devices()[device].name);
  }
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < schedule.ranks[rank].size(); ++i) {
      const PipelineAction& action = schedule.ranks[rank][i];
      trace.Add(Index(pipeline.devices[rank]), Text(InSchedule(pipeline.model, action)), CategoryOf(action.kind),
                result.starts[rank][i], ActionTime(pipeline.model.stages[action.stage], action.kind));
    }
  }
  for (std::size_t i = 0; i < pipeline.final_ops.size(); ++i) {
    const FinalOp& op = pipeline.model.final_ops[i];
    trace.Add(Index(pipeline.devices[op.rank]), graph.op(pipeline.final_ops[i]).name,
              op.collective ? "collective" : "update", result.final_starts[i],
              op.collective ? pipeline.model.final_collectives[*op.collective].time : op.time);
  }
  out << "\n]}\n";
}

}  // namespace emplace
