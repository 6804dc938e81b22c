// What a database says about the devices that it was recorded on: TARGET_INFO_GPU and TARGET_INFO_CUDA_DEVICE of Nsight
// Systems' export.
//
// Threading, errors: as the reader.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tools/report/occupancy.h"
#include "tools/trace_db/database_reader.h"

namespace slipstream::report {

struct DeviceInfo {
  std::string name;
  DeviceLimits limits;  // 0: not known
};

class DeviceInfos {
 public:
  explicit DeviceInfos(trace_db::DatabaseReader* reader);

  // A device by the number that a process knows it by. Null: nothing is known.
  const DeviceInfo* Of(std::optional<int64_t> pid, int64_t device) const;

 private:
  std::map<int64_t, DeviceInfo> by_gpu_;                       // TARGET_INFO_GPU.id
  std::map<int64_t, int64_t> gpu_of_device_;                   // cuDevice, where there is such a column
  std::map<std::pair<int64_t, int64_t>, int64_t> of_process_;  // pid, cudaId
};

}  // namespace slipstream::report
