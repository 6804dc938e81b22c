// Runs the tests.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/conformance/device.h"
#include "tests/conformance/stuck.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!GTEST_FLAG_GET(list_tests)) {
    conformance::EndIfStuck();
    std::printf("device: %s\n", conformance::Simulated() ? "simulated" : "a GPU");
  }
  return RUN_ALL_TESTS();
}
