# The commands that run a command several times and compare its runs, or two recorded runs.
add_library(slipstream_cli_compare STATIC
  ${CMAKE_CURRENT_LIST_DIR}/demo_command.h ${CMAKE_CURRENT_LIST_DIR}/demo_command.cpp
  ${CMAKE_CURRENT_LIST_DIR}/compare_command.h ${CMAKE_CURRENT_LIST_DIR}/compare_command.cpp
  ${CMAKE_CURRENT_LIST_DIR}/compare_runs_command.h ${CMAKE_CURRENT_LIST_DIR}/compare_runs_command.cpp
  ${CMAKE_CURRENT_LIST_DIR}/compare_sides.h ${CMAKE_CURRENT_LIST_DIR}/compare_sides.cpp
  ${CMAKE_CURRENT_LIST_DIR}/measured_run.h ${CMAKE_CURRENT_LIST_DIR}/measured_run.cpp
  ${CMAKE_CURRENT_LIST_DIR}/run_figures.h ${CMAKE_CURRENT_LIST_DIR}/run_figures.cpp
  ${CMAKE_CURRENT_LIST_DIR}/yardstick.h ${CMAKE_CURRENT_LIST_DIR}/yardstick.cpp)
target_link_libraries(slipstream_cli_compare PUBLIC slipstream_options slipstream_compare slipstream_cli
                      PRIVATE slipstream_compare_runs slipstream_report slipstream_trace_db slipstream_tracer slipstream_cli_export slipstream_policy)
