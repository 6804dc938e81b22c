#include "policy/options.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "policy/environment.h"
#include "policy/nearest.h"
#include "policy/record_window.h"
#include "policy/text.h"

namespace slipstream::policy {
namespace {

// The field that a chain of members leads to: OptionField<&Policy::log, &Log::level>.
template <auto... kMembers>
struct OptionField {
  static void Set(Policy& policy, const Value& value) {
    auto& field = (policy.*....*kMembers);
    using T = std::remove_reference_t<decltype(field)>;
    if constexpr (std::is_same_v<T, bool>) {
      field = value.flag;
    } else if constexpr (std::is_same_v<T, std::string>) {
      field = value.text;
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      field = value.list;
    } else {
      field = static_cast<T>(value.number);
    }
  }

  static Value Get(const Policy& policy) {
    const auto& field = (policy.*....*kMembers);
    using T = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string> ||
                  std::is_same_v<T, std::vector<std::string>>) {
      return field;
    } else {
      return static_cast<std::int64_t>(field);
    }
  }
};

constexpr std::string_view kLogLevels[] = {"off", "error", "warn", "info", "debug"};
constexpr std::string_view kInterceptLevels[] = {"runtime", "driver"};
constexpr std::string_view kRunWatchers[] = {"auto", "on", "off"};
constexpr std::string_view kSummariesModes[] = {"private", "group"};
constexpr std::string_view kChildrenPreloads[] = {"all", "python", "none"};
constexpr std::string_view kAllocatorModes[] = {"off", "segments", "expandable"};
constexpr std::string_view kTransferModes[] = {"off", "on"};
constexpr std::string_view kHmmModes[] = {"stand_aside", "assume_private"};
constexpr std::string_view kHugePages[] = {"off", "auto"};
constexpr std::string_view kTransferStarts[] = {"background", "now"};
constexpr std::string_view kCounters[] = {"off", "calls", "time"};
constexpr std::string_view kRecord[] = {"off", "on", "paused"};
constexpr std::string_view kStacks[] = {"none", "line", "python", "full"};
constexpr std::string_view kDeviceWork[] = {"off", "cupti"};
constexpr std::string_view kKeep[] = {"first", "newest"};

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kGiB = kKiB * kKiB * kKiB;

constexpr Table kTables[] = {
    {"log", "What slipstream says about itself."},
    {"intercept", "Which calls are seen."},
    {"run", "What `slipstream run` does around the command."},
    {"children",
     "Which programs keep the preload where a process of the run executes them. Only under `slipstream run`."},
    {"allocator", "Who serves device memory."},
    {"transfer",
     "How copies between host and device are made. A promoted copy is staged in pinned memory and goes on while the "
     "program does."},
    {"host", "The program's own memory on the host."},
    {"tracer", "What is recorded about intercepted calls."},
};

template <auto... kMembers>
constexpr Option Row(std::string_view table, std::string_view key, OptionType type, std::string_view doc) {
  return {.table = table,
          .key = key,
          .type = type,
          .doc = doc,
          .set = &OptionField<kMembers...>::Set,
          .get = &OptionField<kMembers...>::Get};
}

template <auto... kMembers>
constexpr Option Choice(std::string_view table, std::string_view key, std::string_view doc,
                        std::span<const std::string_view> choices) {
  Option option = Row<kMembers...>(table, key, OptionType::kChoice, doc);
  option.choices = choices;
  return option;
}

template <auto... kMembers>
constexpr Option Number(std::string_view table, std::string_view key, OptionType type, std::string_view doc,
                        std::int64_t min, std::int64_t max) {
  Option option = Row<kMembers...>(table, key, type, doc);
  option.min = min;
  option.max = max;
  return option;
}

constexpr Option Window() {
  Option option = Row<&Policy::tracer, &Tracer::window>(
      "tracer", "window", OptionType::kString,
      "Which part of a process's life is recorded; empty: all of it. Seconds count from its first use of CUDA. Steps "
      "are NVTX ranges of the program's that are named as steps (\"ProfilerStep#7\", \"step 7\"), by their numbers, or "
      "counted from 0 where they have none; of a program that names none, visits of the line that uploads a batch, "
      "from "
      "the third one on (`slipstream help trace`).");
  option.expected = "\"steps 10-20\", \"seconds 30-60\", several parts as in \"steps 10-20,500-\", or \"\"";
  option.is_valid = [](std::string_view text) { return RecordWindow::Parse(text).has_value(); };
  return option;
}

constexpr Option Summaries() {
  Option option = Row<&Policy::run, &Run::summaries>(
      "run", "summaries", OptionType::kString,
      "The directory that each run's summary is written into at its end, one JSON file a run, for `slipstream site` "
      "(`slipstream help site`); empty: none. It is not made. Where it cannot be written, a line says so and the "
      "command's exit "
      "status stays its own.");
  option.expected = "an absolute path, or \"\"";
  option.is_valid = [](std::string_view text) { return text.empty() || text.front() == '/'; };
  return option;
}

constexpr Option Version() {
  Option option = Number<&Policy::version>("", "version", OptionType::kInteger,
                                           "The policy version this file is written for.", kVersion, kVersion);
  option.overridable = false;  // It says how to read the file.
  return option;
}

constexpr Option kOptions[] = {
    Version(),
    Row<&Policy::enabled>("", "enabled", OptionType::kBool,
                          "false: every call passes through, as if slipstream were not there."),
    Choice<&Policy::log, &Log::level>("log", "level", "How much is said; a level includes those before it.",
                                      kLogLevels),
    Row<&Policy::log, &Log::file>("log", "file", OptionType::kString,
                                  "Where to; empty for standard error. Created 0600, never through a symbolic link."),
    Number<&Policy::log, &Log::max_size>("log", "max_size", OptionType::kSize,
                                         "Size at which the file becomes FILE.1 and a new one begins.", 64 * kKiB,
                                         kGiB),
    Choice<&Policy::intercept, &Intercept::level>("intercept", "level",
                                                  "Which interface is intercepted: the CUDA runtime, or the driver "
                                                  "too, which programs and libraries with a runtime "
                                                  "of their own call (cuBLAS, cuDNN, NCCL, Triton, CuPy, JAX).",
                                                  kInterceptLevels),
    Choice<&Policy::run, &Run::watcher>(
        "run", "watcher",
        "Whether a process of slipstream's waits for the end of the command, in a session of its own, and ends the run "
        "where the command was killed: prints the summary to the terminal or file that its standard error was, writes "
        "--summary, removes the run's directory. auto: unless the first process of the container does not collect "
        "processes that others leave (`docker run` without --init), where each watcher would stay as a zombie. off: "
        "the next run ends it, or `slipstream summary`.",
        kRunWatchers),
    Summaries(),
    Choice<&Policy::run, &Run::summaries_mode>(
        "run", "summaries_mode",
        "Who may read those files, whatever the umask. private: the user (0600). group: the group of the file too "
        "(0640), which is the directory's where that has the set-group-ID bit.",
        kSummariesModes),
    Choice<&Policy::children, &Children::preload>("children", "preload",
                                                  "Programs that no pattern below matches. all: each keeps the "
                                                  "preload, which does nothing where CUDA is not used. "
                                                  "python: Python, scripts for it, and shells and launchers, behind "
                                                  "which there may be one; compilers and other tools do "
                                                  "not. none: only the command itself has it.",
                                                  kChildrenPreloads),
    Row<&Policy::children, &Children::keep>("children", "keep", OptionType::kList,
                                            "Programs that keep the preload, whatever `preload` says: shell patterns "
                                            "of their base name, or of their whole path "
                                            "where the pattern has a slash."),
    Row<&Policy::children, &Children::drop>("children", "drop", OptionType::kList,
                                            "Programs that do not keep it, whatever `preload` and `keep` say."),
    Choice<&Policy::allocator, &Allocator::mode>("allocator", "mode",
                                                 "Who serves device memory. segments: a pool of whole driver "
                                                 "allocations, kept when the program frees them. expandable: the same, "
                                                 "and `slipstream run` has PyTorch keep its tensors in expandable "
                                                 "segments, which reserve little more than is in use where sizes "
                                                 "change. off: the program's own calls.",
                                                 kAllocatorModes),
    Row<&Policy::allocator, &Allocator::free_synchronizes>(
        "allocator", "free_synchronizes", OptionType::kBool,
        "true: a free that the pool serves waits for all work of the device, as the driver's own does. For a program "
        "that reads managed or mapped memory right after a free, and relies on that wait."),
    Number<&Policy::allocator, &Allocator::max_idle>(
        "allocator", "max_idle", OptionType::kSize,
        "Idle memory that the pool keeps on each device, at most; 0: a quarter of the device's memory.", 0,
        1024 * kGiB),
    Number<&Policy::allocator, &Allocator::keep_free>(
        "allocator", "keep_free", OptionType::kSize,
        "Memory of each device that idle blocks leave to the driver, for libraries and processes that come without the "
        "pool.",
        0, 1024 * kGiB),
    Number<&Policy::allocator, &Allocator::decay>(
        "allocator", "decay", OptionType::kInteger,
        "Seconds after which idle memory that nobody wanted goes back to the driver.", 1, 3600),
    Number<&Policy::allocator, &Allocator::pre_reserve>(
        "allocator", "pre_reserve", OptionType::kSize,
        "Memory of each device that the pool takes in advance, when the program first allocates there, and keeps until "
        "it is used or memory is short; within `max_idle`, and past `keep_free`.",
        0, 1024 * kGiB),
    Number<&Policy::allocator, &Allocator::pre_reserve_block>(
        "allocator", "pre_reserve_block", OptionType::kSize,
        "In blocks of this size. PyTorch asks for 2 MiB where it needs memory for tensors of up to 1 MiB, for 20 MiB "
        "where they have up to 10 MiB.",
        512, 1024 * kGiB),
    Choice<&Policy::transfer, &Transfer::h2d>(
        "transfer", "h2d",
        "Whether copies from ordinary (pageable) host memory to the device are promoted; off: the program's own calls.",
        kTransferModes),
    Choice<&Policy::transfer, &Transfer::d2h>(
        "transfer", "d2h",
        "Whether copies from the device to ordinary host memory go through pinned memory and are copied out by several "
        "threads; they are complete when they return, as ever.",
        kTransferModes),
    Row<&Policy::transfer, &Transfer::small_copies>("transfer", "small_copies", OptionType::kBool,
                                                    "false: copies of up to 64 KiB are left alone."),
    Row<&Policy::transfer, &Transfer::large_copies>("transfer", "large_copies", OptionType::kBool,
                                                    "false: copies of more than 64 KiB are left alone."),
    Row<&Policy::transfer, &Transfer::skip_synchronize>(
        "transfer", "skip_synchronize", OptionType::kBool,
        "Whether the synchronization behind a promoted copy is skipped where the program cannot tell. Set it to false "
        "for "
        "a program whose own kernels write pinned host memory through a raw pointer: that cannot be seen."),
    Row<&Policy::transfer, &Transfer::skip_with_rdma>(
        "transfer", "skip_with_rdma", OptionType::kBool,
        "true: skip even in a process with a transport that reads device memory by itself (UCX, MPI, NVSHMEM, "
        "GDRCopy)."),
    Choice<&Policy::transfer, &Transfer::hmm>(
        "transfer", "hmm",
        "For devices that can reach ordinary host memory by themselves (HMM). assume_private: promote until the "
        "program prefetches or advises such memory. stand_aside: leave every copy alone there.",
        kHmmModes),
    Number<&Policy::transfer, &Transfer::threads>(
        "transfer", "threads", OptionType::kInteger,
        "Threads that fill staging memory, the calling one included; 0: by the processors that the process may use.", 0,
        64),
    Number<&Policy::transfer, &Transfer::max_pinned>(
        "transfer", "max_pinned", OptionType::kSize,
        "The most pinned staging memory that the process gets for copies of more than 64 KiB, in steps "
        "of 32 MiB and one at least; smaller copies need none.",
        8 * kKiB * kKiB, 64 * kGiB),
    Number<&Policy::transfer, &Transfer::max_mirrored>(
        "transfer", "max_mirrored", OptionType::kSize,
        "The most pinned memory for mirrors, which are copies of sources of 1 MiB and more that were copied to the "
        "device three times without a change: as long as the kernel (Linux 6.7) says that nobody has written to one, "
        "it is copied out of its mirror. An eighth of what the machine and the container have left at most, "
        "together with staging memory, divided by the ranks on the machine. 0: no mirrors, because the kernel's help "
        "can be noticed (`slipstream help transfer`, Sources that do not change).",
        0, 64 * kGiB),
    Number<&Policy::transfer, &Transfer::device_staging>(
        "transfer", "device_staging", OptionType::kSize,
        "The most memory of the device in which copies lie while they travel: those of more than 2 MiB in either "
        "direction, and from 1 MiB on those to the device whose stream is busy. In steps of 64 MiB; longer copies are "
        "the program's own. Taken from free memory only, as much as three of the longest copies, and given back when "
        "the device is short of it.",
        0, 64 * kGiB),
    Row<&Policy::transfer, &Transfer::verify>(
        "transfer", "verify", OptionType::kBool,
        "true: what a promoted copy wrote is read back from the device and compared with what the source held, and "
        "what came to the host with what the device held. A difference is said on standard error, and the transfer "
        "engine switches itself off. It costs the bus the same bytes once more."),
    Choice<&Policy::transfer, &Transfer::start>(
        "transfer", "start",
        "When staging memory is pinned. background: by a thread of its own, and copies are left alone meanwhile. now: "
        "at the first copy, which waits for it.",
        kTransferStarts),
    Row<&Policy::transfer, &Transfer::unmap_in_background>(
        "transfer", "unmap_in_background", OptionType::kBool,
        "Whether the shared memory of a batch that loader processes made is given back to the system by a thread of "
        "slipstream's when the program drops it; false: by the program's own call."),
    Choice<&Policy::host, &Host::huge_pages>(
        "host", "huge_pages",
        "Whether `slipstream run` has PyTorch ask for huge pages for its tensors in host memory of 2 MiB and more, so "
        "that memory that is fresh is filled several times as fast. auto: where the kernel gives huge pages to those "
        "who ask, and THP_MEM_ALLOC_ENABLE is not set. off: PyTorch's own way.",
        kHugePages),
    Number<&Policy::host, &Host::max_kept>(
        "host", "max_kept", OptionType::kSize,
        "The most host memory that is kept for PyTorch's next tensors when it frees some of 2 MiB and more, so that "
        "their pages need not be made again; an eighth of what the machine and the container have left at most, "
        "divided by the ranks on the machine, and for two seconds. 0: none.",
        0, 64 * kGiB),
    Choice<&Policy::tracer, &Tracer::counters>(
        "tracer", "counters", "What is counted for each function: nothing, calls and bytes, or their time too.",
        kCounters),
    Row<&Policy::tracer, &Tracer::nvtx>("tracer", "nvtx", OptionType::kBool,
                                        "Whether calls become NVTX ranges for a profiler that is attached."),
    Number<&Policy::tracer, &Tracer::max_threads>("tracer", "max_threads", OptionType::kInteger,
                                                  "Thread slots in the counter file.", 1, 4096),
    Choice<&Policy::tracer, &Tracer::record>(
        "tracer", "record",
        "Whether every call is recorded, in a trace of its process "
        "(`slipstream help trace`). Only under `slipstream run`, "
        "which then keeps the run's directory; `slipstream run --record` sets it. paused: "
        "nothing is until `slipstream record PID on`.",
        kRecord),
    Choice<&Policy::tracer, &Tracer::stacks>(
        "tracer", "stacks",
        "What of the program's stack stands beside a recorded call. line: the innermost line that is not PyTorch's or "
        "Python's own, of CPython 3.9 to 3.15. python: that, and the whole stack of Python that led there. full: that, "
        "and the native stack. none: no stack is read.",
        kStacks),
    Choice<&Policy::tracer, &Tracer::device>(
        "tracer", "device",
        "Whether a trace has what the devices did: every kernel, copy and memset "
        "with its times, and the call that it came "
        "from. cupti: by way of the libcupti that the process has, or that lies "
        "beside its libcudart; it stands aside where "
        "a profiler is attached (`slipstream help trace`). Only while calls are recorded.",
        kDeviceWork),
    Number<&Policy::tracer, &Tracer::device_after>(
        "tracer", "device_after", OptionType::kInteger,
        "Seconds after a process first used CUDA at which the recording of its devices begins.", 0, 86400),
    Number<&Policy::tracer, &Tracer::device_for>(
        "tracer", "device_for", OptionType::kInteger,
        "Seconds for which devices are recorded; 0: to the end. Calls are recorded before and after. Steps "
        "after that stay longer than before it (`slipstream help trace`).",
        0, 86400),
    Row<&Policy::tracer, &Tracer::ranges>(
        "tracer", "ranges", OptionType::kBool,
        "Whether the program's own NVTX ranges and marks are recorded beside its calls. Where another tool has set "
        "NVTX_INJECTION64_PATH they stay that tool's."),
    Row<&Policy::tracer, &Tracer::command_line>(
        "tracer", "command_line", OptionType::kBool,
        "true: a trace, and what is exported of it, has the command line of its process. Arguments may hold tokens and "
        "passwords; false: none of them is recorded, only the program's path."),
    Number<&Policy::tracer, &Tracer::max_file>(
        "tracer", "max_file", OptionType::kSize,
        "How much room the trace of a process may take. `tracer.keep` says what becomes of more than that.", 64 * kKiB,
        1024 * kGiB),
    Choice<&Policy::tracer, &Tracer::keep>("tracer", "keep",
                                           "What a trace keeps that finds no more room in `tracer.max_file`. first: "
                                           "what was recorded until then stays, and "
                                           "the recording ends. newest: the oldest records make room, an eighth of the "
                                           "file at a time. The file gets holes, "
                                           "which take no room; where the file system makes none, the recording ends.",
                                           kKeep),
    Window(),
};

constexpr std::string_view kNoPinnedPool =
    "has no effect any more: the pinned pool was removed, because it was slower than the driver's own; take it out";

struct RetiredValue {
  std::string_view key;
  std::string_view value;
  std::string_view now;
  std::string_view why;
};

constexpr RetiredValue kRetiredValues[] = {
    {"allocator.mode", "stream_ordered", "expandable",
     "slipstream's own heap for cudaMallocAsync was removed, because PyTorch's expandable segments reserve less"},
};

constexpr RetiredKey kRetiredKeys[] = {
    {"allocator.pinned", kNoPinnedPool},
    {"allocator.max_idle_pinned", kNoPinnedPool},
    {"allocator.pinned_fill_from", kNoPinnedPool},
};

std::string Upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return out;
}

