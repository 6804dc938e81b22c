# The commands that read recorded runs, as a library of their own: they alone need SQLite.
add_library(slipstream_cli_export STATIC
  ${CMAKE_CURRENT_LIST_DIR}/export.h ${CMAKE_CURRENT_LIST_DIR}/export.cpp ${CMAKE_CURRENT_LIST_DIR}/export_files.cpp
  ${CMAKE_CURRENT_LIST_DIR}/export_json.cpp ${CMAKE_CURRENT_LIST_DIR}/export_text.cpp
  ${CMAKE_CURRENT_LIST_DIR}/trace_build.h ${CMAKE_CURRENT_LIST_DIR}/trace_build.cpp
  ${CMAKE_CURRENT_LIST_DIR}/trace_input.h ${CMAKE_CURRENT_LIST_DIR}/trace_input.cpp)
target_link_libraries(slipstream_cli_export PUBLIC slipstream_options slipstream_trace_db slipstream_trace_export slipstream_trace_check
                      PRIVATE slipstream_cli slipstream_json slipstream_policy)
