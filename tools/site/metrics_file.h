// The file that metrics are in for whoever scrapes them: replaced as a whole, readable by everybody (0644), whatever
// the umask. What is written first lies beside it under a name that does not end in ".prom", which collectors of text
// files pass over.
//
// Threading: an object belongs to one thread.
// Errors: as a text for people; empty: done.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

namespace slipstream::site {

class MetricsFile {
 public:
  explicit MetricsFile(std::string path) : path_(std::move(path)) {}

  std::string Write(const std::string& text);
  // The file that was written last, if it still has the name: what is in it holds no longer.
  void Remove();

 private:
  const std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool written_ = false;
};

}  // namespace slipstream::site
