# Third-party libraries, header-only here or static, so that nothing is added to DT_NEEDED (NOTICE.md lists them).
# The headers of the header-only ones are slow to compile: each is included by one .cpp file of ours.

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
slipstream_header_only(slipstream_protozero protozero/pbf_writer.hpp libprotozero-dev)

# Static, and in the slipstream command only.
find_path(SLIPSTREAM_DIR_OF_sqlite3_h sqlite3.h)
find_library(SLIPSTREAM_SQLITE_LIBRARY NAMES libsqlite3.a)
mark_as_advanced(SLIPSTREAM_DIR_OF_sqlite3_h SLIPSTREAM_SQLITE_LIBRARY)
if(NOT SLIPSTREAM_DIR_OF_sqlite3_h OR NOT SLIPSTREAM_SQLITE_LIBRARY)
  message(FATAL_ERROR "sqlite3.h and libsqlite3.a not found: install the package libsqlite3-dev (tools/setup does it)")
endif()
add_library(slipstream_sqlite INTERFACE)
target_include_directories(slipstream_sqlite SYSTEM INTERFACE ${SLIPSTREAM_DIR_OF_sqlite3_h})
target_link_libraries(slipstream_sqlite INTERFACE ${SLIPSTREAM_SQLITE_LIBRARY} m ${CMAKE_DL_LIBS} Threads::Threads)

# The same.
find_path(SLIPSTREAM_DIR_OF_zlib_h zlib.h)
find_library(SLIPSTREAM_ZLIB_LIBRARY NAMES libz.a)
mark_as_advanced(SLIPSTREAM_DIR_OF_zlib_h SLIPSTREAM_ZLIB_LIBRARY)
if(NOT SLIPSTREAM_DIR_OF_zlib_h OR NOT SLIPSTREAM_ZLIB_LIBRARY)
  message(FATAL_ERROR "zlib.h and libz.a not found: install the package zlib1g-dev (tools/setup does it)")
endif()
add_library(slipstream_zlib INTERFACE)
target_include_directories(slipstream_zlib SYSTEM INTERFACE ${SLIPSTREAM_DIR_OF_zlib_h})
target_link_libraries(slipstream_zlib INTERFACE ${SLIPSTREAM_ZLIB_LIBRARY})
