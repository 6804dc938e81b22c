# Third-party libraries, header-only here or static, so that nothing is added to DT_NEEDED (NOTICE.md lists them).
# The headers of the header-only ones are slow to compile: each is included by one .cpp file of ours.

function(slipstream_header target header package)
  string(MAKE_C_IDENTIFIER SLIPSTREAM_DIR_OF_${header} _var)
  find_path(${_var} ${header})
  mark_as_advanced(${_var})
  if(NOT ${_var})
    message(FATAL_ERROR "${header} not found: install the package ${package} (tools/setup does it)")
  endif()
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${_var}})
endfunction()

# With its static library, whose path is left in `variable`.
function(slipstream_archive target header package archive variable)
  slipstream_header(${target} ${header} ${package})
  find_library(${variable} NAMES ${archive})
  mark_as_advanced(${variable})
  if(NOT ${variable})
    message(FATAL_ERROR "${archive} not found: install the package ${package} (tools/setup does it)")
  endif()
  target_link_libraries(${target} INTERFACE ${${variable}})
endfunction()

slipstream_header(slipstream_tomlplusplus toml++/toml.h libtomlplusplus-dev)
target_compile_definitions(slipstream_tomlplusplus INTERFACE TOML_HEADER_ONLY=1 TOML_EXCEPTIONS=0)

slipstream_header(slipstream_fmt fmt/core.h libfmt-dev)
target_compile_definitions(slipstream_fmt INTERFACE FMT_HEADER_ONLY)

slipstream_header(slipstream_spdlog spdlog/spdlog.h libspdlog-dev)
target_compile_definitions(slipstream_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(slipstream_spdlog INTERFACE slipstream_fmt)

slipstream_header(slipstream_cli11 CLI/CLI.hpp libcli11-dev)
slipstream_header(slipstream_json nlohmann/json.hpp nlohmann-json3-dev)
slipstream_header(slipstream_protozero protozero/pbf_writer.hpp libprotozero-dev)

# Static, and in the slipstream command only.
slipstream_archive(slipstream_sqlite sqlite3.h libsqlite3-dev libsqlite3.a SLIPSTREAM_SQLITE_LIBRARY)
target_link_libraries(slipstream_sqlite INTERFACE m ${CMAKE_DL_LIBS} Threads::Threads)
slipstream_archive(slipstream_zlib zlib.h zlib1g-dev libz.a SLIPSTREAM_ZLIB_LIBRARY)
# The same: names of kernels as GCC's tools, and so PyTorch's profiler, have them. LLVM's demangler has other spaces and brackets.
slipstream_archive(slipstream_iberty libiberty/demangle.h libiberty-dev libiberty.a SLIPSTREAM_IBERTY_LIBRARY)
target_compile_definitions(slipstream_iberty INTERFACE HAVE_DECL_BASENAME=1)  # else its header declares it in its own way

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
slipstream_archive(slipstream_elf libelf.h libelf-dev libelf.a SLIPSTREAM_ELF_LIBRARY)
find_library(SLIPSTREAM_ZSTD_LIBRARY NAMES libzstd.a)
mark_as_advanced(SLIPSTREAM_ZSTD_LIBRARY)
target_link_libraries(slipstream_elf INTERFACE ${SLIPSTREAM_ZLIB_LIBRARY})
file(STRINGS ${SLIPSTREAM_ELF_LIBRARY} _zstd REGEX "ZSTD_" LIMIT_COUNT 1)
if(_zstd)
  if(NOT SLIPSTREAM_ZSTD_LIBRARY)
    message(FATAL_ERROR "libelf.a was made with zstd, and libzstd.a not found: install the package libzstd-dev")
  endif()
  target_link_libraries(slipstream_elf INTERFACE ${SLIPSTREAM_ZSTD_LIBRARY})
endif()

# plotly.js, which draws the plots of `slipstream report --html`: a script that the command carries, compressed, and puts
# into the page. Where it is not there, pages have no plots and say so, as with -DSLIPSTREAM_PLOTLY_JS=OFF.
set(SLIPSTREAM_PLOTLY_DIR ${PROJECT_SOURCE_DIR}/build/plotly)
find_file(SLIPSTREAM_PLOTLY_JS plotly.min.js PATHS ${SLIPSTREAM_PLOTLY_DIR}/plotly/package_data NO_DEFAULT_PATH
          DOC "plotly.js, minified")
mark_as_advanced(SLIPSTREAM_PLOTLY_JS)
if(NOT SLIPSTREAM_PLOTLY_JS)
  message(STATUS "plotly.min.js not found: the pages of `slipstream report --html` will have no plots. To fetch it (tools/setup "
                 "does it):\n  python3 -m pip install --no-deps --target ${SLIPSTREAM_PLOTLY_DIR} 'plotly==7.1.*'")
endif()

# Lets a source file of `target` read the compressed library: the path is SLIPSTREAM_PLOTLY_Z there.
function(slipstream_embed_plotly target source)
  if(NOT SLIPSTREAM_PLOTLY_JS)
    return()
  endif()
  find_program(SLIPSTREAM_PYTHON3 python3 REQUIRED)
  mark_as_advanced(SLIPSTREAM_PYTHON3)
  set(_compressed ${CMAKE_CURRENT_BINARY_DIR}/plotly.min.js.z)
  add_custom_command(
    OUTPUT ${_compressed}
    COMMAND ${SLIPSTREAM_PYTHON3} -c
            "import sys, zlib; open(sys.argv[2], 'wb').write(zlib.compress(open(sys.argv[1], 'rb').read(), 9))"
            ${SLIPSTREAM_PLOTLY_JS} ${_compressed}
    DEPENDS ${SLIPSTREAM_PLOTLY_JS}
    COMMENT "Compressing plotly.js"
    VERBATIM)
  target_sources(${target} PRIVATE ${_compressed})
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${_compressed}
                              COMPILE_DEFINITIONS "SLIPSTREAM_PLOTLY_Z=\"${_compressed}\"")
endfunction()
