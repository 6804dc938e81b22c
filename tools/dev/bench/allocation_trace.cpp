#include "tools/dev/bench/allocation_trace.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <unordered_map>

namespace bench {
namespace {

constexpr std::string_view kFirstLine = "slipstream-allocations 1";
// No device has so much.
constexpr uint64_t kMostBytes = uint64_t{1} << 44;
constexpr uint64_t kMostDevices = 1024;

// What is wrong, as the caller shows it.
struct Problem {
  size_t column = 0;  // from 1; 0: nothing is wrong
  std::string text{};
};

// Of a number of the file, its place in a list in which it stands once.
class Places {
 public:
  uint32_t Of(uint64_t number, std::vector<uint64_t>* list) {
    const auto [place, is_new] = places_.try_emplace(number, static_cast<uint32_t>(list->size()));
    if (is_new) list->push_back(number);
    return place->second;
  }

 private:
  std::unordered_map<uint64_t, uint32_t> places_;
};

// A line's fields, from left to right.
class Fields {
 public:
  explicit Fields(std::string_view line) : line_(line) {}

  // The number that comes next. False: it is none, and the problem is set.
  bool Number(const char* name, uint64_t least, uint64_t most, uint64_t* number) {
    if (problem_.column != 0) return false;
    if (at_ >= line_.size()) {
      return Wrong(line_.size() + 1, std::string(name) + " is missing; the letter needs " + expected_);
    }
    if (line_[at_] != ' ') return Wrong(at_ + 1, "a space belongs behind the letter; write it, or remove the line");
    ++at_;
    column_ = at_ + 1;
    const size_t end = std::min(line_.find(' ', at_), line_.size());
    const std::string_view text = line_.substr(at_, end - at_);
    at_ = end;
    const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
    if (error == std::errc::result_out_of_range || (error == std::errc() && *number > most)) {
      return Wrong(column_, std::string(name) + " is more than " + std::to_string(most) + "; " + kExportAgain);
    }
    if (error != std::errc() || last != text.data() + text.size()) {
      return Wrong(column_, std::string(name) + " is \"" + Shown(text) +
                                "\", which is no number; write decimal digits, with one space between two fields");
    }
    if (*number < least) {
      return Wrong(column_, std::string(name) + " is " + std::to_string(*number) + "; it is " + std::to_string(least) +
                                " or more");
    }
    return true;
  }

  bool End() {
    if (problem_.column != 0) return false;
    return at_ == line_.size() ||
           Wrong(at_ + 1, "more than the letter needs, which is " + expected_ + "; remove what follows");
  }

  // False, for the caller to return.
  bool Wrong(size_t column, std::string text) {
    problem_ = {column, std::move(text)};
    return false;
  }

  // What a line of its letter has; for texts.
  void Expect(std::string fields) { expected_ = std::move(fields); }
  // Of the number that was read last, from 1.
  size_t column() const { return column_; }
  const Problem& problem() const { return problem_; }

  // A text of the file, for a person.
  static std::string Shown(std::string_view text) {
    std::string shown;
    for (const char c : text.substr(0, 40)) shown += c >= ' ' && c <= '~' ? c : '?';
    return text.size() > 40 ? shown + "..." : shown;
  }

  static constexpr const char* kExportAgain = "export the run again";

 private:
  std::string_view line_;
  size_t at_ = 1;  // behind the letter
  size_t column_ = 1;
  std::string expected_;
  Problem problem_;
};

class Reader {
 public:
  explicit Reader(AllocationTrace* trace) : trace_(trace) {}

  // A line that is neither blank nor a comment; `number` from 1.
  Problem Line(std::string_view text, size_t number) {
    Fields fields(text);
    bool good = false;
    switch (text[0]) {
      case 'm':
        fields.Expect("THREAD DEVICE STREAM ID BYTES");
        good = Allocation(&fields, number);
        break;
      case 'f':
        fields.Expect("THREAD DEVICE STREAM ID");
        good = Free(&fields);
        break;
      case 's':
        fields.Expect("THREAD DEVICE STREAM");
        good = Wait(&fields, TraceCall::kStreamWait);
        break;
      case 'd':
        fields.Expect("THREAD DEVICE");
        good = Wait(&fields, TraceCall::kDeviceWait);
        break;
      default:
        break;
    }
    if (good) return {};
    if (fields.problem().column != 0) return fields.problem();
    return {1, "a line begins with \"" + Fields::Shown(text.substr(0, 1)) +
                   "\"; only m, f, s, d and # begin one: export the run with this version, or remove the line"};
  }

