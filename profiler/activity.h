#ifndef EMPLACE_PROFILER_ACTIVITY_H_
#define EMPLACE_PROFILER_ACTIVITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/units.h"

namespace emplace::profiler {

// The activities of a GPU and the host calls that launched them, as recorded by an activity profiler (CUPTI), without
// its types. Times are ns since some moment; 0 is "was not recorded". Those of the device may be of a clock of their
// own (correlate.h); those of calls and of op ranges are of one clock, the session's.
//
// A correlation id is the profiler's number of one call of the host. Everything that the call started has the same.

// A record that cannot be trusted, or that is missing: no profile can be made of it.
class ActivityError : public InputError {
 public:
  explicit ActivityError(const std::string& problem) : InputError("profile of the device's activities", problem) {}
};

struct KernelActivity {
  std::string name = {};  // mangled name from the profiler
  std::uint32_t correlation = 0;
  int device = 0;  // CUDA's number
  std::uint32_t stream = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
};

enum class CopyKind : std::uint8_t { kOther, kHostToDevice, kDeviceToHost, kWithinDevice, kBetweenDevices };
inline constexpr int kHostMemory = -1;

struct MemcpyActivity {
  CopyKind kind = CopyKind::kOther;
  Bytes size = {};
  int from_device = kHostMemory;
  int to_device = kHostMemory;
  std::uint32_t correlation = 0;
  int device = 0;  // the one that copies
  std::uint32_t stream = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
};

struct MemsetActivity {
  Bytes size = {};
  std::uint32_t correlation = 0;
  int device = 0;
  std::uint32_t stream = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
};

// A call of the host that gave work to a device. A runtime call and the driver call inside it are both recorded, with
// one correlation id or with two.
struct RuntimeCall {
  std::string name = {};  // "cudaLaunchKernel_v7000"
  std::uint32_t correlation = 0;
  std::uint64_t thread = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
  bool launches_kernel = false;  // and succeeded: a kernel's record must be there
};

// An op of ours as the host ran it. Ranges of one thread may nest; a kernel belongs to the innermost.
struct OpRange {
  std::uint64_t op = 0;  // any number: of the op, or of its run
  std::uint64_t thread = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
};

// Records may be in any order.
struct ActivityTrace {
  std::vector<KernelActivity> kernels = {};
  std::vector<MemcpyActivity> copies = {};
  std::vector<MemsetActivity> sets = {};
  std::vector<RuntimeCall> calls = {};
  std::vector<OpRange> ops = {};
  std::uint64_t dropped = 0;  // records that the profiler had no room for
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_ACTIVITY_H_
