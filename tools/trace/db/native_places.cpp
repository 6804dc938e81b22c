#include "tools/trace/db/native_places.h"

#include <array>
#include <optional>
#include <string_view>

#include "tools/trace/db/clean_text.h"
#include "tools/trace/db/hex_text.h"
#include "tools/trace/db/schema.h"

namespace slipstream::trace_db {
namespace {

std::string_view FileOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// The function that runs Python's code: the module that has it is the interpreter's.
constexpr std::string_view kEvaluation = "_PyEval_EvalFrameDefault";

bool IsInterpreter(std::string_view path, const ModuleSymbols* symbols) {
  if (symbols != nullptr && symbols->Has(kEvaluation)) return true;
  // Without symbols its name has to do.
  const std::string_view file = FileOf(path);
  return symbols == nullptr && (file.starts_with("libpython3") || file.starts_with("python3"));
}

}  // namespace

bool IsCudaLibrary(std::string_view path) {
  constexpr std::array<std::string_view, 16> kNames = {"libcuda.so", "libcudart.so", "libcudart-",     "libcupti.so",
                                                       "libnvidia-", "libcublas",    "libcudnn",       "libnccl.so",
                                                       "libcufft",   "libcurand.so", "libcusolver",    "libcusparse",
                                                       "libnvrtc",   "libnvJitLink", "libnvToolsExt.", "libnvshmem"};
  const std::string_view file = FileOf(path);
  for (const std::string_view name : kNames) {
    if (file.starts_with(name)) return true;
  }
  return false;
}

NativePlaces::Module& NativePlaces::ModuleOf(const tracer::SpoolModule& spooled) {
  const auto [at, is_new] = by_file_.try_emplace({spooled.path, spooled.build_id});
  Module& module = at->second;
  if (is_new) {
    module.id = static_cast<int64_t>(by_file_.size());
    module.symbols = ModuleSymbols::Read(spooled.path, spooled.build_id, debug_directory_);
    const std::string id = HexText(spooled.build_id);
    modules_.Row(module.id, CleanText(spooled.path), id.empty() ? std::nullopt : std::optional(id),
                 module.symbols != nullptr, IsInterpreter(spooled.path, module.symbols.get()));
  }
  return module;
}

const NativePlaces::Place& NativePlaces::PlaceOf(const tracer::SpoolReader& spool, uint32_t number) {
  const tracer::SpoolAddress* const address = spool.AddressOf(number);
  const tracer::SpoolModule* const spooled = address != nullptr ? spool.ModuleOf(address->module) : nullptr;
  Module* const module = spooled != nullptr ? &ModuleOf(*spooled) : nullptr;
  const uint64_t offset = address != nullptr ? address->offset : 0;
  const auto [at, is_new] = by_offset_.try_emplace({module != nullptr ? module->id : 0, offset});
  Place& place = at->second;
  if (!is_new) return place;

  place.id = static_cast<int64_t>(by_offset_.size());
  const NumberOrNull module_id = {.known = module != nullptr, .value = module != nullptr ? module->id : 0};
  // Where a call returns to may be the first address behind its function.
  std::optional<ModuleSymbols::Function> function;
  if (module != nullptr && module->symbols != nullptr && offset != 0) function = module->symbols->At(offset - 1);
  if (module != nullptr) {
    place.path = spooled->path;
    place.is_cuda = IsCudaLibrary(spooled->path);
  }
  if (function) {
    place.name = CleanText(function->name);
    addresses_.Row(place.id, module_id, static_cast<int64_t>(offset), place.name, true,
                   static_cast<int64_t>(offset - function->begin));
    return place;
  }
  place.name = (module != nullptr ? CleanText(std::string(FileOf(spooled->path))) + "+" : "") + HexText(offset);
  addresses_.Row(place.id, module_id, static_cast<int64_t>(offset), place.name, false, NumberOrNull{});
  return place;
}

}  // namespace slipstream::trace_db
