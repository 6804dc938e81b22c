#include "tracer/python/code_sites.h"

#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <new>

#include "tracer/base/claim.h"
#include "tracer/python/python_text.h"
#include "tracer/python/pytorch_folder.h"
#include "tracer/python/raw_memory.h"

namespace slipstream::tracer {

// What a code object says, copied. Written once, before its index is to be found anywhere.
struct CodeSites::Code {
  uint64_t hash;
  size_t file;  // offsets in bytes_
  size_t function;
  size_t table;
  uint32_t file_bytes;
  uint32_t function_bytes;
  uint32_t table_bytes;
  int32_t first_line;
  bool library;
  bool backward;
};

struct CodeSites::Site {
  std::atomic<uint32_t> code;  // index + 1; 0: not written yet
  int32_t instruction;
};

// Three sites and, as writers are rare, one sequence number for them: odd while somebody writes.
struct alignas(64) CodeSites::Row {
  struct Way {
    std::atomic<uint64_t> code;
    std::atomic<uint64_t> place;  // site, instruction
    std::atomic<uint64_t> identity;
    std::atomic<uint64_t> name;
  };
  static constexpr uint32_t kWays = 3;

  std::atomic<uint32_t> sequence;
  std::atomic<uint32_t> next_way;
  Way ways[kWays];
};

// What a code object says, where it says it.
struct CodeSites::Facts {
  PythonText file;
  PythonText function;
  std::span<const uint8_t> table;
  int32_t first_line = 0;
};

namespace {

constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;

uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 32)) * kOdd;
  return value ^ (value >> 29);
}

uint64_t HashBytes(uint64_t seed, const void* bytes, size_t size) {
  uint64_t hash = Mix(seed ^ size);
  const auto address = reinterpret_cast<uintptr_t>(bytes);
  size_t i = 0;
  for (; i + 8 <= size; i += 8) hash = Mix(hash ^ Load<uint64_t>(address + i));
  uint64_t rest = 0;
  if (size != i) std::memcpy(&rest, reinterpret_cast<const void*>(address + i), size - i);
  return Mix(hash ^ rest);
}

bool SameBytes(const void* left, const void* right, size_t size) {
  return size == 0 || std::memcmp(left, right, size) == 0;
}

// Code objects are aligned to 16 bytes, instructions to two.
uint64_t HashPlace(uint64_t where, int32_t instruction) {
  return Mix((where * kOdd) ^ static_cast<uint32_t>(instruction));
}

uint64_t PackPlace(uint32_t site, int32_t instruction) {
  return uint64_t{site} << 32 | static_cast<uint32_t>(instruction);
}

uintptr_t NameOf(const PythonLayout& layout, uintptr_t code) {
  return Load<uintptr_t>(code +
                         (layout.code_qualified_name != kAbsent ? layout.code_qualified_name : layout.code_name));
}

// Version in the upper half, 0 where there is none; first line in the lower.
uint64_t IdentityOf(const PythonLayout& layout, uintptr_t code) {
  const uint32_t version = layout.code_version != kAbsent ? Load<uint32_t>(code + layout.code_version) : 0;
  return uint64_t{version} << 32 | Load<uint32_t>(code + layout.code_first_line);
}

bool HasVersion(uint64_t identity) { return identity >> 32 != 0; }

}  // namespace

CodeSites* CodeSites::Create(const PythonLayout& layout, const Limits& limits) {
  const size_t code_slots = std::bit_ceil(size_t{limits.codes} * 2);
  const size_t site_slots = std::bit_ceil(size_t{limits.sites} * 2);
  // Each part a multiple of what the next one must be aligned to: rows are, and the slots are powers of two above one.
  const size_t rows_at = 0;
  const size_t codes_at = rows_at + size_t{limits.cache_rows} * sizeof(Row);
  const size_t sites_at = codes_at + size_t{limits.codes} * sizeof(Code);
  const size_t code_slots_at = sites_at + size_t{limits.sites} * sizeof(Site);
  const size_t site_slots_at = code_slots_at + code_slots * sizeof(uint32_t);
  const size_t bytes_at = site_slots_at + site_slots * sizeof(uint32_t);
  const size_t size = bytes_at + limits.bytes;
  if (limits.sites == 0 || limits.codes == 0 || !std::has_single_bit(limits.cache_rows)) return nullptr;

  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const sites = new (std::nothrow) CodeSites(layout, limits, static_cast<char*>(memory), size);
  if (sites == nullptr) {
    munmap(memory, size);
    return nullptr;
  }
  char* const base = sites->memory_;
  sites->rows_ = reinterpret_cast<Row*>(base + rows_at);
  sites->codes_ = reinterpret_cast<Code*>(base + codes_at);
  sites->sites_ = reinterpret_cast<Site*>(base + sites_at);
  sites->code_slots_ = reinterpret_cast<std::atomic<uint32_t>*>(base + code_slots_at);
  sites->site_slots_ = reinterpret_cast<std::atomic<uint32_t>*>(base + site_slots_at);
  sites->bytes_ = base + bytes_at;
  sites->code_slot_mask_ = static_cast<uint32_t>(code_slots - 1);
  sites->site_slot_mask_ = static_cast<uint32_t>(site_slots - 1);
  return sites;
}

