// Calls a function with arguments whose every byte is known, and checks that it was entered by the same name with the
// same bytes and that its result came back.
#pragma once

#include <cstdio>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "tests/preload/programs/echo_runtime.h"

class EchoCheck {
 public:
  explicit EchoCheck(const Echo& last) : last_(last) {}

  // `expected`: the result that every function has; ignored for those of another type.
  template <typename Expected, typename Result, typename... Arguments>
  void Call(const char* name, Result (*function)(Arguments...), Expected expected_result) {
    std::tuple<std::remove_cv_t<Arguments>...> values;
    unsigned char expected[1024];
    size_t size = 0;
    unsigned char next = static_cast<unsigned char>(17 * ++functions_);
    [[maybe_unused]] const auto fill = [&](auto& value) {
      if constexpr (std::is_enum_v<std::remove_reference_t<decltype(value)>>) {
        value =
            static_cast<std::remove_reference_t<decltype(value)>>(1);  // any other bytes may be no value of the type
      } else {
        std::memset(static_cast<void*>(&value), next += 3, sizeof(value));
      }
      std::memcpy(expected + size, &value, sizeof(value));
      size += sizeof(value);
    };
    std::apply([&](auto&... value) { (fill(value), ...); }, values);
    const Result result = std::apply(function, values);
    const char* problem = nullptr;
    if (last_.function == nullptr || std::strcmp(last_.function, name) != 0) {
      problem = "another function was entered";
    } else if (last_.size != size || std::memcmp(last_.bytes, expected, size) != 0) {
      problem = "the arguments differ";
    } else if constexpr (std::is_same_v<Result, Expected>) {
      if (result != expected_result) problem = "the result differs";
    }
    if (problem != nullptr) {
      ++wrong_;
      std::printf("%s: %s\n", name, problem);
    }
  }

  // Prints "N functions, M wrong"; the exit status.
  int Finish() const {
    std::printf("%d functions, %d wrong\n", functions_, wrong_);
    return wrong_ == 0 ? 0 : 1;
  }

 private:
  const Echo& last_;
  int functions_ = 0;
  int wrong_ = 0;
};