std::string VariableOfKey(std::string_view key) {
  std::string name = Upper(key);
  std::replace(name.begin(), name.end(), '.', '_');
  return std::string(kVariablePrefix) + name;
}

// "a:b" is a and b, "" is nothing at all.
std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(':');
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
    if (text.empty()) parts.emplace_back();  // "a:" has an empty one at its end, which is refused
  }
  return parts;
}

std::optional<Value> AcceptSize(const Option& option, const Entry& entry, Problem& problem) {
  std::int64_t bytes = 0;
  if (entry.kind == Entry::Kind::kInteger) {
    bytes = entry.value.number;
  } else if (entry.kind == Entry::Kind::kString) {
    const Size size = ParseSize(entry.value.text);
    switch (size.error) {
      case SizeError::kNone:
        bytes = size.bytes;
        break;
      case SizeError::kSyntax:
        return std::nullopt;
      case SizeError::kOverflow:
        problem.what = "more than 64 bits hold";
        return std::nullopt;
      case SizeError::kFraction:
        problem.what = "not a whole number of bytes";
        return std::nullopt;
    }
  } else {
    return std::nullopt;
  }
  if (bytes < option.min || bytes > option.max) return std::nullopt;
  return bytes;
}

// Patterns: what a variable of ours can hold between two colons.
std::optional<Value> AcceptList(const Entry& entry, Problem& problem) {
  if (entry.kind != Entry::Kind::kTexts) return std::nullopt;
  const std::vector<std::string>& list = entry.value.list;
  const auto wrong = [](const std::string& pattern) {
    return pattern.empty() || pattern.size() > kLongestPattern ||
           std::any_of(pattern.begin(), pattern.end(),
                       [](char c) { return c == ':' || (c >= 0 && c < ' ') || c == 127; });
  };
  if (list.size() > kMostPatterns) {
    problem.what = "more than " + std::to_string(kMostPatterns) + " patterns";
    return std::nullopt;
  }
  if (const auto found = std::find_if(list.begin(), list.end(), wrong); found != list.end()) {
    problem.what = "not a pattern: " + Quote(*found);
    return std::nullopt;
  }
  return entry.value;
}

