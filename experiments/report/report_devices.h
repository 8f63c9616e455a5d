#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_DEVICES_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_DEVICES_H_

#include <map>
#include <string>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// The devices of a trial in words, by the names that its spec lists: "4 GPUs and 1 CPU"; "5 devices" where a device is
// neither a gpu nor a cpu by its name, or where the spec lists none.
std::string DevicesInWords(const TrialRecord& trial);

// By num_devices, as text: "3 GPUs" where every trial with so many devices has that many GPUs, CPUs beside them or not.
// With the CPUs where two numbers of devices have equally many GPUs, "3 devices" where trials differ.
std::map<std::string, std::string> DeviceTitles(const std::vector<TrialRecord>& trials);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_DEVICES_H_
