#include "tests/differential/program.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <utility>

namespace differential {
namespace {

struct KindText {
  Kind kind;
  const char* name;
  // What a line of the kind says, in order: t stream, e event, f second event, g graph, x executable, D buffer without
  // an offset, d and s destination and source with one, n bytes, 2 the rest of a 2D copy, v value.
  const char* fields;
  const char* word;                   // name of the flavor in the line; null: none
  std::array<const char*, 14> words;  // by flavor
};

constexpr const char* kCopyWord = "as";
#define COPY_WORDS \
  { "h2d", "d2h", "d2d", "h2h", "default" }
#define KERNEL_WORDS \
  { "fill", "mix", "move" }

constexpr KindText kTexts[] = {
    {Kind::kMalloc, "malloc", "Dn", nullptr, {}},
    {Kind::kMallocAsync, "malloc_async", "tDn", nullptr, {}},
    {Kind::kFree, "free", "D", nullptr, {}},
    {Kind::kFreeAsync, "free_async", "tD", nullptr, {}},
    {Kind::kPageable, "pageable", "dnv", "from", {"heap", "mapped", "read_only"}},
    {Kind::kDrop, "drop", "D", nullptr, {}},
    {Kind::kPinned, "pinned", "Dnv", "flags", {"default", "portable", "write_combined"}},
    {Kind::kFreeHost, "free_host", "D", nullptr, {}},
    {Kind::kRegister, "register", "D", nullptr, {}},
    {Kind::kUnregister, "unregister", "D", nullptr, {}},
    {Kind::kManaged, "managed", "Dnv", nullptr, {}},
    {Kind::kDevicePointer, "device_pointer", "D", nullptr, {}},
    {Kind::kPointerType, "pointer_type", "d", nullptr, {}},
    {Kind::kStreamCreate, "stream", "t", "flags", {"non_blocking", "blocking"}},
    {Kind::kStreamDestroy, "destroy_stream", "t", nullptr, {}},
    {Kind::kStreamSync, "sync", "t", nullptr, {}},
    {Kind::kStreamQuery, "query", "t", nullptr, {}},
    {Kind::kStreamWait, "wait", "te", nullptr, {}},
    {Kind::kEventCreate, "event", "e", "flags", {"timing", "no_timing"}},
    {Kind::kEventDestroy, "destroy_event", "e", nullptr, {}},
    {Kind::kEventRecord, "record", "te", nullptr, {}},
    {Kind::kEventSync, "event_sync", "e", nullptr, {}},
    {Kind::kEventQuery, "event_query", "e", nullptr, {}},
    {Kind::kElapsed, "elapsed", "ef", nullptr, {}},
    {Kind::kDeviceSync, "device_sync", "", nullptr, {}},
    {Kind::kCopyAsync, "copy_async", "tdsn", kCopyWord, COPY_WORDS},
    {Kind::kCopy, "copy", "dsn", kCopyWord, COPY_WORDS},
    {Kind::kCopy2DAsync, "copy2d_async", "tdsn2", kCopyWord, COPY_WORDS},
    {Kind::kCopy2D, "copy2d", "dsn2", kCopyWord, COPY_WORDS},
    {Kind::kMemsetAsync, "memset_async", "tdnv", nullptr, {}},
    {Kind::kMemset, "memset", "dnv", nullptr, {}},
    {Kind::kKernel, "kernel", "tdsnv", "does", KERNEL_WORDS},
    {Kind::kUnseenKernel, "unseen_kernel", "tdsnv", "does", KERNEL_WORDS},
    {Kind::kHostFunction, "host_function", "tdnv", "does", {"read", "write", "callback_read", "callback_write"}},
    {Kind::kWrite, "write", "dnv", nullptr, {}},
    {Kind::kRead, "read", "dn", nullptr, {}},
    {Kind::kBeginCapture, "begin_capture", "t", "mode", {"global", "thread_local", "relaxed"}},
    {Kind::kEndCapture, "end_capture", "tg", nullptr, {}},
    {Kind::kInstantiate, "instantiate", "gx", nullptr, {}},
    {Kind::kUpdate, "update", "gx", nullptr, {}},
    {Kind::kLaunch, "launch", "tx", nullptr, {}},
    {Kind::kGraphDestroy, "destroy_graph", "g", nullptr, {}},
    {Kind::kExecDestroy, "destroy_exec", "x", nullptr, {}},
    {Kind::kLastError, "last_error", "", nullptr, {}},
    {Kind::kPeekError, "peek_error", "", nullptr, {}},
    {Kind::kBad,
     "bad",
     "tds",
     "call",
     {"kind", "null", "past_destination", "past_source", "stream_copy", "stream_sync", "pageable_set", "event_query",
      "free", "blocking_kind", "launch", "function", "zero_bytes"}},
};
static_assert(std::size(kTexts) == static_cast<size_t>(Kind::kCount));

const KindText& TextOf(Kind kind) { return kTexts[static_cast<size_t>(kind)]; }

constexpr std::array<const char*, 4> kFamilies = {"main", "free", "managed", "devices"};

constexpr std::array<const char*, 3> kDoors = {"", "driver", "name"};

// The streams that no program makes.
constexpr std::array<std::pair<int, const char*>, 3> kStreamWords = {
    {{kLegacyStream, "legacy"}, {kThreadStream, "thread"}, {kLegacyHandle, "legacy_handle"}}};

std::string StreamText(int stream) {
  for (const auto& [number, word] : kStreamWords) {
    if (stream == number) return word;
  }
  return "s" + std::to_string(stream);
}

char LetterOf(Kind maker) {
  switch (maker) {
    case Kind::kMalloc:
      return 'd';
    case Kind::kMallocAsync:
      return 'a';
    case Kind::kPinned:
      return 'h';
    case Kind::kManaged:
      return 'm';
    default:
      return 'p';
  }
}

std::string BufferText(const Program& program, int buffer) {
  for (const Op& op : program.ops) {
    const bool makes = op.kind == Kind::kMalloc || op.kind == Kind::kMallocAsync || op.kind == Kind::kPageable ||
                       op.kind == Kind::kPinned || op.kind == Kind::kManaged;
    if (makes && op.dst == buffer) return LetterOf(op.kind) + std::to_string(buffer);
  }
  return "b" + std::to_string(buffer);
}

std::string PlaceText(const Program& program, int buffer, size_t offset) {
  return BufferText(program, buffer) + (offset != 0 ? "+" + std::to_string(offset) : "");
}

template <typename Number>
bool ToNumber(std::string_view text, Number* number) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return code == std::errc() && end == text.data() + text.size();
}

// A letter and a number below `limit`.
bool ToObject(std::string_view text, int limit, int* number) {
  return text.size() > 1 && ToNumber(text.substr(1), number) && *number >= 0 && *number < limit;
}

bool ToStream(std::string_view text, int* stream) {
  for (const auto& [number, word] : kStreamWords) {
    if (text != word) continue;
    *stream = number;
    return true;
  }
  return ToObject(text, kLegacyHandle, stream) && *stream >= kFirstStream;
}

bool ToPlace(std::string_view text, int* buffer, size_t* offset) {
  const size_t plus = text.find('+');
  if (plus != std::string_view::npos && !ToNumber(text.substr(plus + 1), offset)) return false;
  return ToObject(text.substr(0, plus), kMaxBuffers, buffer);
}

bool SetField(std::string_view key, std::string_view value, const KindText& text, Op* op) {
  if (key == "stream") return ToStream(value, &op->stream);
  if (key == "event") return ToObject(value, kMaxEvents, &op->event);
  if (key == "end") return ToObject(value, kMaxEvents, &op->end_event);
  if (key == "graph") return ToObject(value, kMaxGraphs, &op->graph);
  if (key == "exec") return ToObject(value, kMaxGraphs, &op->exec);
  if (key == "dst") return ToPlace(value, &op->dst, &op->dst_offset);
  if (key == "src") return ToPlace(value, &op->src, &op->src_offset);
  if (key == "n") return ToNumber(value, &op->bytes);
  if (key == "rows") return ToNumber(value, &op->rows) && op->rows > 0;
  if (key == "dst_pitch") return ToNumber(value, &op->dst_pitch);
  if (key == "src_pitch") return ToNumber(value, &op->src_pitch);
  if (key == "value") return ToNumber(value, &op->value);
  if (key == "by") {
    const auto* const found = std::find(kDoors.begin() + 1, kDoors.end(), value);
    op->door = static_cast<int>(found - kDoors.begin());
    return found != kDoors.end();
  }
  if (text.word == nullptr || key != text.word) return false;
  for (size_t i = 0; i < text.words.size(); ++i) {
    if (text.words[i] != nullptr && value == text.words[i]) {
      op->flavor = static_cast<int>(i);
      return true;
    }
  }
  return false;
}

// Whether all that a line of its kind must say was said.
bool Complete(const Op& op, const KindText& text) {
  for (const char* field = text.fields; *field != '\0'; ++field) {
    const bool optional = op.kind == Kind::kBad || (*field == 's' && op.flavor == kFill &&
                                                    (op.kind == Kind::kKernel || op.kind == Kind::kUnseenKernel));
    if (optional) continue;
    const bool missing = (*field == 't' && op.stream < 0) || (*field == 'e' && op.event < 0) ||
                         (*field == 'f' && op.end_event < 0) || (*field == 'g' && op.graph < 0) ||
                         (*field == 'x' && op.exec < 0) || ((*field == 'D' || *field == 'd') && op.dst < 0) ||
                         (*field == 's' && op.src < 0) || (*field == 'n' && op.bytes == 0);
    if (missing) return false;
  }
  return true;
}

bool ParseOp(std::istringstream& words, std::string_view thread, Op* op) {
  std::string word;
  if (thread.size() < 2 || thread[0] != 't' || !ToNumber(thread.substr(1), &op->thread) || op->thread < 0 ||
      op->thread >= kMaxThreads || !(words >> word)) {
    return false;
  }
  const auto* const text = std::find_if(std::begin(kTexts), std::end(kTexts),
                                        [&word](const KindText& candidate) { return word == candidate.name; });
  if (text == std::end(kTexts)) return false;
  op->kind = text->kind;
  while (words >> word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) return false;
    const std::string_view pair = word;
    if (!SetField(pair.substr(0, equals), pair.substr(equals + 1), *text, op)) return false;
  }
  return Complete(*op, *text) && (op->door == kRuntime || HasDriverCall(*op));
}

