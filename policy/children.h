// Decides which executed programs keep the preload, and makes the environment of those that do not.
//
// Purpose: `slipstream run` puts what the policy's [children] says into one variable (ChildrenVariable), which every
// process of the run passes on with the rest of its environment. The hooks of exec (shim/exec.cpp) find it in what a
// call passes on, ask MayKeep() and KeepsByContent(), and pass on what WithoutPreload() makes where the answer is no.
// Threading: pure functions. Those for the hooks run between vfork and exec, in the memory of the parent. They are
// async-signal-safe: no allocation, no lock, nothing but their arguments.
// Fails open: a program keeps the preload, as without [children], if something is not known or does not fit. In a
//   process that does not use CUDA the preload does nothing (S50).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "policy/policy.h"

namespace slipstream::policy {

// ---- The variable: "python:/opt/lib/libslipstream.so:+blender:-*/bin/git", first the key, then the library as
// LD_PRELOAD names it, then `keep` with + and `drop` with -. No part has a colon: LD_PRELOAD could not name such a
// library, and patterns have none.

// Empty where every program keeps the preload: no variable is needed then.
std::string ChildrenVariable(const Children& children, std::string_view library);

// Views into the variable's text.
struct ChildrenRule {
  ChildrenPreload preload = ChildrenPreload::kAll;
  std::string_view library{};
  std::string_view patterns{};
};

// False if ChildrenVariable() did not make the text: it is somebody else's, to be left alone.
bool ParseChildren(std::string_view text, ChildrenRule* rule) noexcept;

// ---- The decision.

enum class Keeps : std::uint8_t { kNo, kYes, kByContent };

// `path`: of the program, absolute if that is known, else as much of it as is known.
Keeps MayKeep(const ChildrenRule& rule, std::string_view path) noexcept;

// For preload = "python" and a name that says nothing: by the first bytes of the file (kProgramHeadBytes), none where
// it cannot be read. A script is judged by the program that its first line names. A binary is not Python. Any other
// file is run by a shell, if at all.
bool KeepsByContent(std::string_view head) noexcept;

// As many bytes as the kernel reads for the first line of a script.
inline constexpr std::size_t kProgramHeadBytes = 256;

// Names of programs that only start others, which keep the preload with "python"; patterns, for the documentation.
std::span<const std::string_view> Starters() noexcept;

// ---- The environment of a program that does not keep it.

// `variables` without `library` in LD_PRELOAD, and without NVTX_INJECTION64_PATH where it names the library; a
// LD_PRELOAD with nothing else in it is left out. Entries are those of `variables`, or lie in `text`. False if the
// library is nowhere or something does not fit; then `entries` must not be used.
bool WithoutPreload(char* const* variables, std::string_view library, std::span<char*> entries,
                    std::span<char> text) noexcept;

}  // namespace slipstream::policy
