# Installs the libraries of BUILD into FOLDER, and builds and runs the project SOURCE with them.
file(REMOVE_RECURSE ${FOLDER})
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(status)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()
foreach(component dev emplace)
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${FOLDER}/prefix --component ${component})
endforeach()
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${FOLDER}/build -G Ninja -DCMAKE_PREFIX_PATH=${FOLDER}/prefix -DCMAKE_CXX_COMPILER=${CXX})
run(${CMAKE_COMMAND} --build ${FOLDER}/build)
run(${FOLDER}/build/uses_emplace)
if(NOT output MATCHES "^10[0-9]\\.[0-9] us")  # each op on a GPU of its own
  message(FATAL_ERROR "the project printed ${output}")
endif()
# The installed program finds its plug-ins in lib/emplace.
run(${FOLDER}/prefix/bin/emplace generate rnnlm --set layers=1 steps=2 -o ${FOLDER}/g.json)
run(${FOLDER}/prefix/bin/emplace place --graph ${FOLDER}/g.json --cluster p2.8xlarge --gpus 2 --costs roofline
    --agent m_sct -o ${FOLDER}/p.json)
file(REMOVE_RECURSE ${FOLDER})  # static libraries are large
