#include "policy/problem.h"

#include "policy/text.h"

namespace slipstream::policy {

std::string Problem::Format() const {
  std::string out;
  if (!variable.empty()) {
    out = "environment variable " + Escape(variable);
  } else {
    out = Escape(file);
    if (line > 0) out += ":" + std::to_string(line) + ":" + std::to_string(column);
  }
  out += ": ";
  if (found.empty()) {
    out += what;
  } else {
    // A variable stands for one key, and has just been named.
    if (variable.empty() && !key.empty()) out += "\"" + Escape(key) + "\": ";
    out += "found " + found;
    if (!what.empty()) out += " (" + what + ")";
  }
  if (!expected.empty()) out += ", expected " + expected;
  if (!suggestion.empty()) out += "; did you mean \"" + Escape(suggestion) + "\"?";
  return out;
}

}  // namespace slipstream::policy
