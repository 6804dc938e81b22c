// The database's numbers of a process's calls, by CUPTI's. Every call that made work for a device has an entry, and
// work may name a call of long ago, so none is ever forgotten: the oldest ones lie in a file.
//
// CUPTI counts upwards, so numbers that are near each other are asked for together; they lie on one page.
//
// Memory: kMostPages pages of a KiB, and some 60 bytes a page. So a byte for each of CUPTI's numbers where all are used.
// Threading: one thread.
// Ownership: the file has no name, and is gone with the object or the process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace slipstream::trace_db {

class CallNumbers {
 public:
  static constexpr size_t kMostPages = size_t{32} << 10;
  static constexpr uint32_t kCallsOfPage = 64;

  // Nothing is known of a number that was not asked for before.
  struct Call {
    int64_t correlation = 0;  // 0: none was given
    uint32_t works = 0;       // before the call was seen
    uint32_t seen = 0;        // 1: the call, and not only its work
  };

  // `folder`: where a file may be made, when there are more pages than `most_pages`, which is at least 1.
  explicit CallNumbers(std::string folder, size_t most_pages = kMostPages);
  ~CallNumbers();
  CallNumbers(const CallNumbers&) = delete;
  CallNumbers& operator=(const CallNumbers&) = delete;

  // To be read and changed until the next one is asked for. Null: the file cannot be written or read (error()).
  Call* Of(uint32_t cupti);
  int error() const { return error_; }  // an errno; 0: none

 private:
  struct Page {
    uint32_t number = 0;
    std::array<Call, kCallsOfPage> calls;
  };
  struct Place {
    Page* page = nullptr;  // in memory
    int64_t in_file = -1;  // counted in pages; -1: it was never written
  };

  bool Load(uint32_t number, Place* place);
  Page* FreePage();
  bool Store(const Page& page);
  bool OpenFile();

  const std::string folder_;
  const size_t most_pages_;
  std::unordered_map<uint32_t, Place> places_;  // by the page's number
  std::vector<std::unique_ptr<Page>> pages_;
  size_t oldest_ = 0;  // when all pages are there: the one that was loaded first
  Page* last_ = nullptr;
  int fd_ = -1;
  int64_t pages_in_file_ = 0;
  int error_ = 0;
};

}  // namespace slipstream::trace_db
