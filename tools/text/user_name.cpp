#include "tools/text/user_name.h"

#include <pwd.h>

#include <array>

namespace slipstream::text {

std::string UserName(uid_t user) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> text{};
  const bool known = getpwuid_r(user, &entry, text.data(), text.size(), &found) == 0 && found != nullptr;
  return known ? entry.pw_name : std::to_string(user);
}

}  // namespace slipstream::text
