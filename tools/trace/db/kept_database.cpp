#include "tools/trace/db/kept_database.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "policy/text.h"
#include "tools/trace/db/clean_text.h"
#include "tools/trace/db/schema.h"

namespace slipstream::trace_db {
namespace {

// Of what MadeFrom says: increased when a build of the same spools gives other rows and no version above says so.
constexpr char kKeptFormat[] = "4";

constexpr char kMadeFrom[] = "SLIPSTREAM_MADE_FROM";
constexpr char kUnreadable[] = "SLIPSTREAM_UNREADABLE_SPOOL";
constexpr char kUnreadableWhy[] = "SLIPSTREAM_UNREADABLE_WHY";

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int fd() const { return fd_; }

 private:
  const int fd_;
};

bool IsOnlyOurs(const struct stat& facts) {
  const bool ours = facts.st_uid == geteuid() || facts.st_uid == 0;
  return ours && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string TimeText(const timespec& time) { return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec); }

// A build of the same version that is not the same: somebody compiles it.
std::string ProgramText() {
  struct stat facts {};
  if (stat("/proc/self/exe", &facts) != 0) return "";
  return std::to_string(facts.st_size) + " " + TimeText(facts.st_mtim);
}

// Of a file that SQLite wrote to its end ("The Database Header", sqlite.org): its size; 0: it is none.
uint64_t SizeByHeader(int fd) {
  constexpr std::string_view kMagic{"SQLite format 3\0", 16};
  std::array<unsigned char, 100> header{};
  if (pread(fd, header.data(), header.size(), 0) != static_cast<ssize_t>(header.size())) return 0;
  if (std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0) return 0;
  const auto number = [&](size_t at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | header[at + i];
    return value;
  };
  const uint64_t page = number(16, 2);
  return (page == 1 ? 65536 : page) * number(28, 4);
}

// None: the writer had another reason, of a newer slipstream.
std::optional<tracer::EndReason> ReasonOf(std::string_view name) {
  for (const auto reason : {tracer::EndReason::kFinished, tracer::EndReason::kLimit, tracer::EndReason::kError}) {
    if (name == NameOf(reason)) return reason;
  }
  return std::nullopt;
}

std::string MadeFromIn(DatabaseReader* reader) {
  Question question(*reader, "SELECT value FROM META_DATA_EXPORT WHERE name = ?");
  return question.Bind(1, kMadeFrom).Next() ? std::string(question.Text(0)) : "";
}

std::vector<UnreadableSpool> UnreadableIn(DatabaseReader* reader) {
  std::vector<UnreadableSpool> unreadable;
  Question question(*reader, "SELECT name, value FROM META_DATA_EXPORT WHERE name IN (?, ?) ORDER BY rowid");
  question.Bind(1, kUnreadable).Bind(2, kUnreadableWhy);
  while (question.Next()) {
    if (question.Text(0) == kUnreadable) {
      unreadable.push_back({std::string(question.Text(1)), ""});
    } else if (!unreadable.empty()) {
      unreadable.back().why = question.Text(1);
    }
  }
  return unreadable;
}

std::vector<ExportedProcess> ProcessesIn(DatabaseReader* reader) {
  std::vector<ExportedProcess> processes;
  Question question(
      *reader,
      "SELECT spoolFile, pid, rank, calls, complete, endReason, endError, records, dropped, readBytes, leftBytes, "
      "leftWhy, skippedChunks, skippedRecords, malformedChunks, missingRecords, lateRecords, damagedBytes, "
      "missingChunks FROM SLIPSTREAM_PROCESSES ORDER BY processId");
  while (question.Next()) {
    const auto count = [&](int column) { return static_cast<uint64_t>(std::max<int64_t>(question.Number(column), 0)); };
    ExportedProcess process;
    process.file = question.Text(0);
    process.pid = question.NumberIfKnown(1);
    process.rank = question.NumberIfKnown(2);
    process.calls = count(3);
    process.end = {.complete = question.Number(4) != 0,
                   .reason = ReasonOf(question.Text(5)).value_or(tracer::EndReason::kFinished),
                   .error = static_cast<int>(question.Number(6)),
                   .records = count(7),
                   .dropped = count(8),
                   .last_pass_ns = 0,
                   .read_bytes = count(9),
                   .left_bytes = count(10),
                   .left_why = std::string(question.Text(11)),
                   .damaged_bytes = count(17),
                   .missing_chunks = count(18),
                   .skipped_chunks = count(12),
                   .skipped_records = count(13),
                   .malformed_chunks = count(14),
                   .missing_records = count(15),
                   .late_records = count(16)};
    processes.push_back(std::move(process));
  }
  return processes;
}

}  // namespace

