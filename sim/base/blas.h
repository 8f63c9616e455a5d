#ifndef EMPLACE_SIM_BASE_BLAS_H_
#define EMPLACE_SIM_BASE_BLAS_H_

#include <dlfcn.h>

#include <cstdlib>

#include "sim/base/vector_targets.h"

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
// Without AVX2 it decides itself, unless the processor has it and only was not to use it.
inline void ChooseBlasKernels(VectorTarget target) {
#if defined(__x86_64__)
  const char* kernels = nullptr;
  if (target == VectorTarget::kAvx512) kernels = "SkylakeX";
  if (target == VectorTarget::kAvx2) kernels = "Haswell";
  if (target == VectorTarget::kBaseline && SupportedVectorTargets().back() != target) kernels = "Prescott";
  if (kernels != nullptr) setenv("OPENBLAS_CORETYPE", kernels, /*overwrite=*/0);
#else
  static_cast<void>(target);
#endif
  setenv("OPENBLAS_NUM_THREADS", "1", /*overwrite=*/0);
}

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_BLAS_H_
