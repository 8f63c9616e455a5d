#ifndef EMPLACE_SIM_FORMATS_REPORT_TEXT_H_
#define EMPLACE_SIM_FORMATS_REPORT_TEXT_H_

#include <iosfwd>
#include <string>
#include <string_view>

#include "sim/formats/result_json.h"

namespace emplace {

// "nmt on p2.8xlarge, engine fifo, costs roofline (estimates)", and a second line if there is a detail of the costs.
// `costs` and `costs_detail` as in StepReport.
std::string HeadLine(std::string_view graph, std::string_view cluster, std::string_view engine, std::string_view costs,
                     std::string_view costs_detail);
std::string HeadLine(const StepReport& report);

// The largest peak memory of a device.
Bytes LargestPeak(const StepReport& report);

// Prints what an explanation starts with: head line, step time, lower bound.
void PrintExplanationHead(std::ostream& out, const StepReport& report);
// Prints step time, bounds, and a row for each device.
void PrintStepReport(std::ostream& out, const StepReport& report);

}  // namespace emplace

#endif  // EMPLACE_SIM_FORMATS_REPORT_TEXT_H_
