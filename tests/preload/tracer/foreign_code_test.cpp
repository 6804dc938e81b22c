// Other people's code that runs on threads of ours, because something that they use calls it.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/preload/tracer/trace_testing.h"
#include "tests/support/plain_build.h"

namespace slipstream {
namespace {

using test::Finished;
using test::NewDirectory;
using test::ReadOnlyTrace;
using test::RunTraced;
using test::Trace;

// A profiler of the heap writes by numbers of the process's descriptors, on the thread that allocates.
TEST(ForeignCodeTest, S77_AHeapProfilerWritesOnOurThreadsAsOnTheProgramsOwn) {
  NEEDS_PLAIN_BUILD();  // a sanitizer has an allocator of its own
  const std::string directory = NewDirectory();
  const std::string profile = directory + "/profile";
  const Finished finished =
      RunTraced({"env", std::string("LD_PRELOAD=") + SLIPSTREAM_LIBRARY + ":" + HEAP_PROFILER, TRACED, "lines"},
                directory, {{"HEAP_PROFILE", profile}});
  ASSERT_EQ(finished.status, 0) << finished.err;
  std::string expected;
  for (int i = 0; i < 200; ++i) expected += "step " + std::to_string(i) + "\n";
  EXPECT_EQ(finished.out, expected);

  std::ostringstream text;
  text << std::ifstream(profile).rdbuf();
  const std::string lines = text.str();
  const auto written = std::count(lines.begin(), lines.end(), '\n');
  EXPECT_GT(written, 200);
  EXPECT_EQ(finished.err, "heap profiler: " + std::to_string(written) + " lines, 0 failed\n");

  const Trace trace = ReadOnlyTrace(directory);
  // Where the machine is busy the recording thread may come too late for some, and counts them.
  constexpr uint64_t kMade = uint64_t{200} * 200;
  const uint64_t recorded = trace.Calls()["cudaMemcpy"];
  EXPECT_LE(recorded, kMade);
  EXPECT_GE(recorded + trace.end().dropped, kMade);
  EXPECT_TRUE(trace.end().complete);
  EXPECT_EQ(trace.end().reason, tracer::EndReason::kFinished);
}

}  // namespace
}  // namespace slipstream
