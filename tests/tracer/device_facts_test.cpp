// Devices as facts of a spool file: what was said comes back, and nothing that is written there is too strange.

#include "tracer/spool/device_facts.h"

#include <gtest/gtest.h>

#include <string>

namespace slipstream::tracer {
namespace {

// Each number another one.
DeviceFacts Everything() {
  DeviceFacts device;
  device.name = "NVIDIA H200 name=x multiprocessors=1";
  device.uuid = "7d0b1c2d-0000-1111-2222-333344445555";
  device.bus = "0000:18:00.0";
  device.total_memory = int64_t{1} << 40;
  int64_t number = -3;
#define SLIPSTREAM_SET(word, attribute) device.word = number++;
  SLIPSTREAM_DEVICE_ATTRIBUTES(SLIPSTREAM_SET)
#undef SLIPSTREAM_SET
  return device;
}

TEST(DeviceFactsTest, WhatIsSaidComesBack) {
  const std::string text = DeviceFactText(Everything());
  EXPECT_TRUE(
      text.starts_with("uuid=7d0b1c2d-0000-1111-2222-333344445555 bus=0000:18:00.0 total_memory=1099511627776 "
                       "multiprocessors=-3 compute_major=-2 "))
      << text;
  EXPECT_TRUE(text.ends_with(" name=NVIDIA H200 name=x multiprocessors=1")) << text;
  EXPECT_EQ(DeviceOfFactText(text), Everything());
}

TEST(DeviceFactsTest, WhatIsNotKnownIsNotSaid) {
  DeviceFacts device;
  EXPECT_EQ(DeviceFactText(device), "name=");
  EXPECT_EQ(DeviceOfFactText("name="), device);
  device.l2_cache = 0;
  device.name = "a";
  EXPECT_EQ(DeviceFactText(device), "l2_cache=0 name=a");
  EXPECT_EQ(DeviceOfFactText("l2_cache=0 name=a"), device);
}

TEST(DeviceFactsTest, StrangeWordsAreSkipped) {
  DeviceFacts device;
  device.warp_size = 32;
  EXPECT_EQ(
      DeviceOfFactText(" warp_size=32  of_a_newer_one=7 grid_x=many block_x= block_y=1x block_z=99999999999999999999"
                       " =5 alone  "),
      device);
  EXPECT_EQ(DeviceOfFactText(""), DeviceFacts());
  const std::string whole = DeviceFactText(Everything());
  for (size_t length = 0; length < whole.size(); ++length) {
    const DeviceFacts cut = DeviceOfFactText(std::string_view(whole).substr(0, length));
    EXPECT_TRUE(Everything().name.starts_with(cut.name));
  }
}

TEST(DeviceFactsTest, KeysOfDevices) {
  EXPECT_EQ(DeviceOfFactKey("device.0"), 0);
  EXPECT_EQ(DeviceOfFactKey("device.15"), 15);
  for (const char* const other : {"device.", "device", "deviceWork", "device.-1", "device.00", "device.+1", "device.1 ",
                                  "device.1.name", "a device.1", "device.99999999999999999999", ""}) {
    EXPECT_EQ(DeviceOfFactKey(other), std::nullopt) << other;
  }
}

TEST(DeviceFactsTest, AUuidIsWrittenAsEverywhere) {
  EXPECT_EQ(UuidText({0x00, 0x1f, 0x2e, 0x3d, 0x4c, 0x5b, 0x6a, 0x79, 0x88, 0x97, 0xa6, 0xb5, 0xc4, 0xd3, 0xe2, 0xff}),
            "001f2e3d-4c5b-6a79-8897-a6b5c4d3e2ff");
}

}  // namespace
}  // namespace slipstream::tracer
