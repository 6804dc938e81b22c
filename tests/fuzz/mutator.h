// Damages bytes as files are damaged, and as somebody does who looks for a gap: flipped bits, numbers at the edge of
// their range, parts that are gone, doubled, moved, or another seed's.
//
// Threading: an object belongs to one thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace slipstream::fuzz {

class Mutator {
 public:
  Mutator(const std::vector<std::string>& seeds, uint64_t seed) : seeds_(seeds), random_(seed) {}

  std::string Next() {
    std::string bytes = seeds_[Below(seeds_.size())];
    for (size_t edits = 1 + Below(8); edits > 0; --edits) Edit(&bytes);
    return bytes;
  }

 private:
  size_t Below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  template <typename Number>
  void Put(std::string* bytes, size_t at, Number number) {
    if (bytes->size() < sizeof(number)) return;
    std::memcpy(bytes->data() + std::min(at, bytes->size() - sizeof(number)), &number, sizeof(number));
  }

  // Near the beginning as often as anywhere: what is there decides about the rest.
  size_t Place(const std::string& bytes) {
    return Below(Below(3) == 0 ? std::min<size_t>(bytes.size(), 256) : bytes.size());
  }

  void Edit(std::string* bytes) {
    constexpr std::array<uint64_t, 14> kEdges = {
        0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x10000000, 1ULL << 63, ~0ULL};
    if (bytes->empty()) bytes->push_back(static_cast<char>(random_()));
    const size_t at = Place(*bytes);
    switch (Below(11)) {
      case 0:
        (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << Below(8)));
        break;
      case 1:
        (*bytes)[at] = static_cast<char>(random_());
        break;
      case 2:
        Put(bytes, at & ~size_t{7}, kEdges[Below(kEdges.size())]);
        break;
      case 3:
        Put(bytes, at & ~size_t{3}, static_cast<uint32_t>(kEdges[Below(kEdges.size())]));
        break;
      case 4:
        Put(bytes, at & ~size_t{1}, static_cast<uint16_t>(kEdges[Below(kEdges.size())]));
        break;
      case 5: {  // a small step away
        uint32_t number = 0;
        if (bytes->size() < sizeof(number)) break;
        const size_t place = std::min(at & ~size_t{3}, bytes->size() - sizeof(number));
        std::memcpy(&number, bytes->data() + place, sizeof(number));
        Put(bytes, place, static_cast<uint32_t>(number + Below(9) - 4));
        break;
      }
      case 6:
        bytes->erase(at, 8 * Below(16));
        break;
      case 7:
        bytes->insert(at & ~size_t{7}, bytes->substr(Place(*bytes), 8 * Below(40)));
        break;
      case 8: {  // a part of another one, at its place or elsewhere
        const std::string& other = seeds_[Below(seeds_.size())];
        const size_t from = Below(2) == 0 ? std::min(at, other.size()) : Below(other.size());
        const std::string part = other.substr(from, 8 * Below(64));
        bytes->replace(at, part.size(), part);
        break;
      }
      case 9:
        bytes->resize(Below(4) == 0 ? at : bytes->size());
        break;
      default:
        for (size_t i = at; i < std::min(bytes->size(), at + Below(64)); ++i)
          (*bytes)[i] = static_cast<char>(random_());
    }
  }

  const std::vector<std::string>& seeds_;
  std::mt19937_64 random_;
};

}  // namespace slipstream::fuzz
