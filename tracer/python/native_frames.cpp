#include "tracer/python/native_frames.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "tracer/base/claim.h"
#include "tracer/base/loaded_object_at.h"
#include "tracer/python/frame_layout.h"

namespace slipstream::tracer {

// A module. Written once, before its number is to be found anywhere, but for `unloaded`.
struct NativeFrames::Entry {
  std::atomic<uint32_t> is_written;
  std::atomic<uint32_t> unloaded;
  Identity identity;
  uintptr_t bias;         // what is added to the file's addresses
  uintptr_t build_id_at;  // 0: it has none
  uint32_t path_bytes;
  uint32_t build_id_bytes;
  size_t path;  // offset in bytes_
  std::array<char, kMaxBuildId> build_id;
};

namespace {

constexpr char kInsideThisModule = 0;

// The notes of a module that is loaded: the address of its build-id and its length, or zeros. A module begins with its
// ELF header; a program header that is not in the first page (none is known to be) is not believed.
struct BuildId {
  uintptr_t at = 0;
  uint32_t bytes = 0;
};

BuildId FindBuildId(uintptr_t start, uintptr_t end, uintptr_t bias) {
  constexpr uintptr_t kPage = 4096;
  const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(start);
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_phentsize != sizeof(ElfW(Phdr)) ||
      header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) > kPage) {
    return {};
  }
  const auto* const parts = reinterpret_cast<const ElfW(Phdr)*>(start + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    if (parts[i].p_type != PT_NOTE) continue;
    uintptr_t at = bias + parts[i].p_vaddr;
    if (at < start || at >= end || parts[i].p_memsz > end - at) continue;
    const uintptr_t notes_end = at + parts[i].p_memsz;
    const uintptr_t align = parts[i].p_align == 8 ? 8 : 4;
    const auto padded = [&](uintptr_t bytes) { return (bytes + align - 1) / align * align; };
    while (notes_end - at >= sizeof(ElfW(Nhdr))) {
      ElfW(Nhdr) note;
      std::memcpy(&note, reinterpret_cast<const void*>(at), sizeof(note));
      const uintptr_t name = at + sizeof(note);
      const uintptr_t text = name + padded(note.n_namesz);
      const uintptr_t next = text + padded(note.n_descsz);
      if (next > notes_end || next <= at) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          std::memcmp(reinterpret_cast<const void*>(name), "GNU", 4) == 0) {
        return {.at = text, .bytes = note.n_descsz};
      }
      at = next;
    }
  }
  return {};
}

}  // namespace

NativeFrames* NativeFrames::Create(const Limits& limits, Own own) {
#if !defined(__x86_64__)
  return nullptr;
#endif
  if (!CanFindLoadedObjects() || limits.addresses < 2 || limits.modules < 2 || limits.addresses > 1U << 24)
    return nullptr;
  const size_t slots = std::bit_ceil(size_t{limits.addresses} * 2);
  const size_t places_at = slots * sizeof(Slot);
  const size_t entries_at = places_at + limits.addresses * sizeof(Place);
  const size_t bytes_at = entries_at + limits.modules * sizeof(Entry);
  const size_t size = bytes_at + limits.bytes;
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const frames = new (std::nothrow) NativeFrames(limits, static_cast<char*>(memory), size);
  if (frames == nullptr) {
    munmap(memory, size);
    return nullptr;
  }
  char* const base = frames->memory_;
  frames->slots_ = reinterpret_cast<Slot*>(base);
  frames->places_ = reinterpret_cast<Place*>(base + places_at);
  frames->entries_ = reinterpret_cast<Entry*>(base + entries_at);
  frames->bytes_ = base + bytes_at;
  frames->slot_mask_ = static_cast<uint32_t>(slots - 1);
  Identity self;
  if (own == Own::kLeaveOut && Find(reinterpret_cast<uintptr_t>(&kInsideThisModule), &self)) {
    frames->own_start_ = self.start;
    frames->own_end_ = self.end;
  }
  return frames;
}

