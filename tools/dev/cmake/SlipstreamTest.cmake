# slipstream_add_test(NAME SOURCES... [LIBS ...] [ENVIRONMENT ...] [LABELS ...])
# A GoogleTest program; every TEST becomes a ctest test.
#
# slipstream_compile_as_test(TARGET)
# For targets of GoogleTest sources that are made in another way: executables, and object libraries for them.

find_package(GTest REQUIRED)
include(GoogleTest)

# GoogleTest and the standard library's headers cost each source a second, and optimizing what EXPECT_... expands to costs
# another. So they are compiled once, and tests are not optimized. One precompiled header serves all: it holds for one set of
# options alone, so the program that owns it has those of every test.
add_executable(slipstream_test_headers ${CMAKE_CURRENT_LIST_DIR}/test_headers.cpp)
target_link_libraries(slipstream_test_headers PRIVATE slipstream_options GTest::gtest GTest::gtest_main)
target_precompile_headers(slipstream_test_headers PRIVATE ${CMAKE_CURRENT_LIST_DIR}/test_headers.h)

function(_slipstream_test_options target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIE -O0)
  if(SLIPSTREAM_SANITIZER STREQUAL "address")
    # Undefined behavior is looked for in what is tested; in what EXPECT_... expands to it costs a quarter of the compilation.
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()
_slipstream_test_options(slipstream_test_headers)

function(slipstream_compile_as_test target)
  _slipstream_test_options(${target})
  target_precompile_headers(${target} REUSE_FROM slipstream_test_headers)
endfunction()

function(slipstream_add_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBS;ENVIRONMENT;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE slipstream_options ${ARG_LIBS} slipstream_test_support GTest::gtest GTest::gtest_main)
  slipstream_compile_as_test(${name})
  # A property without a value would shift those behind it.
  set(_properties TIMEOUT ${ARG_TIMEOUT})
  if(ARG_ENVIRONMENT)
    list(APPEND _properties ENVIRONMENT "${ARG_ENVIRONMENT}")
  endif()
  if(ARG_LABELS)
    list(APPEND _properties LABELS "${ARG_LABELS}")
  endif()
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES ${_properties})
endfunction()
