#ifndef EMPLACE_SIM_BLAS_H_
#define EMPLACE_SIM_BLAS_H_

#include <dlfcn.h>

#include <cstdlib>

namespace emplace {

// OpenBLAS, if this process has it, computes each product on the thread that asks for it. LibTorch's number of threads
// does not reach it.
inline void UseOneBlasThread() {
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return;
  if (void* const set = dlsym(library, "openblas_set_num_threads")) reinterpret_cast<void (*)(int)>(set)(1);
  dlclose(library);
}

// Tells OpenBLAS, which reads this when it is loaded, what this processor can do, unless the user has told it. One that
// is newer than its list gets kernels of 2004 otherwise (0.3.21, Debian 12's, on Emerald Rapids): several times slower.
inline void ChooseBlasKernels() {
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
                          __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  if (has_avx2) setenv("OPENBLAS_CORETYPE", has_avx512 ? "SkylakeX" : "Haswell", /*overwrite=*/0);
#endif
  setenv("OPENBLAS_NUM_THREADS", "1", /*overwrite=*/0);
}

}  // namespace emplace

#endif  // EMPLACE_SIM_BLAS_H_
