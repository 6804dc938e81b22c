// Writes the table of docs/transfer.md, what the transfer engine decides, from transfer/decision.h:
//
//     slipstream_decisions_reference DOCUMENT [OUT]
//
// Replaces what stands between the two marks in DOCUMENT and writes the whole to OUT (default: DOCUMENT itself).

#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "transfer/decision.h"

namespace {

constexpr char kBegin[] = "<!-- decisions:begin -->\n";
constexpr char kEnd[] = "<!-- decisions:end -->\n";

std::string Table() {
  std::string table = "| name | counts |\n|---|---|\n";
  for (const slipstream::transfer::DecisionText& decision : slipstream::transfer::kDecisionTexts) {
    table += std::string("| `") + decision.name + "` | " + decision.meaning + " |\n";
  }
  return table;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: slipstream_decisions_reference DOCUMENT [OUT]\n";
    return 2;
  }
  std::ifstream in(argv[1], std::ios::binary);
  std::ostringstream read;
  read << in.rdbuf();
  std::string text = read.str();
  const size_t begin = text.find(kBegin);
  const size_t end = text.find(kEnd);
  if (!in || begin == std::string::npos || end == std::string::npos || end < begin) {
    std::cerr << argv[1] << ": cannot be read, or does not have the two marks\n";
    return 1;
  }
  const size_t from = begin + sizeof(kBegin) - 1;
  text.replace(from, end - from, Table());
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
