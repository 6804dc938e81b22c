#include "tracer/spool/spool_reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "tracer/base/crc32c.h"
#include "tracer/spool/device_work.h"

namespace slipstream::tracer {
namespace {

// As much as there is, up to `size`.
size_t ReadFully(int fd, void* to, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = read(fd, static_cast<char*>(to) + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

uint64_t KeyOf(NameTable table, uint32_t number) { return uint64_t{static_cast<uint32_t>(table)} << 32 | number; }

uint64_t ByteSwapped(uint64_t value) { return __builtin_bswap64(value); }

}  // namespace

// Whether there is as much as is asked for is looked at before every read; the first failure is the last.
class SpoolReader::Payload {
 public:
  Payload(const char* bytes, size_t size) : at_(bytes), left_(size) {}

  template <typename T>
  bool Get(T* value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (left_ < sizeof(T)) return false;
    std::memcpy(static_cast<void*>(value), at_, sizeof(T));
    Skip(sizeof(T));
    return true;
  }
  bool Get(std::string* text) {
    uint32_t size = 0;
    if (!Get(&size) || left_ < size) return false;
    text->assign(at_, size);
    Skip(size);
    return true;
  }
  void Skip(size_t size) {
    at_ += size;
    left_ -= size;
  }
  size_t left() const { return left_; }

 private:
  const char* at_;
  size_t left_;
};

std::unique_ptr<SpoolReader> SpoolReader::Open(const std::string& path, std::string* error) {
  // O_NONBLOCK: what is put in the place of a file may be a pipe that nobody writes to.
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    *error = path + ": " + std::strerror(errno);
    return nullptr;
  }
  const auto fail = [&](const std::string& what) {
    *error = path + ": " + what;
    close(fd);
    return nullptr;
  };
  struct stat facts {};
  if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) return fail("not a file");
  SpoolHeader header;
  if (ReadFully(fd, &header, sizeof(header)) != sizeof(header)) return fail("not a spool file (too short)");
  if (header.magic == ByteSwapped(kSpoolMagic)) return fail("written on a machine with the other byte order");
  if (header.magic != kSpoolMagic) return fail("not a spool file");
  // Of another format nothing but the first two fields is sure.
  if (header.format != kSpoolFormat) {
    return fail("written by another version of slipstream (format " + std::to_string(header.format) +
                ", this one reads " + std::to_string(kSpoolFormat) + ")");
  }
  if (header.checksum != Crc32c(0, &header, offsetof(SpoolHeader, checksum))) return fail("damaged in its first bytes");
  // A file that has grown since has the header of this format.
  const bool inside = header.header_bytes <= std::max<uint64_t>(sizeof(header), static_cast<uint64_t>(facts.st_size));
  if (header.header_bytes < sizeof(header) || !inside || lseek(fd, header.header_bytes, SEEK_SET) < 0) {
    return fail("damaged in its first bytes");
  }
  return std::unique_ptr<SpoolReader>(new SpoolReader(fd, header.start_unix_ns, header.header_bytes));
}

SpoolReader::~SpoolReader() { close(fd_); }

const std::string* SpoolReader::NameOf(NameTable table, uint32_t number) const {
  const auto found = names_.find(KeyOf(table, number));
  return found != names_.end() ? &found->second : nullptr;
}

const SpoolSite* SpoolReader::SiteOf(uint32_t site) const {
  const auto found = sites_.find(site);
  return found != sites_.end() ? &found->second : nullptr;
}

const SpoolStack* SpoolReader::StackOf(uint32_t stack) const {
  const auto found = stacks_.find(stack);
  return found != stacks_.end() ? &found->second : nullptr;
}

SpoolReader::Both SpoolReader::BothOf(uint32_t stack) const {
  const SpoolStack* const frame = StackOf(stack);
  if (frame == nullptr) return {};
  if (frame->site >= kNativeSpoolSite) return {.native = stack};
  if (frame->site >= kBothSpoolStacks) return {.python = frame->site - kBothSpoolStacks, .native = frame->parent};
  return {.python = stack};
}

const SpoolAddress* SpoolReader::AddressOf(uint32_t address) const {
  const auto found = addresses_.find(address);
  return found != addresses_.end() ? &found->second : nullptr;
}

const SpoolModule* SpoolReader::ModuleOf(uint32_t module) const {
  const auto found = modules_.find(module);
  return found != modules_.end() ? &found->second : nullptr;
}

bool SpoolReader::Next(SpoolRecord* record) {
  while (next_ready_ == ready_.size()) {
    if (stopped_ && waiting_.empty()) return false;
    if (stopped_) {
      Release(~uint64_t{0});
    } else if (!ReadChunk()) {
      if (Wait()) return false;
      stopped_ = true;
    }
  }
  const Waiting& next = ready_[next_ready_++];
  if (next.key < last_key_) ++end_.late_records;
  last_key_ = std::max(last_key_, next.key);
  *record = next.record;
  ++end_.records;
  return true;
}

// That more may come; not behind the end that the writer wrote.
bool SpoolReader::Wait() {
  return follow_ && !seen_end_ && lseek(fd_, static_cast<off_t>(end_.read_bytes), SEEK_SET) >= 0;
}

// Nothing that follows can be believed: its length is what tells where the next one begins.
void SpoolReader::Stop(const std::string& why) {
  struct stat facts {};
  const bool known = fstat(fd_, &facts) == 0 && static_cast<uint64_t>(facts.st_size) > end_.read_bytes;
  end_.left_bytes = known ? static_cast<uint64_t>(facts.st_size) - end_.read_bytes : 0;
  end_.left_why = why;
  end_.complete = false;
}

bool SpoolReader::ReadChunk() {
  ChunkHeader header;
  const size_t got = ReadFully(fd_, &header, sizeof(header));
  if (got == 0) return false;
  if (got != sizeof(header)) {
    Stop("the last chunk is cut");
    return false;
  }
  if (header.magic != kChunkMagic || header.payload_bytes > kMaxPayloadBytes) {
    Stop("what follows is no chunk");
    return false;
  }
  const size_t padded = PaddedBytes(header.payload_bytes);
  payload_.resize(padded);
  if (ReadFully(fd_, payload_.data(), padded) != padded) {
    Stop("the last chunk is cut");
    return false;
  }
  uint32_t checksum = Crc32c(0, reinterpret_cast<const char*>(&header) + kChecksumFrom, sizeof(header) - kChecksumFrom);
  checksum = Crc32c(checksum, payload_.data(), header.payload_bytes);
  bool good = checksum == header.checksum && header.number == next_chunk_;
  for (size_t i = header.payload_bytes; i < padded; ++i) good = good && payload_[i] == 0;
  if (!good) {
    Stop("a chunk is damaged");
    return false;
  }
  if (end_.complete) {
    Stop("something stands behind the end");
    return false;
  }
  end_.read_bytes += sizeof(header) + padded;
  // Of what was not whole a moment ago.
  end_.left_bytes = 0;
  end_.left_why.clear();
  ++next_chunk_;
  // The round before this one is complete, and it took everything that was there when it began.
  if (header.pass_ns > end_.last_pass_ns) {
    Release(end_.last_pass_ns);
    end_.last_pass_ns = header.pass_ns;
  }
  Payload payload(payload_.data(), header.payload_bytes);
  if (header.version != kChunkVersion || header.kind < static_cast<uint16_t>(ChunkKind::kFacts) ||
      header.kind > kLastChunkKind) {
    ++end_.skipped_chunks;
  } else if (!Take(header, &payload)) {
    ++end_.malformed_chunks;
  }
  if (waiting_.size() > kMaxWaiting) ReleaseHalf();
  return true;
}

bool SpoolReader::Take(const ChunkHeader& header, Payload* payload) {
  switch (static_cast<ChunkKind>(header.kind)) {
    case ChunkKind::kFacts:
      return TakeFacts(payload);
    case ChunkKind::kNames:
      return TakeNames(payload);
    case ChunkKind::kSites:
      return TakeSites(payload);
    case ChunkKind::kStacks:
      return TakeStacks(payload);
    case ChunkKind::kModules:
      return TakeModules(payload);
    case ChunkKind::kAddresses:
      return TakeAddresses(payload);
    case ChunkKind::kThread:
      return TakeThread(payload);
    case ChunkKind::kRecords:
      return TakeRecords(payload, header.pass_ns);
    case ChunkKind::kThreadEnd:
      return TakeThreadEnd(payload);
    case ChunkKind::kEnd:
      return TakeEnd(payload);
  }
  return false;
}

bool SpoolReader::TakeFacts(Payload* payload) {
  uint32_t count = 0;
  if (!payload->Get(&count)) return false;
  for (; count > 0; --count) {
    std::string key;
    std::string value;
    if (!payload->Get(&key) || !payload->Get(&value)) return false;
    facts_[std::move(key)] = std::move(value);
  }
  return true;
}

bool SpoolReader::TakeNames(Payload* payload) {
  uint32_t table = 0;
  uint32_t count = 0;
  if (!payload->Get(&table) || !payload->Get(&count)) return false;
  for (; count > 0; --count) {
    uint32_t number = 0;
    std::string name;
    if (!payload->Get(&number) || !payload->Get(&name)) return false;
    names_[KeyOf(static_cast<NameTable>(table), number)] = std::move(name);
  }
  return true;
}

bool SpoolReader::TakeSites(Payload* payload) {
  uint32_t count = 0;
  if (!payload->Get(&count)) return false;
  for (; count > 0; --count) {
    uint32_t number = 0;
    SpoolSite site;
    if (!payload->Get(&number) || !payload->Get(&site.line) || !payload->Get(&site.file) ||
        !payload->Get(&site.function)) {
      return false;
    }
    sites_[number] = std::move(site);
  }
  return true;
}

// Whoever follows parents comes to an end: a number is there once, and its parent was there before.
bool SpoolReader::TakeStacks(Payload* payload) {
  uint32_t count = 0;
  if (!payload->Get(&count)) return false;
  for (; count > 0; --count) {
    uint32_t number = 0;
    SpoolStack stack;
    if (!payload->Get(&number) || !payload->Get(&stack.parent) || !payload->Get(&stack.site) ||
        number < kFirstSpoolStack) {
      return false;
    }
    if (stack.parent >= kFirstSpoolStack && stacks_.count(stack.parent) == 0) return false;
    // Both of the two were there before, and are of one kind each.
    const bool is_both = stack.site < kNativeSpoolSite && stack.site >= kBothSpoolStacks;
    if (is_both && (!IsStackOf(stack.site - kBothSpoolStacks, /*native=*/false) || !IsStackOf(stack.parent, true))) {
      return false;
    }
    if (!stacks_.try_emplace(number, stack).second) return false;
  }
  return true;
}

bool SpoolReader::IsStackOf(uint32_t stack, bool native) const {
  const SpoolStack* const frame = StackOf(stack);
  if (frame == nullptr) return false;
  return native ? frame->site >= kNativeSpoolSite : frame->site < kBothSpoolStacks;
}

bool SpoolReader::TakeModules(Payload* payload) {
  uint32_t count = 0;
  if (!payload->Get(&count)) return false;
  for (; count > 0; --count) {
    uint32_t number = 0;
    SpoolModule module;
    if (!payload->Get(&number) || !payload->Get(&module.start) || !payload->Get(&module.end) ||
        !payload->Get(&module.path) || !payload->Get(&module.build_id) || number == 0) {
      return false;
    }
    modules_[number] = std::move(module);
  }
  return true;
}

bool SpoolReader::TakeAddresses(Payload* payload) {
  uint32_t count = 0;
  if (!payload->Get(&count)) return false;
  for (; count > 0; --count) {
    uint32_t number = 0;
    SpoolAddress address;
    if (!payload->Get(&number) || !payload->Get(&address.module) || !payload->Get(&address.offset)) return false;
    addresses_[number] = address;
  }
  return true;
}

bool SpoolReader::TakeThread(Payload* payload) {
  uint32_t number = 0;
  SpoolThread thread;
  if (!payload->Get(&number) || !payload->Get(&thread.id) || !payload->Get(&thread.name) || number == 0) return false;
  return threads_.emplace(number, std::move(thread)).second;
}

bool SpoolReader::TakeRecords(Payload* payload, uint64_t pass_ns) {
  RecordsHead head;
  if (!payload->Get(&head) || head.record_bytes < sizeof(TraceRecord) || head.count == 0 ||
      payload->left() / head.record_bytes < head.count) {
    return false;
  }
  const auto thread = threads_.find(head.thread);
  if (thread == threads_.end() && head.thread != 0) return false;
  Progress& progress = progress_[head.thread];
  if (head.first < progress.next) return false;
  end_.missing_records += head.first - progress.next;
  progress.next = head.first + head.count;
  if (head.version < kOldestRecordVersion || head.version > kRecordVersion) {
    end_.skipped_records += head.count;
    return true;
  }
  const uint32_t id = thread != threads_.end() ? thread->second.id : 0;
  for (uint32_t i = 0; i < head.count; ++i) {
    Waiting waiting = {.key = 0, .record = {.record = {}, .thread = head.thread, .tid = id, .number = head.first + i}};
    TraceRecord& record = waiting.record.record;
    payload->Get(&record);
    if (head.version == kOldestRecordVersion) {
      record.stack = 0;
      record.flags = 0;
    }
    payload->Skip(head.record_bytes - sizeof(TraceRecord));
    const auto kind = static_cast<uint8_t>(record.kind);
    if (kind == 0 || kind > kLastRecordKind) {
      ++end_.skipped_records;
      continue;
    }
    if (record.kind == RecordKind::kDrop) {
      uint64_t& dropped = thread != threads_.end() ? thread->second.dropped : dropped_without_ring_;
      const uint64_t before = dropped;
      dropped = std::max(dropped, DroppedUpTo(record));
      end_.dropped += dropped - before;
    }
    if (thread != threads_.end()) ++thread->second.records;
    // What a device did is told long after it happened.
    progress.key = std::max(progress.key, IsDeviceWork(record.kind) ? pass_ns : record.end_ns);
    waiting.key = progress.key;
    waiting_.push_back(waiting);
  }
  return true;
}

bool SpoolReader::TakeThreadEnd(Payload* payload) {
  ThreadEnd end;
  if (!payload->Get(&end)) return false;
  const auto thread = threads_.find(end.thread);
  if (thread == threads_.end() || thread->second.ended) return false;
  thread->second.ended = true;
  if (end.dropped > thread->second.dropped) {
    end_.dropped += end.dropped - thread->second.dropped;
    thread->second.dropped = end.dropped;
  }
  const uint64_t read = progress_[end.thread].next;
  if (end.records > read) end_.missing_records += end.records - read;
  return true;
}

bool SpoolReader::TakeEnd(Payload* payload) {
  SpoolEnd end;
  if (!payload->Get(&end)) return false;
  end_.complete = true;
  seen_end_ = true;
  end_.reason = static_cast<EndReason>(end.reason);
  end_.error = end.error;
  end_.dropped = std::max(end_.dropped, end.dropped);
  return true;
}

// Those that end by then, in order. Equal ones stay as they came, which keeps a thread's order.
void SpoolReader::Release(uint64_t up_to) {
  const auto by_key = [](const Waiting& a, const Waiting& b) { return a.key < b.key; };
  const auto rest = std::stable_partition(waiting_.begin(), waiting_.end(),
                                          [&](const Waiting& waiting) { return waiting.key <= up_to; });
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<ptrdiff_t>(next_ready_));
  next_ready_ = 0;
  const auto old = static_cast<ptrdiff_t>(ready_.size());
  ready_.insert(ready_.end(), waiting_.begin(), rest);
  std::stable_sort(ready_.begin() + old, ready_.end(), by_key);
  waiting_.erase(waiting_.begin(), rest);
}

void SpoolReader::ReleaseHalf() {
  std::vector<uint64_t> keys;
  keys.reserve(waiting_.size());
  for (const Waiting& waiting : waiting_) keys.push_back(waiting.key);
  const auto middle = keys.begin() + static_cast<ptrdiff_t>(keys.size() / 2);
  std::nth_element(keys.begin(), middle, keys.end());
  Release(*middle);
}

std::vector<std::string> ListSpools(const std::string& directory, std::string* error) {
  std::vector<std::string> paths;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(directory.c_str()), closedir);
  if (dir == nullptr) {
    *error = directory + ": " + std::strerror(errno);
    return paths;
  }
  while (const dirent* entry = readdir(dir.get())) {
    if (std::string_view(entry->d_name).ends_with(kSpoolSuffix)) paths.push_back(directory + "/" + entry->d_name);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace slipstream::tracer
