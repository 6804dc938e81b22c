#include "tracer/python/frame_layout.h"

#include <array>
#include <cstddef>
#include <cstring>

// libgcc's, as all unwinders export it; unwind.h leaves it out.
// NOLINTBEGIN(readability-identifier-naming): libgcc's names
extern "C" {
struct dwarf_eh_bases {
  void* tbase;
  void* dbase;
  void* func;  // where the function begins
};
const void* _Unwind_Find_FDE(void* pc, dwarf_eh_bases* bases);
}
// NOLINTEND(readability-identifier-naming)

namespace slipstream::tracer {
namespace {

// DWARF's numbers of registers. (System V ABI for AMD64, figure 3.36)
constexpr uint64_t kRbp = 6;
constexpr uint64_t kRsp = 7;
constexpr uint64_t kReturnAddress = 16;

constexpr int32_t kMostOffset = 1 << 28;  // what fits a packed one

// FrameBytes of an entry of .eh_frame, in order. Reading behind the end gives zeros, and fails for good.
class FrameBytes {
 public:
  FrameBytes(const uint8_t* begin, const uint8_t* end) : at_(begin), end_(end) {}

  template <typename T>
  T Take() {
    T value{};
    if (Has(sizeof(T))) {
      std::memcpy(&value, at_, sizeof(T));
      at_ += sizeof(T);
    }
    return value;
  }
  uint64_t Unsigned() {  // ULEB128
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = Take<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }
  int64_t Signed() {  // SLEB128
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte = 0;
    do {
      byte = Take<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fU} << shift;
      shift += 7;
    } while ((byte & 0x80) != 0);
    if (shift < 64 && (byte & 0x40) != 0) value |= ~uint64_t{0} << shift;
    return static_cast<int64_t>(value);
  }
  void Skip(uint64_t bytes) {
    if (Has(bytes)) at_ += bytes;
  }
  FrameBytes TakeBlock() {
    const uint64_t size = Unsigned();
    const uint8_t* const begin = at_;
    Skip(size);
    return failed_ ? FrameBytes(end_, end_) : FrameBytes(begin, at_);
  }
  bool at_end() const { return failed_ || at_ == end_; }
  bool failed() const { return failed_; }
  const uint8_t* at() const { return at_; }
  const uint8_t* end() const { return end_; }

 private:
  bool Has(uint64_t bytes) {
    if (failed_ || static_cast<uint64_t>(end_ - at_) < bytes) failed_ = true;
    return !failed_;
  }

