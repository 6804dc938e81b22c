// The steps of a program that names none, while it runs: for a policy that wants some steps only (step_window.h).
//
// A training step brings a batch to the device and has the device work with it. So the steps begin at the first line of
// the program that uploads a third time, each time behind work that its thread asked the device for since; the first
// two times were steps 0 and 1. From then on each such visit of that line, by that thread, is a step. Weights that are
// moved to the device at one line are one visit: nothing is launched between them.
//
// Limits: the first two steps are over when the line is known. Where a line before the loop uploads and launches in
// turn (weights that are changed one by one), that line is taken. Without lines of Python there are no such steps. See
// step_finder.h for what a reader does, who has seen the whole run.
//
// Threading: any thread, lock-free; a thread's own part lies with it.
// Hazard: runs inside the program's calls.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace slipstream::tracer {

// What a call of a hooked function may be for it.
enum class StepRole : uint8_t { kNone, kCopy, kWork };
StepRole RoleOf(std::string_view function);

// Of one thread.
class UploadLines {
 public:
  static constexpr size_t kMostLines = 32;  // the first of them
  static constexpr uint32_t kVisits = 3;

  // An upload at this line (not 0), with so much asked of the device before, in all. True: it is a visit.
  bool Visits(uint64_t line, uint64_t works);
  // Of that line, the last visit among them.
  uint32_t VisitsOf(uint64_t line) const;

 private:
  struct Line {
    uint64_t line = 0;
    uint64_t works = 0;  // before its last upload
    uint32_t visits = 0;
  };
  Line* Find(uint64_t line);

  std::array<Line, kMostLines> lines_{};
  size_t count_ = 0;
};

// Of the process.
class LineSteps {
 public:
  // Fewer bytes are no batch: a number, a seed.
  static constexpr uint64_t kLeastBytes = 4096;

  // The calling thread asked the device for something other than a copy.
  static void Worked();
  // The calling thread is about to upload, or to copy anything, at this line. The number of the step that begins, if
  // one does.
  std::optional<uint64_t> Begins(uint64_t line);
  // The calling thread has uploaded at this line. The number of the step that began with it, once: when the line is
  // found out to be the one.
  std::optional<uint64_t> Uploaded(uint64_t line);

 private:
  std::atomic<uint64_t> line_{0};    // that begins a step; 0: not known
  std::atomic<uint32_t> thread_{0};  // the system's number of the one that makes them
  uint64_t next_ = 0;                // that thread's
};

}  // namespace slipstream::tracer
