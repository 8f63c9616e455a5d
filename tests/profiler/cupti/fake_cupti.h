#ifndef EMPLACE_TESTS_PROFILER_CUPTI_FAKE_CUPTI_H_
#define EMPLACE_TESTS_PROFILER_CUPTI_FAKE_CUPTI_H_

#include <cstddef>

namespace emplace::testing {

// The behaviour of the fake CUPTI: cupti_session_test.cc finds it in the library under the name kFakeCuptiName.
struct FakeCuptiControls {
  std::size_t dropped = 0;        // reported once
  bool is_taken = false;          // by another profiler: subscribing fails
  bool is_old = false;            // the library, older than the headers
  bool refuses_threads = false;   // the kind of thread ids cannot be set
  bool tells_launches = false;    // calls back for every call with Launch in its name, as the real CUPTI does
  int subscriptions = 0;          // at present
  bool refuses_calls = false;     // recording the host's calls cannot be switched on
  std::size_t kernels = 1;        // reported by each flush while recording, correlation ids from 1
  bool lacks_last_end = false;    // the last kernel has not ended
  std::size_t kinds_enabled = 0;  // at present
  std::size_t buffer_requests = 0;
  std::size_t wrong_buffers = 0;  // not aligned, or too small
};
inline constexpr char kFakeCuptiName[] = "emplace_fake_cupti";

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_PROFILER_CUPTI_FAKE_CUPTI_H_