std::optional<Value> AcceptChoice(const Option& option, const Entry& entry, Problem& problem) {
  if (entry.kind != Entry::Kind::kString) return std::nullopt;
  const std::string& name = entry.value.text;
  const auto found = std::find(option.choices.begin(), option.choices.end(), name);
  if (found != option.choices.end()) return static_cast<std::int64_t>(found - option.choices.begin());
  for (const RetiredValue& retired : kRetiredValues) {
    if (retired.value != name || retired.key != KeyOf(option)) continue;
    problem.found.clear();
    problem.expected.clear();
    problem.what =
        KeyOf(option) + " = " + Quote(name) + " is read as " + Quote(retired.now) + ": " + std::string(retired.why);
    return static_cast<std::int64_t>(std::find(option.choices.begin(), option.choices.end(), retired.now) -
                                     option.choices.begin());
  }
  problem.suggestion = Nearest(name, std::vector<std::string>(option.choices.begin(), option.choices.end()));
  return std::nullopt;
}

// As people write them into a variable, in letters of any case; nothing: it is neither.
std::optional<bool> YesOrNo(std::string_view text) {
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const char* const yes : {"true", "yes", "on", "1"}) {
    if (word == yes) return true;
  }
  for (const char* const no : {"false", "no", "off", "0"}) {
    if (word == no) return false;
  }
  return std::nullopt;
}

}  // namespace

