#ifndef EMPLACE_AGENTS_NN_FLUSH_DENORMALS_H_
#define EMPLACE_AGENTS_NN_FLUSH_DENORMALS_H_

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace emplace::agents {

// While it lives, this thread takes numbers too small for a normal float or double as 0. A policy that has all but
// decided, and Adam's averages of gradients that ceased, are full of them, and each costs a hundred times what another
// takes. Where the processor is none of x86's, nothing happens.
class FlushDenormals {
 public:
#if defined(__SSE2__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero); }
  ~FlushDenormals() { _mm_setcsr(before_); }
#else
  FlushDenormals() = default;
  ~FlushDenormals() {}
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE2__)
  static constexpr unsigned kFlushToZero = 0x8000;
  static constexpr unsigned kDenormalsAreZero = 0x0040;
  unsigned before_;
#endif
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_FLUSH_DENORMALS_H_
