// What CUDA promises about a program: a happens-before model that refuses what is not determined.
//
// Purpose: a program that the model accepts from its first to its last operation gives the same statuses and the same
//   bytes in every legal order of the device. The generator asks it before it adds an operation, the shrinker whether
//   what is left still makes sense.
// How: the host is one line of time (operations are carried out in the program's order, whoever's thread they are on).
//   Every piece of device work is a node with the set of nodes that come before it; `done` is what the host knows to be
//   complete. Two accesses to the same bytes, one of them a write, must be ordered.
// It claims less than a device does where CUDA's documentation leaves something open, and says so at the place.
// Threading: not thread-safe.
#pragma once

#include <array>
#include <bitset>
#include <string>
#include <vector>

#include "tests/differential/program.h"

namespace differential {

inline constexpr size_t kMaxNodes = 512;
using Nodes = std::bitset<kMaxNodes>;

// A copy from pageable memory reads this many bytes of its source at the call at the latest, and the rest not before
// the stream's earlier work is complete; so measured, an engine must keep it (tests/sim/driver/copy.cpp).
inline constexpr size_t kReadAtCall = size_t{2} << 20;

enum class Verdict {
  kFine,
  kInvalid,  // makes no sense here: an object that is not there, a call that the capture forbids...
  kRace      // would not be determined; ordering it behind missing() helps
};

// Where a buffer lies.
enum class Place : uint8_t { kNowhere, kDevice, kPooled, kPageable, kPinned, kManaged };

class Model {
 public:
  explicit Model(Family family);

  // Carries the operation out, or changes nothing.
  Verdict Apply(const Op& op);
  // Whether the program may end here.
  bool Finished() const { return live_captures_ == 0; }

  // After kFine: whether the call must return an error.
  bool must_fail() const { return must_fail_; }
  // After a refusal: why, for people.
  const char* why() const { return why_; }
  // After kRace: what the operation would have to come behind; whether the host must wait for it, or the operation's
  // stream may.
  const Nodes& missing() const { return missing_; }
  bool host_must_wait() const { return host_must_wait_; }

  // ---- for the generator
  struct Buffer {
    Place place = Place::kNowhere;
    size_t bytes = 0;
    bool read_only = false;
    bool registered = false;
    bool device_pointer = false;
    bool defined = true;
    unsigned generation = 0;
    struct Touch {
      size_t node;
      size_t begin, end;
      bool write;
    };
    std::vector<Touch> touches;  // of device work that the host does not know to be complete
    bool alive() const { return place != Place::kNowhere; }
    bool Host() const { return place == Place::kPageable || place == Place::kPinned; }
    bool Device() const { return place == Place::kDevice || place == Place::kPooled || place == Place::kManaged; }
    bool Pageable() const { return place == Place::kPageable && !registered; }
    // Whether the host may read and write it by itself.
    bool Touchable() const { return Host() || place == Place::kManaged; }
  };
  struct Stream {
    bool alive = false;
    bool blocking = false;
    Nodes front;       // all that later work on the stream comes behind
    int capture = -1;  // index of the live capture that it takes part in
    uint32_t capture_front = 0;
  };
  struct Event {
    bool alive = false;
    bool timing = false;
    bool recorded = false;
    bool captured = false;  // last recorded in a capture, live or over
    Nodes front;
    int capture = -1;
    uint32_t capture_front = 0;
  };
  struct Access {
    int buffer;
    size_t begin, end;
    bool write;
    unsigned generation;
    bool pageable;
  };
  // A node of a graph; `before` has a bit for every earlier node that it comes behind.
  struct Step {
    Kind kind;
    std::vector<Access> accesses;
    uint32_t before = 0;
  };
  struct Graph {
    bool alive = false;
    std::vector<Step> steps;
    Nodes last_launch;  // of an executable
  };
  struct Capture {
    bool live = false;
    int origin = -1;
    int thread = 0;
    int mode = 0;
    std::vector<Step> steps;
  };

