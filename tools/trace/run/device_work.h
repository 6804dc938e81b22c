// What the devices did for a process, as rows: kernels, copies or sets.
//
// Work whose call is not in the trace is the process's as well, where the database says whose it is.
//
// Threading, errors: as the reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/trace/db/database_reader.h"

namespace slipstream::run {

enum class WorkKind : uint8_t { kKernel, kCopy, kSet };

struct Work {
  int64_t start = 0;
  int64_t end = 0;
  int64_t device = 0;
  int64_t context = 0;  // of a database that does not say: the device
  int64_t stream = 0;
  int64_t correlation = 0;
  bool has_call = false;  // the call that asked for it is in the trace
  int64_t site = 0;       // of that call
  int64_t thread = -1;    // likewise
  bool site_is_backward = false;
  int64_t kernel = 0;        // its short name (Names::TextOf); 0: a copy or a set
  int64_t copy_kind = -1;    // of ENUM_CUDA_MEMCPY_OPER; -1: no copy
  bool is_pageable = false;  // a copy from or to pageable memory
  bool is_double = false;    // a kernel whose whole name has a template or a function of double precision
  bool is_fill = false;      // a kernel of PyTorch's that sets all elements to one value
  int64_t bytes = 0;
};

// In the order of their starts: for (DeviceWork work(reader, process, WorkKind::kCopy); work.Next();) work.now().start;
class DeviceWork {
 public:
  DeviceWork(trace_db::DatabaseReader* reader, int64_t process, WorkKind kind);

  bool Next();
  const Work& now() const { return now_; }

 private:
  std::optional<trace_db::Question> row_;  // nothing: there is no such work
  Work now_;
};

// As other tables name the process; nothing: the database does not say.
std::optional<int64_t> GlobalPidOf(trace_db::DatabaseReader* reader, int64_t process);

}  // namespace slipstream::run
