#ifndef EMPLACE_TOOLS_CLI_HARDWARE_H_
#define EMPLACE_TOOLS_CLI_HARDWARE_H_

#include <memory>
#include <string>
#include <vector>

#include "profiler/hardware.h"
#include "profiler/measure/machine_cluster.h"
#include "sim/profile.h"

namespace emplace::tools {

// Opens the devices of --devices, in that order.
class OpenDevices {
 public:
  // `names`: comma-separated. Throws InputError on an empty or repeated name and on a device that does not exist.
  explicit OpenDevices(const std::string& names);

  const std::vector<profiler::HardwareDevice*>& devices() const { return devices_; }
  std::vector<profiler::NamedDevice> Named() const;

 private:
  std::vector<std::unique_ptr<profiler::HardwareDevice>> owned_;
  std::vector<profiler::HardwareDevice*> devices_;
};

// Reads a profile.json. The path of an InputError is the file.
Profile LoadProfile(const std::string& path);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_HARDWARE_H_
