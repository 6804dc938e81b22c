# The live view of a run, and what asks its processes for something. Where ncurses is not there the command prints plain text, and says so.
add_library(slipstream_cli_top STATIC
  ${CMAKE_CURRENT_LIST_DIR}/record_command.h ${CMAKE_CURRENT_LIST_DIR}/record_command.cpp
  ${CMAKE_CURRENT_LIST_DIR}/top_command.h ${CMAKE_CURRENT_LIST_DIR}/top_command.cpp
  ${CMAKE_CURRENT_LIST_DIR}/top_terminal.h)
target_link_libraries(slipstream_cli_top PUBLIC slipstream_options slipstream_top
                      PRIVATE slipstream_cli_export slipstream_cli slipstream_tracer slipstream_policy)
if(TARGET slipstream_ncurses)
  target_sources(slipstream_cli_top PRIVATE ${CMAKE_CURRENT_LIST_DIR}/top_terminal.cpp)
  target_link_libraries(slipstream_cli_top PRIVATE slipstream_ncurses)
else()
  target_sources(slipstream_cli_top PRIVATE ${CMAKE_CURRENT_LIST_DIR}/top_terminal_none.cpp)
endif()
