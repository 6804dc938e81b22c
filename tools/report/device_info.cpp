#include "tools/report/device_info.h"

namespace slipstream::report {
namespace {

using trace_db::DatabaseReader;
using trace_db::Question;

constexpr char kGpus[] = "TARGET_INFO_GPU";
constexpr char kDevices[] = "TARGET_INFO_CUDA_DEVICE";

// A column, or NULL in its place where an export does not have it.
std::string Column(DatabaseReader* reader, const char* table, const std::string& column) {
  return ", " + (reader->HasColumn(table, column) ? column : "NULL");
}

}  // namespace

DeviceInfos::DeviceInfos(DatabaseReader* reader) {
  if (!reader->HasTable(kGpus) || !reader->HasColumn(kGpus, "id")) return;
  std::string sql = "SELECT id";
  for (const char* const column : {"cuDevice", "name", "smCount", "computeMajor", "computeMinor", "threadsPerWarp",
                                   "maxWarpsPerSm", "maxThreadsPerBlock", "maxRegistersPerBlock", "maxRegistersPerSm",
                                   "maxShmemPerBlock", "maxShmemPerBlockOptin", "maxShmemPerSm"}) {
    sql += Column(reader, kGpus, column);
  }
  for (Question row(*reader, sql + " FROM " + kGpus); row.Next();) {
    DeviceInfo& info = by_gpu_[row.Number(0)];
    if (!row.IsNull(1)) gpu_of_device_[row.Number(1)] = row.Number(0);
    info.name = row.Text(2);
    info.limits = {.sms = row.Number(3),
                   .compute_major = row.Number(4),
                   .compute_minor = row.Number(5),
                   .threads_per_warp = row.Number(6),
                   .warps_per_sm = row.Number(7),
                   .threads_per_block = row.Number(8),
                   .registers_per_block = row.Number(9),
                   .registers_per_sm = row.Number(10),
                   .shared_per_block = row.Number(11),
                   .shared_per_block_optin = row.Number(12),
                   .shared_per_sm = row.Number(13)};
  }
  if (!reader->HasTable(kDevices) || !reader->HasColumn(kDevices, "gpuId") || !reader->HasColumn(kDevices, "cudaId") ||
      !reader->HasColumn(kDevices, "pid")) {
    return;
  }
  for (Question row(*reader, std::string("SELECT pid, cudaId, gpuId FROM ") + kDevices); row.Next();) {
    of_process_[{row.Number(0), row.Number(1)}] = row.Number(2);
  }
}

const DeviceInfo* DeviceInfos::Of(std::optional<int64_t> pid, int64_t device) const {
  int64_t gpu = device;
  const auto of_process = pid ? of_process_.find({*pid, device}) : of_process_.end();
  if (of_process != of_process_.end()) {
    gpu = of_process->second;
  } else if (const auto of_device = gpu_of_device_.find(device); of_device != gpu_of_device_.end()) {
    gpu = of_device->second;
  }
  const auto found = by_gpu_.find(gpu);
  return found == by_gpu_.end() ? nullptr : &found->second;
}

}  // namespace slipstream::report