bool ParseHeader(std::istringstream& words, Program* program) {
  std::string word;
  while (words >> word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) return false;
    const std::string key = word.substr(0, equals);
    const std::string value = word.substr(equals + 1);
    bool fine = false;
    if (key == "seed") fine = ToNumber(value, &program->seed);
    if (key == "sim") fine = ToNumber(value, &program->sim_seed);
    if (key == "family") fine = FamilyNamed(value, &program->family);
    if (!fine) return false;
  }
  return true;
}

}  // namespace

bool HasDriverCall(const Op& op) {
  switch (op.kind) {
    case Kind::kMalloc:
    case Kind::kMallocAsync:
    case Kind::kFree:
    case Kind::kFreeAsync:
    case Kind::kPinned:
    case Kind::kFreeHost:
    case Kind::kRegister:
    case Kind::kUnregister:
    case Kind::kStreamDestroy:
    case Kind::kStreamSync:
    case Kind::kStreamQuery:
    case Kind::kStreamWait:
    case Kind::kEventDestroy:
    case Kind::kEventRecord:
    case Kind::kEventSync:
    case Kind::kEventQuery:
    case Kind::kElapsed:
    case Kind::kDeviceSync:
    case Kind::kMemsetAsync:
    case Kind::kMemset:
    case Kind::kKernel:
    case Kind::kLaunch:
    case Kind::kExecDestroy:
      return true;
    case Kind::kCopyAsync:
    case Kind::kCopy:
      return op.flavor == kDefault;
    case Kind::kHostFunction:
      return op.flavor == kHostRead || op.flavor == kHostWrite;
    default:
      return false;
  }
}

