#include "agents/rl/policy_file.h"

#include <fmt/format.h>

#include <iomanip>
#include <istream>
#include <iterator>
#include <ostream>
#include <string_view>

#include "agents/saved_text.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"

namespace emplace::agents {

namespace {

constexpr std::string_view kPolicyWord = "emplace.policy";
constexpr std::string_view kPolicyVersion = "2";

[[noreturn]] void RefusePolicy() {
  throw InputError("", "is not a policy (a file with a policy that emplace trained)");
}

}  // namespace

void WritePolicy(std::ostream& out, const std::string& agent, const std::string& body) {
  WriteSealed(out, fmt::format("{} {} {}", kPolicyWord, kPolicyVersion, agent), body);
}

std::string ReadPolicy(std::istream& in, const std::string& agent) {
  constexpr int kLongest = 256;
  std::string word;
  std::string version;
  std::string found;
  const auto begin = in.tellg();
  in >> std::setw(kLongest) >> word >> std::setw(kLongest) >> version >> std::setw(kLongest) >> found;
  const bool has_single_blanks =
      in.tellg() - begin == static_cast<std::streamoff>(word.size() + version.size() + found.size() + 2);
  if (word != kPolicyWord || !has_single_blanks) RefusePolicy();
  if (version == "1") {
    throw InputError("", "is a policy of an earlier version of emplace, without a checksum (train it again)");
  }
  if (version != kPolicyVersion) RefusePolicy();
  if (found != agent) throw InputError("", "is a policy of agent " + found + " (" + agent + ")");
  return ReadSealed(in);
}

std::string ReadPolicyText(std::istream& in) {
  std::string text(kPolicyWord.size(), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.gcount() != static_cast<std::streamsize>(text.size()) || text != kPolicyWord) RefusePolicy();
  return text + ReadRest(in);
}

void ExpectPolicyShape(std::istream& in, const std::string& shape) {
  std::string found;
  in >> found;
  if (found == shape) return;
  throw InputError(
      "", fmt::format("is a policy trained with other options: {} ({}: the options must be the same)", found, shape));
}

void CheckPolicyDevices(const std::string& place, std::size_t num_devices, const Observation& seen) {
  if (seen.num_devices() == num_devices) return;
  throw InputError(place, fmt::format("is for {} devices; cluster {} has {} (keep as many devices of the cluster)",
                                      num_devices, seen.cluster.name(), seen.num_devices()));
}

}  // namespace emplace::agents
