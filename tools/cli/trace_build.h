// Shared by the commands that make a database of a recorded run: the signals that stop them, the line that shows their
// progress, and their messages for failures.
//
// Threading: one thread.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "tools/cli/time_left.h"
#include "tools/trace/db/trace_db.h"

namespace slipstream::cli {

// While it lives, a signal that would end the process (SIGINT, SIGTERM, SIGHUP) only sets stop(), and a file that is
// too large is an error. What the caller had ignored (nohup) stays ignored. One at a time in a process.
class EndingSignals {
 public:
  EndingSignals();
  ~EndingSignals();
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

  static const std::atomic<bool>* stop();
  // Ends the process by the signal that came, as it would have ended without this. Call it when the object is gone and
  // everything half done has been removed; returns only if the signal is blocked.
  static void EndAsAsked();
  // The same, and says so as `command`. The exit status for whoever blocks the signal.
  static int EndStopped(const std::string& command, const std::string& text = "stopped");

 private:
  static constexpr std::array<int, 3> kEnding = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_{};
  struct sigaction before_limit_ {};
};

// One line on a terminal, written over and over, and gone at the end. Nothing where standard error is no terminal.
class ProgressLine {
 public:
  // As in "export": what stands in front.
  explicit ProgressLine(std::string name);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool shown() const { return shown_; }
  // At once where `is_new`, and the first; else not more often than ten times a second.
  void Show(const std::string& text, bool is_new = false);
  // The same, with the time that is left of work of which so much is done.
  void Show(const std::string& text, uint64_t done, uint64_t all);
  void Show(const trace_db::BuildProgress& progress);
  // Shows how much of a database's calls has been read.
  std::function<void(uint64_t calls, uint64_t all)> Calls();

 private:
  const std::string name_;
  const bool shown_;
  bool drawn_ = false;
  uint64_t last_ns_ = 0;
  TimeLeft left_;
  trace_db::BuildProgress::Phase phase_ = trace_db::BuildProgress::Phase::kReading;
};

// "slipstream COMMAND: text" to standard error.
void Complain(const std::string& command, const std::string& text);

// What happened, where, and what to do about it; nothing for a build that was stopped or refused.
void ComplainAbout(const std::string& command, const trace_db::BuildOptions& options,
                   const trace_db::BuildResult& result);

// How much more fits at a file's place, as the end of a sentence; empty if not known.
std::string RoomFor(const std::string& file);

// Standard output, whole; the exit status (exit_codes.h).
int Print(const std::string& command, const std::string& text);

}  // namespace slipstream::cli
