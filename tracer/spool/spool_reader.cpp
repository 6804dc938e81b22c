#include "tracer/spool/spool_reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "tracer/base/crc32c.h"
#include "tracer/spool/spool_payload.h"

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

uint64_t ByteSwapped(uint64_t value) { return __builtin_bswap64(value); }

}  // namespace

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

uint64_t SpoolReader::KeyOf(NameTable table, uint32_t number) {
  return uint64_t{static_cast<uint32_t>(table)} << 32 | number;
}

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
