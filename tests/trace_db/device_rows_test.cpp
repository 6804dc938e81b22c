// What devices did, from spools whose every record the test decides.

#include <gtest/gtest.h>

#include <string>

#include "tests/trace_db/trace_db_testing.h"
#include "tools/trace/db/device_clock.h"
#include "tools/trace/db/kernel_names.h"
#include "tracer/spool/device_work.h"

namespace slipstream::trace_db {
namespace {

using tracer::NameTable;
using tracer::TraceRecord;

TEST(DeviceClockTest, BetweenTwoReadingsTheLineThroughThem) {
  DeviceClock clock;
  EXPECT_EQ(clock.Monotonic(77), 77U) << "nobody knows better";
  // The device's clock runs at twice the speed, and then at the same.
  clock.Add(tracer::DeviceClockRecord(990, 1010, 5'000'100, 5'000'000));
  clock.Add(tracer::DeviceClockRecord(1990, 2010, 5'002'100, 5'000'000));
  clock.Add(tracer::DeviceClockRecord(2990, 3010, 5'003'100, 5'000'000));
  EXPECT_EQ(clock.Monotonic(100), 1000U);
  EXPECT_EQ(clock.Monotonic(1100), 1500U);
  EXPECT_EQ(clock.Monotonic(2100), 2000U);
  EXPECT_EQ(clock.Monotonic(2600), 2500U);
  EXPECT_EQ(clock.Monotonic(60), 960U) << "before the first";
  EXPECT_EQ(clock.Monotonic(4100), 4000U) << "behind the last";
}

TEST(DeviceClockTest, AClockThatStandsStillOrGoesBackIsNotBelieved) {
  DeviceClock clock;
  clock.Add(tracer::DeviceClockRecord(1000, 1000, 100, 0));
  clock.Add(tracer::DeviceClockRecord(2000, 2000, 100, 0));
  clock.Add(tracer::DeviceClockRecord(3000, 3000, 50, 0));
  clock.Add(tracer::DeviceClockRecord(5000, 4000, 900, 0));  // ends before it begins
  clock.Add(tracer::DeviceClockRecord(1100, 1100, 200, 0));
  EXPECT_EQ(clock.Monotonic(150), 1050U);
}

TEST(KernelNamesTest, AsTheExportHasThem) {
  EXPECT_EQ(DemangledName("_Z6hookedIfEvPT_"), "void hooked<float>(float*)");
  // As GCC's tools and PyTorch's profiler spell it; LLVM's demangler has no space there.
  EXPECT_EQ(DemangledName("_ZN1aIN1bIiEEE1cEv"), "a<b<int> >::c()");
  EXPECT_EQ(DemangledName("fill"), "fill");
  EXPECT_EQ(DemangledName("_Znonsense"), "_Znonsense");
  EXPECT_EQ(ShortName("void hooked<float>(float*)"), "hooked");
  EXPECT_EQ(ShortName("fill"), "fill");
  EXPECT_EQ(ShortName("void at::native::(anonymous namespace)::sum<4, std::array<char*, 2ul> >(int)"), "sum");
  EXPECT_EQ(ShortName("a::b::gemm(float const*)"), "gemm");
  EXPECT_EQ(ShortName("<>"), "<>");
  EXPECT_EQ(
      ShortName("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(cutlass_80_simt_sgemm_128x256_"
                "8x4_nt_align1::Params)"),
      "cutlass_80_simt_sgemm_128x256_8x4_nt_align1");
  EXPECT_EQ(ShortName("void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<64, 64> > >(int)"),
            "enable_sm90");
  EXPECT_EQ(ShortName("void f<cutlass::Kernel2<int> >(int)"), "f");
  EXPECT_EQ(ShortName("void cutlass::Kernel2<>(int)"), "Kernel2");
}

TEST(DeviceRecordTest, EveryFieldComesBack) {
  const tracer::DeviceWork work = {.start_ns = 1,
                                   .end_ns = 2,
                                   .device = 7,
                                   .context = 0xffffffff,
                                   .stream = 0xfffffffe,
                                   .correlation = 0xfffffffd,
                                   .graph_node = 0x0123456789abcdef,
                                   .graph = 0xfffffffc};
  const tracer::KernelWork kernel = {.work = work,
                                     .name = 0xabcdef01,
                                     .grid = {0x7fffffff, 65'535, 0xffffffff},
                                     .block = {1024, 1023, 64},
                                     .registers = 255,
                                     .static_shared_bytes = 0xfffffffe,
                                     .dynamic_shared_bytes = 0xffffffff};
  const tracer::KernelWork back = KernelOf(RecordOf(kernel));
  EXPECT_EQ(back.work.start_ns, 1U);
  EXPECT_EQ(back.work.end_ns, 2U);
  EXPECT_EQ(back.work.device, 7U);
  EXPECT_EQ(back.work.context, 0xffffffffU);
  EXPECT_EQ(back.work.stream, 0xfffffffeU);
  EXPECT_EQ(back.work.correlation, 0xfffffffdU);
  EXPECT_EQ(back.work.graph_node, 0x0123456789abcdefU);
  EXPECT_EQ(back.work.graph, 0xfffffffcU);
  EXPECT_EQ(back.name, 0xabcdef01U);
  EXPECT_EQ(std::vector(back.grid, back.grid + 3), (std::vector<uint32_t>{0x7fffffff, 65'535, 0xffffffff}));
  EXPECT_EQ(std::vector(back.block, back.block + 3), (std::vector<uint32_t>{1024, 1023, 64}));
  EXPECT_EQ(back.registers, 255U);
  EXPECT_EQ(back.static_shared_bytes, 0xfffffffeU);
  EXPECT_EQ(back.dynamic_shared_bytes, 0xffffffffU);

  const tracer::CopyWork between = CopyOf(RecordOf(tracer::CopyWork{.work = work,
                                                                    .bytes = uint64_t{9} << 40 | 8,
                                                                    .kind = 10,
                                                                    .from = 3,
                                                                    .to = 2,
                                                                    .from_device = 0,
                                                                    .to_device = 0x7ffffffe}));
  EXPECT_EQ(between.work.graph_node, 0x0123456789abcdefU);
  EXPECT_EQ(between.bytes, uint64_t{9} << 40 | 8);
  EXPECT_EQ(between.kind, 10);
  EXPECT_EQ(between.from, 3);
  EXPECT_EQ(between.to, 2);
  EXPECT_EQ(between.from_device, 0);
  EXPECT_EQ(between.to_device, 0x7ffffffe);
  const tracer::CopyWork plain =
      CopyOf(RecordOf(tracer::CopyWork{.work = {}, .bytes = 9, .kind = 1, .from = 1, .to = 3}));
  EXPECT_EQ(plain.work.graph_node, 0U);
  EXPECT_EQ(plain.from_device, -1);
  EXPECT_EQ(plain.to_device, -1);
  const tracer::SynchronizationWork wait =
      SynchronizationOf(RecordOf(tracer::SynchronizationWork{.work = work, .type = 4, .event = 0xfffffffb}));
  EXPECT_EQ(wait.work.stream, 0xfffffffeU);
  EXPECT_EQ(wait.type, 4);
  EXPECT_EQ(wait.event, 0xfffffffbU);
  const tracer::SetWork set =
      SetOf(RecordOf(tracer::SetWork{.work = work, .bytes = uint64_t{5} << 32, .value = 0xffffffff, .memory = 2}));
  EXPECT_EQ(set.work.graph_node, 0x0123456789abcdefU);
  EXPECT_EQ(set.bytes, uint64_t{5} << 32);
  EXPECT_EQ(set.value, 0xffffffffU);
  EXPECT_EQ(set.memory, 2);
}

class DeviceRowsTest : public TraceDbTest {
 protected:
  static TraceRecord Made(TraceRecord record, uint32_t correlation, uint32_t site = 0) {
    record.correlation = correlation;
    record.site = site;
    return record;
  }
  static tracer::DeviceWork Work(uint64_t start, uint64_t end, uint32_t correlation) {
    return {.start_ns = start, .end_ns = end, .device = 1, .context = 3, .stream = 13, .correlation = correlation};
  }
};

// A period behind an interruption begins with its first work: until then the device may be at what nobody recorded.
TEST_F(DeviceRowsTest, PeriodsInWhichDevicesWereRecorded) {
  using tracer::DeviceReading;
  {
    HandSpool spool(run_, "a.spool");
    spool.Thread(1, 100, "main");
    const auto reading = [](uint64_t at, DeviceReading kind = DeviceReading::kBetween) {
      return tracer::DeviceClockRecord(at, at + 10, 900'000 + at + 5, 900'000, kind);
    };
    // As they are told: by the time at which they are fetched.
    spool.Records(
        0, {reading(1000), reading(1100, DeviceReading::kBegins), reading(2000), reading(2500, DeviceReading::kEnds)});
    spool.Activities(
        {RecordOf(tracer::KernelWork{.work = Work(1900, 2400, 71), .name = 1, .grid = {1, 1, 1}, .block = {1, 1, 1}})});
    spool.Records(0, {reading(4000, DeviceReading::kBegins), reading(5000)});
    spool.Activities(
        {RecordOf(tracer::CopyWork{.work = Work(4300, 4400, 73), .bytes = 1, .kind = 1, .from = 1, .to = 3})});
    spool.Records(0, {reading(6000, DeviceReading::kEnds), reading(7000, DeviceReading::kBegins), reading(8000)});
    spool.Records(1, {CallAt(1000, 1001), CallAt(9000, 9001)});
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(Query("SELECT processId, start, end FROM SLIPSTREAM_DEVICE_PERIODS"),
            (Rows{{"1", "110", "1500"}, {"1", "3300", "5000"}, {"1", "7000", "7000"}}))
      << "in the last there was no work, and no end: until the last reading";
}

// Of a damaged part nobody knows what the devices did: not since the last reading by which all work before it was
// written, and not before the next one.
TEST_F(DeviceRowsTest, ADamagedPartEndsAPeriod) {
  using tracer::DeviceReading;
  {
    HandSpool spool(run_, "a.spool");
    spool.Thread(1, 100, "main");
    const auto reading = [](uint64_t at, DeviceReading kind = DeviceReading::kBetween) {
      return tracer::DeviceClockRecord(at, at + 10, 900'000 + at + 5, 900'000, kind);
    };
    const auto kernel = [](uint64_t start, uint64_t end) {
      return RecordOf(
          tracer::KernelWork{.work = Work(start, end, 71), .name = 1, .grid = {1, 1, 1}, .block = {1, 1, 1}});
    };
    spool.Records(1, {CallAt(1000, 1001), CallAt(9000, 9001)});
    spool.Records(0, {reading(1100, DeviceReading::kBegins), reading(2000), reading(3000)});
    spool.Activities({kernel(2500, 2600)});  // 3
    spool.Records(0, {reading(4000)});       // 4
    spool.Activities({kernel(4100, 4200)});
    spool.Records(0, {reading(5000), reading(6000, DeviceReading::kEnds)});
    spool.End();
  }
  const std::string kPeriods = "SELECT processId, start, end FROM SLIPSTREAM_DEVICE_PERIODS";
  tracer::DamageChunk(run_ + "/a.spool", 3);
  ASSERT_EQ(Build().problem, BuildProblem::kNone);
  EXPECT_EQ(Query(kPeriods), (Rows{{"1", "110", "1000"}, {"1", "3100", "5000"}}))
      << "activities alone: from the next one";
  std::filesystem::remove(database_);
  tracer::DamageChunk(run_ + "/a.spool", 4);
  ASSERT_EQ(Build().problem, BuildProblem::kNone);
  EXPECT_EQ(Query(kPeriods), (Rows{{"1", "110", "1000"}, {"1", "4010", "5000"}})) << "with the reading behind them";
}

TEST_F(DeviceRowsTest, WorkHasTheNumberOfItsCallWhicheverComesFirst) {
  HandSpool spool(run_, "a.spool");
  spool.Facts({{"deviceWork", "cupti 1 /x"}});
  spool.Name(NameTable::kHooks, 0, "cudaLaunchKernel");
  spool.Name(NameTable::kDriverFunctions, 307, "cuLaunchKernel");
  spool.Name(NameTable::kKernels, 1, "_Z6hookedIfEvPT_");
  spool.Site(5, "train.py", 42, "step");
  spool.Thread(1, 100, "main");
  // Work first: a call that waits for it ends later.
  spool.Records(0, {tracer::DeviceClockRecord(1000, 1000, 900'500, 900'000),
                    tracer::DeviceClockRecord(11'000, 11'000, 910'500, 900'000)});
  spool.Activities(
      {RecordOf(tracer::KernelWork{.work = Work(1500, 2500, 71), .name = 1, .grid = {2, 3, 4}, .block = {32, 1, 1}}),
       RecordOf(tracer::KernelWork{.work = Work(2600, 2700, 72), .name = 1, .grid = {1, 1, 1}, .block = {1, 1, 1}}),
       RecordOf(tracer::KernelWork{.work = Work(2800, 2900, 71), .name = 9, .grid = {1, 1, 1}, .block = {1, 1, 1}}),
       RecordOf(tracer::CopyWork{.work = Work(3000, 3100, 73), .bytes = 4096, .kind = 1, .from = 1, .to = 3}),
       RecordOf(tracer::SetWork{.work = Work(3200, 3300, 74), .bytes = 77, .value = 5, .memory = 0})});
  spool.Records(1, {Made(CallAt(1900, 2000), 71, 5),
                    {.start_ns = 2950,
                     .end_ns = 3300,
                     .stack = 0,
                     .site = 5,
                     .correlation = 72,
                     .status = 1,
                     .hook = 307,
                     .kind = tracer::RecordKind::kDriverCall},
                    Made(CallAt(3400, 4500), 73),
                    CallAt(5000, 5100)});
  spool.End();
  BuildWell();
  // The device's times are 500 ns behind; the trace begins with the first reading.
  EXPECT_EQ(
      Query("SELECT k.start, k.end, k.deviceId, k.contextId, k.streamId, d.value, s.value, m.value, gridX, gridY, "
            "gridZ, blockX, n.value, r.start, r.returnValue, r.eventClass, k.globalPid = p.globalPid "
            "FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) "
            "JOIN StringIds n ON n.id = r.nameId JOIN StringIds d ON d.id = k.demangledName "
            "JOIN StringIds s ON s.id = k.shortName JOIN StringIds m ON m.id = k.mangledName, PROCESSES p "
            "ORDER BY k.start"),
      (Rows{{"1000", "2000", "1", "3", "13", "void hooked<float>(float*)", "hooked", "_Z6hookedIfEvPT_", "2", "3", "4",
             "32", "cudaLaunchKernel_v7000", "900", "0", "0", "1"},
            {"2100", "2200", "1", "3", "13", "void hooked<float>(float*)", "hooked", "_Z6hookedIfEvPT_", "1", "1", "1",
             "1", "cuLaunchKernel", "1950", "1", "1", "1"},
            {"2300", "2400", "1", "3", "13", "unknown kernel 9", "unknown kernel 9", "unknown kernel 9", "1", "1", "1",
             "1", "cudaLaunchKernel_v7000", "900", "0", "0", "1"}}));
  EXPECT_EQ(
      Query("SELECT m.start, m.bytes, copyKind, srcKind, dstKind, c.cuptiCorrelation FROM CUPTI_ACTIVITY_KIND_MEMCPY m "
            "JOIN SLIPSTREAM_CALLS c USING (correlationId)"),
      (Rows{{"2500", "4096", "1", "0", "2", "73"}}));
  EXPECT_EQ(Query("SELECT start, bytes, value, memKind FROM CUPTI_ACTIVITY_KIND_MEMSET"),
            (Rows{{"2700", "77", "5", "7"}}));
  EXPECT_EQ(Query("SELECT kernels, copies, sets, unattributed FROM SLIPSTREAM_DEVICE_WORK"),
            (Rows{{"3", "1", "1", "1"}}));
  EXPECT_EQ(Query("SELECT start, deviceNs FROM SLIPSTREAM_DEVICE_CLOCKS"),
            (Rows{{"0", "900500"}, {"10000", "910500"}}));
  EXPECT_EQ(One("SELECT count(DISTINCT correlationId) = count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME"), "1");
  EXPECT_EQ(One("SELECT count(*) FROM SLIPSTREAM_CALLS c JOIN SLIPSTREAM_SITES USING (siteId) WHERE line = 42"), "2");
}

// Fetched long after it was over, it is where it is expected to be.
TEST_F(DeviceRowsTest, NodesOfGraphsAndCopiesBetweenDevices) {
  {
    HandSpool spool(run_, "0.spool");
    const auto of_node = [](uint64_t node) {
      tracer::DeviceWork work = Work(10, 20, 1);
      work.graph_node = node;
      return work;
    };
    spool.Activities({RecordOf(tracer::KernelWork{.work = of_node(uint64_t{3} << 32 | 1)}),
                      RecordOf(tracer::KernelWork{.work = of_node(0)}),
                      RecordOf(tracer::CopyWork{.work = of_node(5), .kind = 10, .from_device = 1, .to_device = 0}),
                      RecordOf(tracer::CopyWork{.work = of_node(0), .kind = 8}),
                      RecordOf(tracer::SetWork{.work = of_node(6)}), RecordOf(tracer::SetWork{.work = of_node(0)})});
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(Query("SELECT graphNodeId FROM CUPTI_ACTIVITY_KIND_KERNEL"), (Rows{{"12884901889"}, {"NULL"}}));
  EXPECT_EQ(Query("SELECT copyKind, srcDeviceId, dstDeviceId, graphNodeId FROM CUPTI_ACTIVITY_KIND_MEMCPY"),
            (Rows{{"10", "1", "0", "5"}, {"8", "NULL", "NULL", "NULL"}}));
  EXPECT_EQ(Query("SELECT graphNodeId FROM CUPTI_ACTIVITY_KIND_MEMSET"), (Rows{{"6"}, {"NULL"}}));
}

// Whichever comes first, the call's row or the wait's; the device is that of the context's work. It is no work itself.
TEST_F(DeviceRowsTest, SynchronizationsHaveTheNumberOfTheirCall) {
  {
    HandSpool spool(run_, "a.spool");
    spool.Facts({{"deviceWork", "cupti 1 /x"}});
    spool.Name(NameTable::kHooks, 0, "cudaStreamSynchronize");
    spool.Thread(1, 100, "main");
    const auto wait = [](uint64_t start, uint32_t context, uint32_t correlation, uint8_t type, uint32_t event) {
      tracer::DeviceWork work = Work(start, start + 10, correlation);
      work.device = static_cast<uint32_t>(-1);
      work.context = context;
      return RecordOf(tracer::SynchronizationWork{.work = work, .type = type, .event = event});
    };
    spool.Activities({wait(1010, 3, 71, 3, tracer::SynchronizationWork::kNotApplicable), wait(1020, 4, 72, 2, 9)});
    spool.Records(1, {Made(CallAt(1000, 1100), 71)});
    spool.Activities({RecordOf(tracer::KernelWork{.work = Work(1200, 1300, 71), .name = 1})});
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(Query("SELECT s.start, s.end, s.deviceId, s.contextId, s.streamId, s.syncType, s.eventId, e.name, r.start, "
                  "s.globalPid = p.globalPid, s.isOwn FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION s JOIN "
                  "ENUM_CUPTI_SYNC_TYPE e ON "
                  "e.id = s.syncType LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId), PROCESSES p "
                  "ORDER BY s.start"),
            (Rows{{"10", "20", "1", "3", "13", "3", "4294967295",
                   "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "0", "1", "0"},
                  {"20", "30", "NULL", "4", "13", "2", "9", "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT",
                   "NULL", "1", "1"}}));
  EXPECT_EQ(Query("SELECT kernels, copies, sets, unattributed FROM SLIPSTREAM_DEVICE_WORK"),
            (Rows{{"1", "0", "0", "0"}}));
}

TEST_F(DeviceRowsTest, WorkThatIsToldLateIsNotLate) {
  HandSpool spool(run_, "a.spool");
  spool.Name(NameTable::kHooks, 0, "cudaLaunchKernel");
  spool.Thread(1, 100, "main");
  spool.Pass(1100);
  spool.Records(1, {CallAt(1000, 1050)});
  spool.Pass(1200);
  spool.Records(1, {CallAt(1100, 1150)});
  spool.Pass(1300);
  spool.Activities({RecordOf(tracer::KernelWork{.work = Work(1010, 1020, 5)})});
  spool.Pass(1400);
  spool.Records(1, {CallAt(1350, 1360)});
  spool.End();
  BuildWell();
  EXPECT_EQ(One("SELECT lateRecords FROM SLIPSTREAM_PROCESSES"), "0");
  EXPECT_EQ(One("SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL"), "10");
}

TEST_F(DeviceRowsTest, TwoProcessesHaveTheSameNumbersAndKeepTheirOwnWork) {
  for (const char* const name : {"a", "b"}) {
    HandSpool spool(run_, std::string(name) + ".spool");
    spool.Facts({{"pid", name[0] == 'a' ? "10" : "11"}});
    spool.Name(NameTable::kKernels, 1, std::string("kernel_") + name);
    spool.Name(NameTable::kHooks, 0, "cudaLaunchKernel");
    spool.Thread(1, 100, "main");
    spool.Records(1, {Made(CallAt(1000, 1100), 5)});
    spool.Activities({RecordOf(tracer::KernelWork{.work = Work(1200, 1300, 5), .name = 1})});
    spool.End();
  }
  BuildWell();
  EXPECT_EQ(
      Query("SELECT p.pid, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN SLIPSTREAM_CALLS c USING (correlationId) "
            "JOIN SLIPSTREAM_PROCESSES p USING (processId) JOIN StringIds s ON s.id = k.shortName "
            "WHERE k.globalPid = p.globalPid ORDER BY 1"),
      (Rows{{"10", "kernel_a"}, {"11", "kernel_b"}}));
}

}  // namespace
}  // namespace slipstream::trace_db