  Family family() const { return family_; }
  const Buffer& buffer(int id) const { return buffers_[static_cast<size_t>(id)]; }
  const Event& event(int id) const { return events_[static_cast<size_t>(id)]; }
  const Graph& graph(int id) const { return graphs_[static_cast<size_t>(id)]; }
  const Graph& exec(int id) const { return execs_[static_cast<size_t>(id)]; }
  const Stream& stream(int id, int thread) const { return *FindStream(id, thread); }
  const Nodes& done() const { return done_; }
  size_t node_count() const { return node_count_; }
  int live_captures() const { return live_captures_; }

 private:
  Verdict Invalid(const char* why);
  const Stream* FindStream(int id, int thread) const;
  Stream* FindStream(int id, int thread);

  // The ends of the streams that work submitted to this one now comes behind, and with what the host knows to be
  // complete.
  Nodes Fronts(const Stream& stream) const;
  Nodes Before(const Stream& stream) const;
  // What must be complete for a query of the stream to say so.
  Nodes Awaited(const Stream& stream) const;
  bool IsLegacy(const Stream& stream) const { return &stream == &streams_[kLegacyStream]; }

  Access Touching(int buffer, size_t begin, size_t end, bool write) const;
  void AddConflicts(const Access& access, const Nodes& before, Nodes* conflicts) const;
  // kRace and what is missing, if the accesses are not all behind what they conflict with.
  Verdict Ordered(const std::vector<Access>& accesses, const Nodes& before, bool host_must_wait);
  Verdict HostAccess(int buffer, size_t begin, size_t end, bool write);
  size_t AddNode(const Nodes& before, const std::vector<Access>& accesses);
  // Work on a stream, captured if the stream is. `node`: all that is complete when the work is.
  Verdict Submit(const Op& op, const std::vector<Access>& accesses, const Nodes& also, Nodes* behind);
  void WaitFor(const Nodes& nodes, int thread);

  // Rules of calls while something is captured.
  Verdict CheckCaptures(const Op& op);
  bool UnsafeNow(int thread) const;

  Verdict ApplyMemory(const Op& op);
  Verdict ApplyStream(const Op& op);
  Verdict ApplyEvent(const Op& op);
  Verdict ApplyCopy(const Op& op);
  Verdict ApplyMemset(const Op& op);
  Verdict ApplyKernel(const Op& op);
  Verdict ApplyHostFunction(const Op& op);
  Verdict ApplyGraph(const Op& op);
  Verdict ApplyLaunch(const Op& op);
  Verdict ApplyBad(const Op& op);
  bool Inside(int buffer, size_t offset, size_t bytes) const;
  bool UsableByKernel(int buffer) const;

  Family family_;
  std::array<Buffer, kMaxBuffers> buffers_ = {};
  std::array<Stream, kMaxStreams> streams_ = {};
  std::array<Stream, kMaxThreads> thread_streams_ = {};
  std::array<Event, kMaxEvents> events_ = {};
  std::array<Graph, kMaxGraphs> graphs_ = {};
  std::array<Graph, kMaxGraphs> execs_ = {};
  std::vector<Capture> captures_;
  int live_captures_ = 0;
  std::vector<Nodes> closures_;  // of each node: all before it, and itself
  size_t node_count_ = 0;
  Nodes ghosts_;  // left on blocking streams that were destroyed
  Nodes done_;
  std::array<Nodes, kMaxThreads> done_by_;  // by a wait of the thread itself: only it may ask for completion
  // Known to be before other work only because both launched one executable. Then no query is made: what a library has
  // put behind the first launch by itself, an event say, the second does not wait for.
  Nodes ordered_by_executable_;
  bool must_fail_ = false;
  const char* why_ = "";
  Nodes missing_;
  bool host_must_wait_ = false;
};

// Whether the whole program is determined.
bool IsDetermined(const Program& program, std::string* why);

}  // namespace differential
