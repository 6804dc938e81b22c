#include "tracer/python/line_table.h"

#include <cstddef>

namespace slipstream::tracer {
namespace {

// Lines are counted in 64 bits: a damaged table may add up to anything.
int32_t AsLine(int64_t line) { return line > 0 && line <= INT32_MAX ? static_cast<int32_t>(line) : kNoLine; }

int32_t LineOfPairs(std::span<const uint8_t> table, int32_t first_line, int32_t offset) {
  int64_t line = first_line;
  int64_t start = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    start += table[i];
    if (start > offset) break;
    line += static_cast<int8_t>(table[i + 1]);
  }
  return AsLine(line);
}

int32_t LineOfRanges(std::span<const uint8_t> table, int32_t first_line, int32_t offset) {
  constexpr int8_t kNoLineDelta = -128;
  int64_t line = first_line;
  int64_t end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto delta = static_cast<int8_t>(table[i + 1]);
    if (delta != kNoLineDelta) line += delta;
    end += table[i];
    if (end > offset) return delta == kNoLineDelta ? kNoLine : AsLine(line);
  }
  return kNoLine;
}

// Reads a location table. Every read is bounded; at the end it gives zeros and says so.
class LocationReader {
 public:
  explicit LocationReader(std::span<const uint8_t> table) : table_(table) {}

  bool at_end() const { return next_ >= table_.size(); }
  uint8_t Byte() { return at_end() ? 0 : table_[next_++]; }
  void Skip(size_t bytes) { next_ += bytes; }

  // Six bits a byte, lowest first; bit 6 says that more follow.
  uint64_t Varint() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 6) {
      const uint8_t byte = Byte();
      if (shift < 60) value |= static_cast<uint64_t>(byte & 0x3f) << shift;
      if ((byte & 0x40) == 0) return value;
    }
  }

  // The sign is in the lowest bit.
  int64_t SignedVarint() {
    const uint64_t value = Varint();
    const auto magnitude = static_cast<int64_t>(value >> 1);
    return (value & 1) != 0 ? -magnitude : magnitude;
  }

 private:
  std::span<const uint8_t> table_;
  size_t next_ = 0;
};

int32_t LineOfLocations(std::span<const uint8_t> table, int32_t first_line, int32_t offset) {
  constexpr int64_t kUnitBytes = 2;
  constexpr int64_t kFarthest = INT64_C(1) << 40;  // beyond any line: stops a damaged table from overflowing the sum
  LocationReader reader(table);
  int64_t line = first_line;
  int64_t end = 0;
  while (!reader.at_end()) {
    const uint8_t head = reader.Byte();
    if ((head & 0x80) == 0) return kNoLine;  // only the first byte of an entry has this bit
    end += ((head & 7) + 1) * kUnitBytes;
    const int code = (head >> 3) & 15;
    bool has_line = true;
    switch (code) {
      case 15:
        has_line = false;
        break;
      case 14:  // line, then end line, column and end column
        line += reader.SignedVarint();
        for (int i = 0; i < 3; ++i) reader.Varint();
        break;
      case 13:  // line only
        line += reader.SignedVarint();
        break;
      case 10:  // the line is at most two on; two columns
      case 11:
      case 12:
        line += code - 10;
        reader.Skip(2);
        break;
      default:  // on the same line; columns in one byte
        reader.Skip(1);
    }
    if (line > kFarthest || line < -kFarthest) return kNoLine;
    if (end > offset) return has_line ? AsLine(line) : kNoLine;
  }
  return kNoLine;
}

}  // namespace

int32_t LineOf(LineTableFormat format, std::span<const uint8_t> table, int32_t first_line, int32_t offset) {
  if (offset < 0) return AsLine(first_line);
  switch (format) {
    case LineTableFormat::kPairs:
      return LineOfPairs(table, first_line, offset);
    case LineTableFormat::kRanges:
      return LineOfRanges(table, first_line, offset);
    case LineTableFormat::kLocations:
      return LineOfLocations(table, first_line, offset);
  }
  return kNoLine;
}

}  // namespace slipstream::tracer
