#include "tools/trace/db/devices.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "tools/trace/db/clean_text.h"

namespace slipstream::trace_db {
namespace {

constexpr char kGpu[] = "TARGET_INFO_GPU";
constexpr char kCudaDevice[] = "TARGET_INFO_CUDA_DEVICE";
constexpr char kOwnDevice[] = "SLIPSTREAM_DEVICES";

// The column, or NULL where this database does not have it.
std::string ColumnOrNull(DatabaseReader& database, const char* table, const char* column) {
  return database.HasColumn(table, column) ? column : "NULL";
}

// A fact of a device or of a kernel that is one. What is too large would overflow, and is nobody's.
bool IsSize(int64_t value) { return value >= 0 && value <= std::numeric_limits<int32_t>::max(); }

constexpr int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// How many blocks of a kernel fit onto a multiprocessor at once. Source of the units: CUDA C++ Programming Guide,
// "Compute Capabilities", and the header cuda_occupancy.h, with which a test compares this: registers are given to
// warps in pieces of 256, in four parts of the multiprocessor; shared memory to blocks in pieces of 128 bytes (256
// before compute capability 8), with 1 KiB more for each from 8 on.
std::optional<int64_t> BlocksThatFit(const KernelShape& kernel, int64_t threads, const Device& device) {
  if (!device.warp_size || !device.warps_per_multiprocessor || !device.blocks_per_multiprocessor ||
      !device.registers_per_multiprocessor || !device.shared_per_multiprocessor || !device.major) {
    return std::nullopt;
  }
  if (*device.major < 7 || *device.warp_size <= 0 || threads <= 0) return std::nullopt;
  if (threads > device.threads_per_block.value_or(threads)) return std::nullopt;
  constexpr int64_t kRegisterPiece = 256;
  constexpr int64_t kParts = 4;
  const int64_t warps = RoundUp(threads, *device.warp_size) / *device.warp_size;
  int64_t blocks = std::min(*device.blocks_per_multiprocessor, *device.warps_per_multiprocessor / warps);
  if (kernel.registers > 0) {
    const int64_t of_warp = RoundUp(kernel.registers * *device.warp_size, kRegisterPiece);
    const int64_t warps_that_fit = *device.registers_per_multiprocessor / kParts / of_warp * kParts;
    blocks = std::min(blocks, warps_that_fit / warps);
  }
  const int64_t piece = *device.major >= 8 ? 128 : 256;
  const int64_t reserved = *device.major >= 8 ? 1024 : 0;
  const int64_t shared = RoundUp(kernel.shared + reserved, piece);
  if (shared > 0) blocks = std::min(blocks, *device.shared_per_multiprocessor / shared);
  return blocks;
}

}  // namespace

std::optional<KernelLoad> LoadOf(const KernelShape& kernel, const Device& device) {
  if (device.multiprocessors.value_or(0) <= 0) return std::nullopt;
  constexpr int64_t kMostThreads = int64_t{1} << 16;  // far more than any block may have, in each direction
  for (const int64_t side : kernel.block) {
    if (side < 0 || side > kMostThreads) return std::nullopt;
  }
  if (!IsSize(kernel.registers) || !IsSize(kernel.shared)) return std::nullopt;
  const auto grid =
      static_cast<double>(kernel.grid[0]) * static_cast<double>(kernel.grid[1]) * static_cast<double>(kernel.grid[2]);
  const int64_t threads = kernel.block[0] * kernel.block[1] * kernel.block[2];
  const int64_t warp = device.warp_size.value_or(32);
  KernelLoad load;
  load.blocks = grid / static_cast<double>(*device.multiprocessors);
  load.warps = load.blocks * static_cast<double>(threads) / static_cast<double>(warp);
  if (const auto fit = BlocksThatFit(kernel, threads, device); fit.value_or(0) > 0) {
    const double running = std::min(load.blocks, static_cast<double>(*fit));
    const auto most = static_cast<double>(*device.warps_per_multiprocessor * warp);
    load.occupancy = running * static_cast<double>(threads) / most;
  }
  return load;
}

Devices::Devices(DatabaseReader& database) {
  if (!database.HasTable(kGpu)) return;
  constexpr const char* kColumns[] = {"totalMemory",       "computeMajor",     "computeMinor",
                                      "smCount",           "threadsPerWarp",   "maxThreadsPerBlock",
                                      "maxWarpsPerSm",     "maxBlocksPerSm",   "maxRegistersPerBlock",
                                      "maxRegistersPerSm", "maxShmemPerBlock", "maxShmemPerBlockOptin",
                                      "maxShmemPerSm",     "cuDevice"};
  std::string sql = "SELECT id, name";
  for (const char* const column : kColumns) sql += ", " + ColumnOrNull(database, kGpu, column);
  for (Question question(database, sql + " FROM " + kGpu); question.Next();) {
    Device device;
    device.name = CleanText(question.Text(1));
    int column = 2;
    for (auto* const fact :
         {&device.total_memory, &device.major, &device.minor, &device.multiprocessors, &device.warp_size,
          &device.threads_per_block, &device.warps_per_multiprocessor, &device.blocks_per_multiprocessor,
          &device.registers_per_block, &device.registers_per_multiprocessor, &device.shared_per_block,
          &device.shared_per_block_optin, &device.shared_per_multiprocessor}) {
      const std::optional<int64_t> value = question.NumberIfKnown(column++);
      if (value && (IsSize(*value) || fact == &device.total_memory)) *fact = value;
    }
    const int64_t id = question.Number(0);
    by_id_[id] = device;
    of_system_[question.NumberIfKnown(column).value_or(id)] = id;
  }
  const auto read = [&](const char* table, const char* owner, const char* device, Numbers* numbers) {
    for (const char* const column : {owner, device, "gpuId"}) {
      if (!database.HasColumn(table, column)) return;
    }
    const std::string numbers_sql = std::string("SELECT ") + owner + ", " + device + ", gpuId FROM " + table;
    for (Question question(database, numbers_sql); question.Next();) {
      (*numbers)[{question.Number(0), question.Number(1)}] = question.Number(2);
    }
  };
  read(kOwnDevice, "processId", "deviceId", &of_own_);
  read(kCudaDevice, "pid", "cudaId", &of_process_);
}

// Where the processes are known, a device's number is a process's own; else it is CUDA's, or the table's.
const Device* Devices::Find(int64_t process, std::optional<int64_t> pid, int64_t device) const {
  const bool by_process = process != 0 && !of_own_.empty();
  const Numbers& numbers = by_process ? of_own_ : of_process_;
  const auto own = by_process ? numbers.find({process, device}) : pid ? numbers.find({*pid, device}) : numbers.end();
  const auto system = of_system_.find(device);
  int64_t id = 0;
  if (own != numbers.end()) {
    id = own->second;
  } else if (numbers.empty() && system != of_system_.end()) {
    id = system->second;
  } else {
    return nullptr;
  }
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &found->second;
}

}  // namespace slipstream::trace_db
