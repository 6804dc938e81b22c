// A file of lines that is written line by line, so that whoever is killed leaves all of them but the last.
//
// Threading: an object belongs to one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace slipstream::cli {

class JournalFile {
 public:
  explicit JournalFile(std::string path) : path_(std::move(path)) {}
  ~JournalFile();
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;

  const std::string& path() const { return path_; }
  bool open() const { return fd_ >= 0; }
  // Keeps the first `bytes`. Why it cannot be written; empty: it can.
  std::string Open(size_t bytes);
  // Behind what is there already. A full disk costs what would have been gone on from, and nothing else.
  void Append(std::string_view line) const;
  void Remove() const;

 private:
  const std::string path_;
  int fd_ = -1;
};

}  // namespace slipstream::cli
