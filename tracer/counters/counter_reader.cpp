#include "tracer/counters/counter_reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

namespace slipstream::tracer {
namespace {

// More than any writer makes (4096 threads); a larger file is not ours.
constexpr size_t kMaxFileBytes = size_t{256} << 20;

bool ReadWhole(int fd, const std::string& path, std::vector<char>* bytes, std::string* error) {
  constexpr size_t kStep = size_t{64} << 10;
  size_t used = 0;
  while (true) {
    bytes->resize(used + kStep);
    const ssize_t got = pread(fd, bytes->data() + used, kStep, static_cast<off_t>(used));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      *error = path + ": " + std::strerror(errno);
      return false;
    }
    used += static_cast<size_t>(got);
    if (got == 0) break;
    if (used > kMaxFileBytes) {
      *error = path + ": larger than any counter file";
      return false;
    }
  }
  bytes->resize(used);
  return true;
}

// A bounded cursor over the bytes: every access is checked.
class CounterBytes {
 public:
  explicit CounterBytes(const std::vector<char>& bytes) : bytes_(bytes) {}

  bool Has(size_t offset, size_t length) const { return offset <= bytes_.size() && length <= bytes_.size() - offset; }

  uint64_t U64(size_t offset) const {
    uint64_t value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(value));
    return value;
  }

  uint32_t U32(size_t offset) const {
    uint32_t value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(value));
    return value;
  }

  std::string Text(size_t offset, size_t capacity) const {
    const char* text = bytes_.data() + offset;
    return std::string(text, strnlen(text, capacity));
  }

 private:
  const std::vector<char>& bytes_;
};

void ParseFacts(std::string_view text, std::vector<Fact>* facts) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos) {
      facts->push_back({std::string(line.substr(0, equals)), std::string(line.substr(equals + 1))});
    }
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::vector<std::string> ProcessCounts::FactsOf(const std::string& key) const {
  std::vector<std::string> values;
  for (const Fact& fact : facts) {
    if (fact.key == key) values.push_back(fact.value);
  }
  return values;
}

std::vector<MemoryCounts> ProcessCounts::LastMemory() const {
  std::map<int32_t, MemoryCounts> last;
  for (const MemoryCounts& sample : memory) last[sample.figures.device] = sample;
  std::vector<MemoryCounts> samples;
  for (const auto& [device, sample] : last) samples.push_back(sample);
  return samples;
}

bool ReadCounterFile(const std::string& path, ProcessCounts* counts, std::string* error) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    *error = path + ": " + std::strerror(errno);
    return false;
  }
  const bool read = ReadCounterFile(fd, path, counts, error);
  close(fd);
  return read;
}

