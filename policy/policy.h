// The policy as plain structs, with every default. Defaults are nowhere else.
//
// Purpose: `Load()` (load.h) turns a TOML file and environment variables into one of these; every engine reads its own
//   part and decides by pure functions of (policy, request).
// Threading: plain data. Filled by one thread, then only read.
// Layers: the bottom one. Includes nothing of ours, and no CUDA header.
// Rule: every key here is obeyed by something, and Load() refuses a value that this version cannot honor. Each field
//   has a row in options.cpp, or rule_keys.cpp, from which the parser, the overrides, `slipstream policy` and
//   docs/policy.md come; a test counts the fields against the rows.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace slipstream::policy {

// The policy version that this build reads.
inline constexpr int kVersion = 1;

// How much the log says; a level includes those before it.
enum class LogLevel : std::uint8_t { kOff, kError, kWarn, kInfo, kDebug };

// Whether PyTorch is made to ask for huge pages in host memory.
enum class HugePages : std::uint8_t { kOff, kAuto };

// Where calls are intercepted: those of the CUDA runtime, or those of the driver as well, by which libraries with a
// runtime of their own come too.
enum class InterceptLevel : std::uint8_t { kRuntime, kDriver };

// Who serves device memory: the program's own calls, or a pool of whole driver allocations underneath them, alone or
// with PyTorch's tensors in expandable segments.
enum class AllocatorMode : std::uint8_t { kOff, kSegments, kExpandable };

// Whether copies of one direction are promoted to pinned, asynchronous ones.
enum class TransferMode : std::uint8_t { kOff, kOn };

// What to do where the device could reach ordinary host memory by itself (HMM): assume that the program does not use
// that until it shows otherwise, or leave every copy alone.
enum class HmmMode : std::uint8_t { kStandAside, kAssumePrivate };

// When pinned staging memory is made: by a thread of its own while copies still go their old way, or at the first copy.
enum class TransferStart : std::uint8_t { kBackground, kNow };

// What is counted for each intercepted function.
enum class Counters : std::uint8_t { kOff, kCalls, kTime };

// Whether every intercepted call is recorded, for a trace.
enum class Record : std::uint8_t { kOff, kOn, kPaused };

// Whether a trace has what the devices did, and from whom.
enum class DeviceWork : std::uint8_t { kOff, kCupti };

// What of the program's stack stands beside a recorded call.
enum class Stacks : std::uint8_t { kNone, kLine, kPython, kFull };

// Which records a trace keeps where not all of them have room.
enum class Keep : std::uint8_t { kFirst, kNewest };

// Whether a process of ours waits for the end of a run, to end it where the command was killed.
enum class RunWatcher : std::uint8_t { kAuto, kOn, kOff };

// Who may read the summaries of a site.
enum class SummariesMode : std::uint8_t { kPrivate, kGroup };

// Which programs that the command starts keep the preload.
enum class ChildrenPreload : std::uint8_t { kAll, kPython, kNone };

struct Log {
  // How much is said; silent by default, because the process is somebody else's.
  LogLevel level = LogLevel::kOff;
  // Where to. Empty: standard error. Created 0600, never through a symbolic link; relative to the working directory
  // that the process has when the log is configured.
  std::string file{};
  // Bytes after which `file` becomes `file`.1 (replacing the one before) and a new `file` begins. 64 KiB to 1 GiB.
  std::uint64_t max_size = std::uint64_t{16} << 20;

  bool operator==(const Log&) const = default;
};

struct Intercept {
  // Which interface is intercepted.
  InterceptLevel level = InterceptLevel::kRuntime;

  bool operator==(const Intercept&) const = default;
};

// What `slipstream run` does around the command.
struct Run {
  // Without one, a run that was killed is ended by the next run, or by `slipstream summary`. auto: unless the first
  // process of the container does not collect orphaned processes, because each watcher would stay as a zombie.
  RunWatcher watcher = RunWatcher::kAuto;
  // The directory that each run's summary is written into at its end, for `slipstream site`. Absolute; empty: none.
  std::string summaries{};
  // private: each file 0600. group: 0640, for the directory's group. Whatever the umask.
  SummariesMode summaries_mode = SummariesMode::kPrivate;

  bool operator==(const Run&) const = default;
};

// Which programs keep the preload where a process of the run executes them (children.h).
struct Children {
  // Those that no pattern matches.
  ChildrenPreload preload = ChildrenPreload::kAll;
  // Patterns of programs that keep it, and of those that do not, which outrank the others (pattern.h).
  std::vector<std::string> keep{};
  std::vector<std::string> drop{};

  bool operator==(const Children&) const = default;
};

// Longer lists, and longer patterns, are refused: they travel in one variable, and are gone through at every exec.
inline constexpr std::size_t kMostPatterns = 64;
inline constexpr std::size_t kLongestPattern = 255;

struct Allocator {
  // Who serves device memory.
  AllocatorMode mode = AllocatorMode::kSegments;
  // Whether a free waits for all work of the device, as the driver's own does.
  bool free_synchronizes = false;
  // Idle memory that the pool keeps on each device, at most; 0: a quarter of the device's memory. 0 to 1 TiB.
  std::uint64_t max_idle = 0;
  // Memory of each device that the pool leaves to the driver, for allocations that it does not see. 0 to 1 TiB.
  std::uint64_t keep_free = std::uint64_t{512} << 20;
  // Seconds after which idle memory that was not wanted goes back to the driver. 1 to 3600.
  int decay = 2;
  // Memory of each device that the pool takes in advance, when the program first allocates there; 0: none. 0 to 1 TiB.
  std::uint64_t pre_reserve = 0;
  // In blocks of this size: what PyTorch asks for when it needs memory for tensors of 1 to 10 MiB. 512 B to 1 TiB.
  std::uint64_t pre_reserve_block = std::uint64_t{20} << 20;