CodeSites::CodeSites(const PythonLayout& layout, const Limits& limits, char* memory, size_t memory_bytes)
    : layout_(layout), limits_(limits), memory_(memory), memory_bytes_(memory_bytes) {}

CodeSites::~CodeSites() { munmap(memory_, memory_bytes_); }

uint32_t CodeSites::Intern(const PythonFrame& frame) {
  return LookUp(frame, IdentityOf(layout_, frame.code), NameOf(layout_, frame.code));
}

uint32_t CodeSites::Intern(const PythonFrame& frame, Sight* last) {
  const uint64_t identity = IdentityOf(layout_, frame.code);
  const uintptr_t name = NameOf(layout_, frame.code);
  if (last->code == frame.code && last->instruction == frame.instruction && last->identity == identity &&
      last->name == name && HasVersion(identity)) [[likely]] {
    return last->site;
  }
  const uint32_t site = LookUp(frame, identity, name);
  // What has no site now may have one when there is somebody else's code at the address.
  *last = {.code = site != kUnknown ? frame.code : 0,
           .identity = identity,
           .name = name,
           .instruction = frame.instruction,
           .site = site};
  return site;
}

uint32_t CodeSites::LookUp(const PythonFrame& frame, uint64_t identity, uintptr_t name) {
  Row& row = rows_[HashPlace(frame.code, frame.instruction) & (limits_.cache_rows - 1)];
  uint32_t site = FindCached(row, frame, identity, name);
  if (site != kUnknown) [[likely]]
    return site;

  Facts facts;
  uint32_t code = 0;
  if (ReadFacts(frame.code, &facts)) code = InternCode(facts);
  if (code != 0) site = InternSite(code, frame.instruction);
  if (site == kUnknown) {
    unknown_.fetch_add(1, std::memory_order_relaxed);
  } else {
    Remember(row, frame, identity, name, site);
  }
  return site;
}

// Words are read in between two looks at the sequence number, and every one with acquire order: if one of them was
// written by a later writer, the second look sees that writer's number. (A fence would do it, but not for TSan.)
uint32_t CodeSites::FindCached(const Row& row, const PythonFrame& frame, uint64_t identity, uintptr_t name) const {
  const uint32_t sequence = row.sequence.load(std::memory_order_acquire);
  if ((sequence & 1) != 0) return kUnknown;
  for (const Row::Way& way : row.ways) {
    if (way.code.load(std::memory_order_acquire) != frame.code) continue;
    const uint64_t place = way.place.load(std::memory_order_acquire);
    if (static_cast<int32_t>(place) != frame.instruction) continue;
    const bool same =
        way.identity.load(std::memory_order_acquire) == identity && way.name.load(std::memory_order_acquire) == name;
    if (!same || row.sequence.load(std::memory_order_relaxed) != sequence) return kUnknown;
    const auto site = static_cast<uint32_t>(place >> 32);
    if (!HasVersion(identity) && !IsStill(*CodeOf(site), frame.code)) return kUnknown;
    return site;
  }
  return kUnknown;
}

