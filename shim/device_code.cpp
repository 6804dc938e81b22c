#include "shim/device_code.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace slipstream::shim {
namespace {

// fatbinary_section.h and fatBinaryCtl.h of the CUDA toolkit.
constexpr uint32_t kWrapperMagic = 0x466243B1;
struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const void* binary;
};
constexpr uint32_t kFatBinaryMagic = 0xBA55ED50;
struct FatBinary {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t bytes;  // behind the header
};

constexpr uint32_t kElfMagic = 0x464C457F;  // as a number of this machine's

// Images need not be aligned.
template <typename Header>
Header HeaderOf(const void* image) {
  Header header;
  std::memcpy(&header, image, sizeof header);
  return header;
}

bool IsText(char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\t' || c == '\r'; }

std::string_view TextOf(const void* image) {
  const auto* const bytes = static_cast<const char*>(image);
  switch (HeaderOf<uint32_t>(image)) {
    case kWrapperMagic:
      return TextOf(HeaderOf<Wrapper>(image).binary);
    case kFatBinaryMagic: {
      const auto header = HeaderOf<FatBinary>(image);
      return {bytes, header.header_bytes + header.bytes};
    }
    case kElfMagic: {
      const auto header = HeaderOf<Elf64_Ehdr>(image);
      const uint64_t sections_end = header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize;
      const uint64_t segments_end = header.e_phoff + uint64_t{header.e_phnum} * header.e_phentsize;
      return {bytes, std::max(sections_end, segments_end)};
    }
    default:  // PTX, or what nobody knows
      return IsText(*bytes) ? std::string_view(bytes) : std::string_view();
  }
}

}  // namespace

// The function that printf of device code is compiled to (CUDA Programming Guide, Formatted Output).
bool CallsPrintf(const void* image) {
  return image != nullptr && TextOf(image).find("vprintf") != std::string_view::npos;
}

}  // namespace slipstream::shim
