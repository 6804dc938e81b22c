# The commit that was built: for `slipstream --version`, and in the file COMMIT for machines to which only the build folder travels.
find_package(Git QUIET)
add_custom_target(slipstream_commit ALL
  COMMAND ${CMAKE_COMMAND} "-DGIT=${GIT_EXECUTABLE}" -DSOURCE=${PROJECT_SOURCE_DIR} -DOUT=${PROJECT_BINARY_DIR}/COMMIT
          -DHEADER=${SLIPSTREAM_GENERATED_DIR}/generated/commit.h -P ${CMAKE_CURRENT_LIST_DIR}/write_commit.cmake
  BYPRODUCTS ${PROJECT_BINARY_DIR}/COMMIT ${SLIPSTREAM_GENERATED_DIR}/generated/commit.h
  VERBATIM)
