// A database with something of every kind in it, drawn from a seed: what the exports write is compared with it. Its
// spools are slipstream's own; what a recording does not have (yet) is put in by SQL, in Nsight Systems' layout:
// kernels, copies, memsets, synchronizations, NVTX ranges, devices, call stacks.
//
// Three processes on two hosts, two of them with one number.
//
// Threading: none of its own.
#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/trace_db/trace_db_testing.h"

namespace slipstream::trace_export {

struct RandomTraceOptions {
  uint32_t seed = 1;
  uint64_t calls = 300;  // of each thread
  bool work = true;      // rows of what devices did
  bool devices = true;   // ... and what the devices are
  bool stacks = false;
};

inline constexpr int kRandomProcesses = 3;

class RandomTrace {
 public:
  explicit RandomTrace(const RandomTraceOptions& options) : options_(options), random_(options.seed) {}

  // Spools into `run`.
  void WriteSpools(const std::string& run) {
    Spool(run, "a.spool", "node-a", 100, 1);
    Spool(run, "b.spool", "node-b", 100, 0);
    Spool(run, "c.spool", "node-a", 102, -1);
  }

  // What the spools do not have, into the database that was made of them.
  void Complete(const std::string& database) {
    ASSERT_EQ(sqlite3_open(database.c_str(), &handle_), SQLITE_OK);
    Run("BEGIN");
    if (options_.work) Work(database);
    if (options_.work && options_.devices) DeviceRows(database);
    Ranges(database);
    if (options_.stacks) Stacks(database);
    Run("COMMIT");
    sqlite3_close(handle_);
  }

 private:
  uint64_t Below(uint64_t limit) { return random_() % limit; }
  static std::string Text(int64_t number) { return std::to_string(number); }

