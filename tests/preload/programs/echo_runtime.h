// What the remembering libcudart (echo_runtime.cpp) and libcuda (echo_driver.cpp) say about the last call they got. One
// thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

// What every function returns: an error, so that no wrapper looks at the (meaningless) arguments for bytes.
#define kEchoResult cudaErrorUnknown

struct Echo {
  const char* function;
  size_t size;
  unsigned char bytes[1024];  // the arguments, one after the other, without gaps

  template <typename... Arguments>
  void Remember(const char* called, const Arguments&... arguments) {
    function = called;
    size = 0;
    [[maybe_unused]] const auto append = [this](const void* argument, size_t length) {
      std::memcpy(bytes + size, argument, length);
      size += length;
    };
    (append(&arguments, sizeof(arguments)), ...);
  }
};

extern "C" const Echo* EchoLast();

#define ECHO_EXPORT extern "C" [[gnu::visibility("default")]]
// Of "(a, b)", behind another argument.
#define ECHO_PASS(...) __VA_OPT__(, ) __VA_ARGS__

// "uintptr_t word0, ..." and "word0, ..."
#define ECHO_WORDS_0(type)
#define ECHO_WORDS_1(type) type word0
#define ECHO_WORDS_2(type) ECHO_WORDS_1(type), type word1
#define ECHO_WORDS_3(type) ECHO_WORDS_2(type), type word2
#define ECHO_WORDS_4(type) ECHO_WORDS_3(type), type word3
#define ECHO_WORDS_5(type) ECHO_WORDS_4(type), type word4
#define ECHO_WORDS_6(type) ECHO_WORDS_5(type), type word5
#define ECHO_WORDS_7(type) ECHO_WORDS_6(type), type word6
#define ECHO_WORDS_9(type) ECHO_WORDS_7(type), type word7, type word8
