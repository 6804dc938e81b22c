#include "tools/trace/db/schema.h"

namespace slipstream::trace_db {
namespace {

constexpr char kEnumColumns[] = "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT";

// Numbers and names: "SQLite Schema Event Values".
constexpr EnumValue kMemcpyOperations[] = {
    {0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"},
    {1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"},
    {2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"},
    {3, "CUDA_MEMCPY_KIND_HTOA", "Host-to-Array"},
    {4, "CUDA_MEMCPY_KIND_ATOH", "Array-to-Host"},
    {5, "CUDA_MEMCPY_KIND_ATOA", "Array-to-Array"},
    {6, "CUDA_MEMCPY_KIND_ATOD", "Array-to-Device"},
    {7, "CUDA_MEMCPY_KIND_DTOA", "Device-to-Array"},
    {8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"},
    {9, "CUDA_MEMCPY_KIND_HTOH", "Host-to-Host"},
    {10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"},
    {11, "CUDA_MEMCPY_KIND_UVM_HTOD", "Unified Host-to-Device"},
    {12, "CUDA_MEMCPY_KIND_UVM_DTOH", "Unified Device-to-Host"},
    {13, "CUDA_MEMCPY_KIND_UVM_DTOD", "Unified Device-to-Device"},
};
constexpr EnumValue kMemoryKinds[] = {
    {0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"},
    {1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"},
    {2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"},
    {3, "CUDA_MEMOPR_MEMORY_KIND_ARRAY", "Array"},
    {4, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"},
    {5, "CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC", "Device Static"},
    {6, "CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC", "Managed Static"},
    {7, "CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown"},
};
constexpr EnumValue kSynchronizationTypes[] = {
    {0, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN", "Unknown"},
    {1, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"},
    {2, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync"},
    {3, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"},
    {4, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"},
};
constexpr EnumValue kEventClasses[] = {
    {kClassRuntime, "TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"},
    {kClassDriver, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"},
};
constexpr EnumValue kEventTypes[] = {
    {33, "NvtxCategory", "NvtxCategory"},
    {kNvtxMark, "NvtxMark", "NvtxMark"},
    {39, "NvtxThread", "NvtxThread"},
    {kNvtxPushPopRange, "NvtxPushPopRange", "NvtxPushPopRange"},
    {kNvtxStartEndRange, "NvtxStartEndRange", "NvtxStartEndRange"},
    {kNvtxDomainCreate, "NvtxDomainCreate", "NvtxDomainCreate"},
    {76, "NvtxDomainDestroy", "NvtxDomainDestroy"},
};
constexpr EnumTable kEnumTables[] = {
    {{"ENUM_CUDA_MEMCPY_OPER", kEnumColumns}, kMemcpyOperations},
    {{"ENUM_CUDA_MEM_KIND", kEnumColumns}, kMemoryKinds},
    {{"ENUM_CUPTI_SYNC_TYPE", kEnumColumns}, kSynchronizationTypes},
    {{"ENUM_NSYS_EVENT_CLASS", kEnumColumns}, kEventClasses},
    {{"ENUM_NSYS_EVENT_TYPE", kEnumColumns}, kEventTypes},
};

}  // namespace

std::span<const EnumTable> EnumTables() { return kEnumTables; }

}  // namespace slipstream::trace_db
