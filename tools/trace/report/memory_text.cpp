#include "tools/trace/report/memory_text.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/text/text.h"
#include "tools/trace/report/format.h"

namespace slipstream::report {
namespace {

using text::HumanBytes;
using text::PadRight;

constexpr size_t kMostLabel = 40;
constexpr size_t kLeastLabel = 16;
constexpr std::string_view kPeak = "^ peak";
// From nothing to all: anything at all shows.
constexpr std::string_view kLevels = " .:-=+*#%@";

std::string Bytes(int64_t bytes) { return HumanBytes(static_cast<uint64_t>(std::max<int64_t>(bytes, 0))); }

std::string ColumnsOf(const MemoryColumns::Row& row, int64_t most) {
  std::string columns;
  for (const int64_t bytes : row.highest) {
    const auto steps = static_cast<double>(kLevels.size() - 1);
    const auto share = static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(most, 1));
    const auto level = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * steps);
    columns += kLevels[bytes == 0 ? 0 : std::max<size_t>(level, 1)];
  }
  return columns;
}

// Where there is no room behind the mark, the word stands before it.
std::string PeakMark(size_t peak, size_t room) {
  if (peak + kPeak.size() <= room || peak + 1 < kPeak.size()) return std::string(peak, ' ') + std::string(kPeak);
  return std::string(peak + 1 - kPeak.size(), ' ') + "peak ^";
}

std::string ShortageText(const ProcessReport& process, const Fragmentation& found) {
  if (found.shortages.empty()) return "";
  std::string text = "; the driver had no memory left: ";
  if (found.tried_again != 0) {
    text += Counted(found.tried_again, "allocation", "allocations") + " tried again after idle memory was given back";
  }
  if (found.refused != 0) {
    text += (found.tried_again != 0 ? ", " : "") + Counted(found.refused, "allocation", "allocations") +
            " left to the program's own call";
  }
  const Shortage& first = found.shortages.front();
  text += "; the first " + PlaceOf(process, first.time);
  if (first.bytes != 0) text += ", of " + Bytes(first.bytes);
  if (first.idle) text += ", while " + Bytes(*first.idle) + " was idle";
  if (first.largest_idle) text += " (the largest block at the last reading: " + Bytes(*first.largest_idle) + ")";
  return text;
}

}  // namespace

std::string DeviceUseText(const ProcessReport& process, const HeldReport& held, size_t columns) {
  if (!held.use) return "";
  const DeviceUse& use = *held.use;
  std::string text = "in use of the device, as the driver said " +
                     (use.time == held.peak_time ? std::string("then") : PlaceOf(process, use.time)) + ": " +
                     Bytes(use.used) + " = " + Bytes(use.blocks) + " in the program's blocks + " + Bytes(use.idle) +
                     " idle in the pool ";
  if (use.rest < 0) {
    return Wrapped(columns,
                   "  " + text + "- " + Bytes(-use.rest) +
                       ": blocks are counted that were not there any more, so what else was in use is not known");
  }
  return Wrapped(columns,
                 "  " + text + "+ " + Bytes(use.rest) +
                     " the rest (CUDA contexts, modules, libraries past every hook such as NCCL and cuBLAS, other "
                     "processes, rounding)");
}

std::string FragmentationText(const ProcessReport& process, const MemoryReport& pool, size_t columns) {
  std::vector<std::string> parts;
  if (pool.peak_point.idle != 0) {
    std::string part = Percent(static_cast<double>(pool.peak_point.idle), static_cast<double>(pool.peak)) +
                       " of the peak of both was idle";
    if (pool.peak_largest_idle) part += ", its largest block " + Bytes(*pool.peak_largest_idle);
    parts.push_back(std::move(part));
  }
  if (pool.fragmentation && pool.fragmentation->not_fitting != 0) {
    const Fragmentation& found = *pool.fragmentation;
    parts.push_back(Counted(found.not_fitting, "allocation", "allocations") + " of " + Bytes(found.not_fitting_bytes) +
                    " went to the driver while enough was idle, in blocks that did not fit or still had work (of " +
                    Counted(found.grown, "allocation", "allocations") + " of " + Bytes(found.grown_bytes) +
                    " that it served)");
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  if (pool.fragmentation) {
    const std::string shortage = ShortageText(process, *pool.fragmentation);
    text += text.empty() ? shortage.substr(std::min<size_t>(shortage.size(), 2)) : shortage;
  }
  return text.empty() ? "" : Wrapped(columns, "  fragmentation: " + text);
}

std::string MemoryColumnsText(const HeldReport& held, size_t columns) {
  const MemoryColumns& over_time = held.columns;
  if (over_time.all.highest.empty() || held.peak == 0) return "";
  const size_t parts = over_time.all.highest.size();
  const size_t label = std::clamp(columns - std::min(columns, parts + 2), kLeastLabel, kMostLabel);
  const auto row = [&](const std::string& name, const std::string& drawn) {
    return "  " + PadRight(name, label) + drawn + "\n";
  };
  std::string text = Wrapped(columns, "  over time, " + std::to_string(parts) + " parts of " + Time(over_time.length) +
                                          " each, from nothing ( ) to the peak (@)");
  text += row("all blocks", ColumnsOf(over_time.all, held.peak));
  for (size_t i = 0; i < over_time.of.size() && i < held.holders.size(); ++i) {
    text += row(HolderLabel(held.holders[i], label - 2), ColumnsOf(over_time.of[i], held.peak));
  }
  return text + row("", PeakMark(over_time.peak, columns - 2 - label));
}

std::string WorkspaceOf(const std::string& library) {
  const std::string name = library.substr(library.rfind('/') + 1);
  if (name.starts_with("libcudnn")) return " (cuDNN workspace)";
  if (name.starts_with("libcublas")) return " (cuBLAS workspace)";
  if (name.starts_with("libnccl")) return " (NCCL buffers)";
  return "";
}

}  // namespace slipstream::report