  const uint8_t* at_;
  const uint8_t* end_;
  bool failed_ = false;
};

// An entry behind its length. Empty: one with a length of 64 bits, which compilers do not make.
FrameBytes EntryAt(const uint8_t* entry) {
  uint32_t length = 0;
  std::memcpy(&length, entry, sizeof(length));
  entry += sizeof(length);
  return length == 0xffffffff ? FrameBytes(entry, entry) : FrameBytes(entry, entry + length);
}

struct CommonEntry {
  uint64_t code_factor = 0;
  int64_t data_factor = 0;
  uint8_t pointer_bytes = 0;  // of an address in the function's entry
  bool has_more = false;      // the function's entry has a block of further data
  FrameBytes instructions{nullptr, nullptr};
};

// 0: of none that is fixed.
uint8_t BytesOfPointer(uint8_t encoding) {
  switch (encoding & 0x0f) {
    case 0x00:  // as an address
    case 0x04:
    case 0x0c:
      return 8;
    case 0x02:
    case 0x0a:
      return 2;
    case 0x03:
    case 0x0b:
      return 4;
    default:
      return 0;
  }
}

bool ReadCommonEntry(const uint8_t* at, CommonEntry* common) {
  FrameBytes bytes = EntryAt(at);
  bytes.Skip(sizeof(uint32_t));  // that says what kind of entry it is
  const auto version = bytes.Take<uint8_t>();
  if (version != 1 && version != 3) return false;
  std::array<char, 8> letters = {};
  for (char& letter : letters) {
    letter = bytes.Take<char>();
    if (letter == '\0') break;
  }
  if (letters.back() != '\0') return false;
  common->code_factor = bytes.Unsigned();
  common->data_factor = bytes.Signed();
  const uint64_t return_address = version == 1 ? bytes.Take<uint8_t>() : bytes.Unsigned();
  if (return_address != kReturnAddress) return false;
  common->pointer_bytes = BytesOfPointer(0);
  common->has_more = letters[0] == 'z';
  if (letters[0] != 'z' && letters[0] != '\0') return false;
  if (common->has_more) {
    FrameBytes more = bytes.TakeBlock();
    for (size_t i = 1; letters[i] != '\0'; ++i) {
      switch (letters[i]) {
        case 'R':
          common->pointer_bytes = BytesOfPointer(more.Take<uint8_t>());
          break;
        case 'P': {
          const uint8_t size = BytesOfPointer(more.Take<uint8_t>());
          if (size == 0) return false;
          more.Skip(size);
          break;
        }
        case 'L':
          more.Skip(1);
          break;
        default:  // 'S', the frame of a signal, whose registers are all elsewhere; and what nobody knows
          return false;
      }
    }
    if (more.failed()) return false;
  }
  common->instructions = FrameBytes(bytes.at(), bytes.end());
  return !bytes.failed() && common->pointer_bytes != 0;
}

// Where a register of the caller is.
struct Rule {
  enum class Kind : uint8_t { kSame, kUndefined, kAtCfa, kAtRbp, kOther };
  Kind kind = Kind::kSame;
  int64_t offset = 0;
};

struct Row {
  enum class Cfa : uint8_t { kOther, kRegister, kAtRbp };
  Cfa cfa = Cfa::kOther;
  uint64_t cfa_register = 0;
  int64_t cfa_offset = 0;
  Rule rbp;
  Rule return_address;
};

constexpr uint8_t kOpBaseRbp = 0x70 + kRbp;  // DW_OP_breg6
constexpr uint8_t kOpDereference = 0x06;     // DW_OP_deref

class Program {
 public:
  // `target`: how far behind the function's beginning the place is.
  Program(const CommonEntry& common, uint64_t target) : common_(common), target_(target) {}

  // False: something that cannot be followed.
  bool Run(FrameBytes bytes) {
    while (!bytes.at_end() && at_ <= target_) {
      if (!Step(&bytes)) return false;
    }
    return !bytes.failed();
  }
  // What was run so far is the beginning that all functions of the common entry share.
  void BeginFunction() { initial_ = row_; }
  const Row& row() const { return row_; }

 private:
  bool Step(FrameBytes* bytes);
  void Advance(uint64_t delta) {
    // What comes behind an advance beyond the place is another row's.
    at_ += delta * common_.code_factor;
  }
  void Set(uint64_t number, const Rule& rule) {
    if (Rule* const known = Find(&row_, number); known != nullptr) *known = rule;
  }
  void Restore(uint64_t number) {
    if (const Rule* const initial = Find(&initial_, number); initial != nullptr) Set(number, *initial);
  }
  static Rule* Find(Row* row, uint64_t number) {
    if (number == kRbp) return &row->rbp;
    return number == kReturnAddress ? &row->return_address : nullptr;
  }
  static Rule AtCfa(int64_t offset) { return {.kind = Rule::Kind::kAtCfa, .offset = offset}; }

