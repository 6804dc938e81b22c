// Numbers for places in Python code: a frame becomes a 32-bit site that outlives it, is the same for the same place,
// and can be turned into file, line and function at any later time.
//
// There are two steps. A cache maps (address of a code object, instruction) to a site, and forgets. On a miss, tables
// map what the code object says (file, name, first line, line table) to a site; they only grow. The same text compiled
// over and over, as by exec in a loop, is one site.
//
// Addresses of code objects are reused. A hit therefore compares name and first line, and then what settles it:
// from 3.12 on the code object's version, a number given once; before that the file's name and the whole line table.
//
// Threading: any thread, lock-free: no lock can be left held by a fork or a killed thread. If two threads see a place
//   at once for the first time, it may use its room twice.
// Hazard: Intern reads the code object: the frame must still be running, on this thread. A first sight takes 12 KiB of
//   stack, and system calls if the code is in a folder called torch (pytorch_folder.h). Describe reads copies only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tracer/python/call_site.h"
#include "tracer/python/python_frame.h"
#include "tracer/python/python_layout.h"

namespace slipstream::tracer {

class CodeSites {
 public:
  // No site: the place could not be read, or there was no room left when it was first seen.
  static constexpr uint32_t kUnknown = 0;

  // Longer names of files and functions are cut. A code object with a longer line table has no site.
  static constexpr size_t kMaxTextBytes = 4096;
  static constexpr size_t kMaxTableBytes = size_t{1} << 20;

  // Reserved once, and touched as it is needed.
  struct Limits {
    uint32_t sites = 1U << 16;
    uint32_t codes = 1U << 14;
    size_t bytes = size_t{16} << 20;  // of names and line tables
    uint32_t cache_rows = 1U << 12;   // of 128 bytes, with three sites each; a power of two
  };

  // Null when there is no memory. Leaked by the library; tests may delete it.
  static CodeSites* Create(const PythonLayout& layout, const Limits& limits);
  ~CodeSites();
  CodeSites(const CodeSites&) = delete;
  CodeSites& operator=(const CodeSites&) = delete;

  // The site of a frame that is running on this thread. No allocation, no lock.
  uint32_t Intern(const PythonFrame& frame);

  // The same for a caller that has seen the frame's place before and keeps it in `last` (zeros: nothing). If code
  // objects have versions, this needs no look-up. Updates `last`.
  struct Sight {
    uintptr_t code;
    uint64_t identity;
    uintptr_t name;
    int32_t instruction;
    uint32_t site;
  };
  uint32_t Intern(const PythonFrame& frame, Sight* last);

  // False for what is no site. The texts live as long as this object. Decodes the line: not for a hot path.
  bool Describe(uint32_t site, CallSite* description) const;

  // Whether the site's file is passed over when a call is put down to a line (call_site.h). One load or two.
  bool IsLibrary(uint32_t site) const;
  struct Chosen {
    uint32_t site = kUnknown;
    bool in_backward = false;  // a frame further in is PyTorch's in backward() (IsBackwardCall)
    bool lost = false;         // a frame that would come first has no number: nobody can tell whose line it is
  };
  // The first of the sites, innermost first, that is no library's; kUnknown: none is, or one before it is kUnknown.
  Chosen ChooseWithin(std::span<const uint32_t> sites) const;
  uint32_t Choose(std::span<const uint32_t> sites) const { return ChooseWithin(sites).site; }
  // The same for frames, if no more is needed: frames further out are not looked at.
  Chosen InternChosen(std::span<const PythonFrame> frames);

  // The folder of a PyTorch that is not in site-packages or dist-packages, with its slash; empty: none was seen. It is
  // known before the first site that is in it has a number.
  std::string_view pytorch_folder() const { return {folder_, folder_bytes_.load(std::memory_order_acquire)}; }

  // Sites are 1 to size() - 1; of these, one that is being written is not yet described.
  uint32_t size() const { return site_count_.load(std::memory_order_acquire); }
  // How often Intern returned kUnknown: a frame found no room, or cannot be read.
  uint64_t unknown() const { return unknown_.load(std::memory_order_relaxed); }

 private:
  struct Code;
  struct Site;
  struct Row;
  struct Facts;

  CodeSites(const PythonLayout& layout, const Limits& limits, char* memory, size_t memory_bytes);

  uint32_t LookUp(const PythonFrame& frame, uint64_t identity, uintptr_t name);
  uint32_t FindCached(const Row& row, const PythonFrame& frame, uint64_t identity, uintptr_t name) const;
  void Remember(Row& row, const PythonFrame& frame, uint64_t identity, uintptr_t name, uint32_t site);
  bool ReadFacts(uintptr_t code, Facts* facts) const;
  bool IsStill(const Code& code, uintptr_t address) const;
  uint32_t InternCode(const Facts& facts);
  std::string_view PyTorchFolder(std::string_view file);
  uint32_t InternSite(uint32_t code, int32_t instruction);
  const Code* CodeOf(uint32_t site) const;
  bool Choose(uint32_t site, Chosen* chosen) const;

  const PythonLayout layout_;
  const Limits limits_;
  char* const memory_;
  const size_t memory_bytes_;
  uint32_t code_slot_mask_ = 0;
  uint32_t site_slot_mask_ = 0;

  std::atomic<uint32_t> site_count_{1};  // 0 is kUnknown
  std::atomic<uint32_t> code_count_{0};
  std::atomic<size_t> byte_count_{0};
  std::atomic<uint64_t> unknown_{0};

  std::atomic<bool> folder_taken_{false};  // by the thread that writes it, or was when this process was forked
  std::atomic<size_t> folder_bytes_{0};
  char folder_[kMaxTextBytes] = {};

  // In memory_, which begins as zeros.
  std::atomic<uint32_t>* code_slots_ = nullptr;  // index of a code + 1; 0 is free
  std::atomic<uint32_t>* site_slots_ = nullptr;  // a site; 0 is free
  Code* codes_ = nullptr;
  Site* sites_ = nullptr;
  Row* rows_ = nullptr;
  char* bytes_ = nullptr;
};

}  // namespace slipstream::tracer
