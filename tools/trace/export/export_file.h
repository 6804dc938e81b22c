// The file that an export writes from beginning to end. It gets its name only when it is whole (new_file.h). Compressed
// (gzip) where the name ends in ".gz".
//
// Threading: one thread.
// Errors: an errno, kept: after the first one nothing is written, so that a caller with many rows asks once in a while.
// Hazard: writing past RLIMIT_FSIZE sends SIGXFSZ, which the process must ignore to get EFBIG instead.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tools/trace/db/new_file.h"

namespace slipstream::trace_export {

class ExportFile {
 public:
  explicit ExportFile(const std::string& place);
  ~ExportFile();
  ExportFile(const ExportFile&) = delete;
  ExportFile& operator=(const ExportFile&) = delete;

  int Create();
  void Write(std::string_view bytes) {
    if (buffer_.size() + bytes.size() > kBuffer) Drain();
    buffer_.append(bytes);
  }
  int error() const { return error_; }
  // Puts all of it onto the disk and gives it its name: replaces an existing file if `replace`, else EEXIST.
  int Publish(bool replace);
  // Of the file; when it is published.
  uint64_t bytes() const { return written_; }

 private:
  struct Deflater;
  static constexpr size_t kBuffer = 256 << 10;

  void Drain();
  void Compress(bool end);
  void WriteOut(const char* bytes, size_t count);

  trace_db::NewFile file_;
  int fd_ = -1;
  int error_ = 0;
  uint64_t written_ = 0;
  std::string buffer_;
  const std::unique_ptr<Deflater> deflater_;  // none: as it is
};

}  // namespace slipstream::trace_export
