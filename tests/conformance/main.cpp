// Runs the tests. A rule that is broken may show as a hang, so there is an end to it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "tests/conformance/device.h"

namespace {

// Prints and leaves as a failed test does.
void LimitTime() {
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::seconds(100));
    std::fputs("stuck\n", stderr);
    _exit(1);
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!GTEST_FLAG_GET(list_tests)) {
    LimitTime();
    std::printf("device: %s\n", conformance::Simulated() ? "simulated" : "a GPU");
  }
  return RUN_ALL_TESTS();
}
