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

# The same: the terminal of `slipstream top`, which prints plain text where this is not there.
find_path(SLIPSTREAM_DIR_OF_curses_h curses.h)
find_library(SLIPSTREAM_NCURSES_LIBRARY NAMES libncursesw.a)
find_library(SLIPSTREAM_TINFO_LIBRARY NAMES libtinfo.a)
mark_as_advanced(SLIPSTREAM_DIR_OF_curses_h SLIPSTREAM_NCURSES_LIBRARY SLIPSTREAM_TINFO_LIBRARY)
if(SLIPSTREAM_DIR_OF_curses_h AND SLIPSTREAM_NCURSES_LIBRARY AND SLIPSTREAM_TINFO_LIBRARY)
  add_library(slipstream_ncurses INTERFACE)
  target_include_directories(slipstream_ncurses SYSTEM INTERFACE ${SLIPSTREAM_DIR_OF_curses_h})
  target_link_libraries(slipstream_ncurses INTERFACE ${SLIPSTREAM_NCURSES_LIBRARY} ${SLIPSTREAM_TINFO_LIBRARY})
else()
  message(STATUS "curses.h, libncursesw.a or libtinfo.a not found: `slipstream top` will print plain text. For the view on a "
                 "terminal install the package libncurses-dev (tools/setup does it)")
endif()

# The same: ELF files' symbol tables. From 0.190 on Debian's is made with zstd.
find_path(SLIPSTREAM_DIR_OF_libelf_h libelf.h)
find_library(SLIPSTREAM_ELF_LIBRARY NAMES libelf.a)
find_library(SLIPSTREAM_ZSTD_LIBRARY NAMES libzstd.a)
mark_as_advanced(SLIPSTREAM_DIR_OF_libelf_h SLIPSTREAM_ELF_LIBRARY SLIPSTREAM_ZSTD_LIBRARY)
if(NOT SLIPSTREAM_DIR_OF_libelf_h OR NOT SLIPSTREAM_ELF_LIBRARY)
  message(FATAL_ERROR "libelf.h and libelf.a not found: install the package libelf-dev (tools/setup does it)")
endif()
add_library(slipstream_elf INTERFACE)
target_include_directories(slipstream_elf SYSTEM INTERFACE ${SLIPSTREAM_DIR_OF_libelf_h})
target_link_libraries(slipstream_elf INTERFACE ${SLIPSTREAM_ELF_LIBRARY} ${SLIPSTREAM_ZLIB_LIBRARY})
file(STRINGS ${SLIPSTREAM_ELF_LIBRARY} _zstd REGEX "ZSTD_" LIMIT_COUNT 1)
if(_zstd)
  if(NOT SLIPSTREAM_ZSTD_LIBRARY)
    message(FATAL_ERROR "libelf.a was made with zstd, and libzstd.a not found: install the package libzstd-dev")
  endif()
  target_link_libraries(slipstream_elf INTERFACE ${SLIPSTREAM_ZSTD_LIBRARY})
endif()
