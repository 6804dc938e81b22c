// What tests of reports share: a trace whose every figure is known, as a database, and rows of devices beside it.
//
// Threading: none of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/trace_db/trace_db_testing.h"
#include "tools/trace/db/database_reader.h"
#include "tools/trace/report/report.h"
#include "tracer/spool/block_record.h"

namespace slipstream::report {

using trace_db::Execute;

inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kMiB = int64_t{1} << 20;

inline constexpr auto kAllocated = tracer::MemoryUse::kAllocated;
inline constexpr auto kFreed = tracer::MemoryUse::kFreed;

enum Hook : uint16_t { kMemcpyHook, kSynchronizeHook, kLaunchHook, kMallocHook, kQueryHook, kCopyNowHook };
enum DecisionNumber : uint16_t { kNothing, kSkipped, kPaid };
enum Site : uint32_t { kNoSite, kCopySite, kLaunchSite, kWaitSite };

inline tracer::TraceRecord Call(uint16_t hook, uint64_t start, uint64_t end, uint32_t site, uint64_t bytes = 0,
                                uint16_t decision = 0) {
  tracer::TraceRecord record = trace_db::CallAt(start, end, hook);
  record.site = site;
  record.bytes = bytes;
  record.decision = decision;
  return record;
}

// A call and its decision, as a process records them. Numbers of calls are by their place in `records`.
inline void PushDecided(std::vector<tracer::TraceRecord>* records, tracer::TraceRecord call, int64_t saved = 0) {
  call.number = records->size() + 1;
  records->push_back(RecordOf(tracer::DecisionMade{
      .at_ns = call.start_ns, .decision = call.decision, .bytes = call.bytes, .saved_ns = saved, .call = call.number}));
  records->push_back(call);
}

// The tables of a database that knows what devices did.
inline constexpr char kKernelsAndCopies[] =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, "
    "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER, "
    "gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, registersPerThread INTEGER, staticSharedMemory "
    "INTEGER, dynamicSharedMemory INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, "
    "correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);";

class ReportTest : public trace_db::TraceDbTest {
 protected:
  static constexpr uint64_t kBegin = 10'000;
  static constexpr uint64_t kSlow = 5000;
  static constexpr uint64_t kStep = 1000;
  static constexpr uint64_t kSteps = 8;  // behind a slow one

  static void Introduce(trace_db::HandSpool* spool, int rank, const std::string& command = "train.py") {
    spool->Facts({{"pid", std::to_string(100 + rank)},
                  {"host", "node"},
                  {"rank", std::to_string(rank)},
                  {"executable", "/usr/bin/python3"},
                  {"command_line", command}});
    const char* const names[] = {"cudaMemcpyAsync", "cudaStreamSynchronize", "cudaLaunchKernel",
                                 "cudaMalloc",      "cudaStreamQuery",       "cudaMemcpy"};
    for (uint32_t i = 0; i < std::size(names); ++i) spool->Name(tracer::NameTable::kHooks, i, names[i]);
    spool->Name(tracer::NameTable::kDecisions, kSkipped, "transfer.sync.skipped");
    spool->Name(tracer::NameTable::kDecisions, kPaid, "transfer.sync.settled.query");
    spool->Site(kCopySite, "/job/train.py", 10, "step");
    spool->Site(kLaunchSite, "/job/train.py", 20, "step");
    spool->Site(kWaitSite, "/job/train.py", 30, "main");
    spool->Clock(999, 1001, 1'700'000'000'000'000'000);
    spool->Thread(1, 100, "main");
    spool->Thread(2, 101, "autograd");
  }

  // A step of 1000 ns: copies 100, synchronizations 250, allocations 10, launches 40, another thread 100, outside 500.
  static void AddStep(uint64_t at, uint64_t length, uint64_t number, std::vector<tracer::TraceRecord>* main,
                      std::vector<tracer::TraceRecord>* other) {
    main->push_back(Call(kMemcpyHook, at, at + 100, kCopySite, 4096));
    PushDecided(main, Call(kSynchronizeHook, at + 100, at + 150, kCopySite, 0, kSkipped));
    main->push_back(Call(kLaunchHook, at + 300, at + 340, kLaunchSite));
    main->push_back(Call(kMallocHook, at + 340, at + 350, kLaunchSite, 1 << 20));
    other->push_back(Call(kLaunchHook, at + 400, at + 500, kNoSite));
    PushDecided(main, Call(kSynchronizeHook, at + 700, at + 900, kWaitSite, 0, kPaid), -60);
    main->push_back(tracer::StepRecord(at, at + length, number));
  }

