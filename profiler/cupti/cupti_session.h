#ifndef EMPLACE_PROFILER_CUPTI_CUPTI_SESSION_H_
#define EMPLACE_PROFILER_CUPTI_CUPTI_SESSION_H_

#include <cstdint>

#include "profiler/activity.h"

namespace emplace::profiler {

// Records what CUDA devices do while it runs. One at a time for the whole process. CUPTI's is in a library of its
// own, which is loaded when a CUDA device is profiled (and built where the CUDA toolkit was found); tests may put
// another behind the same interface.
class ActivitySession {
 public:
  virtual ~ActivitySession() = default;

  // Records from now on. Throws ActivityError if it cannot: no driver, no GPU, another profiler at work.
  virtual void Start() = 0;
  // Ends what Start began. Returns all records but those of ops, which are the caller's to add: `ops` is empty, to be
  // filled with NowNs() and ThreadId(). Calls of the host are among them if they gave work to a device. Graphs that are
  // being captured must not be, as their launches leave no records. Throws ActivityError.
  // Requires: Start was called, and all that was given to the devices since is done (synchronise them).
  virtual ActivityTrace Stop() = 0;

  // Now, by the clock of the records, in ns.
  virtual std::int64_t NowNs() = 0;
  // The calling thread, as records name it.
  virtual std::uint64_t ThreadId() = 0;
};

// CUPTI's. Throws InputError if there is none in this build, or its library cannot be loaded.
ActivitySession& CuptiSession();

// The content of that library, under the name kCuptiName. As in torch_plugin.h, program and library share no code.
struct CuptiExports {
  ActivitySession* (*session)();  // stays for good
};
inline constexpr char kCuptiName[] = "emplace_cupti";

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_CUPTI_CUPTI_SESSION_H_
