// Where a search is measured: the devices of a recorded run, and what its pool came to.

#include "tools/cli/tune_machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/trace_db/trace_db_testing.h"

namespace slipstream::cli {
namespace {

class TuneMachineTest : public tracer::SpoolTest {
 protected:
  // A process that sees these devices, by its own numbers.
  void Trace(const std::string& name, const std::vector<std::string>& devices) const {
    trace_db::HandSpool spool(directory_, name);
    spool.Facts({{"pid", "1"}});
    spool.Thread(1, 100, "main");
    spool.Records(1, {tracer::StepRecord(0, 1000, 0)});
    std::vector<std::pair<std::string, std::string>> facts;
    for (size_t i = 0; i < devices.size(); ++i) facts.emplace_back("device." + std::to_string(i), devices[i]);
    spool.Facts(facts);
    spool.End();
  }
};

// Two ranks of which each calls its device number 0, and one of them sees the other's as well.
TEST_F(TuneMachineTest, EveryDeviceOnceAndTheSmallestMemory) {
  EXPECT_TRUE(DevicesOf(directory_).names.empty());
  EXPECT_EQ(DevicesOf(directory_).smallest_memory, 0U);
  const std::string first = "uuid=a total_memory=2000 name=NVIDIA H200";
  const std::string second = "uuid=b total_memory=1000 name=NVIDIA H200";
  Trace("1.spool", {first, second});
  Trace("2.spool", {second});
  Trace("3.spool", {});
  const DevicesSeen seen = DevicesOf(directory_);
  EXPECT_EQ(seen.names, (std::vector<std::string>{"NVIDIA H200", "NVIDIA H200"}));
  EXPECT_EQ(seen.smallest_memory, 1000U);
}

TEST_F(TuneMachineTest, DevicesInWords) {
  EXPECT_EQ(DevicesText({}), "");
  EXPECT_EQ(DevicesText({"NVIDIA H200"}), "NVIDIA H200");
  EXPECT_EQ(DevicesText({"NVIDIA H200", "NVIDIA A10", "NVIDIA H200"}), "NVIDIA A10, 2 x NVIDIA H200");
}

TEST_F(TuneMachineTest, ThePeakIsThatOfOneDevice) {
  EXPECT_EQ(PoolPeakOf({}), 0U);
  tracer::ProcessCounts process;
  process.memory = {{.figures = {.device = 0, .live_bytes = 10, .idle_bytes = 5}},
                    {.figures = {.device = 1, .live_bytes = 2, .idle_bytes = 12}},
                    {.figures = {.device = 0, .live_bytes = 16, .idle_bytes = 1}}};
  EXPECT_EQ(PoolPeakOf({process, tracer::ProcessCounts()}), 17U);
}

TEST_F(TuneMachineTest, TheDriversVersionIsTheModules) {
  tracer::Spit(directory_ + "/version", "580.95.05\n");
  const tune::Place place = PlaceHere({"NVIDIA H200"}, "1.2.3", directory_);
  EXPECT_EQ(place.driver, "580.95.05");
  EXPECT_EQ(place.devices, "NVIDIA H200");
  EXPECT_EQ(place.slipstream, "1.2.3");
  EXPECT_FALSE(place.host.empty());
  EXPECT_EQ(PlaceHere({}, "", directory_ + "/none").driver, "");
}

}  // namespace
}  // namespace slipstream::cli