  void Spool(const std::string& run, const std::string& name, const std::string& host, int pid, int rank) {
    trace_db::HandSpool spool(run, name);
    std::vector<std::pair<std::string, std::string>> facts = {
        {"pid", std::to_string(pid)}, {"host", host}, {"executable", "/usr/bin/python\"3\""}};
    facts.emplace_back("command_line", std::string("python3\0train \xc3\xbc.py\0", 20));
    if (rank >= 0) {
      facts.emplace_back("rank", std::to_string(rank));
      facts.emplace_back("world_size", "2");
    }
    spool.Facts(facts);
    constexpr const char* kFunctions[] = {"cudaMalloc", "cudaMemcpyAsync", "cudaLaunchKernel", "cuMemcpyHtoD_v2",
                                          "cudaGraphLaunch"};
    constexpr uint64_t kDecisions = 3;
    constexpr uint64_t kLines = 6;
    for (uint32_t i = 0; i < std::size(kFunctions); ++i) spool.Name(tracer::NameTable::kHooks, i, kFunctions[i]);
    for (uint32_t i = 1; i <= kDecisions; ++i) {
      spool.Name(tracer::NameTable::kDecisions, i, "transfer.\"decision\"." + std::to_string(i));
    }
    for (uint32_t i = 1; i <= kLines; ++i) {
      spool.Site(i, "/data/f\\ile \x01" + std::to_string(i % 3) + ".py", static_cast<int32_t>(10 * i),
                 "Class.m\xc3\xa9thode" + std::to_string(i % 2));
    }
    spool.Clock(999, 1001, 1'000'000'000'000'000'000);
    for (uint32_t thread = 1; thread <= 2; ++thread) {
      const uint32_t id = static_cast<uint32_t>(pid) + thread - 1;
      spool.Thread(thread, id, thread == 1 ? "main" : "");
      std::vector<tracer::TraceRecord> records;
      uint64_t at = 2000 + Below(1000);
      for (uint64_t i = 0; i < options_.calls; ++i) {
        // Calls may touch, and may take no time.
        at += Below(4) == 0 ? 0 : Below(5000);
        const uint64_t end = at + (Below(8) == 0 ? 0 : Below(20'000));
        const auto decision = static_cast<uint16_t>(Below(3) == 0 ? 1 + Below(kDecisions) : 0);
        if (decision != 0) {
          records.push_back(RecordOf(tracer::DecisionMade{.at_ns = at,
                                                          .decision = decision,
                                                          .saved_ns = static_cast<int64_t>(Below(10'000)) - 5000,
                                                          .call = uint64_t{thread} << 40 | i}));
        }
        records.push_back({.start_ns = at,
                           .end_ns = end,
                           .bytes = Below(2) == 0 ? 0 : Below(uint64_t{1} << 40),
                           .stream = Below(2) == 0 ? 0 : 0x7f0000000000 + Below(3),
                           .number = uint64_t{thread} << 40 | i,
                           .site = static_cast<uint32_t>(Below(kLines + 1)),
                           .status = Below(20) == 0 ? 2 : 0,
                           .hook = static_cast<uint16_t>(Below(std::size(kFunctions))),
                           .decision = decision,
                           .device = static_cast<int16_t>(static_cast<int>(Below(3)) - 1),
                           .kind = tracer::RecordKind::kCall});
        if (i % 50 == 49) {
          records.push_back(tracer::StepRecord(records[records.size() - 40].start_ns, end, i / 50));
          records.push_back(tracer::MarkRecord(end, static_cast<uint32_t>(Below(kLines + 1)), i));
          records.push_back(tracer::DropRecord(at, end, Below(100), i));
        }
        if (i % 20 == 19) {
          const uint64_t idle = Below(1 << 30);
          tracer::TraceRecord memory = tracer::MemoryRecord(end, {.device = static_cast<int>(Below(2)),
                                                                  .live_bytes = Below(uint64_t{1} << 40),
                                                                  .idle_bytes = idle,
                                                                  .parked_bytes = Below(idle + 1),
                                                                  .trims = Below(10),
                                                                  .retries = Below(10)});
          records.push_back(memory);
        }
        at = end;
      }
      constexpr size_t kChunk = 500;
      for (size_t i = 0; i < records.size(); i += kChunk) {
        const auto from = records.begin() + static_cast<std::ptrdiff_t>(i);
        spool.Records(thread, {from, from + static_cast<std::ptrdiff_t>(std::min(kChunk, records.size() - i))});
      }
    }
    spool.End();
  }
  void Run(const std::string& sql) {
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK)
        << (error != nullptr ? error : "") << " in " << sql;
    sqlite3_free(error);
  }

  void Work(const std::string& database) {
    Run("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT "
        "NULL, contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "
        "globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, "
        "launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY "
        "INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER "
        "NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread "
        "INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, "
        "graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER)");
    Run("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT "
        "NULL, contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "
        "globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind "
        "INTEGER, dstKind INTEGER, srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId "
        "INTEGER, migrationCause INTEGER, graphNodeId INTEGER, virtualAddress INTEGER)");
    Run("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT "
        "NULL, contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "
        "globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER)");
    Run("CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId "
        "INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, "
        "correlationId INTEGER, globalPid INTEGER, syncType INTEGER NOT NULL, eventId INTEGER NOT NULL, isOwn "
        "INTEGER NOT NULL)");
    constexpr int64_t kNames = 1'000'000;
    for (int64_t i = 0; i < 5; ++i) {
      Run("INSERT INTO StringIds VALUES (" + Text(kNames + i) + ", 'void kernel<float, " + Text(i) + ">(T*, \"x\")')");
    }
    for (const auto& call :
         trace_db::Query(database,
                         "SELECT r.correlationId, r.start, r.end, p.globalPid FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN "
                         "SLIPSTREAM_CALLS USING (correlationId) JOIN SLIPSTREAM_PROCESSES p USING (processId)")) {
      // Several of a graph's launch, which run at once.
      const uint64_t many = Below(10) == 0 ? 3 : Below(2);
      for (uint64_t i = 0; i < many; ++i) {
        const int64_t start = std::stoll(call[2]) + static_cast<int64_t>(Below(10'000));
        const int64_t end = start + static_cast<int64_t>(Below(5) == 0 ? 0 : Below(30'000));
        // Some of calls that there are no rows of.
        const std::string stray = Below(2) == 0 ? "987654321" : Text(-1 - static_cast<int64_t>(Below(100)));
        const std::string correlation = Below(15) == 0 ? "NULL" : Below(15) == 0 ? stray : call[0];
        const std::string head = Text(start) + "," + Text(end) + "," + Text(static_cast<int64_t>(Below(2))) + ",1,0,";
        const std::string who = Text(7 + static_cast<int64_t>(Below(3))) + "," + correlation + "," + call[3] + ",";
        const std::string bytes = Text(static_cast<int64_t>(Below(1 << 28)));
        const auto number = [&](uint64_t limit) { return Text(static_cast<int64_t>(Below(limit))); };
        switch (Below(4)) {
          case 0:
            Run("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (" + head + who +
                Text(kNames + static_cast<int64_t>(Below(5))) + "," + Text(kNames) + ",NULL,0,0," + number(255) + "," +
                number(1000) + "," + number(9) + ",1," + Text(32 * (1 + static_cast<int64_t>(Below(16)))) + "," +
                Text(1 + static_cast<int64_t>(Below(2))) + ",1," + number(2000) + "," + number(40'000) +
                ",0,0,1,NULL," + (many == 3 ? number(1000) : "NULL") + ",0)");
            break;
          case 1:
            Run("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (" + head + who + bytes + "," + number(14) + ",0," +
                number(8) + "," + number(8) + ",0,0,0,0,0,NULL,0)");
            break;
          case 2:
            Run("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (" + head + who + "0," + bytes + ",NULL," + number(8) +
                ")");
            break;
          default:
            Run("INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (" + head +
                (Below(3) == 0 ? "4294967295," + correlation + "," + call[3] + "," : who) + number(5) + ",0," +
                number(2) + ")");
        }
      }
    }
  }

  void DeviceRows(const std::string& database) {
    Run("CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, totalMemory INTEGER, "
        "smCount INTEGER, threadsPerWarp INTEGER, maxWarpsPerSm INTEGER, maxBlocksPerSm INTEGER, maxRegistersPerSm "
        "INTEGER, maxShmemPerSm INTEGER, computeMajor INTEGER, computeMinor INTEGER)");
    Run("CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid "
        "TEXT, numMultiprocessors INTEGER)");
    Run("INSERT INTO TARGET_INFO_GPU VALUES (1, 10, 'NVIDIA H200', 150754820096, 132, 32, 64, 32, 65536, 233472, 9, "
        "0)");
    Run("INSERT INTO TARGET_INFO_GPU VALUES (1, 11, 'NVIDIA A100', 85899345920, 108, 32, 64, 32, 65536, 167936, 8, 0)");
    // One process counts them the other way round.
    for (const auto& pid : trace_db::Query(database, "SELECT DISTINCT pid FROM SLIPSTREAM_PROCESSES")) {
      const bool turned = pid[0] == "102";
      Run("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (" + Text(turned ? 11 : 10) + ", 0, " + pid[0] + ", NULL, 1)");
      Run("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (" + Text(turned ? 10 : 11) + ", 1, " + pid[0] + ", NULL, 1)");
    }
  }

  void Ranges(const std::string& database) {
    // The program's own, with the name and the times of one of slipstream's steps and another number.
    Run("INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId, uint64Value) SELECT start, end, "
        "60, "
        "'step', globalTid, 0, 7777 FROM SLIPSTREAM_STEPS LIMIT 2");
    Run("INSERT INTO StringIds VALUES (2000000, 'from a table')");
    for (const auto& thread :
         trace_db::Query(database, "SELECT globalTid, min(start) FROM CUPTI_ACTIVITY_KIND_RUNTIME GROUP BY 1")) {
      const int64_t start = std::stoll(thread[1]);
      const auto add = [&](int64_t from, const std::string& to, int type, const std::string& text) {
        Run("INSERT INTO NVTX_EVENTS (start, end, eventType, text, textId, globalTid, domainId, uint64Value) VALUES (" +
            Text(from) + "," + to + "," + std::to_string(type) + "," + text + "," + thread[0] + ",0,NULL)");
      };
      add(start, Text(start + 1000), 59, "'forward',NULL");
      add(start + 100, Text(start + 1000), 59, "'inner \"layer\"',NULL");
      add(start + 500, Text(start + 3000), 60, "NULL,2000000");  // across the end of the others
      add(start + 600, "NULL", 60, "'never ended',NULL");
      add(start + 700, "NULL", 34, "'a mark',NULL");
      add(start + 700, Text(start + 800), 60, "'step',NULL");      // not one of slipstream's
      add(start + 700, Text(start + 800), 75, "'a domain',NULL");  // no event
    }
  }

  // A tree: 1 is the root, and the parent of each is one before it.
  void Stacks(const std::string& database) {
    constexpr int64_t kStacks = 40;
    const int64_t sites = std::stoll(trace_db::One(database, "SELECT count(*) FROM SLIPSTREAM_SITES"));
    for (int64_t i = 1; i <= kStacks; ++i) {
      const std::string parent = i == 1 ? "NULL" : Text(1 + static_cast<int64_t>(Below(static_cast<uint64_t>(i - 1))));
      Run("INSERT INTO SLIPSTREAM_STACKS VALUES (" + Text(i) + "," + parent + "," +
          Text(1 + static_cast<int64_t>(Below(static_cast<uint64_t>(sites)))) +
          ", coalesce((SELECT depth + 1 FROM SLIPSTREAM_STACKS WHERE stackId = " + parent + "), 0), 0, NULL)");
    }
    Run("UPDATE SLIPSTREAM_CALLS SET stackId = 1 + abs(correlationId * 7919) % " + Text(kStacks) +
        ", siteId = (SELECT siteId FROM SLIPSTREAM_STACKS k WHERE k.stackId = 1 + abs(correlationId * 7919) % " +
        Text(kStacks) + ") WHERE correlationId % 5 != 0");
    NativeStacks(kStacks);
    Run("UPDATE SLIPSTREAM_CALLS SET workIsOwn = abs(correlationId * 31) % 3 = 0");
  }

  // The same, of two modules, of which one is Python's interpreter; numbers are behind the others'. Some calls have
  // both kinds, some one of them.
  void NativeStacks(int64_t first) {
    constexpr int64_t kAddresses = 12;
    constexpr int64_t kStacks = 60;
    Run("INSERT INTO SLIPSTREAM_MODULES VALUES (1, '/lib/libpython3.so', NULL, 0, 1), (2, '/opt/libwork.so', 'ab', 1, "
        "0)");
    for (int64_t i = 1; i <= kAddresses; ++i) {
      const std::string module = i == kAddresses ? "NULL" : Text(1 + i % 2);
      const std::string name = i == 3 ? "libwork.so+0x30" : "work::F" + Text(i) + "<int>(float)";
      Run("INSERT INTO SLIPSTREAM_ADDRESSES VALUES (" + Text(i) + "," + module + "," + Text(i * 16) + ",'" + name +
          "',1,1)");
    }
    for (int64_t i = 1; i <= kStacks; ++i) {
      const std::string parent =
          i == 1 ? "NULL" : Text(first + 1 + static_cast<int64_t>(Below(static_cast<uint64_t>(i - 1))));
      Run("INSERT INTO SLIPSTREAM_STACKS VALUES (" + Text(first + i) + "," + parent + ",NULL,0,0," +
          Text(1 + static_cast<int64_t>(Below(kAddresses))) + ")");
    }
    Run("UPDATE SLIPSTREAM_CALLS SET nativeStackId = " + Text(first + 1) + " + abs(correlationId * 104729) % " +
        Text(kStacks) + " WHERE correlationId % 3 != 0");
  }

  const RandomTraceOptions options_;
  std::mt19937_64 random_;
  sqlite3* handle_ = nullptr;
};

}  // namespace slipstream::trace_export