std::string KeptPlace(const std::string& run, std::string* why) {
  struct stat facts {};
  if (stat(run.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) {
    *why = "it is one of a directory of spool files only";
    return "";
  }
  if (!IsOnlyOurs(facts)) {
    *why = "others may write to " + run;
    return "";
  }
  return (std::filesystem::path(run) / kKeptName).string();
}

std::optional<std::string> MadeFrom(const std::vector<std::string>& spools, const std::string& product_version) {
  std::string text = std::string(kKeptFormat) + " " + kNsysSchemaVersion + " " + kOwnSchemaVersion + " " +
                     policy::Escape(product_version) + " " + ProgramText() + "\n";
  for (const std::string& spool : spools) {
    // Opened, as a reader will do: a file system of several machines then says what is so now.
    const Descriptor file(spool, O_NOFOLLOW | O_NONBLOCK);
    struct stat facts {};
    if (file.fd() < 0 || fstat(file.fd(), &facts) != 0) return std::nullopt;
    text += std::to_string(facts.st_size) + " " + std::to_string(facts.st_ino) + " " + TimeText(facts.st_mtim) + " " +
            TimeText(facts.st_ctim) + " " + policy::Escape(std::filesystem::path(spool).filename().string()) + "\n";
  }
  return text;
}

KeptDatabase OpenKept(const std::string& file, const std::string& made_from) {
  KeptDatabase kept;
  const auto none = [&](const std::string& why, bool replaceable) {
    kept.reader.reset();
    kept.built = {};
    kept.why = why;
    kept.replaceable = replaceable;
  };
  const Descriptor opened(file, O_NOFOLLOW | O_NONBLOCK);
  if (opened.fd() < 0) {
    const int error = errno;
    none(error == ENOENT ? "there is none yet" : file + ": " + std::strerror(error), error == ENOENT);
    return kept;
  }
  struct stat facts {};
  if (fstat(opened.fd(), &facts) != 0 || !S_ISREG(facts.st_mode) || !IsOnlyOurs(facts)) {
    none(file + " is no file of this user's alone", false);
    return kept;
  }
  kept.reader = std::make_unique<DatabaseReader>(file);
  const bool is_whole = SizeByHeader(opened.fd()) == static_cast<uint64_t>(facts.st_size);
  const bool is_this = is_whole && MadeFromIn(kept.reader.get()) == made_from;
  if (is_this) {
    kept.built.unreadable = UnreadableIn(kept.reader.get());
    kept.built.processes = ProcessesIn(kept.reader.get());
    kept.built.database_bytes = static_cast<uint64_t>(facts.st_size);
  }
  if (!kept.reader->ok() || !is_whole) {
    none("the one that is there is damaged", true);
  } else if (!is_this) {
    none("the one that is there was made of other files, or by another slipstream", true);
  }
  return kept;
}

void WriteMadeFrom(Table* table, const std::string& made_from, const BuildResult& result) {
  table->Row(kMadeFrom, made_from);
  for (const UnreadableSpool& spool : result.unreadable) {
    table->Row(kUnreadable, CleanText(spool.file));
    table->Row(kUnreadableWhy, CleanText(spool.why));
  }
}

}  // namespace slipstream::trace_db