NativeFrames::NativeFrames(const Limits& limits, char* memory, size_t memory_bytes)
    : limits_(limits), memory_(memory), memory_bytes_(memory_bytes) {}

NativeFrames::~NativeFrames() { munmap(memory_, memory_bytes_); }

bool NativeFrames::Find(uintptr_t address, Identity* identity) {
  dl_find_object found;
  if (!LoadedObjectAt(reinterpret_cast<void*>(address), &found)) return false;
  *identity = {.start = reinterpret_cast<uintptr_t>(found.dlfo_map_start),
               .end = reinterpret_cast<uintptr_t>(found.dlfo_map_end),
               .link_map = found.dlfo_link_map,
               .unwind_information = found.dlfo_eh_frame};
  return true;
}

// A slot is taken for good by the first address that comes to it.
NativeFrames::Frame NativeFrames::LookUp(uintptr_t return_address) {
  for (size_t at = HashOf(return_address), tries = 0; tries <= slot_mask_; ++at, ++tries) {
    Slot& slot = slots_[at & slot_mask_];
    uint64_t found = slot.address.load(std::memory_order_acquire);
    if (found == 0) {
      // There are twice as many slots as numbers. What is full is said before a slot is gone, and then for all.
      if (addresses() >= limits_.addresses) break;
      if (slot.address.compare_exchange_strong(found, return_address, std::memory_order_acq_rel,
                                               std::memory_order_acquire)) {
        return Learn(return_address, &slot);
      }
    }
    if (found != return_address) continue;
    const uint64_t layout = slot.layout.load(std::memory_order_acquire);
    if (layout != 0) return {layout, slot.number.load(std::memory_order_relaxed)};
    return Learn(return_address, &slot);
  }
  refused_.fetch_add(1, std::memory_order_relaxed);
  return {FrameLayout{}.Pack(), kNone};
}

// Two threads may come here at once, and find the same.
NativeFrames::Frame NativeFrames::Learn(uintptr_t return_address, Slot* slot) {
  const bool is_own = return_address - own_start_ < own_end_ - own_start_;
  const uint32_t number = is_own ? kNone : NumberOf(return_address);
  const uint64_t layout =
      is_own || number != kNone ? LayoutBefore(return_address).Pack() : FrameLayout{}.Pack();  // no room: it ends here
  slot->number.store(number, std::memory_order_relaxed);
  slot->layout.store(layout, std::memory_order_release);
  return {layout, number};
}

uint32_t NativeFrames::NumberOf(uintptr_t return_address) {
  Identity identity;
  uint32_t module = 0;
  if (Find(return_address - 1, &identity)) module = ModuleOf(identity);
  uint32_t number = kNone;
  if (!Claim(&address_count_, limits_.addresses, 1, &number)) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return kNone;
  }
  Place& place = places_[number];
  place.offset = return_address - (module != 0 ? entries_[module].bias : 0);
  place.module.store(module + 1, std::memory_order_release);
  return number;
}

uint32_t NativeFrames::ModuleOf(const Identity& identity) {
  const uint32_t count = modules();
  for (uint32_t i = 1; i < count; ++i) {
    const Entry& entry = entries_[i];
    if (entry.is_written.load(std::memory_order_acquire) != 0 && entry.identity == identity &&
        entry.unloaded.load(std::memory_order_relaxed) == 0) {
      return i;
    }
  }
  return AddModule(identity);
}