const char* NameOf(Family family) { return kFamilies[static_cast<size_t>(family)]; }

bool FamilyNamed(std::string_view name, Family* family) {
  const auto* const found = std::find(kFamilies.begin(), kFamilies.end(), name);
  if (found == kFamilies.end()) return false;
  *family = static_cast<Family>(found - kFamilies.begin());
  return true;
}

std::string ToText(const Program& program, const Op& op) {
  const KindText& text = TextOf(op.kind);
  std::string line = "t" + std::to_string(op.thread) + " " + text.name;
  const auto add = [&line](const char* key, const std::string& value) { line += " " + (key + ("=" + value)); };
  for (const char* field = text.fields; *field != '\0'; ++field) {
    switch (*field) {
      case 't':
        if (op.stream >= 0) add("stream", StreamText(op.stream));
        break;
      case 'e':
        add("event", "e" + std::to_string(op.event));
        break;
      case 'f':
        add("end", "e" + std::to_string(op.end_event));
        break;
      case 'g':
        add("graph", "g" + std::to_string(op.graph));
        break;
      case 'x':
        add("exec", "x" + std::to_string(op.exec));
        break;
      case 'D':
      case 'd':
        if (op.dst >= 0) add("dst", PlaceText(program, op.dst, *field == 'd' ? op.dst_offset : 0));
        break;
      case 's':
        if (op.src >= 0) add("src", PlaceText(program, op.src, op.src_offset));
        break;
      case 'n':
        add("n", std::to_string(op.bytes));
        break;
      case '2':
        add("rows", std::to_string(op.rows));
        add("dst_pitch", std::to_string(op.dst_pitch));
        add("src_pitch", std::to_string(op.src_pitch));
        break;
      default:
        add("value", std::to_string(op.value));
        break;
    }
  }
  if (text.word != nullptr) add(text.word, text.words[static_cast<size_t>(op.flavor)]);
  if (op.door != kRuntime) add("by", kDoors[static_cast<size_t>(op.door)]);
  return line;
}

std::string ToText(const Program& program) {
  std::string text = "program seed=" + std::to_string(program.seed) + " sim=" + std::to_string(program.sim_seed) +
                     " family=" + NameOf(program.family) + "\n";
  for (const Op& op : program.ops) text += ToText(program, op) + "\n";
  return text;
}

bool Parse(const std::string& text, std::vector<Program>* programs, std::string* error) {
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    line.resize(std::min(line.size(), line.find('#')));
    std::istringstream words(line);
    std::string first;
    if (!(words >> first)) continue;
    bool fine = false;
    if (first == "program") {
      programs->emplace_back();
      fine = ParseHeader(words, &programs->back());
    } else if (!programs->empty()) {
      Op op;
      fine = ParseOp(words, first, &op);
      programs->back().ops.push_back(op);
      programs->back().threads = std::max(programs->back().threads, op.thread + 1);
    }
    if (!fine) {
      *error = "line " + std::to_string(number) + ": " + line;
      return false;
    }
  }
  return true;
}

}  // namespace differential
