# `slipstream policy ...` without its command line: included by whoever builds the command, or its tests.
add_library(slipstream_cli_policy STATIC
  ${CMAKE_CURRENT_LIST_DIR}/policy_command.cpp
  ${CMAKE_CURRENT_LIST_DIR}/policy_diff.cpp
  ${CMAKE_CURRENT_LIST_DIR}/policy_explain.cpp
  ${CMAKE_CURRENT_LIST_DIR}/policy_output.cpp)
target_link_libraries(slipstream_cli_policy PUBLIC slipstream_policy PRIVATE slipstream_json slipstream_cli)
