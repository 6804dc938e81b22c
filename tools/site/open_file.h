// Descriptors of files that a site's tools read and write.
//
// Threading: an object belongs to one thread; the function is pure but for the file.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

namespace slipstream::site {

// Closes itself. Below 0: there is none.
class OpenFile {
 public:
  explicit OpenFile(int number) : number_(number) {}
  ~OpenFile() {
    if (number_ >= 0) close(number_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int number() const { return number_; }

 private:
  const int number_;
};

// Why not all of it could be written; empty: it was.
inline std::string WriteAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return std::strerror(errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

}  // namespace slipstream::site
