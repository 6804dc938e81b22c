// What the remembering libcudart (echo_runtime.cpp) says about the last call it got. One thread only.
#pragma once

#include <cstddef>
#include <cstdint>

// What every function returns: an error, so that no wrapper looks at the (meaningless) arguments for bytes.
#define kEchoResult cudaErrorUnknown

struct Echo {
  const char* function;
  size_t size;
  unsigned char bytes[1024];  // the arguments, one after the other, without gaps
};

extern "C" const Echo* EchoLast();

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
