#include "tools/trace/db/module_symbols.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tools/trace/db/hex_text.h"
#include "tools/trace/db/kernel_names.h"

namespace slipstream::trace_db {

// An ELF file that is open.
class ModuleSymbols::File {
 public:
  // Null: it is none, or not that one.
  static std::unique_ptr<File> Open(const std::string& path, std::string_view build_id) {
    if (elf_version(EV_CURRENT) == EV_NONE || build_id.empty()) return nullptr;
    // O_NONBLOCK: what is there now may be a pipe that nobody writes to.
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return nullptr;
    struct stat facts {};
    Elf* const elf =
        fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) ? elf_begin(fd, ELF_C_READ_MMAP, nullptr) : nullptr;
    std::unique_ptr<File> file(new File(fd, elf));
    if (elf == nullptr || elf_kind(elf) != ELF_K_ELF || file->BuildId() != build_id) return nullptr;
    return file;
  }
  ~File() {
    elf_end(elf_);
    close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void AppendFunctions(std::vector<Symbol>* symbols) const {
    for (Elf_Scn* section = elf_nextscn(elf_, nullptr); section != nullptr; section = elf_nextscn(elf_, section)) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr || header.sh_entsize == 0 ||
          (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM)) {
        continue;
      }
      Elf_Data* const data = elf_getdata(section, nullptr);
      if (data == nullptr) continue;
      GElf_Sym symbol;
      for (int i = 0; gelf_getsym(data, i, &symbol) != nullptr; ++i) {
        const int kind = GELF_ST_TYPE(symbol.st_info);
        if ((kind != STT_FUNC && kind != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF || symbol.st_size == 0)
          continue;
        const char* const name = elf_strptr(elf_, header.sh_link, symbol.st_name);
        if (name == nullptr || *name == '\0') continue;
        symbols->push_back({.begin = symbol.st_value,
                            .size = symbol.st_size,
                            .name = name,
                            .is_global = GELF_ST_BIND(symbol.st_info) == STB_GLOBAL});
      }
    }
  }

 private:
  File(int fd, Elf* elf) : fd_(fd), elf_(elf) {}

  // By the notes that are mapped with it; a debug file has them in a section only.
  std::string BuildId() const {
    size_t parts = 0;
    if (elf_getphdrnum(elf_, &parts) == 0) {
      for (size_t i = 0; i < parts; ++i) {
        GElf_Phdr part;
        if (gelf_getphdr(elf_, static_cast<int>(i), &part) == nullptr || part.p_type != PT_NOTE) continue;
        std::string id = BuildIdIn(elf_getdata_rawchunk(elf_, static_cast<int64_t>(part.p_offset), part.p_filesz,
                                                        part.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR));
        if (!id.empty()) return id;
      }
    }
    for (Elf_Scn* section = elf_nextscn(elf_, nullptr); section != nullptr; section = elf_nextscn(elf_, section)) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_NOTE) continue;
      std::string id = BuildIdIn(elf_getdata(section, nullptr));
      if (!id.empty()) return id;
    }
    return "";
  }
  static std::string BuildIdIn(Elf_Data* notes) {
    if (notes == nullptr) return "";
    GElf_Nhdr note;
    size_t name = 0;
    size_t text = 0;
    for (size_t at = 0; (at = gelf_getnote(notes, at, &note, &name, &text)) > 0;) {
      const auto* const bytes = static_cast<const char*>(notes->d_buf);
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(ELF_NOTE_GNU) &&
          std::memcmp(bytes + name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0) {
        return {bytes + text, note.n_descsz};
      }
    }
    return "";
  }

  const int fd_;
  Elf* const elf_;
};

std::unique_ptr<ModuleSymbols> ModuleSymbols::Read(const std::string& path, std::string_view build_id,
                                                   const std::string& debug_directory) {
  std::unique_ptr<File> file = File::Open(path, build_id);
  if (file == nullptr) return nullptr;
  std::unique_ptr<ModuleSymbols> module(new ModuleSymbols);
  module->Take(std::move(file));
  if (!debug_directory.empty()) {
    const std::string id = HexText(build_id);
    const std::string debug = debug_directory + "/.build-id/" + id.substr(0, 2) + "/" + id.substr(2) + ".debug";
    module->Take(File::Open(debug, build_id));
  }
  // Of several at one place the name that others may call it by; then the shorter one, and any order that is one.
  std::sort(module->symbols_.begin(), module->symbols_.end(), [](const Symbol& a, const Symbol& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    if (a.is_global != b.is_global) return b.is_global;
    const size_t a_length = std::strlen(a.name);
    const size_t b_length = std::strlen(b.name);
    return a_length != b_length ? a_length > b_length : std::strcmp(a.name, b.name) > 0;
  });
  return module;
}

ModuleSymbols::~ModuleSymbols() = default;

void ModuleSymbols::Take(std::unique_ptr<File> file) {
  if (file == nullptr) return;
  file->AppendFunctions(&symbols_);
  files_.push_back(std::move(file));
}

std::optional<ModuleSymbols::Function> ModuleSymbols::At(uint64_t address) const {
  constexpr int kBeside = 64;  // functions that lie inside of others are few
  auto at = std::upper_bound(symbols_.begin(), symbols_.end(), address,
                             [](uint64_t wanted, const Symbol& symbol) { return wanted < symbol.begin; });
  for (int i = 0; i < kBeside && at != symbols_.begin(); ++i) {
    --at;
    if (address - at->begin < at->size) return Function{.name = DemangledName(at->name), .begin = at->begin};
  }
  return std::nullopt;
}

bool ModuleSymbols::Has(std::string_view function) const {
  return std::any_of(symbols_.begin(), symbols_.end(), [&](const Symbol& symbol) { return function == symbol.name; });
}

}  // namespace slipstream::trace_db
