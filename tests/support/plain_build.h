// For tests that a build with a sanitizer cannot make: skips them there.
#pragma once

#include <gtest/gtest.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NEEDS_NO_SANITIZER(why) GTEST_SKIP() << (why)
#else
#define NEEDS_NO_SANITIZER(why) static_cast<void>(0)
#endif

// Programs of the system are not built with the sanitizer and cannot load a library that is.
#define NEEDS_PLAIN_BUILD() NEEDS_NO_SANITIZER("programs of the system cannot load a sanitized library")
