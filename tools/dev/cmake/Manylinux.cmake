# A toolchain for binaries that run wherever PyTorch's own wheels do (manylinux_2_28: glibc 2.28 and newer, x86-64).
#
#   cmake -DCMAKE_TOOLCHAIN_FILE=tools/dev/cmake/Manylinux.cmake ...
#
# The compiler is zig's clang, a pip package that tools/setup --wheel puts into build/wheel-tools. It carries the headers and
# the symbol lists of every glibc, and a C++ runtime of its own, which it always links statically. The third-party libraries
# are this machine's. Their headers are reached through links: the folder they are in has its glibc's headers as well.
set(SLIPSTREAM_OLDEST_GLIBC 2.28)

set(_zig ${CMAKE_CURRENT_LIST_DIR}/../../../build/wheel-tools/ziglang/zig)
if(NOT EXISTS ${_zig})
  message(FATAL_ERROR "${_zig} is not there: run tools/setup --wheel, which brings it")
endif()
file(REAL_PATH ${_zig} _zig)
foreach(_language cc c++)
  set(_compiler ${CMAKE_BINARY_DIR}/manylinux/${_language})
  file(CONFIGURE OUTPUT ${_compiler} @ONLY CONTENT [[#!/bin/sh
exec '@_zig@' @_language@ -target x86_64-linux-gnu.@SLIPSTREAM_OLDEST_GLIBC@ "$@"
]])
  file(CHMOD ${_compiler} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endforeach()
set(CMAKE_C_COMPILER ${CMAKE_BINARY_DIR}/manylinux/cc)
set(CMAKE_CXX_COMPILER ${CMAKE_BINARY_DIR}/manylinux/c++)

set(_headers ${CMAKE_BINARY_DIR}/manylinux/include)
file(MAKE_DIRECTORY ${_headers})
foreach(_header CLI curses.h fmt gelf.h libelf.h libiberty ncurses_dll.h nlohmann protozero spdlog sqlite3.h toml++ unctrl.h zconf.h zlib.h)
  foreach(_folder /usr/local/include /usr/include /usr/include/x86_64-linux-gnu)
    if(EXISTS ${_folder}/${_header})
      file(CREATE_LINK ${_folder}/${_header} ${_headers}/${_header} SYMBOLIC)
      break()
    endif()
  endforeach()
endforeach()
set(CMAKE_INCLUDE_PATH ${_headers})
set(CMAKE_LIBRARY_PATH /usr/lib/x86_64-linux-gnu /usr/lib64 /usr/lib)  # zig does not name them

# It refuses the options of other compilers that say what it does anyway.
set(SLIPSTREAM_STATIC_RUNTIME "" CACHE STRING "")
set(SLIPSTREAM_HIDE_ARCHIVES "" CACHE STRING "")
set(SLIPSTREAM_CCACHE "" CACHE FILEPATH "")  # zig has a cache of its own
