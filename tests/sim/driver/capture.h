// The gate between an API call and the device: it goes to a stream's queue, or, while the stream captures, into a
// graph.
//
// Source of the rules: CUDA programming guide, "Stream capture", and the documentation of cudaStreamBeginCapture. A
// call that is illegal during a capture invalidates the captures it collides with, and says so by its result.
#ifndef TESTS_SIM_DRIVER_CAPTURE_H_
#define TESTS_SIM_DRIVER_CAPTURE_H_

#include "tests/sim/driver/world.h"

namespace simcuda {

// Submits the work, or captures it. `op` (may be null) gets the operation, or null if the work was captured.
CUresult Enqueue(World& world, const StreamPtr& stream, Work work, OpPtr* op);
// Only for a stream that captures: the work becomes a node behind the stream's last ones.
CUresult CaptureWork(const StreamPtr& stream, Work work, GraphNode** node);
// For calls that synchronize or query the stream: an error (and an invalid capture) if it captures, or is the legacy
// stream while a blocking stream captures.
CUresult CheckNotCapturing(World& world, const StreamPtr& stream);
// For calls that are unsafe while a capture in global mode runs anywhere or a thread-local one in this thread
// (allocation, event query, blocking copies...).
CUresult CheckUnsafeCall(World& world);
// For calls on the whole context (synchronization, context-wide record and wait): an error 900, and invalid captures,
// if any of its streams captures.
CUresult CheckContextNotCapturing(World& world, Context* context);

}  // namespace simcuda

#endif  // TESTS_SIM_DRIVER_CAPTURE_H_
