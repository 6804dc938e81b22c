// What python_stack_cases.py loads with ctypes: walks the stack of whoever calls, and says as text what it saw.
// ctypes.CDLL lets go of the GIL around a call, ctypes.PyDLL keeps it.

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tracer/python/code_sites.h"
#include "tracer/python/python_stack.h"

using slipstream::tracer::CallSite;
using slipstream::tracer::CodeSites;
using slipstream::tracer::NameOf;
using slipstream::tracer::PythonFrame;
using slipstream::tracer::PythonStack;
using slipstream::tracer::PythonStatus;

#define PROBE extern "C" __attribute__((visibility("default")))

namespace {

struct Probe {
  Probe()
      : stack(PythonStack::Find(&found)), sites(stack != nullptr ? CodeSites::Create(stack->layout(), {}) : nullptr) {}

  PythonStatus found = PythonStatus::kOk;
  PythonStack* stack;
  CodeSites* sites;
};

Probe& TheProbe() {
  static auto* const probe = new Probe;
  return *probe;
}

// "status cut site", then a row a frame: file, function, line, instruction, site. Fields end with \x1f, rows with \x1e.
std::string Walk(size_t room) {
  Probe& probe = TheProbe();
  if (probe.stack == nullptr)
    return std::string(NameOf(probe.found)) +
           "\x1f"
           "0\x1f"
           "0\x1f\x1e";
  std::vector<PythonFrame> frames(room);
  const PythonStack::Walked walked = probe.stack->Walk(frames);
  std::vector<uint32_t> sites;
  for (size_t i = 0; i < walked.frames; ++i) sites.push_back(probe.sites->Intern(frames[i]));
  std::string text = NameOf(walked.status);
  text += '\x1f';
  text += walked.cut ? '1' : '0';
  text += '\x1f';
  text += std::to_string(probe.sites->Choose(sites));
  text += "\x1f\x1e";
  for (size_t i = 0; i < walked.frames; ++i) {
    CallSite site;
    probe.sites->Describe(sites[i], &site);
    text.append(site.file) += '\x1f';
    text.append(site.function) += '\x1f';
    text += std::to_string(site.line) + '\x1f' + std::to_string(frames[i].instruction) + '\x1f';
    text += std::to_string(sites[i]) + "\x1f\x1e";
  }
  return text;
}

size_t Give(const std::string& text, char* out, size_t size) {
  if (text.size() > size) return 0;
  return text.copy(out, text.size());
}

std::array<int, 2> g_ask;
std::array<int, 2> g_answer;

void Say(const char* who, const std::string& text) {
  const std::string line = std::string(who) + ' ' + text.substr(0, text.find('\x1f')) + '\n';
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) _exit(3);
}

// Python is gone by now.
void AfterPython() {
  Say("after_exit", Walk(8));
  char byte = 0;
  if (write(g_ask[1], &byte, 1) != 1 || read(g_answer[0], &byte, 1) != 1) _exit(3);
}

}  // namespace

// All: the size of the text, or 0 when it is larger than `size`.
PROBE size_t ProbeWalk(char* out, size_t size, size_t room) { return Give(Walk(room), out, size); }

// On a thread that Python has never seen.
PROBE size_t ProbeWalkOnNewThread(char* out, size_t size, size_t room) {
  std::string text;
  std::thread([&] { text = Walk(room); }).join();
  return Give(text, out, size);
}

PROBE void ProbeCall(void (*function)()) { function(); }
PROBE void ProbeCallOnNewThread(void (*function)()) { std::thread(function).join(); }

// Sites, and times that there was none.
PROBE size_t ProbeSites() { return TheProbe().sites != nullptr ? TheProbe().sites->size() - 1 : 0; }
PROBE size_t ProbeUnknown() { return TheProbe().sites != nullptr ? TheProbe().sites->unknown() : 0; }

// Says on the standard output what a walk gives once Python is gone; on the main thread, and on one of Python's threads
// that waits in ProbeWaitForExit.
PROBE int ProbeAtExit() {
  if (pipe(g_ask.data()) != 0 || pipe(g_answer.data()) != 0) return -1;
  return std::atexit(AfterPython);
}
PROBE void ProbeWaitForExit() {
  char byte = 0;
  if (read(g_ask[0], &byte, 1) != 1) _exit(3);
  Say("thread_after_exit", Walk(8));
  if (write(g_answer[1], &byte, 1) != 1) _exit(3);
  // Back in Python it would be ended, or wait for a GIL that is gone.
  for (;;) pause();
}
