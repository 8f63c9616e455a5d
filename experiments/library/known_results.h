#ifndef EMPLACE_EXPERIMENTS_LIBRARY_KNOWN_RESULTS_H_
#define EMPLACE_EXPERIMENTS_LIBRARY_KNOWN_RESULTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/library/instances.h"
#include "sim/base/json_struct.h"
#include "sim/base/units.h"
#include "sim/placement.h"

namespace emplace {

namespace experiments {
enum class ResultStatus : std::uint8_t {
  kProved,   // the best known step time is the bound
  kBounded,  // it is less than 10 percent above the bound
  kOpen,
};
}  // namespace experiments

template <>
struct EnumNames<experiments::ResultStatus> {
  using Status = experiments::ResultStatus;
  static constexpr std::array<std::pair<Status, std::string_view>, 3> kNames = {
      {{Status::kProved, "proved"}, {Status::kBounded, "bounded"}, {Status::kOpen, "open"}}};
  static constexpr std::string_view kAllowed = "proved, bounded or open";
};

namespace experiments {

// A row of datasets/library/best_known.yaml.
struct KnownResult {
  std::string instance;
  std::int64_t step_time_ns = 0;
  std::int64_t lower_bound_ns = 0;
  ResultStatus status = ResultStatus::kOpen;
  std::string finder;        // a person or a group
  std::string method;        // method that found the placement
  std::string date;          // when, YYYY-MM-DD
  std::string bound_method;  // method that proved the bound

  static void Fields(auto& visit, auto& self) {
    visit("instance", self.instance, {.needed = "a name", .not_empty = true});
    visit("step_time_ns", self.step_time_ns, {.needed = "a time"});
    visit("lower_bound_ns", self.lower_bound_ns, {.needed = "a time"});
    visit("status", self.status, {.needed = EnumNames<ResultStatus>::kAllowed});
    visit("finder", self.finder, {.needed = "who found it", .not_empty = true});
    visit("method", self.method, {.needed = "how it was found", .not_empty = true});
    visit("date", self.date, {.needed = "YYYY-MM-DD", .not_empty = true});
    visit("bound_method", self.bound_method, {.needed = "how the bound was found", .not_empty = true});
  }
};

// How far `step_time_ns` is above `below_ns`, in percent; infinite above 0. Requires: both >= 0.
double PercentAbove(std::int64_t step_time_ns, std::int64_t below_ns);
ResultStatus StatusOf(std::int64_t step_time_ns, std::int64_t lower_bound_ns);

// The best known results, by instance, of the file that is compiled into the program. An instance may have none.
const std::map<std::string, KnownResult, std::less<>>& KnownResults();
const KnownResult* FindKnownResult(std::string_view instance);  // null if there is none
// Reads such a file, `emplace.best_known` version 1. Throws InputError, its place starting with `file`: also on an
// unknown or repeated instance, a step time below its bound, and a status that the numbers contradict.
std::vector<KnownResult> ReadKnownResults(std::istream& in, const std::string& file);

// A search that found nothing counts in means as if it took this multiple of the best known step time.
inline constexpr double kRatioOfNothing = 10;

// The library's verdict on a placement.
struct PlacementVerdict {
  std::int64_t step_time_ns = 0;
  bool fits_memory = true;
  std::vector<std::pair<std::string, Bytes>> overflows = {};  // device, and by how much it is over
};
// Simulates the placement. Throws InputError if it cannot run.
PlacementVerdict Judge(const LibraryProblem& problem, const Placement& placement);

// The instance that a placement file is of: the one named by its `cluster`, as `library show --cluster-out` names it;
// else the only one with such a graph and cluster. Throws InputError(`file`) if there is none or there are several.
const LibraryInstance& InstanceOfPlacement(std::istream& in, const std::string& file);

}  // namespace experiments
}  // namespace emplace

#endif  // EMPLACE_EXPERIMENTS_LIBRARY_KNOWN_RESULTS_H_
