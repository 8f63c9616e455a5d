# emplace_plugin(NAME PREFIX LOADER SOURCE...): a library that the program loads on demand (sim/base/plugin.h). LOADER
# is the program's source that loads it. It gets two macros: PREFIX_FILE, the library's name beside the program, and
# PREFIX_PATH, the path where it was built.
function(emplace_plugin name prefix loader)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE emplace_flags)
  if(NOT EMPLACE_SANITIZED)  # otherwise the library takes the sanitizer runtime from the program
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  set_target_properties(${name} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)  # to libraries that are not the system's
  set_source_files_properties(${loader} PROPERTIES COMPILE_DEFINITIONS
    "${prefix}_FILE=\"$<TARGET_FILE_NAME:${name}>\";${prefix}_PATH=\"$<TARGET_FILE:${name}>\"")
endfunction()

# emplace_absent_plugin(NAME PREFIX LOADER): the same where the library is not built, for messages.
function(emplace_absent_plugin name prefix loader)
  set_source_files_properties(${loader} PROPERTIES COMPILE_DEFINITIONS
    "${prefix}_FILE=\"${CMAKE_SHARED_MODULE_PREFIX}${name}${CMAKE_SHARED_MODULE_SUFFIX}\";${prefix}_PATH=\"\"")
endfunction()
