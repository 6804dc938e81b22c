# cmake -DGIT=... -DSOURCE=... -DOUT=... -DHEADER=... -P write_commit.cmake: the commit, with -dirty when tracked files are changed;
# "unknown" where SOURCE is no clone. Neither file is touched where it would stay the same.
execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude *
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "${commit}\n")
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#pragma once\n#define SLIPSTREAM_COMMIT \"${commit}\"\n")