void CodeSites::Remember(Row& row, const PythonFrame& frame, uint64_t identity, uintptr_t name, uint32_t site) {
  uint32_t sequence = row.sequence.load(std::memory_order_relaxed);
  // Somebody else is writing, or was when this process was forked: then this row stays as it is, and what belongs here
  // is looked up the long way.
  if ((sequence & 1) != 0 || !row.sequence.compare_exchange_strong(sequence, sequence + 1, std::memory_order_acquire)) {
    return;
  }
  Row::Way* way = nullptr;
  for (Row::Way& candidate : row.ways) {
    if (candidate.code.load(std::memory_order_relaxed) == frame.code &&
        static_cast<int32_t>(candidate.place.load(std::memory_order_relaxed)) == frame.instruction) {
      way = &candidate;
    }
  }
  if (way == nullptr) way = &row.ways[row.next_way.fetch_add(1, std::memory_order_relaxed) % Row::kWays];
  way->code.store(frame.code, std::memory_order_release);
  way->place.store(PackPlace(site, frame.instruction), std::memory_order_release);
  way->identity.store(identity, std::memory_order_release);
  way->name.store(name, std::memory_order_release);
  row.sequence.store(sequence + 2, std::memory_order_release);
}

bool CodeSites::ReadFacts(uintptr_t code, Facts* facts) const {
  if (!ReadText(layout_, Load<uintptr_t>(code + layout_.code_file), &facts->file) ||
      !ReadText(layout_, NameOf(layout_, code), &facts->function)) {
    return false;
  }
  const auto table = Load<uintptr_t>(code + layout_.code_line_table);
  if (table == 0) return false;
  facts->table = {reinterpret_cast<const uint8_t*>(table + kBytesData), Load<size_t>(table + kObjectSize)};
  facts->first_line = Load<int32_t>(code + layout_.code_first_line);
  return facts->table.size() <= kMaxTableBytes;
}

// That the code object at an address says what another one said there before. First line and the name's address have
// been compared. What kind of objects it has is not asked again: a code object cannot be made with others.
bool CodeSites::IsStill(const Code& code, uintptr_t address) const {
  const auto table = Load<uintptr_t>(address + layout_.code_line_table);
  return Load<size_t>(table + kObjectSize) == code.table_bytes &&
         SameBytes(reinterpret_cast<const void*>(table + kBytesData), &bytes_[code.table], code.table_bytes) &&
         EqualsUtf8(ReadKnownText(layout_, Load<uintptr_t>(address + layout_.code_file)),
                    {&bytes_[code.file], code.file_bytes}, kMaxTextBytes) &&
         EqualsUtf8(ReadKnownText(layout_, NameOf(layout_, address)), {&bytes_[code.function], code.function_bytes},
                    kMaxTextBytes);
}

// Of the process if it is known, else of this file alone, which then makes it known.
std::string_view CodeSites::PyTorchFolder(std::string_view file) {
  const std::string_view known = pytorch_folder();
  if (!known.empty() || IsLibraryFile(file)) return known;
  const std::string_view found = PyTorchFolderOf(file);
  if (!found.empty() && !folder_taken_.exchange(true, std::memory_order_relaxed)) {
    std::memcpy(folder_, found.data(), found.size());
    folder_bytes_.store(found.size(), std::memory_order_release);
  }
  return found;
}

