# Compiler settings that every target of ours shares: link to slipstream_options.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# NDEBUG stays off only in Debug; -O2 everywhere else. Functions and lines are what a stack needs; variables too would make the
# build take a third longer.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")

# For whatever leaves the build folder: no C++ runtime of another machine is asked for, and none of ours is seen.
set(SLIPSTREAM_STATIC_RUNTIME -static-libstdc++ -static-libgcc CACHE STRING "Link options for a C++ runtime inside")
set(SLIPSTREAM_HIDE_ARCHIVES -Wl,--exclude-libs,ALL CACHE STRING "Link options that export nothing of static libraries")
mark_as_advanced(SLIPSTREAM_STATIC_RUNTIME SLIPSTREAM_HIDE_ARCHIVES)

find_program(SLIPSTREAM_CCACHE ccache)
if(SLIPSTREAM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # As ccache asks where there are precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${SLIPSTREAM_CCACHE})
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  set(CMAKE_C_COMPILER_LAUNCHER ${SLIPSTREAM_CCACHE})
endif()

if(SLIPSTREAM_SANITIZER)
  add_compile_options(-g1)  # lines for its stacks, which is all that is read of it
endif()

# For the folders whose code runs most while tests run. With all code optimized AddressSanitizer's build took 37 s longer.
macro(slipstream_optimize_under_sanitizers)
  if(SLIPSTREAM_SANITIZER)
    add_compile_options(-O1)
  endif()
endmacro()

# A build of everything takes much less time, one after a small change somewhat more. Names without linkage are unique within
# a target for this.
option(SLIPSTREAM_UNITY "Compile several sources of a target together" OFF)
set(CMAKE_UNITY_BUILD ${SLIPSTREAM_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)

find_package(Threads REQUIRED)

add_library(slipstream_options INTERFACE)
target_compile_options(slipstream_options INTERFACE
  -Wall -Wextra -Wpedantic -Werror
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  -Wcast-align -Wshadow -Wformat=2 -ffunction-sections -fdata-sections
  # The library is preloaded, so its few thread-local bytes are in the static TLS block. The general model would call
  # __tls_get_addr, which may allocate, in the middle of any CUDA call.
  -ftls-model=initial-exec)
# Of sources that are joined one shadows what it never sees alone. g++ says nothing of names without linkage; clang-tidy and
# builds without unity look at each source by itself.
if(SLIPSTREAM_UNITY AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(slipstream_options INTERFACE -Wno-shadow)
endif()
target_include_directories(slipstream_options INTERFACE ${PROJECT_SOURCE_DIR})
target_link_libraries(slipstream_options INTERFACE Threads::Threads)

if(SLIPSTREAM_SANITIZER STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
elseif(SLIPSTREAM_SANITIZER STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(SLIPSTREAM_SANITIZER)
  message(FATAL_ERROR "SLIPSTREAM_SANITIZER is \"${SLIPSTREAM_SANITIZER}\"; it must be address, thread or empty")
endif()
