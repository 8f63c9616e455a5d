#ifndef EMPLACE_TESTS_PROFILER_CUPTI_FAKE_CUPTI_H_
#define EMPLACE_TESTS_PROFILER_CUPTI_FAKE_CUPTI_H_

#include <cstddef>

namespace emplace::testing {

// How a CUPTI behaves that has no GPU: for cupti_session_test.cc, found in its library under the name kFakeCuptiName.
struct FakeCuptiControls {
  std::size_t dropped = 0;        // to be told once
  bool is_taken = false;          // by another profiler: subscribing fails
  bool refuses_calls = false;     // recording the host's calls cannot be switched on
  std::size_t kernels = 1;        // that each flush tells of while recording, correlation ids from 1
  bool lacks_last_end = false;    // the last kernel is not done
  std::size_t kinds_enabled = 0;  // now
  std::size_t buffer_requests = 0;
  std::size_t wrong_buffers = 0;  // not aligned, or too small
};
inline constexpr char kFakeCuptiName[] = "emplace_fake_cupti";

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_PROFILER_CUPTI_FAKE_CUPTI_H_
