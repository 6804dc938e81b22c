#include "tools/trace/db/call_numbers.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace slipstream::trace_db {

CallNumbers::CallNumbers(std::string folder, size_t most_pages) : folder_(std::move(folder)), most_pages_(most_pages) {}

CallNumbers::~CallNumbers() {
  if (fd_ >= 0) close(fd_);
}

CallNumbers::Call* CallNumbers::Of(uint32_t cupti) {
  const uint32_t number = cupti / kCallsOfPage;
  if (last_ == nullptr || last_->number != number) {
    Place& place = places_[number];
    if (place.page == nullptr && !Load(number, &place)) return nullptr;
    last_ = place.page;
  }
  return &last_->calls[cupti % kCallsOfPage];
}

bool CallNumbers::Load(uint32_t number, Place* place) {
  if (error_ != 0) return false;
  last_ = nullptr;  // it may be the one that goes
  Page* const page = FreePage();
  if (page == nullptr) return false;
  page->number = number;
  place->page = page;
  if (place->in_file < 0) {
    page->calls = {};
    return true;
  }
  constexpr auto kBytes = static_cast<ssize_t>(sizeof(page->calls));
  const ssize_t got = pread(fd_, page->calls.data(), sizeof(page->calls), place->in_file * kBytes);
  if (got != kBytes) error_ = got < 0 ? errno : EIO;
  return error_ == 0;
}

// Null: what was on it cannot be written.
CallNumbers::Page* CallNumbers::FreePage() {
  if (pages_.size() < most_pages_) return pages_.emplace_back(std::make_unique<Page>()).get();
  Page* const page = pages_[oldest_].get();
  oldest_ = (oldest_ + 1) % pages_.size();
  return Store(*page) ? page : nullptr;
}

bool CallNumbers::Store(const Page& page) {
  if (fd_ < 0 && !OpenFile()) return false;
  Place& place = places_[page.number];
  place.page = nullptr;
  if (place.in_file < 0) place.in_file = pages_in_file_++;
  constexpr auto kBytes = static_cast<ssize_t>(sizeof(page.calls));
  const ssize_t put = pwrite(fd_, page.calls.data(), sizeof(page.calls), place.in_file * kBytes);
  if (put != kBytes) error_ = put < 0 ? errno : ENOSPC;
  return error_ == 0;
}

bool CallNumbers::OpenFile() {
  fd_ = open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd_ >= 0) return true;
  // A file system that makes no files without names.
  std::string name = folder_ + "/slipstream-calls-XXXXXX";
  fd_ = mkostemp(name.data(), O_CLOEXEC);
  if (fd_ < 0) {
    error_ = errno;
    return false;
  }
  unlink(name.c_str());
  return true;
}

}  // namespace slipstream::trace_db