// Of what has no room, addresses have no module.
uint32_t NativeFrames::AddModule(const Identity& identity) {
  const int kept = errno;
  const auto* const loaded = static_cast<const link_map*>(identity.link_map);
  char program[kMaxPath];
  std::string_view path = loaded->l_name != nullptr ? loaded->l_name : "";
  if (path.empty()) {
    const ssize_t bytes = readlink("/proc/self/exe", program, sizeof(program));
    path = {program, bytes > 0 ? static_cast<size_t>(bytes) : 0};
  }
  // As it was loaded; whoever reads the trace is somewhere else. A name without a folder is the kernel's own.
  if (path.find('/') != std::string_view::npos && path[0] != '/' && getcwd(program, sizeof(program)) != nullptr) {
    const size_t folder = std::strlen(program);
    if (folder + 1 + path.size() <= sizeof(program)) {
      program[folder] = '/';
      std::memcpy(program + folder + 1, path.data(), path.size());
      path = {program, folder + 1 + path.size()};
    }
  }
  path = path.substr(0, kMaxPath);
  errno = kept;
  size_t at = 0;
  if (!Claim(&byte_count_, limits_.bytes, path.size(), &at)) return 0;
  uint32_t number = 0;
  if (!Claim(&module_count_, limits_.modules, 1, &number)) return 0;
  Entry& entry = entries_[number];
  entry.identity = identity;
  entry.bias = loaded->l_addr;
  entry.path = at;
  entry.path_bytes = static_cast<uint32_t>(path.size());
  std::memcpy(bytes_ + at, path.data(), path.size());
  const BuildId build_id = FindBuildId(identity.start, identity.end, entry.bias);
  if (build_id.bytes != 0 && build_id.bytes <= kMaxBuildId) {
    entry.build_id_at = build_id.at;
    entry.build_id_bytes = build_id.bytes;
    std::memcpy(entry.build_id.data(), reinterpret_cast<const void*>(build_id.at), build_id.bytes);
  }
  entry.is_written.store(1, std::memory_order_release);
  return number;
}

bool NativeFrames::Describe(uint32_t address, Address* description) const {
  if (address == kNone || address >= addresses()) return false;
  const uint32_t module = places_[address].module.load(std::memory_order_acquire);
  if (module == 0) return false;
  *description = {.module = module - 1, .offset = places_[address].offset};
  return true;
}

bool NativeFrames::DescribeModule(uint32_t module, Module* description) const {
  if (module == 0 || module >= modules()) return false;
  const Entry& entry = entries_[module];
  if (entry.is_written.load(std::memory_order_acquire) == 0) return false;
  *description = {.path = {bytes_ + entry.path, entry.path_bytes},
                  .build_id = {entry.build_id.data(), entry.build_id_bytes},
                  .start = entry.identity.start,
                  .end = entry.identity.end};
  return true;
}

// Another library of the same size in the same place has the same identity. It may be gone at any moment, so its
// memory is read by a system call; where that is not allowed, the identity has to do.
bool NativeFrames::HasBuildIdOf(const Entry& entry) const {
  std::array<char, kMaxBuildId> there;
  iovec to = {.iov_base = there.data(), .iov_len = entry.build_id_bytes};
  iovec from = {.iov_base = reinterpret_cast<void*>(entry.build_id_at), .iov_len = entry.build_id_bytes};
  const ssize_t bytes = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
  if (bytes < 0) return errno != EFAULT;
  return std::memcmp(there.data(), entry.build_id.data(), entry.build_id_bytes) == 0;
}

void NativeFrames::ForgetUnloaded() {
  bool any = false;
  const uint32_t count = modules();
  for (uint32_t i = 1; i < count; ++i) {
    Entry& entry = entries_[i];
    if (entry.is_written.load(std::memory_order_acquire) == 0 || entry.unloaded.load(std::memory_order_relaxed) != 0) {
      continue;
    }
    Identity now;
    const bool is_there =
        Find(entry.identity.start, &now) && now == entry.identity && (entry.build_id_bytes == 0 || HasBuildIdOf(entry));
    if (is_there) continue;
    entry.unloaded.store(1, std::memory_order_relaxed);
    any = true;
  }
  if (!any) return;
  for (size_t i = 0; i <= slot_mask_; ++i) {
    Slot& slot = slots_[i];
    Address address;
    if (!Describe(slot.number.load(std::memory_order_relaxed), &address) || address.module == 0) continue;
    // Whoever learns it now finds another module, and gives it another number.
    if (entries_[address.module].unloaded.load(std::memory_order_relaxed) != 0) {
      slot.layout.store(0, std::memory_order_release);
    }
  }
}

}  // namespace slipstream::tracer