bool ReadCounterFile(int fd, const std::string& path, ProcessCounts* counts, std::string* error) {
  std::vector<char> raw;
  if (!ReadWhole(fd, path, &raw, error)) return false;
  const CounterBytes bytes(raw);
  if (!bytes.Has(0, sizeof(FileHeader))) {
    *error = path + ": not a counter file (too short)";
    return false;
  }
  FileHeader header;
  std::memcpy(static_cast<void*>(&header), raw.data(), sizeof(header));
  if (header.magic.load(std::memory_order_relaxed) != kCounterMagic) {
    *error = path + ": not a counter file, or its process ended while making it";
    return false;
  }
  if (header.format != kCounterFormat || header.name_bytes != sizeof(NameEntry) || header.facts_bytes != kFactsBytes ||
      header.decision_bytes != sizeof(DecisionEntry) || header.sample_bytes != sizeof(MemorySample)) {
    *error = path + ": written by another version of slipstream (format " + std::to_string(header.format) +
             ", this one reads " + std::to_string(kCounterFormat) + ")";
    return false;
  }
  // A block holds its head and one CallCounter a hook; the writer's hook count rules, not ours.
  constexpr size_t kBlockHead = offsetof(ThreadBlock, hooks);
  const size_t hooks = header.hook_count;
  const size_t block = header.thread_block_bytes;
  const size_t threads_offset = ThreadsOffset(hooks);
  if (hooks > 65536 || header.thread_count > 65536 || block < kBlockHead + hooks * sizeof(CallCounter) ||
      !bytes.Has(threads_offset, block * header.thread_count)) {
    *error = path + ": truncated counter file";
    return false;
  }
  const size_t decisions = header.decision_count.load(std::memory_order_relaxed);
  if (decisions > kMaxDecisions) {
    *error = path + ": damaged counter file (" + std::to_string(decisions) + " decisions)";
    return false;
  }

  *counts = ProcessCounts();
  counts->pid = header.pid;
  counts->parent_pid = header.parent_pid;
  counts->rank = header.rank;
  counts->local_rank = header.local_rank;
  counts->start_unix_ns = header.start_unix_ns;
  counts->record_state = static_cast<RecordState>(header.record.state.load(std::memory_order_relaxed));
  counts->executable = std::string(header.executable, strnlen(header.executable, sizeof(header.executable)));
  const size_t facts_used = std::min<size_t>(header.facts_used.load(std::memory_order_relaxed), kFactsBytes);
  ParseFacts(std::string_view(raw.data() + FactsOffset(hooks), facts_used), &counts->facts);

  counts->functions.resize(hooks);
  for (size_t i = 0; i < hooks; ++i) {
    const size_t at = NamesOffset() + i * sizeof(NameEntry);
    FunctionCounts& function = counts->functions[i];
    function.name = bytes.Text(at + offsetof(NameEntry, name), kNameBytes);
    function.group = bytes.Text(at + offsetof(NameEntry, group_name), sizeof(NameEntry::group_name));
    function.bound = raw[at + offsetof(NameEntry, bound)] != 0;
  }
  counts->copies.resize(kCopyKinds);
  for (size_t k = 0; k < kCopyKinds; ++k) counts->copies[k].kind = kCopyKindNames[k];

  for (size_t i = 0; i < decisions; ++i) {
    const size_t at = DecisionsOffset(hooks) + i * sizeof(DecisionEntry);
    DecisionCounts decision = {.name = bytes.Text(at + offsetof(DecisionEntry, name), kNameBytes)};
    if (decision.name.empty()) continue;
    for (size_t t = 0; t < header.thread_count; ++t) {
      const size_t counter =
          threads_offset + t * block + offsetof(ThreadBlock, decisions) + i * sizeof(DecisionCounter);
      decision.count += bytes.U64(counter + offsetof(DecisionCounter, count));
      decision.bytes += bytes.U64(counter + offsetof(DecisionCounter, bytes));
      decision.time_ns += bytes.U64(counter + offsetof(DecisionCounter, time_ns));
    }
    counts->decisions.push_back(std::move(decision));
  }

  for (size_t i = 0; i < kMemorySamples; ++i) {
    const size_t at = MemoryOffset(hooks) + i * sizeof(MemorySample);
    MemoryCounts sample;
    sample.number = bytes.U64(at + offsetof(MemorySample, number));
    if (sample.number == 0) continue;
    sample.time_ns = bytes.U64(at + offsetof(MemorySample, time_ns));
    sample.figures.device = static_cast<int32_t>(bytes.U32(at + offsetof(MemorySample, device)));
    sample.figures.live_bytes = bytes.U64(at + offsetof(MemorySample, live_bytes));
    sample.figures.idle_bytes = bytes.U64(at + offsetof(MemorySample, idle_bytes));
    sample.figures.parked_bytes = bytes.U64(at + offsetof(MemorySample, parked_bytes));
    sample.figures.peak_idle_bytes = bytes.U64(at + offsetof(MemorySample, peak_idle_bytes));
    sample.figures.trims = bytes.U32(at + offsetof(MemorySample, trims));
    sample.figures.retries = bytes.U32(at + offsetof(MemorySample, retries));
    counts->memory.push_back(sample);
  }
  std::sort(counts->memory.begin(), counts->memory.end(),
            [](const MemoryCounts& a, const MemoryCounts& b) { return a.number < b.number; });

  for (size_t t = 0; t < header.thread_count; ++t) {
    const size_t base = threads_offset + t * block;
    for (size_t k = 0; k < kCopyKinds; ++k) {
      const size_t at = base + offsetof(ThreadBlock, copies) + k * sizeof(CopyCounter);
      counts->copies[k].calls += bytes.U64(at + offsetof(CopyCounter, calls));
      counts->copies[k].bytes += bytes.U64(at + offsetof(CopyCounter, bytes));
    }
    for (size_t i = 0; i < hooks; ++i) {
      const size_t at = base + kBlockHead + i * sizeof(CallCounter);
      FunctionCounts& function = counts->functions[i];
      function.calls += bytes.U64(at + offsetof(CallCounter, calls));
      function.errors += bytes.U64(at + offsetof(CallCounter, errors));
      function.bytes += bytes.U64(at + offsetof(CallCounter, bytes));
      function.time_ns += bytes.U64(at + offsetof(CallCounter, time_ns));
    }
  }
  return true;
}

namespace {

// "process 4711 (python3.11): its calls could not be counted: No space left on device"
std::string WhyUncounted(const std::string& directory, const char* name) {
  char text[kMostReasonBytes + 1];
  const ssize_t length = readlink((directory + "/" + name).c_str(), text, sizeof(text));
  const std::string reason(text, length > 0 ? static_cast<size_t>(length) : 0);
  const size_t colon = reason.find(": ");
  const bool whole = colon != std::string::npos;
  return "process " + std::to_string(std::strtol(name, nullptr, 10)) +
         (whole ? " (" + reason.substr(0, colon) + ")" : "") + ": its calls could not be counted" +
         (whole ? ": " + reason.substr(colon + 2) : "");
}

}  // namespace

std::vector<ProcessCounts> ReadRunDirectory(const std::string& directory, std::vector<std::string>* problems) {
  std::vector<ProcessCounts> processes;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(directory.c_str()), closedir);
  if (dir == nullptr) {
    problems->push_back(directory + ": " + std::strerror(errno));
    return processes;
  }
  while (const dirent* entry = readdir(dir.get())) {
    const std::string_view name(entry->d_name);
    if (name.ends_with(kUncountedSuffix)) problems->push_back(WhyUncounted(directory, entry->d_name));
    if (!name.ends_with(kCounterSuffix)) continue;
    ProcessCounts counts;
    std::string error;
    if (ReadCounterFile(directory + "/" + entry->d_name, &counts, &error)) {
      processes.push_back(std::move(counts));
    } else {
      problems->push_back(error);
    }
  }
  std::sort(processes.begin(), processes.end(), [](const ProcessCounts& a, const ProcessCounts& b) {
    return a.start_unix_ns != b.start_unix_ns ? a.start_unix_ns < b.start_unix_ns : a.pid < b.pid;
  });
  return processes;
}

}  // namespace slipstream::tracer
