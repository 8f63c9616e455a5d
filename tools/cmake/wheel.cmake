# What scikit-build-core (pyproject.toml) builds and installs for a wheel: the component `wheel` and the script
# `emplace`, which starts the program in the package. With EMPLACE_BUILT, what that build folder holds, without building.
install(PROGRAMS python/program.py DESTINATION ${SKBUILD_SCRIPTS_DIR} RENAME emplace COMPONENT wheel)
if(EMPLACE_BUILT)
  if(NOT EXISTS ${EMPLACE_BUILT}/python/emplace/_core.${SKBUILD_SOABI}.so)
    message(FATAL_ERROR " EMPLACE_BUILT: ${EMPLACE_BUILT} does not hold the Python package for this Python "
      "(build the target emplace_wheel there, for ${SKBUILD_SOABI})\n")
  endif()
  install(CODE "execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND ${CMAKE_COMMAND} --install ${EMPLACE_BUILT} --strip
    --component wheel --prefix \${CMAKE_INSTALL_PREFIX})" COMPONENT wheel)
  add_custom_target(emplace_wheel)
else()
  set(EMPLACE_PYTHON_PROGRAM ${Python_EXECUTABLE})
  set(EMPLACE_TESTS OFF)
  set(EMPLACE_TORCH OFF CACHE STRING "")  # the user's Python has a LibTorch of its own, or none
  set(EMPLACE_WARNINGS_ARE_ERRORS OFF)
  set(EMPLACE_UNITY_SIZE 160)
  set(CMAKE_CXX_FLAGS_NONE -O3)  # the build type of pyproject.toml
endif()
