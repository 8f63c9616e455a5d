# Finds LibTorch (TORCH_INCLUDE_DIRS, TORCH_LIBRARIES) and, if installed, CUPTI (target CUDA::cupti): either Debian's
# and the CUDA toolkit's, or those of a pip-installed PyTorch 2, whose folders CMAKE_PREFIX_PATH names.

# Needed only for CUPTI, which times the kernels of CUDA devices. It comes before LibTorch, whose files name its
# targets.
find_package(CUDAToolkit QUIET)

# PyTorch 2.5 to 2.7 link to CUDA::nvToolsExt, a library that CUDA 12.9 and 13 no longer have; its headers in nvtx3 do
# the same. An alias would fail: CMake's FindCUDAToolkit sets a property of that target when LibTorch's files call it
# again.
if(TARGET CUDA::nvtx3 AND NOT TARGET CUDA::nvToolsExt)
  add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
  target_link_libraries(CUDA::nvToolsExt INTERFACE CUDA::nvtx3)
endif()

find_package(Torch REQUIRED)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # clang needs the whole type IValue where LibTorch 1.13 destroys a vector of them, which C++20 made constexpr.
  set_property(TARGET torch APPEND PROPERTY INTERFACE_COMPILE_OPTIONS "SHELL:-include ATen/core/ivalue.h")
endif()

# No other library of emplace has this ABI. Without this check, the linker would only list std::string's functions as
# missing.
if("${TORCH_CXX_FLAGS}" MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
  message(FATAL_ERROR "LibTorch in ${TORCH_INSTALL_PREFIX} has the old C++ ABI (_GLIBCXX_USE_CXX11_ABI=0), with which "
    "emplace cannot be linked. Take the wheel of PyTorch 2.7 or newer, a LibTorch named cxx11-abi, or Debian's libtorch-dev.")
endif()

if(NOT TARGET CUDA::cupti)
  find_path(CUPTI_INCLUDE_DIR cupti.h)
  find_library(CUPTI_LIBRARY NAMES cupti libcupti.so.13 libcupti.so.12)
  if(CUPTI_INCLUDE_DIR)
    # cupti.h includes cuda.h. Up to CUDA 12, pip installs cuda.h in a separate folder beside CUPTI's.
    find_path(CUPTI_CUDA_INCLUDE_DIR cuda.h
      PATHS "${CUPTI_INCLUDE_DIR}" "${CUPTI_INCLUDE_DIR}/../../cuda_runtime/include" NO_DEFAULT_PATH)
    find_path(CUPTI_CUDA_INCLUDE_DIR cuda.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  endif()
  if(CUPTI_INCLUDE_DIR AND CUPTI_LIBRARY AND CUPTI_CUDA_INCLUDE_DIR)
    add_library(CUDA::cupti UNKNOWN IMPORTED)
    set_target_properties(CUDA::cupti PROPERTIES
      IMPORTED_LOCATION "${CUPTI_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${CUPTI_INCLUDE_DIR};${CUPTI_CUDA_INCLUDE_DIR}")
  elseif(EMPLACE_REQUIRE_CUPTI)
    message(FATAL_ERROR "CUPTI was not found, neither the CUDA toolkit's nor in CMAKE_PREFIX_PATH "
      "(cupti.h: ${CUPTI_INCLUDE_DIR}, its library: ${CUPTI_LIBRARY}, cuda.h: ${CUPTI_CUDA_INCLUDE_DIR})")
  elseif(CUPTI_INCLUDE_DIR AND CUPTI_LIBRARY)
    message(STATUS "CUPTI in ${CUPTI_INCLUDE_DIR} is left out: cuda.h, which it includes, was not found")
  endif()
endif()
