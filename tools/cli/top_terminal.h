// Lines with styles on a terminal, and its keys.
//
// Threading: one thread, and one object at a time.
// Hazard: while it lives, the terminal is not as other programs expect it; the destructor restores it. A process that
//   ends without the destructor leaves the terminal as it is. Install handlers of signals before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/trace/top/lines.h"

namespace slipstream::cli {

enum class Key : uint8_t {
  kNone,  // the time is over, a signal came, or it is a key that means nothing here
  kUp,
  kDown,
  kEnter,
  kBack,
  kQuit,
  kPause,
  kSort,
  kHelp,
  kResize,
  kGone,  // there is no terminal any more
};

class TopTerminal {
 public:
  // Takes the terminal that standard input and standard output are. Null and *why where that cannot be.
  static std::unique_ptr<TopTerminal> Open(bool colors, std::string* why);
  virtual ~TopTerminal() = default;
  TopTerminal(const TopTerminal&) = delete;
  TopTerminal& operator=(const TopTerminal&) = delete;

  virtual size_t columns() const = 0;
  virtual size_t rows() const = 0;
  virtual bool is_utf8() const = 0;
  virtual void Paint(const std::vector<top::Line>& lines) = 0;
  virtual Key Wait(int timeout_ms) = 0;

 protected:
  TopTerminal() = default;
};

}  // namespace slipstream::cli
