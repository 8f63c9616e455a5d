#include "tools/cli/hardware.h"

#include <algorithm>

#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "tools/cli/problem.h"

namespace emplace::tools {

OpenDevices::OpenDevices(const std::string& names) {
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    if (name.empty()) throw InputError("--devices", "\"" + names + "\" has an empty name (cpu:0,cpu:1)");
    for (const profiler::HardwareDevice* const device : devices_) {
      if (device->name() == name) throw InputError("--devices", "\"" + name + "\" is named twice (each device once)");
    }
    owned_.push_back(WithLocation("--devices", [&] { return profiler::TorchHardware().Open(name); }));
    devices_.push_back(owned_.back().get());
    begin = end + 1;
  }
}

std::vector<profiler::NamedDevice> OpenDevices::Named() const {
  std::vector<profiler::NamedDevice> named;
  for (const profiler::HardwareDevice* const device : devices_) named.push_back(profiler::NamedAfter(*device));
  return named;
}

Profile LoadProfile(const std::string& path) { return ReadProfile(*OpenForReading(path, InputKind::kProfile), path); }

}  // namespace emplace::tools
