// A program of the differential test: CUDA calls and accesses to host memory as plain data, with a text form.
//
// Purpose: what generator.h makes, model.h judges, executor.h runs, and a person reads in a report: one line an
//   operation, `t0 copy_async stream=s2 dst=d0+16 src=p1+3 n=4096 as=h2d`. Objects are numbers; the letter in front of
//   a buffer's number only says what it was made as (d device, a stream-ordered, p pageable, h pinned, m managed).
// Threading: plain data.
// Errors: Parse says which line it does not understand. Whether a program makes sense is the model's to say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace differential {

// Streams that are not made by the program; those that are have numbers from kFirstStream.
inline constexpr int kLegacyStream = 0;
inline constexpr int kThreadStream = 1;  // cudaStreamPerThread of the operation's thread
inline constexpr int kFirstStream = 2;
inline constexpr int kMaxStreams = 17;
inline constexpr int kLegacyHandle = 16;  // the legacy stream by its handle, cudaStreamLegacy, instead of by NULL
inline constexpr int kMaxBuffers = 64;
inline constexpr int kMaxEvents = 32;
inline constexpr int kMaxGraphs = 16;  // graphs, and executables
inline constexpr int kMaxThreads = 3;

enum class Kind : uint8_t {
  // Memory
  kMalloc,
  kMallocAsync,
  kFree,
  kFreeAsync,
  kPageable,  // host memory from malloc or mmap
  kDrop,      // free or munmap of it
  kPinned,
  kFreeHost,
  kRegister,
  kUnregister,
  kManaged,
  kDevicePointer,  // cudaHostGetDevicePointer: from then on kernels may use the pinned buffer
  kPointerType,
  // Streams and events
  kStreamCreate,
  kStreamDestroy,
  kStreamSync,
  kStreamQuery,
  kStreamWait,
  kEventCreate,
  kEventDestroy,
  kEventRecord,
  kEventSync,
  kEventQuery,
  kElapsed,
  kDeviceSync,
  // Work
  kCopyAsync,
  kCopy,
  kCopy2DAsync,
  kCopy2D,
  kMemsetAsync,
  kMemset,
  kKernel,
  kUnseenKernel,  // does not cross an exported function
  kHostFunction,
  // The program's own accesses to host memory
  kWrite,
  kRead,
  // Graphs
  kBeginCapture,
  kEndCapture,
  kInstantiate,
  kUpdate,
  kLaunch,
  kGraphDestroy,
  kExecDestroy,
  // Errors
  kLastError,
  kPeekError,
  kBad,  // a call that must fail (or, of zero bytes, do nothing)
  kCount
};

// What `flavor` means for each kind; the words of the text form are in program.cpp in the same order.
enum PageableFlavor { kHeap, kMapped, kReadOnly };
enum PinnedFlavor { kDefaultPinned, kPortable, kWriteCombined };
enum StreamFlavor { kNonBlocking, kBlocking };
enum EventFlavor { kTiming, kNoTiming };
enum CopyFlavor { kHostToDevice, kDeviceToHost, kDeviceToDevice, kHostToHost, kDefault };
enum KernelFlavor { kFill, kMix, kMove };
enum HostFlavor { kHostRead, kHostWrite, kCallbackRead, kCallbackWrite };
enum CaptureFlavor { kGlobalCapture, kThreadLocalCapture, kRelaxedCapture };
enum BadFlavor {
  kBadKind,             // copy of no direction
  kBadNull,             // copy to NULL
  kBadPastDestination,  // pageable copy one byte past the end of device memory
  kBadPastSource,       // device copy that reads past the end, to pageable memory
  kBadStreamCopy,       // copy on a stream that does not exist
  kBadStreamSync,
  kBadPageableSet,  // memset of pageable memory
  kBadEventQuery,
  kBadFree,  // of the middle of an allocation
  kBadBlockingKind,
  kBadLaunch,    // no threads
  kBadFunction,  // a kernel that nobody registered
  kZeroBytes,    // a copy of nothing: success
  kBadCount
};

// Whose function makes the call: the runtime's, or the driver's by its linked name or as it is found by name.
enum Door { kRuntime, kLinked, kByName };

struct Op {
  Kind kind = Kind::kLastError;
  int thread = 0;
  int stream = -1;
  int event = -1;
  int end_event = -1;  // kElapsed: the later one
  int graph = -1;
  int exec = -1;
  int dst = -1;  // buffers
  int src = -1;
  size_t dst_offset = 0;
  size_t src_offset = 0;
  size_t bytes = 0;  // of a 2D copy: of a row
  size_t rows = 1;
  size_t dst_pitch = 0;
  size_t src_pitch = 0;
  uint64_t value = 0;  // of patterns and memsets
  int flavor = 0;
  int door = kRuntime;

  // Bytes from the first to behind the last that a copy touches on each side.
  size_t DstSpan() const { return (rows - 1) * dst_pitch + bytes; }
  size_t SrcSpan() const { return (rows - 1) * src_pitch + bytes; }
  bool Is2D() const { return kind == Kind::kCopy2D || kind == Kind::kCopy2DAsync; }
};

// kManaged: also managed and mapped memory, after which an engine may stand aside for the rest of the process. kFree:
// threads run without a common order, each on objects of its own. kDevices: the same with two threads, each on a device
// of its own, default stream and all; in every other program one thread plays both, and changes its device between
// operations.
enum class Family : uint8_t { kMain, kFree, kManaged, kDevices };

// Whether threads share no objects, so that what one does says nothing about the others' work.
inline bool IsSeparate(Family family) { return family == Family::kFree || family == Family::kDevices; }

struct Program {
  uint64_t seed = 0;      // that it was generated from; 0: written by hand
  uint64_t sim_seed = 1;  // of the simulator's scheduler
  Family family = Family::kMain;
  int threads = 1;
  std::vector<Op> ops;
};

// Whether the driver has the same call (driver_calls.h), of this flavor. A copy's direction is that of its pointers
// there.
bool HasDriverCall(const Op& op);

const char* NameOf(Family family);
bool FamilyNamed(std::string_view name, Family* family);

// One line, without its end. `program` says what the buffers are.
std::string ToText(const Program& program, const Op& op);
// A header line and one line an operation.
std::string ToText(const Program& program);
// Several programs one after the other; empty lines and what follows a `#` are comments.
bool Parse(const std::string& text, std::vector<Program>* programs, std::string* error);

}  // namespace differential
