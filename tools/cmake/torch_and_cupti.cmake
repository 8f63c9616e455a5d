# Finds LibTorch (TORCH_INCLUDE_DIRS, TORCH_LIBRARIES) and, if installed, CUPTI (target CUDA::cupti). The first LibTorch
# of these is used: that in the folder EMPLACE_TORCH, if it is one; those in CMAKE_PREFIX_PATH; that in the package torch
# of the Python that emplace is built for; that of the system. CUPTI is the CUDA toolkit's, or pip's in CMAKE_PREFIX_PATH.
set(torch_folders ${CMAKE_PREFIX_PATH})
if(IS_DIRECTORY "${EMPLACE_TORCH}")
  set(torch_folders ${EMPLACE_TORCH})
elseif(EMPLACE_TORCH MATCHES "/")
  message(FATAL_ERROR "EMPLACE_TORCH is ${EMPLACE_TORCH}, which is no folder (ON, OFF, or the folder of a torch package)")
elseif(EMPLACE_PYTHON_PROGRAM)
  execute_process(COMMAND ${EMPLACE_PYTHON_PROGRAM} -c
    "import importlib.util; found = importlib.util.find_spec('torch'); print(*found.submodule_search_locations if found else '')"
    OUTPUT_VARIABLE torch_package OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  list(APPEND torch_folders ${torch_package})
endif()
# A build folder that has been configured before gets another LibTorch where another one is wanted; Torch_DIR is kept only
# if it was given.
if("${Torch_DIR}" STREQUAL "${EMPLACE_TORCH_CONFIG}")
  unset(Torch_DIR CACHE)
endif()
unset(EMPLACE_TORCH_CONFIG CACHE)
if(IS_DIRECTORY "${EMPLACE_TORCH}" OR NOT Torch_DIR)
  find_path(EMPLACE_TORCH_CONFIG TorchConfig.cmake HINTS ${torch_folders}
    PATH_SUFFIXES share/cmake/Torch Torch lib/cmake/Torch cmake/Torch NO_DEFAULT_PATH)
  if(EMPLACE_TORCH_CONFIG)
    set(Torch_DIR ${EMPLACE_TORCH_CONFIG} CACHE PATH "" FORCE)
  elseif(IS_DIRECTORY "${EMPLACE_TORCH}")
    message(FATAL_ERROR "EMPLACE_TORCH: ${EMPLACE_TORCH} has no share/cmake/Torch/TorchConfig.cmake (the folder of a torch package)")
  endif()
endif()

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

# LibTorch's own files look for its libraries on the system first. Where two are installed, both would be linked.
foreach(found Caffe2_DIR c10_LIBRARY kineto_LIBRARY TORCH_LIBRARY)
  unset(${found} CACHE)
endforeach()
set(prefix_path ${CMAKE_PREFIX_PATH})
if(Torch_DIR)
  get_filename_component(torch_prefix ${Torch_DIR}/../../.. ABSOLUTE)
  list(PREPEND CMAKE_PREFIX_PATH ${torch_prefix})
  find_package(Torch QUIET)
else()
  find_package(Torch QUIET)
  set(EMPLACE_TORCH_CONFIG ${Torch_DIR} CACHE INTERNAL "")
endif()
set(CMAKE_PREFIX_PATH ${prefix_path})
if(NOT Torch_FOUND)
  list(APPEND EMPLACE_MISSING libtorch-dev)  # tools/cmake/dependencies.cmake
  return()
endif()
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
