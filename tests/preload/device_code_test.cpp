// Whether device code prints, told from PTX, cubins and fat binaries.
#include "shim/device_code.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace slipstream::shim {
namespace {

constexpr const char* kPtx = ".version 8.0\n.target sm_90\n.visible .entry kernel() { ret; }\n";
constexpr const char* kPtxThatPrints =
    "// Generated\n.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n";

// Only what says how long it is, and names behind it. `at` is the offset of the section headers.
std::string CubinOf(const std::string& names) {
  std::string image(sizeof(Elf64_Ehdr), '\0');
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_shoff = image.size() + names.size();
  header.e_shnum = 1;
  header.e_shentsize = sizeof(Elf64_Shdr);
  std::memcpy(image.data(), &header, sizeof header);
  return image + names + std::string(sizeof(Elf64_Shdr), '\0');
}

std::string FatBinaryOf(const std::string& content) {
  const uint32_t magic = 0xBA55ED50;
  const uint16_t version = 1;
  const uint16_t header_bytes = 16;
  const uint64_t bytes = content.size();
  std::string image(header_bytes, '\0');
  std::memcpy(image.data(), &magic, sizeof magic);
  std::memcpy(image.data() + 4, &version, sizeof version);
  std::memcpy(image.data() + 6, &header_bytes, sizeof header_bytes);
  std::memcpy(image.data() + 8, &bytes, sizeof bytes);
  return image + content;
}

// A copy that ends with the page, and at an odd address: nothing behind it is looked at (a sanitizer would say so).
bool Prints(const std::string& image) {
  std::vector<char> memory(1 + image.size());
  std::memcpy(memory.data() + 1, image.data(), image.size());
  return CallsPrintf(memory.data() + 1);
}

TEST(DeviceCode, Ptx) {
  EXPECT_FALSE(CallsPrintf(kPtx));
  EXPECT_TRUE(CallsPrintf(kPtxThatPrints));
}

TEST(DeviceCode, Cubins) {
  EXPECT_FALSE(Prints(CubinOf(std::string("\0kernel\0", 8))));
  EXPECT_TRUE(Prints(CubinOf(std::string("\0kernel\0vprintf\0", 16))));
}

TEST(DeviceCode, FatBinaries) {
  EXPECT_FALSE(Prints(FatBinaryOf(CubinOf(std::string("\0kernel\0", 8)))));
  EXPECT_TRUE(Prints(FatBinaryOf(CubinOf(std::string("\0vprintf\0", 9)))));
  EXPECT_FALSE(Prints(FatBinaryOf("") + "vprintf")) << "that is behind it";
}

TEST(DeviceCode, WhatACompilerWrapsThemIn) {
  struct {
    uint32_t magic = 0x466243B1;
    uint32_t version = 1;
    const void* binary = nullptr;
    const void* more = nullptr;
  } wrapper;
  const std::string prints = FatBinaryOf("vprintf");
  const std::string prints_nothing = FatBinaryOf("printf");
  wrapper.binary = prints.data();
  EXPECT_TRUE(CallsPrintf(&wrapper));
  wrapper.binary = prints_nothing.data();
  EXPECT_FALSE(CallsPrintf(&wrapper));
}

TEST(DeviceCode, WhatNobodyKnows) {
  EXPECT_FALSE(CallsPrintf(nullptr));
  EXPECT_FALSE(Prints("\x01\x02\x03\x04vprintf"));
}

}  // namespace
}  // namespace slipstream::shim
