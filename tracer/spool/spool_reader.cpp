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

namespace slipstream::tracer {
namespace {

constexpr size_t kChunkAlignment = 8;
constexpr size_t kMaxChunkBytes = sizeof(ChunkHeader) + kMaxPayloadBytes;
// Read at once. What is looked at is at most a chunk, so that most bytes are read once and none more than twice.
constexpr size_t kWindowBytes = size_t{256} << 10;
static_assert(kWindowBytes >= 2 * kMaxChunkBytes);
// No file can have as many.
constexpr uint64_t kMostChunks = uint64_t{1} << 58;
// A file can be made in which chunks seem to begin everywhere, each with a checksum to be made over the same bytes. Of
// such checksums at most these are made, and four times as much as was skipped; then the rest of the file is left.
constexpr uint64_t kMayBeWasted = uint64_t{4} << 20;

// A writer puts less into its file at once.
constexpr uint64_t kMayComeLate = uint64_t{1} << 20;

// As much as there is, up to `size`.
size_t ReadAt(int fd, uint64_t at, void* to, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = pread(fd, static_cast<char*>(to) + done, size - done, static_cast<off_t>(at + done));
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
  // Of what has grown: as much of it as there is, at least `least` bytes.
  template <typename T>
  bool GetSome(T* value, size_t least) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t size = std::min(left_, sizeof(T));
    if (size < least) return false;
    std::memcpy(static_cast<void*>(value), at_, size);
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
  if (ReadAt(fd, 0, &header, sizeof(header)) != sizeof(header)) return fail("not a spool file (too short)");
  if (header.magic == ByteSwapped(kSpoolMagic)) return fail("written on a machine with the other byte order");
  if (header.magic != kSpoolMagic) return fail("not a spool file");
  // Of another format nothing but the first two fields is sure.
  if (header.format != kSpoolFormat) {
    const bool older = header.format < kSpoolFormat;
    return fail(std::string("recorded by ") + (older ? "an older" : "a newer") + " slipstream (format " +
                std::to_string(header.format) + ", this one reads format " + std::to_string(kSpoolFormat) + "): " +
                (older ? "read it with the slipstream that recorded it, or record again"
                       : "read it with a slipstream that is at least as new"));
  }
  if (header.checksum != Crc32c(0, &header, offsetof(SpoolHeader, checksum))) return fail("damaged in its first bytes");
  // A file that has grown since has the header of this format.
  const bool inside = header.header_bytes <= std::max<uint64_t>(sizeof(header), static_cast<uint64_t>(facts.st_size));
  if (header.header_bytes < sizeof(header) || !inside) return fail("damaged in its first bytes");
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

const std::vector<CountersEntry>* SpoolReader::CountersOf(NameTable table) const {
  const auto found = counters_.find(static_cast<uint32_t>(table));
  return found != counters_.end() ? &found->second : nullptr;
}

bool SpoolReader::Next(SpoolRecord* record) {
  while (next_ready_ == ready_.size()) {
    if (stopped_ && waiting_.empty()) return false;
    if (stopped_) {
      Release(~uint64_t{0});
    } else if (!ReadChunk()) {
      if (Wait()) return false;
      stopped_ = true;
      SettleGap(/*is_last=*/true);
    }
  }
  const Waiting& next = ready_[next_ready_++];
  if (next.key < last_key_) ++end_.late_records;
  last_key_ = std::max(last_key_, next.key);
  record->record = next.record;
  record->thread = next.thread;
  record->tid = next.tid;
  record->number = next.number;
  record->missing = next.missing;
  record->missing_from_ns = next.missing_from_ns;
  // Thread 0's come in the order in which they were written.
  if (next.record.kind == RecordKind::kActivity) {
    record->activity = activities_.front();
    activities_.pop_front();
  }
  ++end_.records;
  return true;
}

// That more may come; not behind the end that the writer wrote.
bool SpoolReader::Wait() {
  if (!follow_ || seen_end_) return false;
  // What was read may be old. Near the end, on a file system of several machines, it may even be zeros for a while.
  window_bytes_ = 0;
  window_is_last_ = false;
  if (end_.left_bytes <= kMayComeLate) {
    at_ = end_.read_bytes;
    wasted_bytes_ = 0;
  }
  return true;
}

// What follows is no whole chunk, and nothing behind it is one.
void SpoolReader::Leave(const std::string& why) {
  struct stat facts {};
  const bool known = fstat(fd_, &facts) == 0 && static_cast<uint64_t>(facts.st_size) > end_.read_bytes;
  end_.left_bytes = known && !why.empty() ? static_cast<uint64_t>(facts.st_size) - end_.read_bytes : 0;
  end_.left_why = why;
  end_.complete = seen_stop_ && why.empty();
}

// `size` bytes of the file, at most a chunk; null: it has not as many. Valid until the next call.
const char* SpoolReader::BytesAt(uint64_t at, size_t size) {
  const auto inside = [&] { return at >= window_at_ && at + size <= window_at_ + window_bytes_; };
  if (!inside() && !(window_is_last_ && at >= window_at_)) {
    window_.resize(kWindowBytes);
    window_at_ = at;
    window_bytes_ = ReadAt(fd_, at, window_.data(), kWindowBytes);
    window_is_last_ = window_bytes_ < kWindowBytes;
  }
  return inside() ? window_.data() + (at - window_at_) : nullptr;
}

// `at`, or the last place behind it that only a hole is in front of: what was never written reads as zeros, and a file
// of any size can be made of it at once.
uint64_t SpoolReader::BehindHole(uint64_t at) const {
  off_t data = lseek(fd_, static_cast<off_t>(at), SEEK_DATA);
  if (data < 0 && errno == ENXIO) {
    struct stat facts {};
    data = fstat(fd_, &facts) == 0 ? facts.st_size : 0;
  }
  const uint64_t to = data < 0 ? 0 : static_cast<uint64_t>(data);
  return to > at ? at + (to - at) / kChunkAlignment * kChunkAlignment : at;
}

// The first place from `at` on that begins as a chunk does. Near the end of the file, where no header has room, the
// place there.
uint64_t SpoolReader::NextMagic(uint64_t at) {
  for (;; at += kChunkAlignment) {
    if (at + sizeof(ChunkHeader) > window_at_ + window_bytes_) at = BehindHole(at);
    const char* const bytes = BytesAt(at, sizeof(ChunkHeader));
    if (bytes == nullptr) return at;
    uint32_t magic = 0;
    std::memcpy(&magic, bytes, sizeof(magic));
    if (magic == kChunkMagic) return at;
  }
}

SpoolReader::Place SpoolReader::LookAt(uint64_t at, ChunkHeader* header) {
  const char* bytes = BytesAt(at, sizeof(*header));
  if (bytes == nullptr) return BytesAt(at, 1) == nullptr ? Place::kNothing : Place::kCut;
  std::memcpy(static_cast<void*>(header), bytes, sizeof(*header));
  if (header->magic != kChunkMagic || header->payload_bytes > kMaxPayloadBytes) return Place::kNoChunk;
  const size_t size = sizeof(*header) + header->payload_bytes;
  const size_t padded = PaddedBytes(size);
  bytes = BytesAt(at, padded);
  if (bytes == nullptr) return Place::kCut;
  // Where some are missing, a disk may also have put back a part of another file, which is older.
  const bool follows = header->number == next_chunk_ || (header->number > next_chunk_ && header->number < kMostChunks &&
                                                         header->pass_ns >= end_.last_pass_ns);
  if (!follows) return Place::kDamaged;
  bool good = header->checksum == Crc32c(0, bytes + kChecksumFrom, size - kChecksumFrom);
  for (size_t i = size; i < padded; ++i) good = good && bytes[i] == 0;
  if (!good) wasted_bytes_ += padded;
  return good ? Place::kChunk : Place::kDamaged;
}

const char* SpoolReader::WhyNot(Place place) {
  switch (place) {
    case Place::kChunk:
    case Place::kNothing:
      return "";
    case Place::kCut:
      return "the last chunk is cut";
    case Place::kDamaged:
      return "a chunk is damaged";
    case Place::kNoChunk:
      break;
  }
  return "what follows is no chunk";
}

// The next whole chunk, which is then at at_. False: there is none, or none yet.
bool SpoolReader::FindChunk(ChunkHeader* header) {
  std::string why = end_.left_why;  // what was said where this one began, if it goes on
  for (;;) {
    const Place place = LookAt(at_, header);
    if (place == Place::kChunk) return true;
    if (at_ == end_.read_bytes) why = WhyNot(place);
    const uint64_t skipped = end_.damaged_bytes + at_ - end_.read_bytes;
    const bool may_become_one = follow_ && place == Place::kCut;
    if (place == Place::kNothing || may_become_one || wasted_bytes_ > kMayBeWasted + 4 * skipped) {
      Leave(why);
      return false;
    }
    at_ = NextMagic(at_ + kChunkAlignment);
  }
}

bool SpoolReader::ReadChunk() {
  if (seen_end_) {
    if (BytesAt(end_.read_bytes, 1) != nullptr) Leave("something stands behind the end");
    return false;
  }
  ChunkHeader header;
  if (!FindChunk(&header)) return false;
  const bool is_section = header.kind == static_cast<uint16_t>(ChunkKind::kSection);
  if (is_section) in_section_behind_gap_ = header.number > next_chunk_;
  seen_gap_ |= is_section && in_section_behind_gap_;
  if (is_section && in_section_behind_gap_) {
    gap_.section = header.number;
    gap_.chunks += header.number - next_chunk_;
    gap_.bytes += at_ - end_.read_bytes;
  } else {
    end_.damaged_bytes += at_ - end_.read_bytes;
    end_.missing_chunks += header.number - next_chunk_;
  }
  const char* const bytes = BytesAt(at_, sizeof(header) + header.payload_bytes) + sizeof(header);
  at_ += sizeof(header) + PaddedBytes(header.payload_bytes);
  end_.read_bytes = at_;
  // Of what was not whole a moment ago.
  end_.left_bytes = 0;
  end_.left_why.clear();
  next_chunk_ = header.number + 1;
  // The round before this one is complete, and it took everything that was there when it began.
  if (header.pass_ns > end_.last_pass_ns) {
    Release(end_.last_pass_ns);
    end_.last_pass_ns = header.pass_ns;
  }
  Payload payload(bytes, header.payload_bytes);
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
    case ChunkKind::kCounters:
      return TakeCounters(payload);
    case ChunkKind::kThread:
      return TakeThread(payload);
    case ChunkKind::kRecords:
      return TakeRecords(payload);
    case ChunkKind::kActivities:
      return TakeActivities(payload, header.pass_ns);
    case ChunkKind::kThreadEnd:
      return TakeThreadEnd(payload);
    case ChunkKind::kEnd:
      return TakeEnd(payload, /*last=*/true);
    case ChunkKind::kStopped:
      return TakeEnd(payload, /*last=*/false);
    case ChunkKind::kSection:
      return TakeSection(payload);
    case ChunkKind::kGivenUp:
      return TakeGivenUp(payload);
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

// Whoever follows parents comes to an end: a number is there once, and its parent was there before. A parent that was
// in a chunk that is missing is not known, as where a stack was too deep.
bool SpoolReader::TakeStacks(Payload* payload) {
  const bool may_be_lost = end_.missing_chunks != 0;
  uint32_t count = 0;
  if (!payload->Get(&count)) return false;
  for (; count > 0; --count) {
    uint32_t number = 0;
    SpoolStack stack;
    if (!payload->Get(&number) || !payload->Get(&stack.parent) || !payload->Get(&stack.site) ||
        number < kFirstSpoolStack) {
      return false;
    }
    const bool is_both = stack.site < kNativeSpoolSite && stack.site >= kBothSpoolStacks;
    if (is_both) {
      // Both of the two were there before, and are of one kind each. One alone would pass for all there is.
      if (!IsStackOf(stack.site - kBothSpoolStacks, /*native=*/false) || !IsStackOf(stack.parent, /*native=*/true)) {
        if (!may_be_lost) return false;
        continue;
      }
    } else if (stack.parent >= kFirstSpoolStack && stacks_.count(stack.parent) == 0) {
      if (!may_be_lost) return false;
      stack.parent = kCutSpoolStack;
    }
    // Once more at the beginning of a section: the first one stands.
    if (!stacks_.try_emplace(number, stack).second && !seen_section_) return false;
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
    // In a module that is lost, an offset would pass for an address of the process.
    if (end_.missing_chunks != 0 && address.module != 0 && modules_.count(address.module) == 0) continue;
    addresses_[number] = address;
  }
  return true;
}

bool SpoolReader::TakeCounters(Payload* payload) {
  uint32_t table = 0;
  uint32_t count = 0;
  if (!payload->Get(&table) || !payload->Get(&count) || payload->left() / sizeof(CountersEntry) < count) return false;
  std::vector<CountersEntry> entries(count);
  for (CountersEntry& entry : entries) payload->Get(&entry);
  return counters_.emplace(table, std::move(entries)).second;
}

bool SpoolReader::TakeThread(Payload* payload) {
  uint32_t number = 0;
  SpoolThread thread;
  if (!payload->Get(&number) || !payload->Get(&thread.id) || !payload->Get(&thread.name) || number == 0) return false;
  // How many records came before: those of older files, and of what was given up, are not missing.
  uint64_t before = 0;
  const bool has_before = payload->Get(&before);
  // One that made nothing in the section behind the gap is told of in a later one. What it made before is in the gap,
  // unless it is in a part that is damaged.
  const bool is_first = seen_gap_ && threads_.count(number) == 0 && end_.missing_chunks == 0;
  if (has_before && (in_section_behind_gap_ || is_first)) {
    Progress& progress = progress_[number];
    // A thread that was read before the gap has one in its records.
    if (progress.next != 0 && before > progress.next) progress.missing += before - progress.next;
    progress.next = std::max(progress.next, before);
  }
  const auto [known, is_new] = threads_.try_emplace(number, thread);
  if (is_new) return true;
  if ((known->second.id & kLostThread) != 0) {
    known->second.id = thread.id;
    known->second.name = std::move(thread.name);
  }
  return seen_section_;
}

bool SpoolReader::TakeSection(Payload* payload) {
  SpoolSection section;
  if (!payload->Get(&section)) return false;
  seen_section_ = true;
  if (!in_section_behind_gap_) return true;
  const uint64_t accounted = read_records_ + end_.missing_records + end_.given_up_records + gap_.records;
  gap_.records += section.records > accounted ? section.records - accounted : 0;
  end_.kept_from_ns = section.made_ns;
  Progress& own = progress_[0];
  if (own.next != 0 && section.own_records > own.next) own.missing += section.own_records - own.next;
  own.next = std::max(own.next, section.own_records);
  SettleGap(/*is_last=*/false);
  return true;
}

bool SpoolReader::TakeGivenUp(Payload* payload) {
  GivenUp given_up;
  if (!payload->Get(&given_up)) return false;
  given_up_before_ = std::max(given_up_before_, given_up.before_chunk);
  SettleGap(/*is_last=*/false);
  return true;
}

// What a chunk has spoken of was given up. If none does up to the end, it is damage.
void SpoolReader::SettleGap(bool is_last) {
  if (gap_.chunks == 0) return;
  if (given_up_before_ >= gap_.section) {
    end_.given_up_chunks += gap_.chunks;
    end_.given_up_bytes += gap_.bytes;
    end_.given_up_records += gap_.records;
  } else if (is_last) {
    end_.missing_chunks += gap_.chunks;
    end_.damaged_bytes += gap_.bytes;
    end_.missing_records += gap_.records;
    if (end_.given_up_chunks == 0) end_.kept_from_ns = 0;
  } else {
    return;
  }
  gap_ = {};
}

// The end of threads_: there is none. Whose own chunk may be missing is made up.
std::map<uint32_t, SpoolThread>::iterator SpoolReader::ThreadOf(uint32_t number) {
  const auto known = threads_.find(number);
  if (known != threads_.end() || number == 0 || end_.missing_chunks == 0) return known;
  SpoolThread lost;
  lost.id = kLostThread | (number & (kLostThread - 1));
  return threads_.emplace(number, std::move(lost)).first;
}

// Of records and of activities.
bool SpoolReader::GetHead(Payload* payload, size_t least_bytes, RecordsHead* head) {
  return payload->Get(head) && head->record_bytes >= least_bytes && head->count != 0 &&
         payload->left() / head->record_bytes >= head->count;
}

// Where they stand among those of their thread. False: before one that was read already.
bool SpoolReader::GoOn(const RecordsHead& head) {
  Progress& progress = progress_[head.thread];
  if (head.first < progress.next) return false;
  end_.missing_records += head.first - progress.next;
  progress.missing += head.first - progress.next;
  progress.next = head.first + head.count;
  read_records_ += head.count;
  return true;
}

void SpoolReader::Enqueue(Waiting* waiting, uint64_t key_ns) {
  Progress& progress = progress_[waiting->thread];
  if (progress.missing != 0) {
    waiting->missing = std::exchange(progress.missing, 0);
    waiting->missing_from_ns = progress.key;
  }
  progress.key = std::max(progress.key, key_ns);
  waiting->key = progress.key;
  waiting_.push_back(*waiting);
}

bool SpoolReader::TakeRecords(Payload* payload) {
  RecordsHead head;
  if (!GetHead(payload, sizeof(TraceRecord), &head)) return false;
  const auto thread = ThreadOf(head.thread);
  if (thread == threads_.end() && head.thread != 0) return false;
  if (!GoOn(head)) return false;
  if (head.version != kRecordVersion) {
    end_.skipped_records += head.count;
    return true;
  }
  const uint32_t id = thread != threads_.end() ? thread->second.id : 0;
  for (uint32_t i = 0; i < head.count; ++i) {
    Waiting waiting;
    waiting.thread = head.thread;
    waiting.tid = id;
    waiting.number = head.first + i;
    TraceRecord& record = waiting.record;
    payload->Get(&record);
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
    Enqueue(&waiting, record.end_ns);
  }
  return true;
}

// What a device did is told long after it happened: it comes in the order in which it was written, by the time of that.
bool SpoolReader::TakeActivities(Payload* payload, uint64_t pass_ns) {
  RecordsHead head;
  if (!GetHead(payload, sizeof(ActivityRecord), &head) || head.thread != 0 || !GoOn(head)) return false;
  if (head.version != kActivityVersion) {
    end_.skipped_records += head.count;
    return true;
  }
  for (uint32_t i = 0; i < head.count; ++i) {
    ActivityRecord activity;
    payload->Get(&activity);
    payload->Skip(head.record_bytes - sizeof(ActivityRecord));
    const auto kind = static_cast<uint8_t>(activity.kind);
    if (kind == 0 || kind > kLastActivityKind) {
      ++end_.skipped_records;
      continue;
    }
    activities_.push_back(activity);
    Waiting waiting;
    waiting.record = {.start_ns = activity.start_ns, .end_ns = activity.end_ns, .kind = RecordKind::kActivity};
    waiting.number = head.first + i;
    Enqueue(&waiting, pass_ns);
  }
  return true;
}

bool SpoolReader::TakeThreadEnd(Payload* payload) {
  ThreadEnd end;
  if (!payload->Get(&end)) return false;
  const auto thread = ThreadOf(end.thread);
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

// Behind the one that is not the last nothing more comes but that: a file may end there.
bool SpoolReader::TakeEnd(Payload* payload, bool last) {
  SpoolEnd end;
  const bool knows_later = last && payload->left() >= sizeof(end);
  if (!payload->GetSome(&end, kLeastEndPayload)) return false;
  end_.complete = true;
  seen_stop_ = true;
  seen_end_ = last;
  end_.later_calls = knows_later ? end.later_calls : 0;
  end_.later_calls_known = knows_later;
  end_.reason = static_cast<EndReason>(end.reason);
  end_.error = end.error;
  end_.dropped = std::max(end_.dropped, end.dropped);
  // Of threads behind whose last chunk nothing says how many records they made.
  if (end_.missing_chunks != 0 && end.records > read_records_) {
    end_.missing_records = std::max(end_.missing_records, end.records - read_records_);
  }
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
