# The commands that make figures of recorded runs.
add_library(slipstream_cli_report STATIC
  ${CMAKE_CURRENT_LIST_DIR}/advise_command.h ${CMAKE_CURRENT_LIST_DIR}/advise_command.cpp
  ${CMAKE_CURRENT_LIST_DIR}/report_command.h ${CMAKE_CURRENT_LIST_DIR}/report_command.cpp)
target_link_libraries(slipstream_cli_report PUBLIC slipstream_options
                      PRIVATE slipstream_advise slipstream_report slipstream_trace_db slipstream_tracer slipstream_cli_export slipstream_cli
                              slipstream_policy)