  const CommonEntry& common_;
  const uint64_t target_;
  uint64_t at_ = 0;
  Row row_;
  Row initial_;
  std::array<Row, 8> kept_;
  size_t kept_count_ = 0;
};

// (DWARF 5, 7.24 "Call Frame Information", table 7.29; GNU's are in binutils' dwarf2.def)
bool Program::Step(FrameBytes* bytes) {
  const auto code = bytes->Take<uint8_t>();
  const uint8_t low = code & 0x3f;
  switch (code >> 6) {
    case 1:  // advance_loc
      Advance(low);
      return true;
    case 2:  // offset
      Set(low, AtCfa(static_cast<int64_t>(bytes->Unsigned()) * common_.data_factor));
      return true;
    case 3:  // restore
      Restore(low);
      return true;
    default:
      break;
  }
  switch (code) {
    case 0x00:  // nop
      return true;
    case 0x02:  // advance_loc1, 2, 4
      Advance(bytes->Take<uint8_t>());
      return true;
    case 0x03:
      Advance(bytes->Take<uint16_t>());
      return true;
    case 0x04:
      Advance(bytes->Take<uint32_t>());
      return true;
    case 0x05: {  // offset_extended
      const uint64_t number = bytes->Unsigned();
      Set(number, AtCfa(static_cast<int64_t>(bytes->Unsigned()) * common_.data_factor));
      return true;
    }
    case 0x06:  // restore_extended
      Restore(bytes->Unsigned());
      return true;
    case 0x07:  // undefined
      Set(bytes->Unsigned(), {.kind = Rule::Kind::kUndefined});
      return true;
    case 0x08:  // same_value
      Set(bytes->Unsigned(), {});
      return true;
    case 0x09: {  // register
      Set(bytes->Unsigned(), {.kind = Rule::Kind::kOther});
      bytes->Unsigned();
      return true;
    }
    case 0x0a:  // remember_state
      if (kept_count_ == kept_.size()) return false;
      kept_[kept_count_++] = row_;
      return true;
    case 0x0b:  // restore_state
      if (kept_count_ == 0) return false;
      row_ = kept_[--kept_count_];
      return true;
    case 0x0c:  // def_cfa, def_cfa_sf
    case 0x12:
      row_.cfa = Row::Cfa::kRegister;
      row_.cfa_register = bytes->Unsigned();
      row_.cfa_offset = code == 0x0c ? static_cast<int64_t>(bytes->Unsigned()) : bytes->Signed() * common_.data_factor;
      return true;
    case 0x0d:  // def_cfa_register
      row_.cfa_register = bytes->Unsigned();
      return row_.cfa == Row::Cfa::kRegister;
    case 0x0e:  // def_cfa_offset, def_cfa_offset_sf
    case 0x13:
      row_.cfa_offset = code == 0x0e ? static_cast<int64_t>(bytes->Unsigned()) : bytes->Signed() * common_.data_factor;
      return row_.cfa == Row::Cfa::kRegister;
    case 0x0f: {  // def_cfa_expression
      FrameBytes expression = bytes->TakeBlock();
      row_.cfa = Row::Cfa::kOther;
      if (expression.Take<uint8_t>() == kOpBaseRbp) {
        row_.cfa_offset = expression.Signed();
        if (expression.Take<uint8_t>() == kOpDereference && expression.at_end() && !expression.failed()) {
          row_.cfa = Row::Cfa::kAtRbp;
        }
      }
      return true;
    }
    case 0x10: {  // expression
      const uint64_t number = bytes->Unsigned();
      FrameBytes expression = bytes->TakeBlock();
      Rule rule = {.kind = Rule::Kind::kOther};
      if (expression.Take<uint8_t>() == kOpBaseRbp) {
        rule.offset = expression.Signed();
        if (expression.at_end() && !expression.failed()) rule.kind = Rule::Kind::kAtRbp;
      }
      Set(number, rule);
      return true;
    }
    case 0x11: {  // offset_extended_sf
      const uint64_t number = bytes->Unsigned();
      Set(number, AtCfa(bytes->Signed() * common_.data_factor));
      return true;
    }
    case 0x14:  // val_offset, val_offset_sf
    case 0x15:
      Set(bytes->Unsigned(), {.kind = Rule::Kind::kOther});
      bytes->Unsigned();
      return true;
    case 0x16:  // val_expression
      Set(bytes->Unsigned(), {.kind = Rule::Kind::kOther});
      bytes->TakeBlock();
      return true;
    case 0x2e:  // GNU_args_size
      bytes->Unsigned();
      return true;
    default:  // set_loc among them
      return false;
  }
}

bool Fits(int64_t offset) { return offset > -kMostOffset && offset < kMostOffset; }

FrameLayout LayoutOf(const Row& row) {
  // kSame is what it begins as: no rule at all.
  if (row.return_address.kind == Rule::Kind::kUndefined) return {.cfa = FrameLayout::Cfa::kOutermost};
  constexpr int64_t kAtReturnAddress = -8;
  if (row.return_address.kind != Rule::Kind::kAtCfa || row.return_address.offset != kAtReturnAddress) return {};

  FrameLayout layout;
  if (!Fits(row.cfa_offset) || !Fits(row.rbp.offset)) return {};
  layout.cfa_offset = static_cast<int32_t>(row.cfa_offset);
  layout.rbp_offset = static_cast<int32_t>(row.rbp.offset);
  switch (row.rbp.kind) {
    case Rule::Kind::kSame:
      layout.rbp = FrameLayout::Rbp::kSame;
      break;
    case Rule::Kind::kAtCfa:
      layout.rbp = FrameLayout::Rbp::kAtCfa;
      break;
    case Rule::Kind::kAtRbp:
      layout.rbp = FrameLayout::Rbp::kAtRbp;
      break;
    default:
      return {};
  }
  if (row.cfa == Row::Cfa::kAtRbp) {
    layout.cfa = FrameLayout::Cfa::kAtRbp;
  } else if (row.cfa == Row::Cfa::kRegister && row.cfa_register == kRsp) {
    layout.cfa = FrameLayout::Cfa::kFromRsp;
  } else if (row.cfa == Row::Cfa::kRegister && row.cfa_register == kRbp) {
    layout.cfa = FrameLayout::Cfa::kFromRbp;
  } else {
    return {};
  }
  return layout;
}

}  // namespace

