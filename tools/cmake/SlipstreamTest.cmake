# slipstream_add_test(NAME SOURCES... [LIBS ...] [ENVIRONMENT ...] [LABELS ...])
# A GoogleTest program; every TEST becomes a ctest test.

find_package(GTest REQUIRED)
include(GoogleTest)

function(slipstream_add_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBS;ENVIRONMENT;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE slipstream_options ${ARG_LIBS} GTest::gtest GTest::gtest_main)
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