  bool operator==(const Allocator&) const = default;
};

// Which copies a rule is about.
enum class RuleDirection : std::uint8_t { kBoth, kHostToDevice, kDeviceToHost };

// What a rule says of a switch.
enum class RuleSwitch : std::uint8_t { kUnsaid, kFalse, kTrue };

// One [[transfer.rule]]: what the policy makes of the copies that match. A rule switches a copy off or on. It does not
// change what must hold for a copy to be promoted, or its synchronization to be skipped.
struct TransferRule {
  // For people; nothing depends on it.
  std::string name{};
  // -- which copies: those for which all of these hold.
  RuleDirection direction = RuleDirection::kBoth;
  // Bytes, both ends included.
  std::uint64_t min_size = 0;
  std::uint64_t max_size = UINT64_MAX;
  // The device's ordinal, as the process sees it. 0 to 255.
  int device = kAnyDevice;
  // Where in the program they are made, as policy/site.h reads it; empty: anywhere.
  std::string site{};
  // -- what becomes of them. What a rule does not say is as the keys of Transfer say.
  RuleSwitch promote = RuleSwitch::kUnsaid;
  RuleSwitch skip_synchronize = RuleSwitch::kUnsaid;

  static constexpr int kAnyDevice = -1;

  bool operator==(const TransferRule&) const = default;
};

// More rules are refused: each is looked at for every copy.
inline constexpr std::size_t kMostRules = 64;

struct Transfer {
  // Host to device copies from pageable memory.
  TransferMode h2d = TransferMode::kOn;
  // Device to host copies.
  TransferMode d2h = TransferMode::kOn;
  // Whether copies of up to 64 KiB are promoted.
  bool small_copies = true;
  // Whether copies of more than 64 KiB are promoted.
  bool large_copies = true;
  // Whether the synchronization that follows a promoted copy may be skipped.
  bool skip_synchronize = true;
  // Skip also in a process with a transport that reads device memory by itself (UCX, MPI, NVSHMEM, GDRCopy).
  bool skip_with_rdma = false;
  // Where the device could reach ordinary host memory by itself.
  HmmMode hmm = HmmMode::kAssumePrivate;
  // Threads that copy into staging memory, the calling one included; 0: by the processors the process may use. 0 to 64.
  int threads = 0;
  // Pinned staging memory of the process, at most. 8 MiB to 64 GiB.
  std::uint64_t max_pinned = std::uint64_t{512} << 20;
  // Pinned memory for mirrors of sources that do not change, in all, at most; 0: there are none. 0 to 64 GiB.
  std::uint64_t max_mirrored = 0;
  // Device memory for copies that go ahead of their busy stream, at most; 0: they wait for it. 0 to 64 GiB.
  std::uint64_t device_staging = std::uint64_t{1} << 30;
  // Whether every promoted copy is read back and compared.
  bool verify = false;
  // When staging memory is made.
  TransferStart start = TransferStart::kBackground;
  // Whether shared memory that the program unmaps (batches of its loader processes) is given back to the system by a
  // thread of ours.
  bool unmap_in_background = true;
  // The first that matches a copy decides (transfer_plan.h). In the order of the file; of several files, those of the
  // later one come first (load.h).
  std::vector<TransferRule> rules{};

  bool operator==(const Transfer&) const = default;
};

struct Host {
  HugePages huge_pages = HugePages::kAuto;
  // Of PyTorch's large blocks that it has freed, bytes at most. 0: none is kept.
  std::uint64_t max_kept = std::uint64_t{1} << 30;

  bool operator==(const Host&) const = default;
};

struct Tracer {
  // What is counted for each intercepted function.
  Counters counters = Counters::kTime;
  // Whether intercepted calls become NVTX ranges, for a profiler that is attached.
  bool nvtx = true;
  // Thread slots in the counter file, 1 to 4096.
  int max_threads = 64;
  // Whether every intercepted call is recorded.
  Record record = Record::kOff;
  // What of the program's stack stands beside a recorded call.
  Stacks stacks = Stacks::kLine;
  // Whether a trace has kernels, copies and memsets as the device ran them.
  DeviceWork device = DeviceWork::kCupti;
  // From how many seconds after the process's first use of CUDA, and for how many; 0: at once, to the end. 0 to 86400.
  int device_after = 0;
  int device_for = 0;
  // Whether the program's own NVTX ranges and marks are recorded beside its calls.
  bool ranges = true;
  // Whether a trace has the arguments of its process, which may hold what nobody else should see.
  bool command_line = false;
  // Bytes of a process's trace, at most. 64 KiB to 1 TiB.
  std::uint64_t max_file = std::uint64_t{256} << 20;
  // What becomes of records that find no more room.
  Keep keep = Keep::kFirst;
  // Which part of a process's life is recorded, as record_window.h reads it; empty: all of it.
  std::string window{};

  bool operator==(const Tracer&) const = default;
};

struct Policy {
  // The version that the file was written for. Belongs to the file: no environment variable overrides it.
  int version = kVersion;
  // false: every call passes through, as if slipstream were not there.
  bool enabled = true;
  Log log;
  Intercept intercept;
  Run run;
  Children children;
  Allocator allocator;
  Transfer transfer;
  Host host;
  Tracer tracer;
  // Variables that `slipstream run` gives the command, where the user has not set them. Names are valid shell names;
  // never LD_PRELOAD, never SLIPSTREAM_*.
  std::map<std::string, std::string> environment;

  bool operator==(const Policy&) const = default;
};

}  // namespace slipstream::policy
