# The command that looks for a faster policy.
add_library(slipstream_cli_tune STATIC
  ${CMAKE_CURRENT_LIST_DIR}/journal_file.h ${CMAKE_CURRENT_LIST_DIR}/journal_file.cpp
  ${CMAKE_CURRENT_LIST_DIR}/tune_command.h ${CMAKE_CURRENT_LIST_DIR}/tune_command.cpp
  ${CMAKE_CURRENT_LIST_DIR}/tune_machine.h ${CMAKE_CURRENT_LIST_DIR}/tune_machine.cpp
  ${CMAKE_CURRENT_LIST_DIR}/tune_text.h ${CMAKE_CURRENT_LIST_DIR}/tune_text.cpp)
target_link_libraries(slipstream_cli_tune PUBLIC slipstream_options slipstream_tune slipstream_cli_compare
                      PRIVATE slipstream_json slipstream_tracer slipstream_cli_export slipstream_policy)