std::span<const Option> Options() { return kOptions; }

std::span<const Table> Tables() { return kTables; }

std::string KeyOf(const Option& option) {
  return option.table.empty() ? std::string(option.key) : std::string(option.table) + "." + std::string(option.key);
}

std::string VariableOf(const Option& option) { return VariableOfKey(KeyOf(option)); }

const Option* FindOption(std::string_view key) {
  const auto found =
      std::find_if(std::begin(kOptions), std::end(kOptions), [key](const Option& o) { return KeyOf(o) == key; });
  return found == std::end(kOptions) ? nullptr : &*found;
}

const RetiredKey* FindRetired(std::string_view key_or_variable) {
  const auto found = std::find_if(std::begin(kRetiredKeys), std::end(kRetiredKeys), [&](const RetiredKey& retired) {
    return retired.key == key_or_variable || VariableOfKey(retired.key) == key_or_variable;
  });
  return found == std::end(kRetiredKeys) ? nullptr : &*found;
}

std::string Expected(const Option& option) {
  switch (option.type) {
    case OptionType::kBool:
      return "true or false";
    case OptionType::kInteger:
      if (option.min == option.max) return std::to_string(option.min);
      return "an integer from " + std::to_string(option.min) + " to " + std::to_string(option.max);
    case OptionType::kSize:
      return "a size from " + FormatSize(option.min) + " to " + FormatSize(option.max) +
             ", as a number of bytes or like \"512MiB\"";
    case OptionType::kString:
      return option.expected.empty() ? "text without NUL" : std::string(option.expected);
    case OptionType::kList:
      return "an array of up to " + std::to_string(kMostPatterns) +
             " patterns such as [\"git\", \"*/bin/tool\"], each of 1 to " + std::to_string(kLongestPattern) +
             " bytes without colons and control characters";
    case OptionType::kChoice: {
      std::string out;
      for (std::size_t i = 0; i < option.choices.size(); ++i) {
        if (i > 0) out += i + 1 == option.choices.size() ? " or " : ", ";
        out += Quote(option.choices[i]);
      }
      return out;
    }
  }
  return {};
}

