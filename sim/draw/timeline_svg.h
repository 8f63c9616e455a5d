#ifndef EMPLACE_SIM_DRAW_TIMELINE_SVG_H_
#define EMPLACE_SIM_DRAW_TIMELINE_SVG_H_

#include <iosfwd>
#include <string>
#include <vector>

#include "sim/cluster.h"
#include "sim/graph.h"
#include "sim/schedule/placed_pipeline.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_messages.h"
#include "sim/schedule/schedule_simulator.h"
#include "sim/step_explanation.h"
#include "sim/timeline.h"

namespace emplace {

// The timeline as a picture (SVG, 960 wide): per device one bar of ops, coloured by pass, and below it a thin one of
// outgoing transfers. What lies closer together than a third of a pixel is drawn as one rectangle, so that the file
// stays small whatever the graph; each rectangle's tooltip says what it shows.
void WriteTimelineSvg(std::ostream& out, const Timeline& timeline, const Graph& graph, const Cluster& cluster);

// The same as an element of a page, with the page's background and colour of text, and with the critical chain of
// `explained` drawn over the bars: what runs or is sent on the chain, what waits, and lines where it goes from one bar
// to another.
void WriteExplainedTimelineSvg(std::ostream& out, const Timeline& timeline, const Graph& graph, const Cluster& cluster,
                               const StepExplanation& explained);

// A step with a schedule, with a bar for each rank's actions, numbered by micro-batch, and one for what it sends.
// `schedule` is OnRanksOf the model.
void WriteScheduleSvg(std::ostream& out, const PipelineSchedule& schedule, const PlacedPipeline& pipeline,
                      const ScheduleResult& result, const ScheduleMessages& messages, const Graph& graph,
                      const Cluster& cluster);

// The same of stages with known times, as an element of a page: a bar for each rank's actions, and one for what it
// sends. `names` are those of the ranks.
void WriteScheduleSvg(std::ostream& out, const PipelineSchedule& schedule, const PipelineModel& model,
                      const std::vector<std::string>& names, const std::string& title);

// 1, 2 or 5 times a power of ten: the smallest of them that is not below `least`. 0 if that is not positive.
double RoundTickStep(double least);

}  // namespace emplace

#endif  // EMPLACE_SIM_DRAW_TIMELINE_SVG_H_
