// All tables of one database, and the numbers that go through all processes.
//
// Threading, errors: as its Database.
#pragma once

#include <cstdint>

#include "tools/trace/db/global_id.h"
#include "tools/trace/db/native_places.h"
#include "tools/trace/db/string_table.h"
#include "tools/trace/db/table.h"

namespace slipstream::trace_db {

struct TraceTables {
  explicit TraceTables(Database* database)
      : file(*database),
        strings(database),
        sites(database),
        stacks(database),
        native(database),
        runtime(database, kRuntime),
        kernels(database, kKernels),
        copies(database, kCopies),
        sets(database, kSets),
        synchronizations(database, kSynchronizations),
        nvtx(database, kNvtxEvents),
        thread_names(database, kThreadNames),
        processes(database, kProcesses),
        own_processes(database, kOwnProcesses),
        own_threads(database, kOwnThreads),
        own_calls(database, kOwnCalls),
        own_decisions(database, kOwnDecisions),
        own_decision_events(database, kOwnDecisionEvents),
        own_memory(database, kOwnMemory),
        own_allocations(database, kOwnAllocations),
        own_drops(database, kOwnDrops),
        own_steps(database, kOwnSteps),
        own_marks(database, kOwnMarks),
        own_clocks(database, kOwnClocks),
        own_device_work(database, kOwnDeviceWork),
        own_device_clocks(database, kOwnDeviceClocks),
        own_device_periods(database, kOwnDevicePeriods),
        own_pauses(database, kOwnPauses),
        own_tasks(database, kOwnTasks),
        own_counters(database, kOwnCounters),
        own_facts(database, kOwnFacts) {}

  // Those that are there without rows: slipstream's own, so that a query says "none" and not "no such table", and those
  // that every export has.
  void Create() {
    strings.Create();
    sites.Create();
    stacks.Create();
    native.Create();
    for (Table* table :
         {&processes, &own_processes, &own_threads, &own_calls, &own_decisions, &own_decision_events, &own_memory,
          &own_allocations, &own_drops, &own_steps, &own_marks, &own_clocks, &own_device_work, &own_device_clocks,
          &own_device_periods, &own_pauses, &own_tasks, &own_counters, &own_facts}) {
      table->Create();
    }
  }
  // When all rows are there.
  void Finish() {
    synchronizations.Set("isOwn = correlationId NOT IN (SELECT correlationId FROM SLIPSTREAM_CALLS)");
    CreateIndices();
  }
  void CreateIndices() {
    runtime.CreateIndex("SLIPSTREAM_RUNTIME_BY_CORRELATION", "correlationId");
    runtime.CreateIndex("SLIPSTREAM_RUNTIME_BY_START", "start");
    kernels.CreateIndex("SLIPSTREAM_KERNEL_BY_CORRELATION", "correlationId");
    copies.CreateIndex("SLIPSTREAM_MEMCPY_BY_CORRELATION", "correlationId");
    sets.CreateIndex("SLIPSTREAM_MEMSET_BY_CORRELATION", "correlationId");
    synchronizations.CreateIndex("SLIPSTREAM_SYNCHRONIZATION_BY_CORRELATION", "correlationId");
    own_allocations.CreateIndex("SLIPSTREAM_ALLOCATIONS_BY_TIME", "processId, time");
    own_calls.CreateIndexOfKnown("SLIPSTREAM_CALLS_BY_SITE", "siteId");
    own_calls.CreateIndexOfKnown("SLIPSTREAM_CALLS_BY_STACK", "stackId");
    own_calls.CreateIndexOfKnown("SLIPSTREAM_CALLS_BY_NATIVE_STACK", "nativeStackId");
  }

  Database& file;
  StringTable strings;
  SiteTable sites;
  StackTable stacks;
  NativePlaces native;
  Table runtime;
  Table kernels;
  Table copies;
  Table sets;
  Table synchronizations;
  Table nvtx;
  Table thread_names;
  Table processes;
  Table own_processes;
  Table own_threads;
  Table own_calls;
  Table own_decisions;
  Table own_decision_events;
  Table own_memory;
  Table own_allocations;
  Table own_drops;
  Table own_steps;
  Table own_marks;
  Table own_clocks;
  Table own_device_work;
  Table own_device_clocks;
  Table own_device_periods;
  Table own_pauses;
  Table own_tasks;
  Table own_counters;
  Table own_facts;

  GlobalPids global_pids;
  int64_t correlations = 0;  // given so far
};

}  // namespace slipstream::trace_db
