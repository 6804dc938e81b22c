// sample_run DIRECTORY: a small recorded run, for scripts that look at what becomes of it.
#include "tests/trace_db/sample_run.h"

int main(int argc, char** argv) { return argc == 2 && slipstream::trace_db::RecordSampleRun(argv[1]) ? 0 : 1; }