uint64_t FrameLayout::Pack() const {
  if (!Fits(cfa_offset) || !Fits(rbp_offset)) return FrameLayout{}.Pack();
  constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  return kIsPacked | static_cast<uint64_t>(cfa) | static_cast<uint64_t>(rbp) << 3 |
         (static_cast<uint64_t>(static_cast<int64_t>(cfa_offset)) & kMask) << kCfaAt |
         (static_cast<uint64_t>(static_cast<int64_t>(rbp_offset)) & kMask) << kRbpAt;
}

FrameLayout LayoutBefore(uintptr_t return_address) {
  dwarf_eh_bases bases = {};
  // libgcc looks before an address by itself only when it unwinds.
  void* const place = reinterpret_cast<void*>(return_address - 1);
  const auto* const entry = static_cast<const uint8_t*>(_Unwind_Find_FDE(place, &bases));
  if (entry == nullptr) return {};
  FrameBytes bytes = EntryAt(entry);
  const uint8_t* const common_at = bytes.at();
  const auto back = bytes.Take<int32_t>();
  CommonEntry common;
  if (bytes.failed() || !ReadCommonEntry(common_at - back, &common)) return {};
  bytes.Skip(size_t{2} * common.pointer_bytes);  // where the function begins, and how long it is
  if (common.has_more) bytes.TakeBlock();
  if (bytes.failed()) return {};
  const auto begin = reinterpret_cast<uintptr_t>(bases.func);
  Program program(common, return_address - 1 - begin);
  if (!program.Run(common.instructions)) return {};
  program.BeginFunction();
  return program.Run(bytes) ? LayoutOf(program.row()) : FrameLayout{};
}

}  // namespace slipstream::tracer