// The index of the code + 1; 0 when there is no room.
uint32_t CodeSites::InternCode(const Facts& facts) {
  char file[kMaxTextBytes];
  char function[kMaxTextBytes];
  const size_t file_bytes = WriteUtf8(facts.file, file);
  const size_t function_bytes = WriteUtf8(facts.function, function);
  uint64_t hash = HashBytes(static_cast<uint32_t>(facts.first_line), file, file_bytes);
  hash = HashBytes(hash, function, function_bytes);
  hash = HashBytes(hash, facts.table.data(), facts.table.size());

  uint32_t mine = 0;
  for (size_t slot = hash;; ++slot) {
    std::atomic<uint32_t>& entry = code_slots_[slot & code_slot_mask_];
    uint32_t found = entry.load(std::memory_order_acquire);
    if (found == 0) {
      if (mine == 0) {
        size_t bytes = 0;
        if (!Claim(&byte_count_, limits_.bytes, file_bytes + function_bytes + facts.table.size(), &bytes)) return 0;
        uint32_t index = 0;
        if (!Claim(&code_count_, limits_.codes, 1, &index)) return 0;
        const std::string_view pytorch = PyTorchFolder({file, file_bytes});
        Code& code = codes_[index];
        code = {.hash = hash,
                .file = bytes,
                .function = bytes + file_bytes,
                .table = bytes + file_bytes + function_bytes,
                .file_bytes = static_cast<uint32_t>(file_bytes),
                .function_bytes = static_cast<uint32_t>(function_bytes),
                .table_bytes = static_cast<uint32_t>(facts.table.size()),
                .first_line = facts.first_line,
                .library = IsLibraryFile({file, file_bytes}, pytorch),
                .backward = IsBackwardCall({file, file_bytes}, {function, function_bytes}, pytorch)};
        std::memcpy(&bytes_[code.file], file, file_bytes);
        std::memcpy(&bytes_[code.function], function, function_bytes);
        if (!facts.table.empty()) std::memcpy(&bytes_[code.table], facts.table.data(), facts.table.size());
        mine = index + 1;
      }
      if (entry.compare_exchange_strong(found, mine, std::memory_order_acq_rel, std::memory_order_acquire)) return mine;
    }
    // Taken, maybe since the line before, maybe with just this.
    const Code& code = codes_[found - 1];
    if (code.hash == hash && code.first_line == facts.first_line &&
        std::string_view(&bytes_[code.file], code.file_bytes) == std::string_view(file, file_bytes) &&
        std::string_view(&bytes_[code.function], code.function_bytes) == std::string_view(function, function_bytes) &&
        code.table_bytes == facts.table.size() &&
        SameBytes(&bytes_[code.table], facts.table.data(), code.table_bytes)) {
      return found;
    }
  }
}

// `code` as InternCode gives it.
uint32_t CodeSites::InternSite(uint32_t code, int32_t instruction) {
  uint32_t mine = kUnknown;
  for (size_t slot = HashPlace(code, instruction);; ++slot) {
    std::atomic<uint32_t>& entry = site_slots_[slot & site_slot_mask_];
    uint32_t found = entry.load(std::memory_order_acquire);
    if (found == kUnknown) {
      if (mine == kUnknown) {
        if (!Claim(&site_count_, limits_.sites, 1, &mine)) return kUnknown;
        sites_[mine].instruction = instruction;
        sites_[mine].code.store(code, std::memory_order_release);
      }
      if (entry.compare_exchange_strong(found, mine, std::memory_order_acq_rel, std::memory_order_acquire)) return mine;
    }
    if (sites_[found].instruction == instruction && sites_[found].code.load(std::memory_order_relaxed) == code) {
      return found;
    }
  }
}

const CodeSites::Code* CodeSites::CodeOf(uint32_t site) const {
  if (site == kUnknown || site >= limits_.sites) return nullptr;
  const uint32_t code = sites_[site].code.load(std::memory_order_acquire);
  return code != 0 ? &codes_[code - 1] : nullptr;
}

bool CodeSites::Describe(uint32_t site, CallSite* description) const {
  const Code* const code = CodeOf(site);
  if (code == nullptr) return false;
  const std::span table(reinterpret_cast<const uint8_t*>(&bytes_[code->table]), code->table_bytes);
  *description = {.file = {&bytes_[code->file], code->file_bytes},
                  .function = {&bytes_[code->function], code->function_bytes},
                  .line = LineOf(layout_.line_table, table, code->first_line, sites_[site].instruction)};
  return true;
}

bool CodeSites::IsLibrary(uint32_t site) const {
  const Code* const code = CodeOf(site);
  return code != nullptr && code->library;
}

// False: further out may be what is looked for.
bool CodeSites::Choose(uint32_t site, Chosen* chosen) const {
  if (site == kUnknown) {
    chosen->lost = true;  // its caller's line would be a wrong one
    return true;
  }
  const Code* const code = CodeOf(site);
  if (code == nullptr) return false;
  if (code->library) {
    chosen->in_backward |= code->backward;
    return false;
  }
  chosen->site = site;
  return true;
}

CodeSites::Chosen CodeSites::ChooseWithin(std::span<const uint32_t> sites) const {
  Chosen chosen;
  for (const uint32_t site : sites) {
    if (Choose(site, &chosen)) break;
  }
  return chosen;
}

CodeSites::Chosen CodeSites::InternChosen(std::span<const PythonFrame> frames) {
  Chosen chosen;
  for (const PythonFrame& frame : frames) {
    if (Choose(Intern(frame), &chosen)) break;
  }
  return chosen;
}

}  // namespace slipstream::tracer
