#include "tools/site/records.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>

#include "tools/site/open_file.h"
#include "tools/site/record_file.h"

namespace slipstream::site {
namespace {

constexpr int64_t kDayNs = int64_t{24} * 3600 * 1'000'000'000;

// The file's first kMostRecordBytes, and one more where there are more. False: it cannot be read.
bool ReadText(int file, std::string* text) {
  text->clear();
  constexpr size_t kStep = size_t{64} << 10;
  while (text->size() <= kMostRecordBytes) {
    const size_t before = text->size();
    text->resize(before + kStep);
    const ssize_t got = read(file, text->data() + before, kStep);
    text->resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
  }
  return true;
}

class Reader {
 public:
  Reader(int folder, int64_t since_unix_ns, Skipped* skipped)
      : folder_(folder), since_(since_unix_ns), skipped_(*skipped) {}

  // False: it is no record, or not one of the time that is asked for.
  bool Read(const char* name, RunRecord* record) {
    struct stat facts {};
    if (fstatat(folder_, name, &facts, AT_SYMLINK_NOFOLLOW) != 0) return errno != ENOENT && Skip(&skipped_.unreadable);
    if (!S_ISREG(facts.st_mode)) return Skip(&skipped_.irregular);
    // A record is written when its run has ended. Clocks of hosts differ, by less than a day.
    if (int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 < since_ - kDayNs) return false;
    const OpenFile file(openat(folder_, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (file.number() < 0) return errno != ENOENT && Skip(&skipped_.unreadable);
    // Another may have taken its place.
    if (fstat(file.number(), &facts) != 0 || !S_ISREG(facts.st_mode)) return Skip(&skipped_.irregular);
    if (static_cast<uint64_t>(facts.st_size) > kMostRecordBytes) return Skip(&skipped_.large);
    if (!ReadText(file.number(), &text_)) return Skip(&skipped_.unreadable);
    if (text_.size() > kMostRecordBytes) return Skip(&skipped_.large);
    switch (ParseRecord(text_, record)) {
      case RecordIs::kGood:
        return EndOf(*record) >= since_;
      case RecordIs::kDamaged:
        return Skip(&skipped_.damaged);
      case RecordIs::kForeign:
        return Skip(&skipped_.foreign);
      case RecordIs::kNewer:
        return Skip(&skipped_.newer);
    }
    return false;
  }

 private:
  static bool Skip(uint64_t* count) {
    ++*count;
    return false;
  }

  const int folder_;
  const int64_t since_;
  Skipped& skipped_;
  std::string text_;
};

}  // namespace

int64_t EndOf(const RunRecord& record) {
  constexpr int64_t kLatest = std::numeric_limits<int64_t>::max();
  const auto duration_ns = static_cast<int64_t>(record.duration_s.value_or(0) * 1e9);
  return record.start_unix_ns > kLatest - duration_ns ? kLatest : record.start_unix_ns + duration_ns;
}

bool ReadRecords(const std::string& directory, int64_t since_unix_ns,
                 const std::function<void(const RunRecord& record)>& take, Skipped* skipped, std::string* error) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(directory.c_str()), closedir);
  if (folder == nullptr) {
    *error = std::strerror(errno);
    return false;
  }
  Reader reader(dirfd(folder.get()), since_unix_ns, skipped);
  RunRecord record;
  for (errno = 0; const dirent* const entry = readdir(folder.get()); errno = 0) {
    const std::string_view name(entry->d_name);
    if (name == "." || name == ".." || name.starts_with(kUnfinishedPrefix)) continue;
    if (reader.Read(entry->d_name, &record)) take(record);
  }
  if (errno == 0) return true;
  *error = std::strerror(errno);
  return false;
}

}  // namespace slipstream::site
