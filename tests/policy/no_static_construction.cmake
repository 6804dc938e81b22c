# Fails where an object of ARCHIVE has a constructor or destructor that the loader would run.
execute_process(COMMAND ${OBJDUMP} -h ${ARCHIVE} OUTPUT_VARIABLE sections RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT sections MATCHES "log\\.cpp\\.o" OR NOT sections MATCHES "document\\.cpp\\.o")
  message(FATAL_ERROR "${ARCHIVE}: cannot read its sections")
endif()
if(sections MATCHES "\\.(init_array|fini_array|ctors|dtors)")
  message(FATAL_ERROR "${ARCHIVE} has work to do at load time: section .${CMAKE_MATCH_1}\n${sections}")
endif()