  // A slow step and kSteps of `step` ns.
  void Sample(const std::string& name, int rank, uint64_t step = kStep, bool ends = true,
              const std::string& command = "train.py") {
    trace_db::HandSpool spool(run_, name);
    Introduce(&spool, rank, command);
    std::vector<tracer::TraceRecord> main;
    std::vector<tracer::TraceRecord> other;
    main.push_back(Call(kMallocHook, kBegin - 100, kBegin - 50, kNoSite, 4096));
    AddStep(kBegin, kSlow, 0, &main, &other);
    for (uint64_t i = 0; i < kSteps; ++i) AddStep(kBegin + kSlow + step * i, step, i + 1, &main, &other);
    spool.Pass(kBegin);
    spool.Records(1, main);
    spool.Records(2, other);
    spool.Records(0, {tracer::MemoryRecord(kBegin + 10, {.device = 0, .live_bytes = 4096, .idle_bytes = 0}),
                      tracer::MemoryRecord(kBegin + 20, {.device = 0, .live_bytes = 1024, .idle_bytes = 9000}),
                      tracer::MemoryRecord(kBegin + 30, {.device = 0, .live_bytes = 2048, .idle_bytes = 100})});
    if (ends) {
      spool.End();
    } else {
      spool.Flush();
    }
  }

  // So many steps of `step` ns, none of them slow, and more records of the other thread.
  void StepsAlone(uint64_t count, uint64_t step, const std::vector<tracer::TraceRecord>& more = {}) {
    trace_db::HandSpool spool(run_, "0.spool");
    Introduce(&spool, 0);
    std::vector<tracer::TraceRecord> main;
    std::vector<tracer::TraceRecord> other;
    for (uint64_t i = 0; i < count; ++i) AddStep(kBegin + step * i, step, i, &main, &other);
    other.insert(other.end(), more.begin(), more.end());
    spool.Pass(kBegin);
    spool.Records(1, main);
    spool.Records(2, other);
    spool.End();
  }

  Report Make(const ReportOptions& options = {}) {
    trace_db::DatabaseReader reader(database_);
    Report report = MakeReport(&reader, options);
    EXPECT_TRUE(reader.ok()) << reader.error().text;
    return report;
  }

  // When the measured steps begin, in the database's time.
  int64_t FirstMeasured() const {
    return std::stoll(One("SELECT start FROM SLIPSTREAM_STEPS WHERE number = 1 AND processId = 1"));
  }

  // In each step, a kernel from 350 to 650, copies from 50 to 150 and a set from 600 to 700; and what devices they ran
  // on, if asked for.
  void AddDevices(bool limits) {
    const std::string process = One("SELECT globalPid FROM SLIPSTREAM_PROCESSES WHERE processId = 1");
    Execute(
        database_,
        std::string(kKernelsAndCopies) +
            "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, "
            "correlationId INTEGER, globalPid INTEGER, bytes INTEGER);"
            "INSERT INTO StringIds VALUES (900001, 'void gemm<s16816>(float*)'), (900002, 'gemm'), "
            "(900003, 'elementwise')");
    std::string rows;
    for (uint64_t i = 0; i < kSteps; ++i) {
      const int64_t at = FirstMeasured() + static_cast<int64_t>(i * kStep);
      const auto row = [&](const std::string& table, int64_t from, int64_t to, const std::string& more) {
        rows += "INSERT INTO CUPTI_ACTIVITY_KIND_" + table + " VALUES (" + std::to_string(at + from) + ", " +
                std::to_string(at + to) + ", 0, 7, 1, " + process + ", " + more + ");";
      };
      // 66 blocks for 132 SMs.
      row("KERNEL", 350, 550, "900001, 900002, 33, 2, 1, 256, 1, 1, 32, 0, 0");
      row("KERNEL", 500, 650, "900003, 900003, 66, 1, 1, 128, 2, 1, 32, 0, 0");
      row("MEMCPY", 50, 150, "4096, 1");
      row("MEMSET", 600, 700, "64");
    }
    Execute(database_, rows);
    if (!limits) return;
    Execute(database_,
            "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER, computeMajor INTEGER, computeMinor "
            "INTEGER, threadsPerWarp INTEGER, maxWarpsPerSm INTEGER, maxBlocksPerSm INTEGER, maxThreadsPerBlock "
            "INTEGER, maxRegistersPerBlock "
            "INTEGER, maxRegistersPerSm INTEGER, maxShmemPerBlock INTEGER, maxShmemPerBlockOptin INTEGER, "
            "maxShmemPerSm INTEGER);"
            "INSERT INTO TARGET_INFO_GPU VALUES (3, 'NVIDIA H200', 132, 9, 0, 32, 64, 32, 1024, 65536, 65536, 49152, "
            "232448, 233472);"
            "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER);"
            "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (3, 0, 100)");
  }
};

}  // namespace slipstream::report
