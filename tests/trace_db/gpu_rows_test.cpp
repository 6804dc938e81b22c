// The devices of a trace: one row for each, whatever its processes call it.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/trace_db/trace_db_testing.h"
#include "tools/trace/db/database_reader.h"
#include "tools/trace/db/devices.h"
#include "tracer/spool/device_facts.h"

namespace slipstream::trace_db {
namespace {

using tracer::DeviceFacts;

// One of a kind; no two numbers are the same.
DeviceFacts H200(const std::string& uuid, const std::string& bus = "0000:18:00.0") {
  DeviceFacts device;
  device.name = "NVIDIA H200";
  device.uuid = uuid;
  device.bus = bus;
  device.total_memory = 150'754'820'096;
  device.multiprocessors = 132;
  device.compute_major = 9;
  device.compute_minor = 0;
  device.warp_size = 32;
  device.threads_per_block = 1024;
  device.threads_per_multiprocessor = 2048;
  device.blocks_per_multiprocessor = 31;
  device.registers_per_block = 65'536;
  device.registers_per_multiprocessor = 65'537;
  device.shared_per_block = 49'152;
  device.shared_per_block_optin = 232'448;
  device.shared_per_multiprocessor = 233'472;
  device.constant_memory = 65'535;
  device.l2_cache = 62'914'560;
  device.clock_khz = 1'980'000;
  device.memory_clock_khz = 3'201'000;
  device.memory_bus_bits = 6144;
  device.async_engines = 3;
  device.integrated = 0;
  device.block_x = 1023;
  device.block_y = 1022;
  device.block_z = 64;
  device.grid_x = 2'147'483'647;
  device.grid_y = 65'534;
  device.grid_z = 65'533;
  return device;
}

DeviceFacts A100(const std::string& uuid) {
  DeviceFacts device = H200(uuid);
  device.name = "NVIDIA A100";
  device.multiprocessors = 108;
  return device;
}

class GpuRowsTest : public TraceDbTest {
 protected:
  using Devices = std::vector<std::pair<int, DeviceFacts>>;

  // Spools are read in the order of their names.
  void Process(const std::string& host, int64_t pid, const Devices& devices) {
    HandSpool spool(run_, std::string(1, next_++) + ".spool");
    std::vector<std::pair<std::string, std::string>> facts = {{tracer::kFactHost, host}};
    if (pid != 0) facts.emplace_back(tracer::kFactPid, std::to_string(pid));
    for (const auto& [number, device] : devices) {
      facts.emplace_back("device." + std::to_string(number), DeviceFactText(device));
    }
    spool.Facts(facts);
    spool.Thread(1, 77, "main");
    spool.Records(1, {CallAt(10, 20)});
    spool.End();
  }
  // Of a process of the database, as a reader of ours finds it.
  std::string NameOf(int64_t process, std::optional<int64_t> pid, int64_t device) {
    DatabaseReader reader(database_);
    const trace_db::Devices devices(reader);
    const Device* const found = devices.Find(process, pid, device);
    return found == nullptr ? "nobody knows" : found->name;
  }

