#include "policy/run_variable.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

namespace slipstream::policy {
namespace {

TEST(RunVariable, ComesBackAsItWasMade) {
  const std::string text = FormatRunRoot({.pid = 4711, .started = 123456789, .command = "/opt/a:b/bin/slipstream"});
  RunRoot root;
  ASSERT_TRUE(ParseRunRoot(text, &root)) << text;
  EXPECT_EQ(root.pid, 4711);
  EXPECT_EQ(root.started, 123456789U);
  EXPECT_EQ(root.command, "/opt/a:b/bin/slipstream");
}

TEST(RunVariable, AnythingElseIsNone) {
  for (const char* text : {"", ":", "1", "1:", "1:2", "1:2:", "x:2:/c", "1:x:/c", "0:2:/c", "-1:2:/c", " 1:2:/c",
                           "99999999999999999999:2:/c", "1:99999999999999999999:/c", "tcp://10.0.0.1:80"}) {
    RunRoot root;
    EXPECT_FALSE(ParseRunRoot(text, &root)) << text;
  }
}

// Field 22, whatever the name of the program holds.
TEST(RunVariable, TheStartOfAProcess) {
  const std::string behind = " S 1 2 2 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 987654 1000 2\n";
  EXPECT_EQ(StartedOf("77 (sh)" + behind), 987654U);
  EXPECT_EQ(StartedOf("77 (a) R 9 (b c)" + behind), 987654U);
  for (const char* text :
       {"", "77", "77 (sh)", "77 (sh) S 1 2 2", "77 (sh) S 1 2 2 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0"}) {
    EXPECT_EQ(StartedOf(text), 0U) << text;
  }
  std::ifstream file("/proc/self/stat");
  const std::string own{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_GT(StartedOf(own), 0U) << own;
}

}  // namespace
}  // namespace slipstream::policy
