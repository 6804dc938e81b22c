// Graphs: nodes with their Work, executables, and captures that fill a graph.
//
// Threading: guarded by World::mutex, like everything.
// Ownership: a graph owns its nodes; an executable copies what it needs and outlives the graph. Memory of allocation
// nodes is held by both and freed with the last of them (a real device maps it at launch; here its address is live all
// along, and filled with garbage when the allocation and the free node run).
#ifndef TESTS_SIM_DRIVER_GRAPH_H_
#define TESTS_SIM_DRIVER_GRAPH_H_

#include <thread>

#include "tests/sim/driver/world.h"

namespace simcuda {

// Device memory of one allocation node.
struct GraphMemory {
  uintptr_t base = 0;
  uint64_t id = 0;  // the context, and the memory with it, may go first and the address be used again
  GraphMemory(uintptr_t address, uint64_t allocation) : base(address), id(allocation) {}
  ~GraphMemory();  // the mutex is held
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;
};

struct GraphNode {
  Graph* graph = nullptr;
  Context* context = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  Work work;
  std::vector<GraphNode*> dependencies;
  std::shared_ptr<GraphMemory> memory;
  GraphNode* clone_of = nullptr;
  Graph* child = nullptr;  // a child-graph node's own clone; in World::graphs, and deleted with the node
};

struct Graph {
  bool embedded = false;                          // of a child-graph node: not the program's to destroy
  std::vector<std::unique_ptr<GraphNode>> nodes;  // a node after all it depends on, unless edges were added by hand
};

struct GraphExec {
  struct Step {
    GraphNode* original = nullptr;  // only to be compared: the graph may be gone
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    Context* context = nullptr;
    Work work;
    std::vector<size_t> dependencies;  // indices of earlier steps
    std::shared_ptr<GraphMemory> memory;
    bool enabled = true;
  };
  std::vector<Step> steps;
  unsigned long long flags = 0;
  uint64_t id = 0;
  OpPtr last_launch;  // one launch of an executable at a time
};

struct Capture {
  enum class State { kActive, kInvalid, kEnded };
  uint64_t id = 0;
  State state = State::kActive;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  StreamPtr origin;
  std::vector<StreamPtr> streams;
  Graph* graph = nullptr;
  bool owns_graph = true;  // false: cuStreamBeginCaptureToGraph
};

CUgraphNodeType TypeOf(const Work& work);
GraphNode* AddNode(Graph* graph, Context* context, Work work, const std::vector<GraphNode*>& dependencies);
// Steps in an order in which each comes after what it depends on; false if the graph has a cycle.
bool Compile(const Graph& graph, GraphExec* exec);
CUresult LaunchGraph(World& world, const StreamPtr& stream, GraphExec* exec);
Graph* NewGraph(World& world);
void DeleteGraph(World& world, Graph* graph);
Graph* CloneGraph(World& world, const Graph& original);
// An allocation node: its memory, and the Work that makes it garbage.
CUresult MakeAllocWork(World& world, Context* context, size_t bytes, Work* work, std::shared_ptr<GraphMemory>* memory);
Work MakeFreeWork(CUdeviceptr memory);

}  // namespace simcuda

#endif  // TESTS_SIM_DRIVER_GRAPH_H_
