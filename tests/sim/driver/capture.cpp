#include "tests/sim/driver/capture.h"

#include <algorithm>

#include "tests/sim/driver/event.h"
#include "tests/sim/driver/graph.h"
#include "tests/sim/driver/use_context.h"

namespace simcuda {
namespace {

void Invalidate(const std::shared_ptr<Capture>& capture) {
  if (capture->state == Capture::State::kActive) {
    capture->state = Capture::State::kInvalid;
  }
}

void AddUnique(std::vector<GraphNode*>* nodes, const std::vector<GraphNode*>& more) {
  for (GraphNode* node : more) {
    if (std::find(nodes->begin(), nodes->end(), node) == nodes->end()) {
      nodes->push_back(node);
    }
  }
}

// Lets all streams go. The graph is the caller's to take or delete.
void Terminate(World& world, const std::shared_ptr<Capture>& capture) {
  capture->state = Capture::State::kEnded;
  for (const StreamPtr& stream : capture->streams) {
    stream->capture = nullptr;
    stream->capture_tail.clear();
  }
  capture->streams.clear();
  capture->origin = nullptr;
  world.captures.erase(capture.get());
}

// The legacy stream implies an order with every blocking stream, which no capture can express.
CUresult CheckLegacy(const StreamPtr& stream) {
  if (!stream->legacy) {
    return CUDA_SUCCESS;
  }
  bool hit = false;
  for (const StreamPtr& other : stream->context->streams) {
    if (other->capture && (other->flags & CU_STREAM_NON_BLOCKING) == 0) {
      Invalidate(other->capture);
      hit = true;
    }
  }
  return hit ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

}  // namespace

void AbandonCapture(World& world, const StreamPtr& origin) {
  const std::shared_ptr<Capture> capture = origin->capture;
  if (capture) {
    Graph* graph = capture->graph;
    const bool owned = capture->owns_graph;
    Terminate(world, capture);
    if (owned) {
      DeleteGraph(world, graph);
    }
  }
}

CUresult CheckNotCapturing(World&, const StreamPtr& stream) {
  if (stream->capture) {
    if (stream->capture->state == Capture::State::kInvalid) {
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    Invalidate(stream->capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CheckLegacy(stream);
}

CUresult CheckUnsafeCall(World& world) {
  const CUstreamCaptureMode mine = ThisThread().capture_mode;
  if (mine == CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_SUCCESS;
  }
  bool hit = false;
  for (Capture* capture : world.captures) {
    const bool own = capture->thread == std::this_thread::get_id() && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool global = mine == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (own || global) {
      if (capture->state == Capture::State::kActive) {
        capture->state = Capture::State::kInvalid;
      }
      hit = true;
    }
  }
  return hit ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult CheckContextNotCapturing(World&, Context* context) {
  bool hit = false;
  for (const StreamPtr& stream : context->streams) {
    if (stream->capture) {
      Invalidate(stream->capture);
      hit = true;
    }
  }
  return hit ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult CheckEventNotCaptured(World&, const Event* event) {
  if (!event->capture) {
    return CUDA_SUCCESS;
  }
  if (event->capture->state == Capture::State::kEnded) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Invalidate(event->capture);
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult CaptureWork(const StreamPtr& stream, Work work, GraphNode** node) {
  if (stream->capture->state != Capture::State::kActive) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  *node = AddNode(stream->capture->graph, stream->context, std::move(work), stream->capture_tail);
  stream->capture_tail = {*node};
  return CUDA_SUCCESS;
}

CUresult Enqueue(World& world, const StreamPtr& stream, Work work, OpPtr* op) {
  if (stream->capture) {
    GraphNode* node = nullptr;
    return CaptureWork(stream, std::move(work), &node);
  }
  SIM_TRY(CheckLegacy(stream))
  OpPtr submitted = Submit(world, stream, std::move(work));
  if (op != nullptr) {
    *op = std::move(submitted);
  }
  return CUDA_SUCCESS;
}

CUresult RecordEvent(World& world, const StreamPtr& stream, Event* event, CUevent handle, unsigned flags) {
  Work work;
  work.kind = Work::Kind::kEventRecord;
  work.event = handle;
  if (stream->capture) {
    if (stream->capture->state != Capture::State::kActive) {
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if ((flags & CU_EVENT_RECORD_EXTERNAL) != 0) {
      return Enqueue(world, stream, std::move(work), nullptr);
    }
    event->capture = stream->capture;
    event->capture_nodes = stream->capture_tail;
    event->recorded = nullptr;
    return CUDA_SUCCESS;
  }
  SIM_TRY(CheckLegacy(stream))
  event->capture = nullptr;
  event->capture_nodes.clear();
  AttachShared(event, &work);
  event->recorded = Submit(world, stream, std::move(work));
  NoteSharedRecord(event);
  return CUDA_SUCCESS;
}

CUresult WaitEvent(World& world, const StreamPtr& stream, Event* event, CUevent handle, unsigned flags) {
  Work work;
  work.kind = Work::Kind::kEventWait;
  work.event = handle;
  if (event->capture) {
    const std::shared_ptr<Capture> theirs = event->capture;
    if (theirs->state == Capture::State::kEnded) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (theirs->state == Capture::State::kInvalid) {
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (stream->capture && stream->capture != theirs) {
      Invalidate(stream->capture);
      Invalidate(theirs);
      return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (stream->legacy) {
      Invalidate(theirs);
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!stream->capture) {
      stream->capture = theirs;
      theirs->streams.push_back(stream);
    }
    AddUnique(&stream->capture_tail, event->capture_nodes);
    return CUDA_SUCCESS;
  }
  if (stream->capture) {
    if (stream->capture->state != Capture::State::kActive) {
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if ((flags & CU_EVENT_WAIT_EXTERNAL) != 0) {
      return Enqueue(world, stream, std::move(work), nullptr);
    }
    Invalidate(stream->capture);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  SIM_TRY(CheckLegacy(stream))
  std::vector<OpPtr> dependencies;
  if (!PrepareWait(event, &work, &dependencies)) {
    return CUDA_SUCCESS;  // complete or never recorded
  }
  StreamDependencies(stream, &dependencies);
  SubmitAfter(world, stream->context, stream, std::move(work), dependencies, true);
  return CUDA_SUCCESS;
}

}  // namespace simcuda

using namespace simcuda;

namespace {

CUresult Begin(CUstream handle, CUstreamCaptureMode mode, Graph* graph, const CUgraphNode* dependencies, size_t count) {
  SIM_USE_STREAM(handle)
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream->legacy) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (stream->capture) {
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  auto capture = std::make_shared<Capture>();
  capture->id = world.next_id++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  capture->streams.push_back(stream);
  capture->owns_graph = graph == nullptr;
  capture->graph = graph != nullptr ? graph : NewGraph(world);
  world.captures.insert(capture.get());
  stream->capture = capture;
  stream->capture_tail.clear();
  for (size_t i = 0; i < count; ++i) {
    stream->capture_tail.push_back(reinterpret_cast<GraphNode*>(dependencies[i]));
  }
  return CUDA_SUCCESS;
}

// Whether all that the other streams captured is awaited by the origin.
bool AllJoined(const Capture& capture) {
  std::set<const GraphNode*> reached;
  std::vector<const GraphNode*> work(capture.origin->capture_tail.begin(), capture.origin->capture_tail.end());
  while (!work.empty()) {
    const GraphNode* node = work.back();
    work.pop_back();
    if (reached.insert(node).second) {
      work.insert(work.end(), node->dependencies.begin(), node->dependencies.end());
    }
  }
  for (const StreamPtr& stream : capture.streams) {
    for (const GraphNode* node : stream->capture_tail) {
      if (reached.count(node) == 0) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

SIM_DRIVER_PT(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2, _ptsz, (CUstream hStream, CUstreamCaptureMode mode),
              (hStream, mode)) {
  return Begin(hStream, mode, nullptr, nullptr, 0);
}

SIM_DRIVER_PT(cuStreamBeginCaptureToGraph, 12030, cuStreamBeginCaptureToGraph, _ptsz,
              (CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies, const CUgraphEdgeData* dependencyData,
               size_t numDependencies, CUstreamCaptureMode mode),
              (hStream, hGraph, dependencies, dependencyData, numDependencies, mode)) {
  (void)dependencyData;
  if (hGraph == nullptr || (numDependencies > 0 && dependencies == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Begin(hStream, mode, reinterpret_cast<Graph*>(hGraph), dependencies, numDependencies);
}

SIM_DRIVER_PT(cuStreamEndCapture, 10000, cuStreamEndCapture, _ptsz, (CUstream hStream, CUgraph* phGraph),
              (hStream, phGraph)) {
  SIM_USE_STREAM(hStream)
  if (phGraph == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *phGraph = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) {
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  if (capture->origin != stream) {
    capture->state = Capture::State::kInvalid;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  CUresult result = CUDA_SUCCESS;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id()) {
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  } else if (capture->state == Capture::State::kInvalid) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (!AllJoined(*capture)) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  Graph* graph = capture->graph;
  Terminate(world, capture);
  if (result == CUDA_SUCCESS) {
    *phGraph = reinterpret_cast<CUgraph>(graph);
  } else if (capture->owns_graph) {
    DeleteGraph(world, graph);
  }
  return result;
}

static CUstreamCaptureStatus Status(const StreamPtr& stream) {
  if (!stream->capture) {
    return CU_STREAM_CAPTURE_STATUS_NONE;
  }
  return stream->capture->state == Capture::State::kActive ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                           : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

SIM_DRIVER_PT(cuStreamIsCapturing, 10000, cuStreamIsCapturing, _ptsz,
              (CUstream hStream, CUstreamCaptureStatus* captureStatus), (hStream, captureStatus)) {
  SIM_USE_STREAM(hStream)
  if (captureStatus == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream->legacy) {
    // "Ambiguous" while a blocking stream captures (cuda.h); unlike other calls, a mere question invalidates nothing.
    for (const StreamPtr& other : stream->context->streams) {
      if (other->capture && (other->flags & CU_STREAM_NON_BLOCKING) == 0) {
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
    }
  }
  *captureStatus = Status(stream);
  return CUDA_SUCCESS;
}

static CUresult Info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                     const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count) {
  SIM_USE_STREAM(handle)
  if (status == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *status = Status(stream);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    return CUDA_SUCCESS;
  }
  if (id != nullptr) {
    *id = stream->capture->id;
  }
  if (graph != nullptr) {
    *graph = reinterpret_cast<CUgraph>(stream->capture->graph);
  }
  if (dependencies != nullptr) {
    // Valid until the next call on the stream (cuda.h).
    static_assert(sizeof(GraphNode*) == sizeof(CUgraphNode));
    *dependencies = reinterpret_cast<const CUgraphNode*>(stream->capture_tail.data());
  }
  if (edges != nullptr) {
    *edges = nullptr;
  }
  if (count != nullptr) {
    *count = stream->capture_tail.size();
  }
  return CUDA_SUCCESS;
}

SIM_DRIVER_PT(cuStreamGetCaptureInfo, 10010, cuStreamGetCaptureInfo, _ptsz,
              (CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out),
              (hStream, captureStatus_out, id_out)) {
  return Info(hStream, captureStatus_out, id_out, nullptr, nullptr, nullptr, nullptr);
}
SIM_DRIVER_PT(cuStreamGetCaptureInfo, 11030, cuStreamGetCaptureInfo_v2, _ptsz,
              (CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out, CUgraph* graph_out,
               const CUgraphNode** dependencies_out, size_t* numDependencies_out),
              (hStream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out)) {
  return Info(hStream, captureStatus_out, id_out, graph_out, dependencies_out, nullptr, numDependencies_out);
}
SIM_DRIVER_PT(cuStreamGetCaptureInfo, 12030, cuStreamGetCaptureInfo_v3, _ptsz,
              (CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out, CUgraph* graph_out,
               const CUgraphNode** dependencies_out, const CUgraphEdgeData** edgeData_out, size_t* numDependencies_out),
              (hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out)) {
  return Info(hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out);
}

static CUresult Update(CUstream handle, const CUgraphNode* dependencies, size_t count, unsigned flags) {
  SIM_USE_STREAM(handle)
  if (!stream->capture) {
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count > 0 && dependencies == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<GraphNode*> nodes;
  for (size_t i = 0; i < count; ++i) {
    nodes.push_back(reinterpret_cast<GraphNode*>(dependencies[i]));
  }
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    stream->capture_tail = nodes;
  } else {
    AddUnique(&stream->capture_tail, nodes);
  }
  return CUDA_SUCCESS;
}

SIM_DRIVER_PT(cuStreamUpdateCaptureDependencies, 11030, cuStreamUpdateCaptureDependencies, _ptsz,
              (CUstream hStream, CUgraphNode* dependencies, size_t numDependencies, unsigned int flags),
              (hStream, dependencies, numDependencies, flags)) {
  return Update(hStream, dependencies, numDependencies, flags);
}
SIM_DRIVER_PT(cuStreamUpdateCaptureDependencies, 12030, cuStreamUpdateCaptureDependencies_v2, _ptsz,
              (CUstream hStream, CUgraphNode* dependencies, const CUgraphEdgeData* dependencyData,
               size_t numDependencies, unsigned int flags),
              (hStream, dependencies, dependencyData, numDependencies, flags)) {
  (void)dependencyData;
  return Update(hStream, dependencies, numDependencies, flags);
}

SIM_DRIVER(cuThreadExchangeStreamCaptureMode, 10010, cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode),
           (mode)) {
  if (mode == nullptr || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(ThisThread().capture_mode, *mode);
  return CUDA_SUCCESS;
}
