# Third-party libraries, all header-only here so that nothing is added to DT_NEEDED (NOTICE.md lists them).
# Their headers are slow to compile: each is included by one .cpp file of ours.

function(slipstream_header_only target header package)
  string(MAKE_C_IDENTIFIER SLIPSTREAM_DIR_OF_${header} _var)
  find_path(${_var} ${header})
  mark_as_advanced(${_var})
  if(NOT ${_var})
    message(FATAL_ERROR "${header} not found: install the package ${package} (tools/setup does it)")
  endif()
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${_var}})
endfunction()

slipstream_header_only(slipstream_tomlplusplus toml++/toml.h libtomlplusplus-dev)
target_compile_definitions(slipstream_tomlplusplus INTERFACE TOML_HEADER_ONLY=1 TOML_EXCEPTIONS=0)

slipstream_header_only(slipstream_fmt fmt/core.h libfmt-dev)
target_compile_definitions(slipstream_fmt INTERFACE FMT_HEADER_ONLY)

slipstream_header_only(slipstream_spdlog spdlog/spdlog.h libspdlog-dev)
target_compile_definitions(slipstream_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(slipstream_spdlog INTERFACE slipstream_fmt)

slipstream_header_only(slipstream_cli11 CLI/CLI.hpp libcli11-dev)
slipstream_header_only(slipstream_json nlohmann/json.hpp nlohmann-json3-dev)
