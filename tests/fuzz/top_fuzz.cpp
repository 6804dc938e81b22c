// The view of a running program: a trace that grows while it is read, as figures, lines and JSON.
#include <limits>
#include <string>

#include "tests/fuzz/spool_input.h"
#include "tools/trace/top/json.h"
#include "tools/trace/top/lines.h"
#include "tools/trace/top/spool_tail.h"

namespace slipstream::fuzz {
namespace {

void Show(const top::SpoolTail& tail) {
  top::ProcessView process = {.pid = tail.pid(), .rank = tail.rank(), .executable = tail.Fact("executable")};
  process.alive = true;
  process.trace = tail.Look(std::nullopt);
  process.memory = tail.Memory();
  for (const top::DeviceView& device : process.trace->devices) {
    Must(device.busy >= 0 && device.busy <= 1 + 1e-9, "no device is busier than all of the time");
  }
  top::View view;
  view.directories = {"run"};
  view.processes = {process, process};
  for (const size_t rows : {0, 24}) {
    for (const bool list : {false, true}) {
      const auto lines = top::Draw(view, {.columns = 160, .rows = rows, .keys = true, .list = list});
      Must(rows == 0 || lines.size() == rows, "the lines fit");
      for (const char byte : top::PlainText(lines)) {
        Must(byte == '\n' || (static_cast<unsigned char>(byte) >= 0x20 && byte != 0x7f), "a terminal gets text only");
      }
    }
  }
  Must(top::ViewJson(view).ends_with("}\n"), "one object in one line");
  tail.Look(std::numeric_limits<uint64_t>::max());
}

}  // namespace

std::vector<std::string> Seeds() { return SpoolSeeds(); }

void OneInput(std::string_view given) {
  const std::string bytes = Repaired(given);
  const size_t first = bytes.size() / 2;
  const std::string path = FileOf(bytes.substr(0, first), "a.spool");
  std::string error;
  const auto tail = top::SpoolTail::Open(path, &error);
  if (tail == nullptr) {
    Must(!error.empty(), "it says why it is no spool");
    return;
  }
  tail->ReadOn(std::numeric_limits<uint64_t>::max() / 2);
  Show(*tail);
  FileOf(bytes, "a.spool");
  while (!tail->ReadOn(1000)) {
  }
  Show(*tail);
  tail->End();
  Show(*tail);
}

}  // namespace slipstream::fuzz
