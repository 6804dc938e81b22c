#include "tools/cli/record_command.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "policy/number.h"
#include "policy/text.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/trace_build.h"
#include "tools/trace/top/proc_files.h"
#include "tracer/base/clock.h"
#include "tracer/counters/counter_layout.h"

namespace slipstream::cli {
namespace {

using tracer::RecordControl;
using tracer::RecordState;

constexpr char kRecordCommand[] = "record";
// A process looks every 50 ms, unless it is stopped or its disk is slow.
constexpr uint64_t kPatienceNs = 5'000'000'000;
constexpr int kLookMs = 10;

// The file of the program that this process runs now: a process that execs keeps its number and makes another one.
// Empty: there is none.
std::string CounterFileOf(const std::string& directory, int32_t pid) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(directory.c_str()), closedir);
  if (dir == nullptr) return "";
  const std::string before = std::to_string(pid) + "-";
  std::string newest;
  uint64_t newest_start = 0;
  while (const dirent* const entry = readdir(dir.get())) {
    std::string_view name(entry->d_name);
    if (!name.starts_with(before) || !name.ends_with(tracer::kCounterSuffix)) continue;
    name.remove_prefix(before.size());
    name.remove_suffix(std::string_view(tracer::kCounterSuffix).size());
    const std::optional<uint64_t> start = policy::NumberIn<uint64_t>(name);
    if (!start || (!newest.empty() && *start < newest_start)) continue;
    newest = directory + "/" + entry->d_name;
    newest_start = *start;
  }
  return newest;
}

// The beginning of a counter file, mapped; unmapped at the end.
class Mapped {
 public:
  // False, and *why: it is no counter file of this process, or may not be written.
  bool Open(const std::string& path, int32_t pid, std::string* why) {
    const int fd = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat facts {};
    if (fd < 0 || fstat(fd, &facts) != 0) {
      *why = path + ": " + std::strerror(errno);
    } else if (!S_ISREG(facts.st_mode) || facts.st_uid != geteuid() ||
               facts.st_size < static_cast<off_t>(sizeof(tracer::FileHeader))) {
      *why = path + ": not a counter file of yours";
    } else {
      void* const base = mmap(nullptr, sizeof(tracer::FileHeader), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      if (base == MAP_FAILED) {
        *why = path + ": " + std::strerror(errno);
      } else {
        header_ = static_cast<tracer::FileHeader*>(base);
      }
    }
    if (fd >= 0) close(fd);
    if (header_ == nullptr) return false;
    if (header_->magic.load(std::memory_order_acquire) != tracer::kCounterMagic ||
        header_->format != tracer::kCounterFormat || header_->pid != pid) {
      *why = path + ": of another version of slipstream, or not a counter file";
      return false;
    }
    return true;
  }
  Mapped() = default;
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() {
    if (header_ != nullptr) munmap(header_, sizeof(*header_));
  }
  RecordControl& control() const { return header_->record; }
  RecordState state() const { return static_cast<RecordState>(control().state.load(std::memory_order_acquire)); }

 private:
  tracer::FileHeader* header_ = nullptr;
};

// Why it will not obey; empty: it will.
std::string WhyNot(RecordState state) {
  if (state == RecordState::kNone) {
    return "it does not record\n  Start it with `slipstream run --record`, or with tracer.record = \"paused\".";
  }
  return state == RecordState::kEnded ? "its recording has ended" : "";
}

// Another order than any before, also where others ask at the same time.
uint32_t GiveOrder(RecordControl* control, bool on) {
  uint32_t last = control->order.load(std::memory_order_relaxed);
  uint32_t order = 0;
  do {
    order = tracer::RecordOrder(tracer::NumberOfOrder(last) + 1, on);
  } while (!control->order.compare_exchange_weak(last, order, std::memory_order_acq_rel));
  return order;
}

// Empty: it has.
std::string WaitForAnswer(const top::ProcFiles& processes, int32_t pid, const Mapped& file, uint32_t order) {
  const uint64_t start = tracer::NowNs();
  while (true) {
    // Whoever asked later has been answered instead, perhaps.
    const uint32_t answer = file.control().answer.load(std::memory_order_acquire);
    if (static_cast<int32_t>(answer - order) >= 0) return "";
    if (std::string why = WhyNot(file.state()); !why.empty()) return why;
    if (!processes.IsAlive(pid)) return "it has ended";
    if (tracer::NowNs() - start > kPatienceNs) return "it did not answer in 5 s: it is stopped, or its disk is slow";
    poll(nullptr, 0, kLookMs);
  }
}

const char* TextOf(RecordState state) {
  switch (state) {
    case RecordState::kOn:
      return "recording is on";
    case RecordState::kOutsideWindow:
      return "recording is on, but this is outside of tracer.window";
    case RecordState::kTurnedOff:
      return "recording is off";
    case RecordState::kEnded:
      return "its recording has ended";
    case RecordState::kNone:
      break;
  }
  return "it does not record";
}

}  // namespace

int Record(const RecordOptions& options) {
  const std::optional<int32_t> pid = top::ProcFiles::PidIn(options.pid);
  if (!pid || (options.what != "on" && options.what != "off")) {
    Complain(kRecordCommand, !pid ? "\"" + policy::Escape(options.pid) + "\" is not the number of a process"
                                  : "what is it to be, on or off?");
    return kUsage;
  }
  const auto refuse = [&](const std::string& why) {
    Complain(kRecordCommand, "process " + std::to_string(*pid) + ": " + why);
    return kFailed;
  };
  const top::ProcFiles processes(options.proc);
  if (!processes.IsAlive(*pid)) return refuse("there is none");
  const top::ProcFiles::Variables variables = processes.VariablesOf(*pid);
  if (!variables.readable) return refuse("it is another user's");
  if (variables.run_directory.empty()) return refuse("it was not started by `slipstream run`");
  const std::string path = CounterFileOf(variables.run_directory, *pid);
  if (path.empty()) return refuse("it has not used CUDA yet, or it counts nothing (tracer.counters)");
  Mapped file;
  std::string why;
  if (!file.Open(path, *pid, &why)) return refuse(policy::Escape(why));
  why = WhyNot(file.state());
  if (why.empty()) {
    const uint32_t order = GiveOrder(&file.control(), options.what == "on");
    why = WaitForAnswer(processes, *pid, file, order);
  }
  if (!why.empty()) return refuse(why);
  std::printf("process %d (%s): %s\n", *pid, policy::Escape(processes.NameOf(*pid)).c_str(), TextOf(file.state()));
  return kSuccess;
}

}  // namespace slipstream::cli
