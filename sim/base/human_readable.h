#ifndef EMPLACE_SIM_BASE_HUMAN_READABLE_H_
#define EMPLACE_SIM_BASE_HUMAN_READABLE_H_

#include <string>

#include "sim/base/units.h"

namespace emplace {

std::string HumanReadable(Bytes bytes);            // "512 B", "1.50 GiB"
std::string HumanReadableMicros(double micros);    // "12.345 us", "1.234 ms", "2.500 s"
std::string HumanReadableSeconds(double seconds);  // "35 s", "12 min", "3.1 h"

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_HUMAN_READABLE_H_