 private:
  bool Place(Fields* fields, TraceLine* line, bool with_stream) {
    uint64_t thread = 0;
    uint64_t device = 0;
    uint64_t stream = 0;
    if (!fields->Number("THREAD", 0, UINT32_MAX, &thread) || !fields->Number("DEVICE", 0, kMostDevices, &device) ||
        (with_stream && !fields->Number("STREAM", 0, UINT32_MAX, &stream))) {
      return false;
    }
    line->thread = threads_.Of(thread, &trace_->threads);
    line->device = devices_.Of(device, &trace_->devices);
    if (with_stream) {
      // A stream is one of a device: together they fit in 64 bits.
      line->stream = streams_.Of(device << 32 | stream, &stream_keys_);
      if (line->stream == trace_->streams.size()) trace_->streams.push_back({line->device, stream});
    }
    return true;
  }

  bool Allocation(Fields* fields, size_t number) {
    TraceLine line{.call = TraceCall::kAllocate};
    TraceBlock block;
    if (!Place(fields, &line, true) || !fields->Number("ID", 1, UINT64_MAX, &block.id)) return false;
    const size_t column = fields->column();
    if (!fields->Number("BYTES", 0, kMostBytes, &block.bytes) || !fields->End()) return false;
    const auto [known, is_new] = blocks_.try_emplace(block.id, static_cast<uint32_t>(trace_->blocks.size()));
    if (!is_new) {
      return fields->Wrong(column, "block " + std::to_string(block.id) + " was allocated in line " +
                                       std::to_string(allocated_[known->second]) +
                                       "; an ID stands for one allocation: " + Fields::kExportAgain);
    }
    line.block = known->second;
    block.thread = line.thread;
    block.device = line.device;
    block.stream = line.stream;
    trace_->blocks.push_back(block);
    trace_->lines.push_back(line);
    allocated_.push_back(number);
    return true;
  }

  bool Free(Fields* fields) {
    TraceLine line{.call = TraceCall::kFree};
    uint64_t id = 0;
    if (!Place(fields, &line, true) || !fields->Number("ID", 1, UINT64_MAX, &id)) return false;
    const size_t column = fields->column();
    if (!fields->End()) return false;
    const auto known = blocks_.find(id);
    if (known == blocks_.end()) {
      return fields->Wrong(column,
                           "block " + std::to_string(id) +
                               " is freed and no line before this one allocates it; leave out frees of what was "
                               "allocated before the recording");
    }
    TraceBlock& block = trace_->blocks[known->second];
    if (block.freed) {
      return fields->Wrong(column, "block " + std::to_string(id) +
                                       " is freed a second time; it was allocated in line " +
                                       std::to_string(allocated_[known->second]) + ": " + Fields::kExportAgain);
    }
    block.freed = true;
    block.freed_elsewhere = block.thread != line.thread;
    line.block = known->second;
    trace_->lines.push_back(line);
    return true;
  }

  bool Wait(Fields* fields, TraceCall call) {
    TraceLine line{.call = call};
    if (!Place(fields, &line, call == TraceCall::kStreamWait) || !fields->End()) return false;
    trace_->lines.push_back(line);
    return true;
  }

  AllocationTrace* trace_;
  Places threads_;
  Places devices_;
  Places streams_;
  std::vector<uint64_t> stream_keys_;
  std::unordered_map<uint64_t, uint32_t> blocks_;  // of an ID, its place
  std::vector<size_t> allocated_;                  // the line of each block's allocation
};

}  // namespace

bool ReadAllocationTrace(std::istream& in, const std::string& name, AllocationTrace* trace, std::string* error) {
  *trace = {};
  Reader reader(trace);
  const auto fail = [&](size_t number, const Problem& problem) {
    *error = name + ":" + std::to_string(number) + ":" + std::to_string(problem.column) + ": " + problem.text;
    return false;
  };
  std::string line;
  if (!std::getline(in, line) || line != kFirstLine) {
    return fail(1, {1, "the first line is not \"" + std::string(kFirstLine) +
                           "\"; `slipstream export RUN --allocations FILE` writes such a file"});
  }
  for (size_t number = 2; std::getline(in, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    const Problem problem = reader.Line(line, number);
    if (problem.column != 0) return fail(number, problem);
  }
  if (in.bad()) return fail(1, {1, "it could not be read to its end; try again, or copy it here"});
  if (trace->blocks.empty()) return fail(1, {1, "no allocation is in it; record a run that allocates device memory"});
  return true;
}

std::vector<LivePeak> LivePeaks(const AllocationTrace& trace) {
  std::vector<LivePeak> peaks(trace.devices.size());
  std::vector<uint64_t> live(trace.devices.size());
  for (size_t at = 0; at < trace.lines.size(); ++at) {
    const TraceLine& line = trace.lines[at];
    if (line.call != TraceCall::kAllocate && line.call != TraceCall::kFree) continue;
    const TraceBlock& block = trace.blocks[line.block];
    uint64_t& bytes = live[block.device];
    if (line.call == TraceCall::kFree) {
      bytes -= block.bytes;
    } else if ((bytes += block.bytes) > peaks[block.device].bytes) {
      peaks[block.device] = {bytes, at};
    }
  }
  return peaks;
}

}  // namespace bench
