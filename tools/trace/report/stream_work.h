// Tells until when the work of each stream of a process runs, from its pieces in the order in which they were asked
// for.
//
// Calls name a stream by its handle, records of devices by a number of CUPTI's. A call whose work is known to be on the
// stream of its handle connects the two. A handle that turns out to stand for two streams at a time is no longer used;
// one whose stream was destroyed starts again.
//
// Memory: a little for each stream.
// Threading: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace slipstream::report {

// As calls name it, and the thread that did: cudaStreamPerThread is each thread's own, and cudaStreamLegacy is 0.
struct StreamHandle {
  StreamHandle(int64_t given, int64_t by_thread);

  int64_t handle;
  int64_t thread;

  bool operator<(const StreamHandle& other) const {
    return std::tie(handle, thread) < std::tie(other.handle, other.thread);
  }
};

class StreamWork {
 public:
  using Stream = std::pair<int64_t, int64_t>;  // context, CUPTI's number of the stream

  // The process has work in more than one context: then a default stream's handle stands for as many streams.
  void SeveralContexts() { several_contexts_ = true; }

  // A piece of work was asked for that ends then.
  void Add(const Stream& stream, int64_t end);
  // The same, of a call with that handle, whatever stream the device ran it on (work of a graph).
  void AddFor(const StreamHandle& handle, int64_t end);
  // A call with that handle has its work on that stream.
  void Is(const StreamHandle& handle, const Stream& stream);
  void Destroyed(const StreamHandle& handle) { handles_.erase(handle); }

  // When the last of the work so far ends; long ago: there is none. Nothing: it is not known which stream it is.
  std::optional<int64_t> Until(const StreamHandle& handle) const;

 private:
  struct Known {
    std::optional<Stream> stream;
    bool doubtful = false;
    std::optional<int64_t> until;  // of work that is there by its call
  };
  std::map<Stream, int64_t> streams_;
  std::map<StreamHandle, Known> handles_;
  bool several_contexts_ = false;
};

}  // namespace slipstream::report
