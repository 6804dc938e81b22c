#include "tools/site/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tools/site/open_file.h"

namespace slipstream::site {
namespace {

constexpr size_t kLetters = 6;  // of mkostemp's
constexpr size_t kLongestHost = 64;

std::string LastError() { return std::strerror(errno); }

// Of the host's name what any file system takes.
std::string Plain(const std::string& host) {
  std::string plain;
  for (const char letter : host.substr(0, kLongestHost)) {
    const bool good = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                      (letter >= '0' && letter <= '9') || letter == '.' || letter == '_';
    plain.push_back(good ? letter : '-');
  }
  return plain.empty() ? "host" : plain;
}

std::string RecordName(const RunRecord& record, const std::string& letters) {
  char start[32];
  std::snprintf(start, sizeof(start), "%020lld", static_cast<long long>(record.start_unix_ns));
  return std::string(start) + "-" + Plain(record.host) + "-" + std::to_string(record.pid) + "-" + letters +
         std::string(kRecordSuffix);
}

}  // namespace

std::string WriteRecordFile(const std::string& directory, bool for_group, const RunRecord& record,
                            const std::string& text) {
  std::string unfinished = directory + "/" + std::string(kUnfinishedPrefix) + "XXXXXX";
  const int file = mkostemp(unfinished.data(), O_CLOEXEC);
  if (file < 0) return LastError();
  // mkostemp gives what the umask leaves of 0600.
  constexpr mode_t kPrivate = S_IRUSR | S_IWUSR;
  std::string error = fchmod(file, for_group ? kPrivate | S_IRGRP : kPrivate) != 0 ? LastError() : "";
  if (error.empty()) error = WriteAll(file, text);
  if (close(file) != 0 && error.empty()) error = LastError();
  const std::string name = directory + "/" + RecordName(record, unfinished.substr(unfinished.size() - kLetters));
  if (error.empty() && rename(unfinished.c_str(), name.c_str()) != 0) error = LastError();
  if (!error.empty()) unlink(unfinished.c_str());
  return error;
}

}  // namespace slipstream::site
