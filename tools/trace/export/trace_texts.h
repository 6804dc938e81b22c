// Texts, lines and call stacks of a database by their numbers: each is read once and kept.
//
// Memory: as many as there are different ones, which a trace has few of.
// Threading: one thread.
// Errors: kept by the DatabaseReader; what is not there is empty.
// Ownership: what is returned lives as long as the object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/trace/db/database_reader.h"

namespace slipstream::trace_export {

// A line of the program, or a place in native code.
struct Line {
  int64_t id = 0;  // no two have the same; of native code it is below 0
  std::string file;
  std::optional<int64_t> line;
  std::string function;
  bool is_native = false;       // then `file` is the module's, and there is no line
  bool is_interpreter = false;  // Python's own code
};

// Where a call was made. A stack if the database has stacks, else one line; nothing if not known.
struct CallSite {
  const Line* line = nullptr;  // of the program, innermost
  int64_t stack = 0;           // for TraceTexts::StackOf; 0: none
  int64_t native_stack = 0;    // the same
};

class TraceTexts {
 public:
  explicit TraceTexts(trace_db::DatabaseReader& database);

  // UTF-8, of StringIds.
  const std::string& TextOf(int64_t id);
  // The name of a function without the version that CUPTI puts behind it: "cudaMemcpyAsync" of "cudaMemcpyAsync_v3020".
  const std::string& FunctionOf(int64_t id);
  // nullptr: there is no such line.
  const Line* LineOf(int64_t site);
  // Whether calls have stacks.
  bool has_stacks() const { return has_stacks_; }
  bool has_native_stacks() const { return has_native_stacks_; }
  // Whether there is more to say than `line`.
  bool HasStack(const CallSite& site) const {
    return (has_stacks_ && site.stack != 0) || (has_native_stacks_ && site.native_stack != 0);
  }
  // The lines of a call, outermost first; those of `site` where it has no stack. Of a call with a stack of both kinds
  // Python's come first, and behind them the native frames that are further in than Python's interpreter: of those
  // further out Python's frames are what there is to see.
  std::vector<const Line*> StackOf(const CallSite& site);

 private:
  struct Node {
    int64_t parent = 0;
    int64_t site = 0;
    int64_t address = 0;  // 0: none
  };

  void ReadStacks();
  const Line* NativeLineOf(int64_t address);
  std::vector<const Line*> LinesOf(int64_t stack);

  trace_db::DatabaseReader& database_;
  std::optional<trace_db::Question> text_;  // none: there is no such table
  std::optional<trace_db::Question> line_;
  std::unordered_map<int64_t, std::string> texts_;
  std::unordered_map<int64_t, std::string> functions_;
  std::unordered_map<int64_t, std::optional<Line>> lines_;
  std::optional<trace_db::Question> address_;
  std::unordered_map<int64_t, std::optional<Line>> native_lines_;
  std::unordered_map<int64_t, Node> stacks_;
  bool has_stacks_ = false;
  bool has_native_stacks_ = false;
  bool read_stacks_ = false;
};

// For tests: FunctionOf's rule.
std::string_view WithoutApiVersion(std::string_view name);

}  // namespace slipstream::trace_export
