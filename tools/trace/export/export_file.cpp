#include "tools/trace/export/export_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>

namespace slipstream::trace_export {

struct ExportFile::Deflater {
  // A trace is mostly the same few names: little is gained by looking further than the fast levels do.
  static constexpr int kLevel = 3;
  static constexpr int kGzip = 15 + 16;  // the largest window, and gzip's header instead of zlib's
  static constexpr int kMemory = 8;      // zlib's own default

  Deflater() { ready = deflateInit2(&stream, kLevel, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) == Z_OK; }
  ~Deflater() {
    if (ready) deflateEnd(&stream);
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  z_stream stream{};
  bool ready = false;
};

ExportFile::ExportFile(const std::string& place)
    : file_(place), deflater_(place.ends_with(".gz") ? std::make_unique<Deflater>() : nullptr) {
  buffer_.reserve(kBuffer);
}

ExportFile::~ExportFile() {
  if (fd_ >= 0) close(fd_);
}

int ExportFile::Create() {
  if (deflater_ != nullptr && !deflater_->ready) return error_ = ENOMEM;
  if (error_ = file_.Create(); error_ != 0) return error_;
  fd_ = open(file_.path().c_str(), O_WRONLY | O_CLOEXEC);
  if (fd_ < 0) error_ = errno;
  return error_;
}

void ExportFile::Drain() {
  if (deflater_ != nullptr) {
    Compress(false);
  } else {
    WriteOut(buffer_.data(), buffer_.size());
  }
  buffer_.clear();
}

void ExportFile::Compress(bool end) {
  std::array<unsigned char, 64 << 10> out;
  z_stream& stream = deflater_->stream;
  stream.next_in = reinterpret_cast<unsigned char*>(buffer_.data());
  stream.avail_in = static_cast<uInt>(buffer_.size());
  do {
    stream.next_out = out.data();
    stream.avail_out = out.size();
    deflate(&stream, end ? Z_FINISH : Z_NO_FLUSH);
    WriteOut(reinterpret_cast<const char*>(out.data()), out.size() - stream.avail_out);
  } while (stream.avail_out == 0 && error_ == 0);
}

void ExportFile::WriteOut(const char* bytes, size_t count) {
  while (count != 0 && error_ == 0) {
    const ssize_t done = write(fd_, bytes, count);
    if (done < 0) {
      if (errno != EINTR) error_ = errno;
      continue;
    }
    bytes += done;
    count -= static_cast<size_t>(done);
    written_ += static_cast<size_t>(done);
  }
}

int ExportFile::Publish(bool replace) {
  if (deflater_ != nullptr) {
    Compress(true);
    buffer_.clear();
  } else {
    Drain();
  }
  if (error_ == 0) error_ = file_.Publish(replace);
  return error_;
}

}  // namespace slipstream::trace_export
