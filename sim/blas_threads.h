#ifndef EMPLACE_SIM_BLAS_THREADS_H_
#define EMPLACE_SIM_BLAS_THREADS_H_

#include <dlfcn.h>

namespace emplace {

// OpenBLAS, if this process has it, computes each product on the thread that asks for it. Its environment variable
// comes too late (the program is linked to it through an LP solver), and LibTorch's number of threads does not reach
// it.
inline void UseOneBlasThread() {
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return;
  if (void* const set = dlsym(library, "openblas_set_num_threads")) reinterpret_cast<void (*)(int)>(set)(1);
  dlclose(library);
}

}  // namespace emplace

#endif  // EMPLACE_SIM_BLAS_THREADS_H_
