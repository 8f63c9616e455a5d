#ifndef EMPLACE_EXPERIMENTS_REPORT_DEVICES_H_
#define EMPLACE_EXPERIMENTS_REPORT_DEVICES_H_

#include <map>
#include <string>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// The devices of a trial in words, by the names in its spec: "4 GPUs and 1 CPU". "5 devices" if a device's name is
// neither a gpu nor a cpu, or the spec lists none.
std::string DevicesInWords(const TrialRecord& trial);

// Titles by num_devices, as text: "3 GPUs" if every trial with that many devices has 3 GPUs, with or without CPUs. With
// the CPUs if two numbers of devices have the same number of GPUs; "3 devices" if trials differ.
std::map<std::string, std::string> DeviceTitles(const std::vector<TrialRecord>& trials);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_DEVICES_H_
