#ifndef EMPLACE_TOOLS_HARDWARE_H_
#define EMPLACE_TOOLS_HARDWARE_H_

#include <memory>
#include <string>
#include <vector>

#include "profiler/hardware.h"
#include "profiler/measure/machine_cluster.h"
#include "sim/profile.h"

namespace emplace::tools {

// The devices of --devices, opened, in that order.
class OpenDevices {
 public:
  // `names`: comma-separated. Throws InputError on an empty or repeated name and on a device that is not there.
  explicit OpenDevices(const std::string& names);

  const std::vector<profiler::HardwareDevice*>& devices() const { return devices_; }
  std::vector<profiler::NamedDevice> Named() const;

 private:
  std::vector<std::unique_ptr<profiler::HardwareDevice>> owned_;
  std::vector<profiler::HardwareDevice*> devices_;
};

// A profile.json. Throws InputError, its place the file.
Profile LoadProfile(const std::string& path);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_HARDWARE_H_
