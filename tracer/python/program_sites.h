// The line of the program that the calling thread is at, and the calls that led there. It is the process's one reader
// of Python stacks, set up at its first use.
//
// Threading: any thread, no lock. While one thread finds Python, others have no site.
// Ownership: never destroyed.
// Errors: where Python's stacks cannot be read there is no site, and the log says once why. Whoever wants to know that
//   asks LinesFactOfThisProcess (python_process.h) before, and has itself called by OnUnreadable.
// Hazard: the first call takes the loader's lock (python_process.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracer/python/call_site.h"
#include "tracer/python/code_sites.h"
#include "tracer/python/stack_memo.h"
#include "tracer/python/stack_tree.h"

namespace slipstream::tracer {

class ProgramSites {
 public:
  // The innermost line that is not a library's (call_site.h); 0: none, or not known.
  static uint32_t Current() { return Place().site; }
  // The same, and whether the thread is inside PyTorch's backward() there.
  static CodeSites::Chosen Place();
  // The same, with the stack that it is in. kNone: the thread has no Python frames, or none can be told. Frames further
  // out than kDeepest are cut off.
  static constexpr size_t kDeepest = StackMemo::kFrames;
  struct PlaceAndStack {
    CodeSites::Chosen place;
    uint32_t stack = StackTree::kNone;
  };
  static PlaceAndStack PlaceIn(StackTree* stacks);
  // `say` gets the fact (tracer/base/python_lines.h) once, on the thread that is in a call, if the first stack turns
  // out not to be laid out as Python's version is: then lines are not read after all. Before the first call.
  static void OnUnreadable(void (*say)(const char* fact));
  // What describes them; null until there was one.
  static const CodeSites* Sites();
  // False for what is no site. The texts live as long as the process.
  static bool Describe(uint32_t site, CallSite* description);
};

}  // namespace slipstream::tracer
