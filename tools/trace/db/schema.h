// The tables of a trace's database. docs/trace-database.md says what those of slipstream's own mean; a test holds the
// two together.
//
// Those without SLIPSTREAM_ in their names are Nsight Systems' own layout, version 3.16 of its export schema, so that
// its report scripts and whatever reads its exports read this.
// Source: Nsight Systems User Guide and Post-Collection Analysis Guide, "SQLite Schema Reference", "SQLite Schema Event
// Values" and "Common SQLite Examples", and the schema that its exports carry. Readers name the columns that they want;
// some take them by position, so the order is theirs too.
//
// Threading: constants.
#pragma once

#include <cstdint>
#include <span>

namespace slipstream::trace_db {

inline constexpr char kNsysSchemaVersion[] = "3.16.1";
// The version of slipstream's own tables: increased when a column changes its meaning or is removed.
inline constexpr char kOwnSchemaVersion[] = "1";

struct TableLayout {
  const char* name;
  const char* columns;
};

// ---- Nsight Systems' own
inline constexpr TableLayout kStringIds = {"StringIds", "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL"};
inline constexpr TableLayout kRuntime = {"CUPTI_ACTIVITY_KIND_RUNTIME",
                                         "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, "
                                         "globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, "
                                         "returnValue INTEGER NOT NULL, callchainId INTEGER"};
inline constexpr TableLayout kKernels = {
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
    "greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
    "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, "
    "cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, "
    "gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, "
    "staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER, "
    "localMemoryTotal INTEGER, gridId INTEGER, sharedMemoryExecuted INTEGER, graphNodeId INTEGER, "
    "sharedMemoryLimitConfig INTEGER"};
inline constexpr TableLayout kCopies = {
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
    "greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
    "bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER, "
    "srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER, "
    "graphNodeId INTEGER, virtualAddress INTEGER"};
inline constexpr TableLayout kSets = {
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
    "greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
    "value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER"};
// A context of which no work is in the trace has no device that is known, so the column may be NULL, unlike in an
// export. isOwn is not Nsight Systems'.
inline constexpr TableLayout kSynchronizations = {
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER, contextId INTEGER NOT NULL, "
    "greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
    "syncType INTEGER NOT NULL, eventId INTEGER NOT NULL, isOwn INTEGER NOT NULL"};
inline constexpr TableLayout kNvtxEvents = {
    "NVTX_EVENTS",
    "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, "
    "color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, "
    "uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, "
    "floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT"};
inline constexpr TableLayout kThreadNames = {"ThreadNames",
                                             "nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER"};
inline constexpr TableLayout kProcesses = {"PROCESSES", "globalPid INTEGER, pid INTEGER, name TEXT"};
inline constexpr TableLayout kAnalysisDetails = {
    "ANALYSIS_DETAILS",
    "globalVid INTEGER NOT NULL, duration INTEGER NOT NULL, startTime INTEGER NOT NULL, stopTime INTEGER NOT NULL"};
inline constexpr TableLayout kSessionStart = {"TARGET_INFO_SESSION_START_TIME",
                                              "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT"};
inline constexpr TableLayout kSystemEnv = {"TARGET_INFO_SYSTEM_ENV",
                                           "globalVid INTEGER, devStateName TEXT NOT NULL, name TEXT NOT NULL, "
                                           "nameEnum INTEGER NOT NULL, value TEXT NOT NULL"};
inline constexpr TableLayout kGpus = {
    "TARGET_INFO_GPU",
    "vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, isDiscrete INTEGER, "
    "l2CacheSize INTEGER, totalMemory INTEGER, memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER, "
    "pwGpuId INTEGER, uuid TEXT, luid INTEGER, chipName TEXT, cuDevice INTEGER, ctxswDevPath TEXT, ctrlDevPath TEXT, "
    "revision INTEGER, nodeMask INTEGER, constantMemory INTEGER, maxIPC INTEGER, maxRegistersPerBlock INTEGER, "
    "maxShmemPerBlock INTEGER, maxShmemPerBlockOptin INTEGER, maxShmemPerSm INTEGER, maxRegistersPerSm INTEGER, "
    "threadsPerWarp INTEGER, asyncEngines INTEGER, maxWarpsPerSm INTEGER, maxBlocksPerSm INTEGER, "
    "maxThreadsPerBlock INTEGER, maxBlockDimX INTEGER, maxBlockDimY INTEGER, maxBlockDimZ INTEGER, "
    "maxGridDimX INTEGER, maxGridDimY INTEGER, maxGridDimZ INTEGER, computeMajor INTEGER, computeMinor INTEGER, "
    "smMajor INTEGER, smMinor INTEGER"};
inline constexpr TableLayout kCudaDevices = {
    "TARGET_INFO_CUDA_DEVICE",
    "gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid TEXT, numMultiprocessors INTEGER"};
inline constexpr TableLayout kMetaDataExport = {"META_DATA_EXPORT", "name TEXT NOT NULL, value TEXT"};

inline constexpr int64_t kClassRuntime = 0;  // of ENUM_NSYS_EVENT_CLASS
inline constexpr int64_t kClassDriver = 1;
inline constexpr int64_t kNvtxMark = 34;  // of ENUM_NSYS_EVENT_TYPE
inline constexpr int64_t kNvtxPushPopRange = 59;
inline constexpr int64_t kNvtxStartEndRange = 60;
inline constexpr int64_t kNvtxDomainCreate = 75;

struct EnumValue {
  int64_t id;
  const char* name;
  const char* label;
};
struct EnumTable {
  TableLayout layout;
  std::span<const EnumValue> values;
};
std::span<const EnumTable> EnumTables();

// ---- slipstream's own
inline constexpr TableLayout kOwnHosts = {
    "SLIPSTREAM_HOSTS",
    "hostId INTEGER NOT NULL PRIMARY KEY, name TEXT, clockReadings INTEGER NOT NULL, wallMinusMonotonicNs INTEGER, "
    "readingErrorNs INTEGER, wallMovedNs INTEGER"};
inline constexpr TableLayout kOwnProcesses = {
    "SLIPSTREAM_PROCESSES",
    "processId INTEGER NOT NULL PRIMARY KEY, globalPid INTEGER NOT NULL, pid INTEGER, parentPid INTEGER, "
    "hostId INTEGER NOT NULL, rank INTEGER, localRank INTEGER, worldSize INTEGER, launcher TEXT, job TEXT, "
    "executable TEXT, command TEXT, spoolFile TEXT NOT NULL, startUnixNs INTEGER NOT NULL, firstNs INTEGER, "
    "lastNs INTEGER, calls INTEGER NOT NULL, records INTEGER NOT NULL, dropped INTEGER NOT NULL, "
    "complete INTEGER NOT NULL, endReason TEXT, endError INTEGER, readBytes INTEGER NOT NULL, "
    "leftBytes INTEGER NOT NULL, leftWhy TEXT, skippedChunks INTEGER NOT NULL, skippedRecords INTEGER NOT NULL, "
    "malformedChunks INTEGER NOT NULL, missingRecords INTEGER NOT NULL, lateRecords INTEGER NOT NULL, "
    "damagedBytes INTEGER NOT NULL, missingChunks INTEGER NOT NULL, laterCalls INTEGER, givenUpRecords INTEGER NOT "
    "NULL, "
    "keptFromNs INTEGER"};
inline constexpr TableLayout kOwnThreads = {
    "SLIPSTREAM_THREADS",
    "processId INTEGER NOT NULL, thread INTEGER NOT NULL, tid INTEGER NOT NULL, globalTid INTEGER NOT NULL, name TEXT, "
    "records INTEGER NOT NULL, dropped INTEGER NOT NULL, ended INTEGER NOT NULL, PRIMARY KEY (processId, thread)"};
inline constexpr TableLayout kOwnDevices = {
    "SLIPSTREAM_DEVICES",
    "processId INTEGER NOT NULL, deviceId INTEGER NOT NULL, gpuId INTEGER NOT NULL, PRIMARY KEY (processId, deviceId)"};
inline constexpr TableLayout kOwnCalls = {
    "SLIPSTREAM_CALLS",
    "correlationId INTEGER NOT NULL PRIMARY KEY, processId INTEGER NOT NULL, thread INTEGER NOT NULL, siteId INTEGER, "
    "bytes INTEGER NOT NULL, stream INTEGER NOT NULL, deviceId INTEGER, cuptiCorrelation INTEGER, "
    "siteIsBackward INTEGER NOT NULL, stackId INTEGER, libraryId INTEGER, nativeStackId INTEGER, callNumber INTEGER, "
    "insideCall INTEGER, workIsOwn INTEGER NOT NULL"};
inline constexpr TableLayout kOwnDecisions = {
    "SLIPSTREAM_DECISIONS",
    "correlationId INTEGER NOT NULL PRIMARY KEY, decisionId INTEGER, bytes INTEGER NOT NULL, "
    "savedNs INTEGER NOT NULL"};
inline constexpr TableLayout kOwnDecisionEvents = {
    "SLIPSTREAM_DECISION_EVENTS",
    "time INTEGER NOT NULL, processId INTEGER NOT NULL, thread INTEGER NOT NULL, globalTid INTEGER, "
    "correlationId INTEGER, decisionId INTEGER NOT NULL, bytes INTEGER NOT NULL, timeNs INTEGER NOT NULL, "
    "savedNs INTEGER NOT NULL, savedIsKnown INTEGER NOT NULL, contents INTEGER"};
inline constexpr TableLayout kOwnSites = {
    "SLIPSTREAM_SITES",
    "siteId INTEGER NOT NULL PRIMARY KEY, file TEXT NOT NULL, line INTEGER, function TEXT NOT NULL, "
    "isLibrary INTEGER NOT NULL"};
inline constexpr TableLayout kOwnStacks = {
    "SLIPSTREAM_STACKS",
    "stackId INTEGER NOT NULL PRIMARY KEY, parentId INTEGER, siteId INTEGER, depth INTEGER NOT NULL, "
    "isCut INTEGER NOT NULL, addressId INTEGER"};
inline constexpr TableLayout kOwnAddresses = {
    "SLIPSTREAM_ADDRESSES",
    "addressId INTEGER NOT NULL PRIMARY KEY, moduleId INTEGER, offset INTEGER NOT NULL, name TEXT NOT NULL, "
    "isFunction INTEGER NOT NULL, functionOffset INTEGER"};
inline constexpr TableLayout kOwnModules = {
    "SLIPSTREAM_MODULES",
    "moduleId INTEGER NOT NULL PRIMARY KEY, path TEXT NOT NULL, buildId TEXT, isRead INTEGER NOT NULL, "
    "isInterpreter INTEGER NOT NULL"};
inline constexpr TableLayout kOwnMemory = {
    "SLIPSTREAM_MEMORY",
    "start INTEGER NOT NULL, processId INTEGER NOT NULL, deviceId INTEGER NOT NULL, liveBytes INTEGER NOT NULL, "
    "idleBytes INTEGER NOT NULL, parkedBytes INTEGER NOT NULL, trims INTEGER NOT NULL, retries INTEGER NOT NULL, "
    "deviceUsedBytes INTEGER, largestIdleBytes INTEGER"};
inline constexpr TableLayout kOwnAllocations = {
    "SLIPSTREAM_ALLOCATIONS",
    "time INTEGER NOT NULL, processId INTEGER NOT NULL, thread INTEGER NOT NULL, globalTid INTEGER, "
    "event INTEGER NOT NULL, kind INTEGER NOT NULL, address INTEGER NOT NULL, bytes INTEGER NOT NULL, "
    "stream INTEGER NOT NULL, deviceId INTEGER, nameId INTEGER NOT NULL, siteId INTEGER, "
    "siteIsBackward INTEGER NOT NULL, stackId INTEGER, nativeStackId INTEGER, libraryId INTEGER"};
inline constexpr TableLayout kOwnDrops = {
    "SLIPSTREAM_DROPS",
    "start INTEGER NOT NULL, end INTEGER NOT NULL, processId INTEGER NOT NULL, thread INTEGER NOT NULL, "
    "globalTid INTEGER, count INTEGER NOT NULL, countUpToHere INTEGER NOT NULL, isDamage INTEGER NOT NULL"};
inline constexpr TableLayout kOwnSteps = {
    "SLIPSTREAM_STEPS",
    "start INTEGER NOT NULL, end INTEGER NOT NULL, processId INTEGER NOT NULL, thread INTEGER NOT NULL, "
    "globalTid INTEGER, number INTEGER NOT NULL, siteId INTEGER, isUnfinished INTEGER NOT NULL"};
inline constexpr TableLayout kOwnMarks = {
    "SLIPSTREAM_MARKS",
    "start INTEGER NOT NULL, processId INTEGER NOT NULL, thread INTEGER NOT NULL, globalTid INTEGER, "
    "value INTEGER NOT NULL, siteId INTEGER"};
inline constexpr TableLayout kOwnClocks = {
    "SLIPSTREAM_CLOCKS",
    "start INTEGER NOT NULL, end INTEGER NOT NULL, processId INTEGER NOT NULL, monotonicBeforeNs INTEGER NOT NULL, "
    "monotonicAfterNs INTEGER NOT NULL, realtimeNs INTEGER NOT NULL, monotonicRawNs INTEGER NOT NULL"};
inline constexpr TableLayout kOwnDeviceWork = {
    "SLIPSTREAM_DEVICE_WORK",
    "processId INTEGER NOT NULL PRIMARY KEY, kernels INTEGER NOT NULL, copies INTEGER NOT NULL, "
    "sets INTEGER NOT NULL, unattributed INTEGER NOT NULL"};
inline constexpr TableLayout kOwnDeviceClocks = {
    "SLIPSTREAM_DEVICE_CLOCKS",
    "start INTEGER NOT NULL, end INTEGER NOT NULL, processId INTEGER NOT NULL, deviceNs INTEGER NOT NULL"};
inline constexpr TableLayout kOwnDevicePeriods = {
    "SLIPSTREAM_DEVICE_PERIODS", "processId INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL"};
inline constexpr TableLayout kOwnPauses = {"SLIPSTREAM_PAUSES",
                                           "processId INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL"};
inline constexpr TableLayout kOwnTasks = {
    "SLIPSTREAM_TASKS",
    "start INTEGER NOT NULL, end INTEGER NOT NULL, processId INTEGER NOT NULL, kind INTEGER NOT NULL, thread INTEGER, "
    "count INTEGER NOT NULL, busy INTEGER, ranNs INTEGER, waitedNs INTEGER, throttled INTEGER, throttledNs INTEGER, "
    "began INTEGER"};
inline constexpr TableLayout kOwnCounters = {
    "SLIPSTREAM_COUNTERS",
    "processId INTEGER NOT NULL, kind INTEGER NOT NULL, nameId INTEGER, calls INTEGER NOT NULL, "
    "errors INTEGER NOT NULL, bytes INTEGER NOT NULL, timeNs INTEGER NOT NULL, callsAtMost INTEGER NOT NULL, "
    "errorsAtMost INTEGER NOT NULL, bytesAtMost INTEGER NOT NULL, timeNsAtMost INTEGER NOT NULL"};
inline constexpr int64_t kCountedCall = 0;
inline constexpr int64_t kCountedDecision = 1;
// Keys of facts that no process wrote, but who made the database.
inline constexpr char kFactLaunchesOfAStep[] = "steps.launches";
inline constexpr char kFactWhyNoSteps[] = "steps.none";
inline constexpr TableLayout kOwnFacts = {"SLIPSTREAM_FACTS",
                                          "processId INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL"};

}  // namespace slipstream::trace_db
