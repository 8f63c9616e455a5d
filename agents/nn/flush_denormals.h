#ifndef EMPLACE_AGENTS_NN_FLUSH_DENORMALS_H_
#define EMPLACE_AGENTS_NN_FLUSH_DENORMALS_H_

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace emplace::agents {

// During its lifetime, this thread treats denormal floats and doubles as 0. Near-deterministic policies produce many of
// them, and so do Adam's averages after gradients vanish. Each costs a hundred times a normal operation. No effect on
// processors other than x86.
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
