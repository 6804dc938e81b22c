// Writes the table of what an engine decides, from its decision.h, into docs/transfer.md or docs/allocator.md:
//
//     slipstream_decisions_reference transfer|allocator DOCUMENT [OUT]
//
// Replaces what stands between the two marks in DOCUMENT and writes the whole to OUT (default: DOCUMENT itself).

#include <fstream>
#include <iostream>
#include <span>
#include <sstream>
#include <string>

#include "allocator/decision.h"
#include "transfer/decision.h"

namespace {

constexpr char kBegin[] = "<!-- decisions:begin -->\n";
constexpr char kEnd[] = "<!-- decisions:end -->\n";

std::string TableOf(std::span<const slipstream::policy::DecisionText> decisions) {
  std::string table = "| name | counts |\n|---|---|\n";
  for (const auto& decision : decisions) {
    table += std::string("| `") + decision.name + "` | " + decision.meaning + " |\n";
  }
  return table;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string engine = argc > 1 ? argv[1] : "";
  if ((argc != 3 && argc != 4) || (engine != "transfer" && engine != "allocator")) {
    std::cerr << "usage: slipstream_decisions_reference transfer|allocator DOCUMENT [OUT]\n";
    return 2;
  }
  std::ifstream in(argv[2], std::ios::binary);
  std::ostringstream read;
  read << in.rdbuf();
  std::string text = read.str();
  const size_t begin = text.find(kBegin);
  const size_t end = text.find(kEnd);
  if (!in || begin == std::string::npos || end == std::string::npos || end < begin) {
    std::cerr << argv[2] << ": cannot be read, or does not have the two marks\n";
    return 1;
  }
  const size_t from = begin + sizeof(kBegin) - 1;
  text.replace(from, end - from,
               engine == "transfer" ? TableOf(slipstream::transfer::kDecisionTexts)
                                    : TableOf(slipstream::allocator::kDecisionTexts));
  const char* const path = argv[argc - 1];
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) {
    std::cerr << "cannot write " << path << "\n";
    return 1;
  }
  return 0;
}
