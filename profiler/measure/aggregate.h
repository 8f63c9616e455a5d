#ifndef EMPLACE_PROFILER_MEASURE_AGGREGATE_H_
#define EMPLACE_PROFILER_MEASURE_AGGREGATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/profile.h"

namespace emplace::profiler {

// The measurements of one signature on one device kind.
struct OpSamples {
  std::string signature = {};
  std::string device_kind = {};
  std::vector<double> micros = {};  // one for each run, in any order
  std::int64_t kernels = 0;         // launched by one run; 0: the device has none (a CPU)
  Bytes temp = {};                  // peak of temporary memory
};

// Median, 10th and 90th percentile and number of samples. Throws InputError(signature) if there is no sample, or one is
// negative or not finite: a profile with such a time would look right.
Profile::OpEntry Aggregate(const OpSamples& samples);

// How far apart the samples are: (90th percentile - 10th percentile) / median. 0 if all are 0; infinity if only the
// median is. Throws InputError if there are no values.
double Spread(const std::vector<double>& micros);

// A device's idle time between ops in µs: the median of the gaps that were measured (correlate.h). `device_kind` is for
// the message. Throws InputError if there is no gap, or one is negative or not finite.
double AggregateGap(const std::vector<double>& gap_micros, const std::string& device_kind);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_AGGREGATE_H_
