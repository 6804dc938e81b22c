// Whether memory of the process's own has been written since a moment: the kernel keeps account, page by page.
//
// The pages of a range are write-protected by userfaultfd in its asynchronous mode (Linux 6.7). The first write to a
// page, whoever makes it by the process's addresses (a thread, read(2), process_vm_writev(2)), is noted by the kernel,
// which lets it pass at once: nobody is stopped and no signal comes. PAGEMAP_SCAN says which pages that were, and
// protects them anew. Memory that is unmapped, replaced, moved or thrown away meanwhile counts as written.
//
// What is not seen: writes by the page and not by an address, through pages that somebody had pinned before they were
// protected: a read with O_DIRECT that is under way, a buffer registered with an io_uring or an RDMA transport.
// PinsPages() looks for those who could have pinned some.
//
// Threading: Open by one thread at a time, before the rest; the rest by any. No lock. The kernel holds the lock of the process's mappings while
//   a range is looked at, for reading: 20 us for 32 MiB.
// Ownership: never destroyed; the descriptor stays open until the process ends. A forked child watches nothing.
// Errors: what the kernel does not say counts as written, or as lost.
// Source of the rules: Linux, Documentation/admin-guide/mm/{userfaultfd,pagemap}.rst; S80.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace slipstream::policy {

class WriteWatch {
 public:
  static constexpr size_t kPageBytes = 4096;

  // Whole pages.
  struct Pages {
    uintptr_t begin = 0;
    uintptr_t end = 0;

    size_t bytes() const { return end - begin; }
    // Those that lie in the memory.
    static Pages Inside(const void* memory, size_t bytes) {
      const auto at = reinterpret_cast<uintptr_t>(memory);
      const uintptr_t begin = (at + kPageBytes - 1) / kPageBytes * kPageBytes;
      const uintptr_t end = (at + bytes) / kPageBytes * kPageBytes;
      return {begin, end > begin ? end : begin};
    }
  };

  // Null: it can be had. Else why not, in words for a user. Opens a descriptor the first time.
  const char* Open();

  // Watches them, every page counting as written until it is protected. False: they are not all the process's private
  // memory without a file, or somebody else watches them. Reads the process's mappings: up to milliseconds.
  bool Add(const Pages& pages) const;
  void Remove(const Pages& pages) const;

  // Adds to `written` what has been written since it was protected last, in order. False: that is lost, since some of
  // the memory is not what was added any more. `protect`: what is written is protected in the same step, so that what
  // is read from now on is as it is, or will be told the next time.
  bool Look(const Pages& pages, bool protect, std::vector<Pages>* written) const;

  // Whether this process may have pages pinned by something that writes to them by the page. Reads the names of all
  // its descriptors.
  bool PinsPages() const;

 private:
  // A program may close descriptors that are not its own, and the number be another file's.
  bool IsOpen() const;

  int descriptor_ = -1;
  ino_t inode_ = 0;
  bool opened_ = false;
  const char* why_not_ = nullptr;
};

// Whether it could be had by a new process like this one; null, or why not. Leaves nothing open.
const char* WhyNoWriteWatch();

}  // namespace slipstream::policy
