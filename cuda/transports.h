// Whether something in the process may have device memory read without any CUDA call of the process: by a network
// adapter, a disk or another process (S22). A transport counts once it can be in use, not because its library is there:
//
//   UCX        its modules, which it loads when it is initialised; PyTorch in NVIDIA's containers is merely linked to
//   it MPI        when the program has initialised it, whatever it is built on NVSHMEM    its transports and
//   bootstraps; its host library alone is in every PyTorch process GDRCopy, KvikIO, NIXL  their libraries, which nobody
//   has without using them others     a library that is itself linked to libibverbs, librdmacm or libfabric
//
// NCCL does not count, nor its network plugins: what they send lies behind a kernel of theirs, in the order of a
// stream. But where it is told to move data by later copies of a thread of its own, nobody sees those (S64).
//
// Threading: any thread. The loader's lock is taken by Look, which walks the list of objects where one was loaded
// since.
// Hazard: a library is known by its name. One that is renamed, or linked statically into the program, is not found.
#pragma once

#include <link.h>

#include <atomic>
#include <cstdint>
#include <string_view>

namespace slipstream::cuda {

class Transports {
 public:
  // Whether there is one as far as is known. Asks MPI, where it was seen, and nobody else.
  bool Found();
  // The same, where an object was loaded since the last look after a look at all of them.
  bool Look();
  // The library's name, for people; empty: none was found, or its name is being written.
  const char* name() const { return named_.load(std::memory_order_acquire) ? name_ : ""; }
  // NCCL_P2P_USE_CUDA_MEMCPY, as it was at a look.
  bool NcclByProxy() const { return nccl_by_proxy_.load(std::memory_order_relaxed); }

 private:
  // A library that has to be asked.
  using Initialized = int(int* flag);

  void Remember(std::string_view name);
  void AskFrom(const char* path);

  std::atomic<bool> found_{false};
  std::atomic<bool> naming_{false};
  std::atomic<bool> named_{false};
  std::atomic<bool> nccl_by_proxy_{false};
  std::atomic<uint64_t> loaded_{0};  // how many objects ever were, at the last look
  std::atomic<Initialized*> mpi_{nullptr};
  char name_[64] = "";
};

// Whether an object of this name and dynamic section is such a transport, or uses one. For tests.
bool IsTransport(std::string_view path, const ElfW(Dyn) * dynamic);
bool IsMpi(std::string_view path);

}  // namespace slipstream::cuda