 private:
  char next_ = 'a';
};

TEST_F(GpuRowsTest, WithoutADeviceThereIsNothingToSay) {
  Process("node1", 100, {});
  BuildWell();
  const std::vector<std::string> tables = TablesOf(database_);
  for (const std::string& table : tables) EXPECT_FALSE(table.starts_with("TARGET_INFO_GPU")) << table;
  for (const std::string& table : tables) EXPECT_NE(table, "TARGET_INFO_CUDA_DEVICE");
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_DEVICES"), "0") << "one of slipstream's own, which are always there";
}

TEST_F(GpuRowsTest, EveryColumnHasItsFact) {
  Process("node0", 99, {});
  Process("node1", 100, {{2, H200("u")}});
  BuildWell();
  EXPECT_EQ(Query("SELECT * FROM TARGET_INFO_GPU"),
            (Rows{{One("SELECT globalVid FROM TARGET_INFO_SYSTEM_ENV WHERE value = 'node1'"),
                   "0",
                   "NVIDIA H200",
                   "0000:18:00.0",
                   "1",
                   "62914560",
                   "150754820096",
                   "4916736000000",  // 2 x 3201 MHz x 768 bytes
                   "1980000000",
                   "132",
                   "NULL",
                   "u",
                   "NULL",
                   "NULL",
                   "2",
                   "NULL",
                   "NULL",
                   "NULL",
                   "NULL",
                   "65535",
                   "NULL",
                   "65536",
                   "49152",
                   "232448",
                   "233472",
                   "65537",
                   "32",
                   "3",
                   "64",
                   "31",
                   "1024",
                   "1023",
                   "1022",
                   "64",
                   "2147483647",
                   "65534",
                   "65533",
                   "9",
                   "0",
                   "NULL",
                   "NULL"}}));
  EXPECT_EQ(Query("SELECT gpuId, cudaId, pid, uuid, numMultiprocessors FROM TARGET_INFO_CUDA_DEVICE"),
            (Rows{{"0", "2", "100", "u", "132"}}));
  EXPECT_EQ(Query("SELECT processId, deviceId, gpuId FROM SLIPSTREAM_DEVICES"), (Rows{{"2", "2", "0"}}));

  DatabaseReader reader(database_);
  const trace_db::Devices devices(reader);
  const Device* const device = devices.Find(2, 100, 2);
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->name, "NVIDIA H200");
  EXPECT_EQ(device->total_memory, 150'754'820'096);
  EXPECT_EQ(device->major, 9);
  EXPECT_EQ(device->minor, 0);
  EXPECT_EQ(device->multiprocessors, 132);
  EXPECT_EQ(device->warp_size, 32);
  EXPECT_EQ(device->threads_per_block, 1024);
  EXPECT_EQ(device->warps_per_multiprocessor, 64);
  EXPECT_EQ(device->blocks_per_multiprocessor, 31);
  EXPECT_EQ(device->registers_per_block, 65'536);
  EXPECT_EQ(device->registers_per_multiprocessor, 65'537);
  EXPECT_EQ(device->shared_per_block, 49'152);
  EXPECT_EQ(device->shared_per_block_optin, 232'448);
  EXPECT_EQ(device->shared_per_multiprocessor, 233'472);
}

TEST_F(GpuRowsTest, WhatIsNotKnownIsNull) {
  DeviceFacts device;
  device.warp_size = 0;
  device.threads_per_multiprocessor = 2048;
  device.memory_clock_khz = 0;  // some devices do not tell
  device.memory_bus_bits = 128;
  device.clock_khz = 0;
  Process("node1", 100, {{0, device}});
  BuildWell();
  EXPECT_EQ(Query("SELECT id, name, busLocation, isDiscrete, memoryBandwidth, clockRate, smCount, uuid, maxWarpsPerSm, "
                  "threadsPerWarp, cuDevice FROM TARGET_INFO_GPU"),
            (Rows{{"0", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "0", "0"}}));
  EXPECT_EQ(Query("SELECT * FROM TARGET_INFO_CUDA_DEVICE"), (Rows{{"0", "0", "100", "NULL", "NULL"}}));
}

TEST_F(GpuRowsTest, NoNumberIsTooStrange) {
  DeviceFacts device = H200("u");
  device.memory_clock_khz = device.memory_bus_bits = device.clock_khz = std::numeric_limits<int64_t>::max();
  device.warp_size = -1;
  device.name = std::string("\xff\n", 2);
  {
    HandSpool spool(run_, "0.spool");
    spool.Facts({{tracer::kFactPid, "100"},
                 {"device.0", DeviceFactText(device)},
                 {"device.00", "name=again"},
                 {"device.9223372036854775807", "multiprocessors=-9223372036854775808 name="},
                 {"device.x", ""}});
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(Query("SELECT name, memoryBandwidth, clockRate, maxWarpsPerSm FROM TARGET_INFO_GPU ORDER BY id"),
            (Rows{{"\\xff\n", "NULL", "NULL", "NULL"}, {"NULL", "NULL", "NULL", "NULL"}}));
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_DEVICES"), "2");
}

// As with CUDA_VISIBLE_DEVICES.
TEST_F(GpuRowsTest, ADeviceIsOneWhateverItsProcessesCallIt) {
  Process("node1", 100, {{0, H200("u0")}, {1, A100("u1")}});
  Process("node1", 101, {{0, A100("u1")}});
  Process("node1", 102, {{0, A100("u1")}, {1, H200("u0")}});
  Process("node1", 103, {{0, H200("u0")}});
  BuildWell();
  EXPECT_EQ(Query("SELECT id, name, uuid, cuDevice FROM TARGET_INFO_GPU ORDER BY id"),
            (Rows{{"0", "NVIDIA H200", "u0", "NULL"}, {"1", "NVIDIA A100", "u1", "NULL"}}));
  const Rows expected = {{"100", "0", "0"}, {"100", "1", "1"}, {"101", "0", "1"},
                         {"102", "0", "1"}, {"102", "1", "0"}, {"103", "0", "0"}};
  EXPECT_EQ(Query("SELECT pid, cudaId, gpuId FROM TARGET_INFO_CUDA_DEVICE ORDER BY pid, cudaId"), expected);
  EXPECT_EQ(Query("SELECT p.pid, d.deviceId, d.gpuId FROM SLIPSTREAM_DEVICES d JOIN SLIPSTREAM_PROCESSES p USING "
                  "(processId) ORDER BY p.pid, d.deviceId"),
            expected);
  EXPECT_EQ(NameOf(2, 101, 0), "NVIDIA A100");
  EXPECT_EQ(NameOf(2, 101, 1), "nobody knows");
  EXPECT_EQ(NameOf(3, 102, 1), "NVIDIA H200");
}

TEST_F(GpuRowsTest, ANumberThatAllProcessesAgreeUponIsCudas) {
  Process("node1", 100, {{1, H200("u0")}});
  Process("node1", 101, {{1, H200("u0")}});
  BuildWell();
  EXPECT_EQ(Query("SELECT id, cuDevice FROM TARGET_INFO_GPU"), (Rows{{"0", "1"}}));
}

TEST_F(GpuRowsTest, WithoutAUuidItIsThePlaceOnTheBusOfAHost) {
  Process("node1", 100, {{0, H200("", "0000:01:00.0")}, {1, H200("", "0000:02:00.0")}});
  Process("node1", 101, {{0, H200("", "0000:02:00.0")}});
  Process("node2", 102, {{0, H200("", "0000:02:00.0")}});
  Process("node2", 103, {{0, H200("", "")}});  // and without one, nobody can tell
  Process("node2", 104, {{0, H200("", "")}});
  BuildWell();
  EXPECT_EQ(Query("SELECT p.pid, d.deviceId, d.gpuId FROM SLIPSTREAM_DEVICES d JOIN SLIPSTREAM_PROCESSES p USING "
                  "(processId) ORDER BY p.pid, d.deviceId"),
            (Rows{{"100", "0", "0"},
                  {"100", "1", "1"},
                  {"101", "0", "1"},
                  {"102", "0", "2"},
                  {"103", "0", "3"},
                  {"104", "0", "4"}}));
}

// In containers it is common that processes of several hosts have the same numbers.
TEST_F(GpuRowsTest, HostsHaveTheirOwnDevicesAndTheirProcessesMayShareNumbers) {
  Process("node1", 7, {{0, H200("u1")}, {1, H200("u2")}});
  Process("node2", 7, {{0, A100("u3")}, {1, H200("u4")}});
  BuildWell();
  EXPECT_EQ(Query("SELECT g.uuid, e.value FROM TARGET_INFO_GPU g JOIN TARGET_INFO_SYSTEM_ENV e ON e.globalVid = g.vmId "
                  "ORDER BY g.id"),
            (Rows{{"u1", "node1"}, {"u2", "node1"}, {"u3", "node2"}, {"u4", "node2"}}));
  EXPECT_EQ(NameOf(1, 7, 0), "NVIDIA H200");
  EXPECT_EQ(NameOf(2, 7, 0), "NVIDIA A100");
  // Who knows processes by their numbers alone finds no row twice, and none that is wrong about one of them.
  EXPECT_EQ(Query("SELECT pid, cudaId, gpuId FROM TARGET_INFO_CUDA_DEVICE"), (Rows{{"7", "1", "1"}}));
}

TEST_F(GpuRowsTest, AProcessWithoutANumberHasDevicesAllTheSame) {
  Process("node1", 0, {{0, H200("u")}});
  BuildWell();
  const std::vector<std::string> tables = TablesOf(database_);
  EXPECT_EQ(std::set<std::string>(tables.begin(), tables.end()).count("TARGET_INFO_CUDA_DEVICE"), 0U);
  EXPECT_EQ(NameOf(1, std::nullopt, 0), "NVIDIA H200");
}

// Of one that several processes share by NVIDIA's service for that, each may have a part.
TEST_F(GpuRowsTest, APartOfADeviceIsTheProcesssOwn) {
  DeviceFacts part = H200("u");
  part.multiprocessors = 40;
  Process("node1", 100, {{0, part}});
  Process("node1", 101, {{0, H200("u")}});
  BuildWell();
  EXPECT_EQ(Query("SELECT id, smCount FROM TARGET_INFO_GPU"), (Rows{{"0", "132"}}));
  EXPECT_EQ(Query("SELECT pid, numMultiprocessors FROM TARGET_INFO_CUDA_DEVICE ORDER BY pid"),
            (Rows{{"100", "40"}, {"101", "132"}}));
}

}  // namespace
}  // namespace slipstream::trace_db
