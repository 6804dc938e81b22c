// Names of PyTorch's operators without the numbers that make each another one.

#include "tracer/ranges/operator_name.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace slipstream::tracer {
namespace {

constexpr uint64_t kNone = ~uint64_t{0};

struct Case {
  const char* text;
  const char* name;
  uint64_t sequence = kNone;
};
constexpr Case kCases[] = {
    {"", ""},
    {"forward", "forward"},
    {"aten::add, seq = 7", "aten::add", 7},
    {"aten::add, op_id = 9", "aten::add"},
    {"aten::addmm, seq = 7, op_id = 9", "aten::addmm", 7},
    {"aten::addmm, seq = 7, op_id = 9, sizes = [[2, 3], [3]]", "aten::addmm, sizes = [[2, 3], [3]]", 7},
    {"aten::addmm, op_id = 9, sizes = [[2]], input_op_ids = [(1,0), (2,0)]", "aten::addmm, sizes = [[2]]"},
    {"AddBackward0, seq = 18446744073709551615", "AddBackward0", 18446744073709551615U},
    // No numbers: a program's own names stay as they are.
    {"epoch 3, seq = last", "epoch 3, seq = last"},
    {"a, seq = 99999999999999999999", "a, seq = 99999999999999999999"},
    {", seq = ", ", seq = "},
    {"seq = 7", "seq = 7"},
};

TEST(OperatorNameTest, NumbersAreNoPartOfIt) {
  for (const Case& one : kCases) {
    std::array<char, 256> room;
    const OperatorName found = WithoutNumbers(one.text, room);
    EXPECT_EQ(found.name, one.name);
    EXPECT_EQ(found.sequence.value_or(kNone), one.sequence) << one.text;
  }
}

TEST(OperatorNameTest, ALongOneIsCut) {
  std::array<char, 8> room;
  EXPECT_EQ(WithoutNumbers("aten::convolution, seq = 1", room).name, "aten::co");
  EXPECT_EQ(WithoutNumbers("aten::convolution", room).name, "aten::convolution");
}

}  // namespace
}  // namespace slipstream::tracer
