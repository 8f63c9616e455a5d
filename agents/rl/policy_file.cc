#include "agents/rl/policy_file.h"

#include <fmt/format.h>

#include <istream>
#include <ostream>

#include "sim/check.h"

namespace emplace {

void BeginPolicy(std::ostream& out, const std::string& agent) { out << "emplace.policy 1 " << agent << ' '; }

void ExpectPolicyOf(std::istream& in, const std::string& agent) {
  std::string word;
  std::string version;
  std::string found;
  in >> word >> version >> found;
  if (word != "emplace.policy" || version != "1") throw InputError("", "is no policy (a file of --policy-out)");
  if (found != agent) throw InputError("", "is a policy of agent " + found + " (" + agent + ")");
}

void ExpectPolicyShape(std::istream& in, const std::string& shape) {
  std::string found;
  in >> found;
  if (found == shape) return;
  throw InputError("", fmt::format("is a policy trained with other options: {} ({}: the same --set)", found, shape));
}

void CheckPolicyDevices(const std::string& place, std::size_t num_devices, const Observation& seen) {
  if (seen.num_devices() == num_devices) return;
  throw InputError(place, fmt::format("is for {} devices; cluster {} has {} (--gpus or --devices keep as many)",
                                      num_devices, seen.cluster.name(), seen.num_devices()));
}

}  // namespace emplace
