# What `cmake --install` puts where, and the Debian packages that `cpack` makes of it. Components: `emplace`, the
# program with the plug-ins that need no LibTorch; `torch`, those that do; `python`; `dev`, libraries and headers with a
# CMake package, find_package(emplace).
include(GNUInstallDirs)
set(EMPLACE_PLUGIN_FOLDER lib/emplace)  # sim/base/plugin.cc looks there

install(TARGETS emplace RUNTIME DESTINATION bin COMPONENT emplace)
install(TARGETS emplace_clp emplace_onnx LIBRARY DESTINATION ${EMPLACE_PLUGIN_FOLDER} COMPONENT emplace)
if(TARGET emplace_http)
  install(TARGETS emplace_http LIBRARY DESTINATION ${EMPLACE_PLUGIN_FOLDER} COMPONENT emplace)
endif()
if(EMPLACE_TORCH)
  install(TARGETS emplace_torch emplace_torch_hardware LIBRARY DESTINATION ${EMPLACE_PLUGIN_FOLDER} COMPONENT torch)
endif()
if(TARGET emplace_cupti)
  install(TARGETS emplace_cupti LIBRARY DESTINATION ${EMPLACE_PLUGIN_FOLDER} COMPONENT torch)
endif()
install(FILES LICENSE DESTINATION share/doc/emplace RENAME copyright COMPONENT emplace)

set(EMPLACE_LIBRARIES emplace_flags emplace_sim emplace_kernels emplace_profiler_shared emplace_profiler emplace_datasets
                      emplace_agents emplace_experiments)
foreach(library ${EMPLACE_LIBRARIES})
  string(REPLACE "emplace_" "" name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
endforeach()
install(TARGETS ${EMPLACE_LIBRARIES} EXPORT emplace ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(EXPORT emplace NAMESPACE emplace:: FILE emplaceTargets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/emplace COMPONENT dev)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/emplaceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES tools/cmake/emplaceConfig.cmake ${CMAKE_BINARY_DIR}/emplaceConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/emplace COMPONENT dev)
foreach(folder sim profiler datasets agents experiments)
  install(DIRECTORY ${folder} DESTINATION include/emplace COMPONENT dev FILES_MATCHING PATTERN "*.h"
          PATTERN library/placements EXCLUDE PATTERN library/scores EXCLUDE PATTERN library/clusters EXCLUDE
          PATTERN clusters EXCLUDE PATTERN configs EXCLUDE PATTERN published EXCLUDE PATTERN results EXCLUDE)
endforeach()

if(EMPLACE_PYTHON)
  # Debian's Python finds packages in PREFIX/lib/python3/dist-packages.
  set(EMPLACE_PYTHON_FOLDER lib/python3/dist-packages CACHE STRING "Where the Python package is installed, below the prefix")
  install(TARGETS emplace_python LIBRARY DESTINATION ${EMPLACE_PYTHON_FOLDER}/emplace COMPONENT python)
  install(DIRECTORY python/emplace DESTINATION ${EMPLACE_PYTHON_FOLDER} COMPONENT python
          FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)

  # The part of a wheel that is compiled (tools/cmake/wheel.cmake). The program is in the package, beside its plug-ins.
  install(TARGETS emplace_python emplace emplace_clp emplace_onnx emplace_http DESTINATION emplace COMPONENT wheel EXCLUDE_FROM_ALL)
  add_custom_target(emplace_wheel DEPENDS emplace_python emplace emplace_clp emplace_onnx emplace_http)
  if(SKBUILD AND EMPLACE_TORCH)
    install(TARGETS emplace_torch emplace_torch_hardware DESTINATION emplace COMPONENT wheel EXCLUDE_FROM_ALL)
    add_dependencies(emplace_wheel emplace_torch emplace_torch_hardware)
  endif()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME emplace)
set(CPACK_PACKAGE_VENDOR emplace)
set(CPACK_PACKAGE_CONTACT "The authors of emplace <emplace@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Simulator and testbed for placing the ops of neural networks on devices")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL emplace)
if(EMPLACE_TORCH)
  list(APPEND CPACK_COMPONENTS_ALL torch)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_EMPLACE_PACKAGE_NAME emplace)
set(CPACK_DEBIAN_EMPLACE_PACKAGE_SUGGESTS emplace-torch)
set(CPACK_DEBIAN_TORCH_PACKAGE_NAME emplace-torch)
set(CPACK_DEBIAN_TORCH_PACKAGE_DEPENDS "emplace (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_TORCH_DESCRIPTION "Plug-ins of emplace that need LibTorch: profiling, and agents with its networks")
if(EMPLACE_PYTHON)
  list(APPEND CPACK_COMPONENTS_ALL python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-emplace)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
      "python3 (>= ${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}), python3 (<< ${Python_VERSION_MAJOR}.99), python3-numpy")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS emplace)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS python3-networkx)
  set(CPACK_COMPONENT_PYTHON_DESCRIPTION "emplace as a module of Python")
endif()
include(CPack)
