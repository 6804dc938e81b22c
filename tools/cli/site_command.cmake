# What looks after a site: the summaries that its runs left, and the metrics of a node.
add_library(slipstream_cli_site STATIC
  ${CMAKE_CURRENT_LIST_DIR}/metrics_command.h ${CMAKE_CURRENT_LIST_DIR}/metrics_command.cpp
  ${CMAKE_CURRENT_LIST_DIR}/site_command.h ${CMAKE_CURRENT_LIST_DIR}/site_command.cpp)
target_link_libraries(slipstream_cli_site PUBLIC slipstream_options slipstream_site
                      PRIVATE slipstream_cli slipstream_metrics slipstream_tracer slipstream_policy)