std::string Literal(const Option& option, const Value& value) {
  switch (option.type) {
    case OptionType::kBool:
      return value.flag ? "true" : "false";
    case OptionType::kInteger:
      return std::to_string(value.number);
    case OptionType::kSize:
      return Quote(FormatSize(value.number));
    case OptionType::kString:
      return Quote(value.text, std::string::npos);
    case OptionType::kChoice:
      return Quote(option.choices[static_cast<std::size_t>(value.number)]);
    case OptionType::kList: {
      std::string out = "[";
      for (const std::string& one : value.list) {
        if (out.size() > 1) out += ", ";
        out += Quote(one, std::string::npos);
      }
      return out + "]";
    }
  }
  return {};
}

std::optional<Value> Accept(const Option& option, const Entry& entry, Problem& problem) {
  problem.found = entry.Found();
  problem.expected = Expected(option);
  switch (option.type) {
    case OptionType::kBool:
      if (entry.kind == Entry::Kind::kBool) return entry.value;
      break;
    case OptionType::kInteger:
      if (entry.kind == Entry::Kind::kInteger) {
        const std::int64_t number = entry.value.number;
        if (number >= option.min && number <= option.max) return number;
      }
      break;
    case OptionType::kSize:
      return AcceptSize(option, entry, problem);
    case OptionType::kChoice:
      return AcceptChoice(option, entry, problem);
    case OptionType::kList:
      return AcceptList(entry, problem);
    case OptionType::kString:
      if (entry.kind == Entry::Kind::kString && entry.value.text.find('\0') == std::string::npos &&
          (option.is_valid == nullptr || option.is_valid(entry.value.text))) {
        return entry.value;
      }
      break;
  }
  return std::nullopt;
}

std::optional<Value> AcceptText(const Option& option, std::string_view text, Problem& problem) {
  Entry entry;
  entry.kind = Entry::Kind::kString;
  entry.value = std::string(text);
  const std::optional<bool> answer = YesOrNo(text);
  if (option.type == OptionType::kBool && answer) {
    entry.kind = Entry::Kind::kBool;
    entry.value = *answer;
  } else if (option.type == OptionType::kChoice && answer) {
    const std::string_view name = *answer ? "on" : "off";
    const bool has = std::find(option.choices.begin(), option.choices.end(), name) != option.choices.end();
    if (has) entry.value = std::string(name);
  } else if (option.type == OptionType::kInteger) {
    if (const auto number = ParseInteger(text)) {
      entry.kind = Entry::Kind::kInteger;
      entry.value = *number;
    }
  } else if (option.type == OptionType::kList) {
    entry.kind = Entry::Kind::kTexts;
    entry.value = Split(text);
  }
  return Accept(option, entry, problem);
}

}  // namespace slipstream::policy
