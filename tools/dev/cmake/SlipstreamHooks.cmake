# What is generated from shim/hooks.def outside the compiler: the linker's version script and the list of names. Both are made
# by the preprocessor without any CUDA header in sight, so no header macro can change a name on the way.

set(SLIPSTREAM_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)
set(SLIPSTREAM_VERSION_SCRIPT ${SLIPSTREAM_GENERATED_DIR}/libslipstream.map)
set(SLIPSTREAM_HOOK_NAMES ${SLIPSTREAM_GENERATED_DIR}/generated/hook_names.inc)
file(MAKE_DIRECTORY ${SLIPSTREAM_GENERATED_DIR}/generated)

function(slipstream_generate output template)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_CXX_COMPILER} -E -P -x c++ -I ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/${template} -o ${output}
    DEPENDS ${PROJECT_SOURCE_DIR}/${template} ${PROJECT_SOURCE_DIR}/shim/hooks.def ${PROJECT_SOURCE_DIR}/shim/driver_hooks.def
    COMMENT "Generating ${output} from shim/hooks.def"
    VERBATIM)
endfunction()

slipstream_generate(${SLIPSTREAM_VERSION_SCRIPT} shim/libslipstream.map.in)
slipstream_generate(${SLIPSTREAM_HOOK_NAMES} shim/hook_names.inc.in)
add_custom_target(slipstream_generated DEPENDS ${SLIPSTREAM_VERSION_SCRIPT} ${SLIPSTREAM_HOOK_NAMES})
