# find_package(emplace): the targets emplace::sim, emplace::datasets, emplace::agents, emplace::profiler and
# emplace::experiments. Headers are included as in the sources: "sim/simulator.h".
include(CMakeFindDependencyMacro)
foreach(package Threads ZLIB fmt nlohmann_json yaml-cpp hwy Boost pugixml)
  find_dependency(${package})
endforeach()
include(${CMAKE_CURRENT_LIST_DIR}/emplaceTargets.cmake)
