// Control of the simulated CUDA device (tests/sim/README.md): what a test says to the simulator beside the CUDA API.
//
// Purpose: register kernels, choose the seed and the mode, make calls fail, read the simulator's own counts.
// Threading: every function may be called from any thread. Settings that change the device (mode, seed, memory, reset)
// are for a quiet moment: no other thread inside a CUDA call.
// Ownership: nothing is taken over; names and argument sizes are copied.
// Errors: functions that can fail return a CUresult (0 is success).
// Units: bytes and nanoseconds.
// Exported by the simulated libcuda.so.1. A program that must also run on a real device looks the names up with dlsym.
#ifndef TESTS_SIM_SIMCUDA_H_
#define TESTS_SIM_SIMCUDA_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// One launch, as a kernel body sees it.
typedef struct simLaunch {
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int shared_bytes;
  int device;
  const void* function;  // the host function that was launched
  void* operation;       // for simFault
} simLaunch;

typedef void (*simKernelBody)(const simLaunch* launch, void** args);

// Makes `host_function` launchable. Its arguments are copied at the launch, `arg_sizes[i]` bytes each, and `args`
// points at the copies. The body runs once per launch (not once per thread) on a host thread, no lock held, and must
// not call CUDA. Device pointers in its arguments go through simDevicePointer. Registering again replaces.
int simRegisterKernel(const void* host_function, const char* name, simKernelBody body, const size_t* arg_sizes,
                      int arg_count, uint64_t duration_ns);
// What a launch of a kernel does that is in a fat binary and that nobody gave a body: 0 (the beginning, but for
// SIMCUDA_KERNELS=empty), it fails with cudaErrorNoKernelImageForDevice; 1, it is a kernel that does nothing.
int simSetEmptyKernels(int empty);
// Gives the name a value in device memory: cudaMemcpyToSymbol and cudaGetSymbolAddress then work on `symbol`.
int simRegisterVariable(const void* symbol, const char* name, size_t bytes);

// Where a kernel body may touch `bytes` bytes at device address `pointer`. Device memory itself is unreadable for the
// host: a program that dereferences a device pointer faults. NULL when the range is not (any more) one live, accessible
// allocation; inside a kernel body that is an illegal address: the context is then broken with error 700, as on a
// device.
void* simDevicePointer(const void* pointer, size_t bytes);
// A fault of the running kernel: its context answers `error` (a sticky one, 700 say) from then on.
void simFault(const simLaunch* launch, int error);
// What printf in device code does: the text stays in a buffer of the device's until the host launches or waits, and is
// written to stdout then. What is there when the process ends is lost (Programming Guide, Formatted Output).
void simPrint(const simLaunch* launch, const char* text);

// Enqueues a registered kernel without crossing any exported cu* or cuda* function, as a library with its own static
// cudart does. `stream` is a cudaStream_t (NULL: the legacy stream of the current context).
int simLaunchUnseen(const void* host_function, unsigned int grid, unsigned int block, void** args, void* stream);

// Waits for the stream's work, likewise. An error: a bad handle.
int simSynchronizeUnseen(void* stream);

enum { SIM_ADVERSARIAL = 0, SIM_TIMED = 1 };
// Both wait for pending work first.
int simSetMode(int mode);
int simSetSeed(uint64_t seed);
// Runs everything that is pending, in an order drawn from the seed.
int simQuiesce(void);
// Forgets everything but registrations: contexts, memory, streams, counts, failures, faults. As a new process, nearly:
// the runtime libraries find their contexts again by themselves. Handles from before are invalid.
int simReset(void);
// Operations submitted to the stream and not complete; with stream = NULL those of all streams of all contexts.
int simPendingOperations(void* stream);
// Threads that wait for work at this moment while nothing can run: what they wait for is behind a value in memory that
// is not there yet, or behind work that another thread carries out. Adversarial mode only.
int simStuckWaits(void);

// A code that no call returns: a function of the driver says that it was successful, and has done nothing. A fault that
// nobody reports.
enum { SIM_LOST = -1 };
// The `nth` call (1 is the next one) of the named function, from anywhere, returns `code` without doing anything; with
// `repeat` also every later one. The name is an exported symbol: "cudaMalloc", "cuMemAlloc_v2", "cuptiSubscribe". With
// "own:" before it, "own:cuEventQuery", only calls that slipstream's own code makes are counted and fail.
int simFailCall(const char* function, int code, uint64_t nth, int repeat);
void simClearFailures(void);

// Calls of the named function (an exported symbol, as above), from anywhere, stop at its entry until simReleaseCalls.
void simHoldCalls(const char* function);
// How many stand there now.
int simHeldCalls(void);
void simReleaseCalls(void);

// From now on `between` is called at the entry of every call of the driver that slipstream's own code makes, on the
// thread that makes it, without a lock: what another thread may do between any two of them can be done there. Calls
// that it makes itself are not reported. `function` is an exported symbol. NULL: no more. Lets nobody who is inside
// finish first.
typedef void (*simBetween)(const char* function, void* data);
void simBetweenCalls(simBetween between, void* data);

// How often the exported function was entered from outside CUDA (calls of a libcudart into libcuda are not), all
// libraries together; or in one: "libcudart.so.13", "libcudart.so.12", "libcudart_static.a", "libcuda.so.1". Null for
// `function`: every one.
uint64_t simCallCount(const char* function);
uint64_t simCallCountIn(const char* library, const char* function);
// Kernels submitted, seen or unseen, graph launches included.
uint64_t simKernelCount(void);
// The JSON that SIMCUDA_COUNTS gets at exit. Returns 0 or an errno.
int simWriteCounts(const char* path);
void simResetCounts(void);

// Before the first context; afterwards it still holds for later queries. `attribute` is a CUdevice_attribute.
int simSetDeviceAttribute(int device, int attribute, int value);
// Total memory of a device from now on. Fails with 1 when more is in use.
int simSetDeviceMemory(int device, size_t bytes);
// What the driver has left of a device, past anything that intercepts cuMemGetInfo. 0 for a device that is not there.
size_t simFreeMemory(int device);
// Host memory that can be pinned from now on: allocated pinned, or registered. What is pinned stays. Without: no limit.
int simSetPinnedMemory(size_t bytes);
// Bytes per second of each copy engine (default 20e9).
int simSetBandwidth(double host_to_device, double device_to_host, double device_to_device);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TESTS_SIM_SIMCUDA_H_
