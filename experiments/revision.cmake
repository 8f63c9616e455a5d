# Writes OUTPUT: the git revision of SOURCE as a C++ string, with "-dirty" appended if files differ from it; "unknown"
# without git. Does not rewrite a file that has this content already.
execute_process(COMMAND git --no-optional-locks describe --always --dirty --abbrev=40 "--exclude=*"
                WORKING_DIRECTORY "${SOURCE}" OUTPUT_VARIABLE REVISION OUTPUT_STRIP_TRAILING_WHITESPACE
                ERROR_QUIET RESULT_VARIABLE FAILED)
if(FAILED OR NOT REVISION MATCHES "^[0-9a-f]+(-dirty)?$")
  set(REVISION "unknown")
endif()
set(TEXT "\"${REVISION}\"\n")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" OLD)
endif()
if(NOT "${OLD}" STREQUAL "${TEXT}")
  file(WRITE "${OUTPUT}" "${TEXT}")
endif()
