#include "tests/sim/driver/graph.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <unordered_map>

#include "tests/sim/driver/copy.h"
#include "tests/sim/driver/event.h"
#include "tests/sim/driver/launch.h"
#include "tests/sim/driver/use_context.h"

namespace simcuda {

GraphMemory::~GraphMemory() {
  World& world = TheWorld();
  const Allocation* allocation = FindAllocation(world, base);
  if (allocation != nullptr && allocation->id == id) {
    ReleaseAllocation(world, base);
  }
}

CUgraphNodeType TypeOf(const Work& work) {
  switch (work.kind) {
    case Work::Kind::kKernel:
      return CU_GRAPH_NODE_TYPE_KERNEL;
    case Work::Kind::kCopy:
      return CU_GRAPH_NODE_TYPE_MEMCPY;
    case Work::Kind::kSet:
      return CU_GRAPH_NODE_TYPE_MEMSET;
    case Work::Kind::kHost:
      return CU_GRAPH_NODE_TYPE_HOST;
    case Work::Kind::kEventRecord:
      return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    case Work::Kind::kEventWait:
      return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    case Work::Kind::kAlloc:
      return CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    case Work::Kind::kFree:
      return CU_GRAPH_NODE_TYPE_MEM_FREE;
    case Work::Kind::kWaitValue:
    case Work::Kind::kWriteValue:
      return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    default:
      return CU_GRAPH_NODE_TYPE_EMPTY;
  }
}

GraphNode* AddNode(Graph* graph, Context* context, Work work, const std::vector<GraphNode*>& dependencies) {
  auto node = std::make_unique<GraphNode>();
  node->graph = graph;
  node->context = context;
  node->type = TypeOf(work);
  node->work = std::move(work);
  node->dependencies = dependencies;
  graph->nodes.push_back(std::move(node));
  return graph->nodes.back().get();
}

Graph* NewGraph(World& world) {
  auto graph = std::make_unique<Graph>();
  Graph* handle = graph.get();
  world.graphs[handle] = std::move(graph);
  return handle;
}

void DeleteGraph(World& world, Graph* graph) {
  for (const auto& node : graph->nodes) {
    if (node->child != nullptr) {
      DeleteGraph(world, node->child);
    }
  }
  world.graphs.erase(graph);
}

Graph* CloneGraph(World& world, const Graph& original) {
  Graph* clone = NewGraph(world);
  std::unordered_map<const GraphNode*, GraphNode*> copies;
  for (const auto& node : original.nodes) {
    GraphNode* copy = AddNode(clone, node->context, node->work, {});
    copy->type = node->type;
    copy->memory = node->memory;
    copy->clone_of = node.get();
    if (node->child != nullptr) {
      copy->child = CloneGraph(world, *node->child);
      copy->child->embedded = true;
    }
    copies[node.get()] = copy;
  }
  for (const auto& node : original.nodes) {
    for (const GraphNode* needed : node->dependencies) {
      copies[node.get()]->dependencies.push_back(copies[needed]);
    }
  }
  return clone;
}

// Appends the graph's steps behind the steps `before`.
static bool Append(const Graph& graph, const std::vector<size_t>& before, GraphExec* exec) {
  std::unordered_map<const GraphNode*, size_t> index;
  std::vector<GraphNode*> waiting;
  for (const auto& node : graph.nodes) {
    waiting.push_back(node.get());
  }
  while (!waiting.empty()) {
    const size_t left = waiting.size();
    std::vector<GraphNode*> later;
    for (GraphNode* node : waiting) {
      const bool ready = std::all_of(node->dependencies.begin(), node->dependencies.end(),
                                     [&index](const GraphNode* needed) { return index.count(needed) != 0; });
      if (!ready) {
        later.push_back(node);
        continue;
      }
      GraphExec::Step step;
      step.original = node;
      step.type = node->type;
      step.context = node->context;
      step.work = node->work;
      step.memory = node->memory;
      for (const GraphNode* needed : node->dependencies) {
        step.dependencies.push_back(index[needed]);
      }
      if (step.dependencies.empty()) {
        step.dependencies = before;
      }
      if (node->child != nullptr) {
        // The child's steps, then this node as the step that joins them.
        const size_t first = exec->steps.size();
        if (!Append(*node->child, step.dependencies, exec)) {
          return false;
        }
        for (size_t i = first; i < exec->steps.size(); ++i) {
          step.dependencies.push_back(i);
        }
      }
      index[node] = exec->steps.size();
      exec->steps.push_back(std::move(step));
    }
    waiting = std::move(later);
    if (waiting.size() == left) {
      return false;
    }
  }
  return true;
}

bool Compile(const Graph& graph, GraphExec* exec) {
  static std::atomic<uint64_t> last{0};
  exec->id = ++last;
  return Append(graph, {}, exec);
}

CUresult LaunchGraph(World& world, const StreamPtr& stream, GraphExec* exec) {
  if (stream->capture) {
    // A launch inside a capture: the nodes become part of the graph that is being captured.
    if (stream->capture->state != Capture::State::kActive) {
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    std::vector<GraphNode*> nodes;
    std::set<GraphNode*> ends;
    for (const GraphExec::Step& step : exec->steps) {
      std::vector<GraphNode*> dependencies;
      for (const size_t needed : step.dependencies) {
        dependencies.push_back(nodes[needed]);
        ends.erase(nodes[needed]);
      }
      if (dependencies.empty()) {
        dependencies = stream->capture_tail;
      }
      GraphNode* node = AddNode(stream->capture->graph, step.context, step.work, dependencies);
      node->memory = step.memory;
      nodes.push_back(node);
      ends.insert(node);
    }
    if (!ends.empty()) {
      stream->capture_tail.assign(ends.begin(), ends.end());
    }
    return CUDA_SUCCESS;
  }
  std::vector<OpPtr> before;
  StreamDependencies(stream, &before);
  before.push_back(exec->last_launch);
  std::vector<OpPtr> operations;
  for (const GraphExec::Step& step : exec->steps) {
    std::vector<OpPtr> dependencies;
    for (const size_t needed : step.dependencies) {
      dependencies.push_back(operations[needed]);
    }
    if (dependencies.empty()) {
      dependencies = before;
    }
    Work work = step.work;
    work.graph_node = exec->id << 32 | (operations.size() + 1);
    Event* event = work.event != nullptr ? FindEvent(world, work.event) : nullptr;
    if (!step.enabled) {
      work = Work();
    } else if (work.kind == Work::Kind::kEventWait && event != nullptr) {
      PrepareWait(event, &work, &dependencies);
    } else if (work.kind == Work::Kind::kEventRecord && event != nullptr) {
      AttachShared(event, &work);
    }
    OpPtr op = SubmitAfter(world, step.context, stream, std::move(work), dependencies, false);
    if (step.enabled && step.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && event != nullptr) {
      event->capture = nullptr;
      event->recorded = op;
      NoteSharedRecord(event);
    }
    operations.push_back(std::move(op));
  }
  if (operations.empty()) {
    operations = before;
  }
  exec->last_launch = SubmitAfter(world, stream->context, stream, Work(), operations, true);
  return CUDA_SUCCESS;
}

CUresult MakeAllocWork(World& world, Context* context, size_t bytes, Work* work, std::shared_ptr<GraphMemory>* memory) {
  const Allocation* allocation = AllocateDevice(world, context, bytes, Allocation::Kind::kPooled);
  if (allocation == nullptr) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *memory = std::make_shared<GraphMemory>(allocation->base, allocation->id);
  work->kind = Work::Kind::kAlloc;
  work->memory = allocation->base;
  work->memory_bytes = bytes;
  work->body = [base = allocation->base](Op&) {
    World& owner = TheWorld();
    if (const Allocation* fresh = FindAllocation(owner, base)) {
      Poison(owner, fresh->alias, fresh->reserved, 0xA5);
    }
  };
  return CUDA_SUCCESS;
}

Work MakeFreeWork(CUdeviceptr memory) {
  Work work;
  work.kind = Work::Kind::kFree;
  work.memory = memory;
  work.body = [memory](Op&) {
    World& owner = TheWorld();
    if (const Allocation* freed = FindAllocation(owner, memory)) {
      Poison(owner, freed->alias, freed->reserved, 0xDF);
    }
  };
  return work;
}

}  // namespace simcuda

using namespace simcuda;

namespace {

GraphNode* Node(CUgraphNode handle) { return reinterpret_cast<GraphNode*>(handle); }
CUgraphNode Handle(GraphNode* node) { return reinterpret_cast<CUgraphNode>(node); }

Graph* FindGraph(World& world, CUgraph handle) {
  const auto found = world.graphs.find(reinterpret_cast<Graph*>(handle));
  return found != world.graphs.end() ? found->first : nullptr;
}
GraphExec* FindExec(World& world, CUgraphExec handle) {
  const auto found = world.graph_execs.find(reinterpret_cast<GraphExec*>(handle));
  return found != world.graph_execs.end() ? found->first : nullptr;
}

std::vector<GraphNode*> Nodes(const CUgraphNode* handles, size_t count) {
  std::vector<GraphNode*> nodes;
  for (size_t i = 0; i < count; ++i) {
    nodes.push_back(Node(handles[i]));
  }
  return nodes;
}

CUresult Add(World& world, Context* context, CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies,
             size_t count, Work work) {
  Graph* graph = FindGraph(world, handle);
  if (out == nullptr || graph == nullptr || (count > 0 && dependencies == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = Handle(AddNode(graph, context, std::move(work), Nodes(dependencies, count)));
  return CUDA_SUCCESS;
}

// Lists in CUDA's way: NULL asks for the number, else at most *count are written and the rest set to NULL.
CUresult List(const std::vector<GraphNode*>& nodes, CUgraphNode* out, size_t* count) {
  if (count == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (out != nullptr) {
    for (size_t i = 0; i < *count; ++i) {
      out[i] = i < nodes.size() ? Handle(nodes[i]) : nullptr;
    }
  }
  if (out == nullptr || *count > nodes.size()) {
    *count = nodes.size();
  }
  return CUDA_SUCCESS;
}

CUresult KernelWork(World& world, Context* context, const CUDA_KERNEL_NODE_PARAMS* parameters, Work* work) {
  if (parameters == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Kernel* kernel = nullptr;
  const CUresult found = UseKernel(world,
                                   parameters->func != nullptr ? static_cast<const void*>(parameters->func)
                                                               : static_cast<const void*>(parameters->kern),
                                   &kernel);
  if (found != CUDA_SUCCESS) {
    return found == CUDA_ERROR_NO_BINARY_FOR_GPU ? found : CUDA_ERROR_INVALID_VALUE;
  }
  simLaunch shape = {};
  const unsigned grid[3] = {parameters->gridDimX, parameters->gridDimY, parameters->gridDimZ};
  const unsigned block[3] = {parameters->blockDimX, parameters->blockDimY, parameters->blockDimZ};
  std::memcpy(shape.grid, grid, sizeof grid);
  std::memcpy(shape.block, block, sizeof block);
  shape.shared_bytes = parameters->sharedMemBytes;
  return MakeKernelWork(context, kernel, shape, parameters->kernelParams, parameters->extra, work);
}

CUresult SetWork(World& world, const CUDA_MEMSET_NODE_PARAMS* parameters, Work* work) {
  if (parameters == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SetRequest request;
  request.dst = parameters->dst;
  request.value = parameters->value;
  request.element = parameters->elementSize;
  request.width = parameters->width;
  request.height = parameters->height;
  request.pitch = parameters->pitch;
  return MakeSetWork(world, request, work);
}

CUmemorytype TypeOfSide(CopyRequest::Side side) {
  switch (side) {
    case CopyRequest::Side::kHost:
      return CU_MEMORYTYPE_HOST;
    case CopyRequest::Side::kDevice:
      return CU_MEMORYTYPE_DEVICE;
    default:
      return CU_MEMORYTYPE_UNIFIED;
  }
}

GraphExec::Step* FindStep(GraphExec* exec, CUgraphNode node) {
  for (GraphExec::Step& step : exec->steps) {
    if (step.original == Node(node)) {
      return &step;
    }
  }
  return nullptr;
}

std::vector<std::pair<GraphNode*, GraphNode*>> Edges(const Graph& graph) {
  std::vector<std::pair<GraphNode*, GraphNode*>> edges;
  for (const auto& node : graph.nodes) {
    for (GraphNode* needed : node->dependencies) {
      edges.emplace_back(needed, node.get());
    }
  }
  return edges;
}

}  // namespace

SIM_DRIVER(cuGraphCreate, 10000, cuGraphCreate, (CUgraph * phGraph, unsigned int flags), (phGraph, flags)) {
  SIM_USE_CONTEXT()
  if (phGraph == nullptr || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *phGraph = reinterpret_cast<CUgraph>(NewGraph(world));
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuGraphDestroy, 10000, cuGraphDestroy, (CUgraph hGraph), (hGraph)) {
  SIM_USE_CONTEXT()
  Graph* graph = FindGraph(world, hGraph);
  if (graph == nullptr || graph->embedded) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  DeleteGraph(world, graph);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuGraphClone, 10000, cuGraphClone, (CUgraph * phGraphClone, CUgraph originalGraph),
           (phGraphClone, originalGraph)) {
  SIM_USE_CONTEXT()
  const Graph* original = FindGraph(world, originalGraph);
  if (phGraphClone == nullptr || original == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *phGraphClone = reinterpret_cast<CUgraph>(CloneGraph(world, *original));
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuGraphDestroyNode, 10000, cuGraphDestroyNode, (CUgraphNode hNode), (hNode)) {
  SIM_USE_CONTEXT()
  GraphNode* node = Node(hNode);
  if (node == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Graph* graph = node->graph;
  for (const auto& other : graph->nodes) {
    std::erase(other->dependencies, node);
  }
  if (node->child != nullptr) {
    DeleteGraph(world, node->child);
  }
  std::erase_if(graph->nodes, [node](const auto& owned) { return owned.get() == node; });
  return CUDA_SUCCESS;
}

// ---- nodes
SIM_DRIVER(cuGraphAddEmptyNode, 10000, cuGraphAddEmptyNode,
           (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies),
           (phGraphNode, hGraph, dependencies, numDependencies)) {
  SIM_USE_CONTEXT()
  return Add(world, context, phGraphNode, hGraph, dependencies, numDependencies, Work());
}

SIM_DRIVER(cuGraphAddKernelNode, 12000, cuGraphAddKernelNode_v2,
           (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
            const CUDA_KERNEL_NODE_PARAMS* nodeParams),
           (phGraphNode, hGraph, dependencies, numDependencies, nodeParams)) {
  SIM_USE_CONTEXT()
  Work work;
  SIM_TRY(KernelWork(world, context, nodeParams, &work))
  return Add(world, context, phGraphNode, hGraph, dependencies, numDependencies, std::move(work));
}

SIM_DRIVER(cuGraphAddMemcpyNode, 10000, cuGraphAddMemcpyNode,
           (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
            const CUDA_MEMCPY3D* copyParams, CUcontext ctx),
           (phGraphNode, hGraph, dependencies, numDependencies, copyParams, ctx)) {
  SIM_USE_CONTEXT()
  CopyRequest request;
  SIM_TRY(RequestFrom3D(copyParams, &request))
  Work work;
  SIM_TRY(MakeCopyWork(world, request, &work))
  Context* owner = ctx != nullptr ? reinterpret_cast<Context*>(ctx) : context;
  return Add(world, owner, phGraphNode, hGraph, dependencies, numDependencies, std::move(work));
}

SIM_DRIVER(cuGraphAddMemsetNode, 10000, cuGraphAddMemsetNode,
           (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
            const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx),
           (phGraphNode, hGraph, dependencies, numDependencies, memsetParams, ctx)) {
  SIM_USE_CONTEXT()
  Work work;
  SIM_TRY(SetWork(world, memsetParams, &work))
  Context* owner = ctx != nullptr ? reinterpret_cast<Context*>(ctx) : context;
  return Add(world, owner, phGraphNode, hGraph, dependencies, numDependencies, std::move(work));
}

SIM_DRIVER(cuGraphAddHostNode, 10000, cuGraphAddHostNode,
           (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
            const CUDA_HOST_NODE_PARAMS* nodeParams),
           (phGraphNode, hGraph, dependencies, numDependencies, nodeParams)) {
  SIM_USE_CONTEXT()
  if (nodeParams == nullptr || nodeParams->fn == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Add(world, context, phGraphNode, hGraph, dependencies, numDependencies,
             MakeHostWork(nodeParams->fn, nodeParams->userData));
}

SIM_DRIVER(cuGraphAddEventRecordNode, 11010, cuGraphAddEventRecordNode,
           (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
            CUevent event),
           (phGraphNode, hGraph, dependencies, numDependencies, event)) {
  SIM_USE_CONTEXT()
  Work work;
  work.kind = Work::Kind::kEventRecord;
  work.event = event;
  return Add(world, context, phGraphNode, hGraph, dependencies, numDependencies, std::move(work));
}

SIM_DRIVER(cuGraphAddEventWaitNode, 11010, cuGraphAddEventWaitNode,
           (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
            CUevent event),
           (phGraphNode, hGraph, dependencies, numDependencies, event)) {
  SIM_USE_CONTEXT()
  Work work;
  work.kind = Work::Kind::kEventWait;
  work.event = event;
  return Add(world, context, phGraphNode, hGraph, dependencies, numDependencies, std::move(work));
}

SIM_DRIVER(cuGraphAddMemAllocNode, 11040, cuGraphAddMemAllocNode,
           (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
            CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams),
           (phGraphNode, hGraph, dependencies, numDependencies, nodeParams)) {
  SIM_USE_CONTEXT()
  if (nodeParams == nullptr || nodeParams->bytesize == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Work work;
  std::shared_ptr<GraphMemory> memory;
  SIM_TRY(MakeAllocWork(world, context, nodeParams->bytesize, &work, &memory))
  nodeParams->dptr = memory->base;
  SIM_TRY(Add(world, context, phGraphNode, hGraph, dependencies, numDependencies, std::move(work)))
  Node(*phGraphNode)->memory = memory;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuGraphAddMemFreeNode, 11040, cuGraphAddMemFreeNode,
           (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
            CUdeviceptr dptr),
           (phGraphNode, hGraph, dependencies, numDependencies, dptr)) {
  SIM_USE_CONTEXT()
  return Add(world, context, phGraphNode, hGraph, dependencies, numDependencies, MakeFreeWork(dptr));
}

SIM_DRIVER(cuGraphAddChildGraphNode, 10000, cuGraphAddChildGraphNode,
           (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, size_t numDependencies,
            CUgraph childGraph),
           (phGraphNode, hGraph, dependencies, numDependencies, childGraph)) {
  SIM_USE_CONTEXT()
  const Graph* child = FindGraph(world, childGraph);
  if (child == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SIM_TRY(Add(world, context, phGraphNode, hGraph, dependencies, numDependencies, Work()))
  GraphNode* node = Node(*phGraphNode);
  node->type = CU_GRAPH_NODE_TYPE_GRAPH;
  node->child = CloneGraph(world, *child);
  node->child->embedded = true;
  return CUDA_SUCCESS;
}

// ---- questions
SIM_DRIVER(cuGraphChildGraphNodeGetGraph, 10000, cuGraphChildGraphNodeGetGraph, (CUgraphNode hNode, CUgraph* phGraph),
           (hNode, phGraph)) {
  SIM_USE_CONTEXT()
  if (hNode == nullptr || phGraph == nullptr || Node(hNode)->child == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *phGraph = reinterpret_cast<CUgraph>(Node(hNode)->child);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuGraphGetNodes, 10000, cuGraphGetNodes, (CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes),
           (hGraph, nodes, numNodes)) {
  SIM_USE_CONTEXT()
  const Graph* graph = FindGraph(world, hGraph);
  if (graph == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<GraphNode*> all;
  for (const auto& node : graph->nodes) {
    all.push_back(node.get());
  }
  return List(all, nodes, numNodes);
}

SIM_DRIVER(cuGraphGetRootNodes, 10000, cuGraphGetRootNodes,
           (CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes), (hGraph, rootNodes, numRootNodes)) {
  SIM_USE_CONTEXT()
  const Graph* graph = FindGraph(world, hGraph);
  if (graph == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<GraphNode*> roots;
  for (const auto& node : graph->nodes) {
    if (node->dependencies.empty()) {
      roots.push_back(node.get());
    }
  }
  return List(roots, rootNodes, numRootNodes);
}

static CUresult ListEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  SIM_USE_CONTEXT()
  const Graph* graph = FindGraph(world, handle);
  if (graph == nullptr || count == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto edges = Edges(*graph);
  for (size_t i = 0; from != nullptr && to != nullptr && i < *count; ++i) {
    from[i] = i < edges.size() ? Handle(edges[i].first) : nullptr;
    to[i] = i < edges.size() ? Handle(edges[i].second) : nullptr;
    if (data != nullptr) {
      data[i] = {};
    }
  }
  if (from == nullptr || *count > edges.size()) {
    *count = edges.size();
  }
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuGraphGetEdges, 10000, cuGraphGetEdges,
           (CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, size_t* numEdges), (hGraph, from, to, numEdges)) {
  return ListEdges(hGraph, from, to, nullptr, numEdges);
}
SIM_DRIVER(cuGraphGetEdges, 12030, cuGraphGetEdges_v2,
           (CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edgeData, size_t* numEdges),
           (hGraph, from, to, edgeData, numEdges)) {
  return ListEdges(hGraph, from, to, edgeData, numEdges);
}

static CUresult ListDependencies(CUgraphNode node, CUgraphNode* dependencies, CUgraphEdgeData* data, size_t* count) {
  SIM_USE_CONTEXT()
  if (node == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; data != nullptr && count != nullptr && i < *count; ++i) {
    data[i] = {};
  }
  return List(Node(node)->dependencies, dependencies, count);
}

SIM_DRIVER(cuGraphNodeGetDependencies, 10000, cuGraphNodeGetDependencies,
           (CUgraphNode hNode, CUgraphNode* dependencies, size_t* numDependencies),
           (hNode, dependencies, numDependencies)) {
  return ListDependencies(hNode, dependencies, nullptr, numDependencies);
}
SIM_DRIVER(cuGraphNodeGetDependencies, 12030, cuGraphNodeGetDependencies_v2,
           (CUgraphNode hNode, CUgraphNode* dependencies, CUgraphEdgeData* edgeData, size_t* numDependencies),
           (hNode, dependencies, edgeData, numDependencies)) {
  return ListDependencies(hNode, dependencies, edgeData, numDependencies);
}

static CUresult AddEdges(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  SIM_USE_CONTEXT()
  if (FindGraph(world, graph) == nullptr || (count > 0 && (from == nullptr || to == nullptr))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    auto& dependencies = Node(to[i])->dependencies;
    if (std::find(dependencies.begin(), dependencies.end(), Node(from[i])) != dependencies.end()) {
      return CUDA_ERROR_INVALID_VALUE;  // there already
    }
    dependencies.push_back(Node(from[i]));
  }
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuGraphAddDependencies, 10000, cuGraphAddDependencies,
           (CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to, size_t numDependencies),
           (hGraph, from, to, numDependencies)) {
  return AddEdges(hGraph, from, to, numDependencies);
}
SIM_DRIVER(cuGraphAddDependencies, 12030, cuGraphAddDependencies_v2,
           (CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* edgeData,
            size_t numDependencies),
           (hGraph, from, to, edgeData, numDependencies)) {
  (void)edgeData;
  return AddEdges(hGraph, from, to, numDependencies);
}

SIM_DRIVER(cuGraphNodeGetType, 10000, cuGraphNodeGetType, (CUgraphNode hNode, CUgraphNodeType* type), (hNode, type)) {
  SIM_USE_CONTEXT()
  if (hNode == nullptr || type == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *type = Node(hNode)->type;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuGraphMemcpyNodeGetParams, 10000, cuGraphMemcpyNodeGetParams,
           (CUgraphNode hNode, CUDA_MEMCPY3D* nodeParams), (hNode, nodeParams)) {
  SIM_USE_CONTEXT()
  if (hNode == nullptr || nodeParams == nullptr || Node(hNode)->work.copy == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CopyRequest& request = *Node(hNode)->work.copy;
  *nodeParams = {};
  // Each side in the field that its type says, and in no other.
  nodeParams->srcMemoryType = TypeOfSide(request.src_side);
  nodeParams->dstMemoryType = TypeOfSide(request.dst_side);
  if (nodeParams->srcMemoryType == CU_MEMORYTYPE_HOST) {
    nodeParams->srcHost = reinterpret_cast<const void*>(request.src);
  } else {
    nodeParams->srcDevice = request.src;
  }
  if (nodeParams->dstMemoryType == CU_MEMORYTYPE_HOST) {
    nodeParams->dstHost = reinterpret_cast<void*>(request.dst);
  } else {
    nodeParams->dstDevice = request.dst;
  }
  nodeParams->srcPitch = request.src_pitch;
  nodeParams->dstPitch = request.dst_pitch;
  nodeParams->srcHeight = request.src_pitch != 0 ? request.src_slice / request.src_pitch : 0;
  nodeParams->dstHeight = request.dst_pitch != 0 ? request.dst_slice / request.dst_pitch : 0;
  nodeParams->WidthInBytes = request.width;
  nodeParams->Height = request.height;
  nodeParams->Depth = request.depth;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuGraphMemsetNodeGetParams, 10000, cuGraphMemsetNodeGetParams,
           (CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS* nodeParams), (hNode, nodeParams)) {
  SIM_USE_CONTEXT()
  if (hNode == nullptr || nodeParams == nullptr || Node(hNode)->work.set == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const SetRequest& request = *Node(hNode)->work.set;
  *nodeParams = {request.dst,   request.pitch, request.value, static_cast<unsigned>(request.element),
                 request.width, request.height};
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuGraphHostNodeGetParams, 10000, cuGraphHostNodeGetParams,
           (CUgraphNode hNode, CUDA_HOST_NODE_PARAMS* nodeParams), (hNode, nodeParams)) {
  SIM_USE_CONTEXT()
  if (hNode == nullptr || nodeParams == nullptr || Node(hNode)->work.host_function == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  nodeParams->fn = Node(hNode)->work.host_function;
  nodeParams->userData = Node(hNode)->work.host_data;
  return CUDA_SUCCESS;
}

// ---- executables
static CUresult Instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
  SIM_USE_CONTEXT()
  const Graph* graph = FindGraph(world, handle);
  if (out == nullptr || graph == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto exec = std::make_unique<GraphExec>();
  exec->flags = flags;
  if (!Compile(*graph, exec.get())) {
    return CUDA_ERROR_INVALID_VALUE;  // a cycle
  }
  GraphExec* raw = exec.get();
  world.graph_execs[raw] = std::move(exec);
  *out = reinterpret_cast<CUgraphExec>(raw);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuGraphInstantiateWithFlags, 11040, cuGraphInstantiateWithFlags,
           (CUgraphExec * phGraphExec, CUgraph hGraph, unsigned long long flags), (phGraphExec, hGraph, flags)) {
  return Instantiate(phGraphExec, hGraph, flags);
}

SIM_DRIVER_PT(cuGraphInstantiateWithParams, 12000, cuGraphInstantiateWithParams, _ptsz,
              (CUgraphExec * phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams),
              (phGraphExec, hGraph, instantiateParams)) {
  if (instantiateParams == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult result = Instantiate(phGraphExec, hGraph, instantiateParams->flags);
  instantiateParams->hErrNode_out = nullptr;
  instantiateParams->result_out =
      result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

SIM_DRIVER_PT(cuGraphUpload, 11010, cuGraphUpload, _ptsz, (CUgraphExec hGraphExec, CUstream hStream),
              (hGraphExec, hStream)) {
  SIM_USE_STREAM(hStream)
  return FindExec(world, hGraphExec) != nullptr ? Enqueue(world, stream, Work(), nullptr) : CUDA_ERROR_INVALID_VALUE;
}

SIM_DRIVER_PT(cuGraphLaunch, 10000, cuGraphLaunch, _ptsz, (CUgraphExec hGraphExec, CUstream hStream),
              (hGraphExec, hStream)) {
  SIM_USE_STREAM(hStream)
  GraphExec* exec = FindExec(world, hGraphExec);
  if (exec == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream->legacy) {
    SIM_TRY(CheckNotCapturing(world, stream))
  }
  return LaunchGraph(world, stream, exec);
}

SIM_DRIVER(cuGraphExecDestroy, 10000, cuGraphExecDestroy, (CUgraphExec hGraphExec), (hGraphExec)) {
  SIM_USE_CONTEXT()
  GraphExec* exec = FindExec(world, hGraphExec);
  if (exec == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Its memory may be in use by a launch that is pending: such a launch is completed first.
  const OpPtr last = exec->last_launch;
  if (last && !last->done() &&
      std::any_of(exec->steps.begin(), exec->steps.end(), [](const auto& step) { return step.memory != nullptr; })) {
    RunUntilDone(world, lock, {last});
  }
  world.graph_execs.erase(exec);
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuGraphExecGetFlags, 12000, cuGraphExecGetFlags, (CUgraphExec hGraphExec, cuuint64_t* flags),
           (hGraphExec, flags)) {
  SIM_USE_CONTEXT()
  const GraphExec* exec = FindExec(world, hGraphExec);
  if (exec == nullptr || flags == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuGraphExecUpdate, 12000, cuGraphExecUpdate_v2,
           (CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo* resultInfo),
           (hGraphExec, hGraph, resultInfo)) {
  SIM_USE_CONTEXT()
  GraphExec* exec = FindExec(world, hGraphExec);
  const Graph* graph = FindGraph(world, hGraph);
  if (exec == nullptr || graph == nullptr || resultInfo == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *resultInfo = {};
  GraphExec fresh;
  const bool compiled = Compile(*graph, &fresh);
  if (!compiled || fresh.steps.size() != exec->steps.size()) {
    resultInfo->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  for (size_t i = 0; i < fresh.steps.size(); ++i) {
    const bool same_type = fresh.steps[i].type == exec->steps[i].type;
    if (!same_type || fresh.steps[i].dependencies != exec->steps[i].dependencies) {
      resultInfo->result =
          same_type ? CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED : CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
      resultInfo->errorNode = Handle(fresh.steps[i].original);
      return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
  }
  for (size_t i = 0; i < fresh.steps.size(); ++i) {
    fresh.steps[i].enabled = exec->steps[i].enabled;
    // The executable keeps answering to the nodes it was made from.
    fresh.steps[i].original = exec->steps[i].original;
  }
  exec->steps = std::move(fresh.steps);
  resultInfo->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuGraphExecKernelNodeSetParams, 12000, cuGraphExecKernelNodeSetParams_v2,
           (CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS* nodeParams),
           (hGraphExec, hNode, nodeParams)) {
  SIM_USE_CONTEXT()
  GraphExec* exec = FindExec(world, hGraphExec);
  GraphExec::Step* step = exec != nullptr ? FindStep(exec, hNode) : nullptr;
  if (step == nullptr || step->type != CU_GRAPH_NODE_TYPE_KERNEL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return KernelWork(world, step->context, nodeParams, &step->work);
}

SIM_DRIVER(cuGraphExecMemcpyNodeSetParams, 10020, cuGraphExecMemcpyNodeSetParams,
           (CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D* copyParams, CUcontext ctx),
           (hGraphExec, hNode, copyParams, ctx)) {
  SIM_USE_CONTEXT()
  (void)ctx;
  GraphExec* exec = FindExec(world, hGraphExec);
  GraphExec::Step* step = exec != nullptr ? FindStep(exec, hNode) : nullptr;
  if (step == nullptr || step->type != CU_GRAPH_NODE_TYPE_MEMCPY) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CopyRequest request;
  SIM_TRY(RequestFrom3D(copyParams, &request))
  return MakeCopyWork(world, request, &step->work);
}

SIM_DRIVER(cuGraphNodeSetEnabled, 11060, cuGraphNodeSetEnabled,
           (CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled), (hGraphExec, hNode, isEnabled)) {
  SIM_USE_CONTEXT()
  GraphExec* exec = FindExec(world, hGraphExec);
  GraphExec::Step* step = exec != nullptr ? FindStep(exec, hNode) : nullptr;
  if (step == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  step->enabled = isEnabled != 0;
  return CUDA_SUCCESS;
}
