// spool_lines FILE...: the calls of spool files, one a line, for tests that are no C++: thread, function, bytes,
// status, decision, line, file, flags, stack, separated by tabs. A stack is line:file of each frame, innermost first,
// separated by |; - is none, and a last ... says that there are more. Exit status 1 where a file is not whole.

#include <cstdio>
#include <memory>
#include <string>

#include "tracer/spool/spool_reader.h"

namespace {

using slipstream::tracer::SpoolReader;

std::string StackText(const SpoolReader& reader, uint32_t stack) {
  std::string text;
  while (const slipstream::tracer::SpoolStack* const frame = reader.StackOf(stack)) {
    const slipstream::tracer::SpoolSite* const site = reader.SiteOf(frame->site);
    if (!text.empty()) text += '|';
    text += site != nullptr ? std::to_string(site->line) + ':' + site->file : "?";
    stack = frame->parent;
  }
  if (stack == slipstream::tracer::kCutSpoolStack) text += "|...";
  return text.empty() ? "-" : text;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace slipstream::tracer;  // NOLINT(google-build-using-namespace): a program of one function
  bool whole = argc > 1;
  for (int i = 1; i < argc; ++i) {
    std::string error;
    const std::unique_ptr<SpoolReader> reader = SpoolReader::Open(argv[i], &error);
    if (reader == nullptr) {
      std::fprintf(stderr, "%s\n", error.c_str());
      return 1;
    }
    SpoolRecord next;
    while (reader->Next(&next)) {
      const TraceRecord& record = next.record;
      if (record.kind != RecordKind::kCall) continue;
      const std::string* const hook = reader->NameOf(NameTable::kHooks, record.hook);
      const std::string* const decision = reader->NameOf(NameTable::kDecisions, record.decision);
      const SpoolSite* const site = reader->SiteOf(record.site);
      std::printf("%u\t%s\t%llu\t%d\t%s\t%d\t%s\t%u\t%s\n", next.thread, hook != nullptr ? hook->c_str() : "?",
                  static_cast<unsigned long long>(record.bytes), record.status,
                  decision != nullptr ? decision->c_str() : "-", site != nullptr ? site->line : 0,
                  site != nullptr ? site->file.c_str() : "-", record.flags,
                  StackText(*reader, reader->BothOf(record.stack).python).c_str());
    }
    const SpoolReader::End& end = reader->end();
    whole = whole && end.complete && end.dropped == 0 && end.malformed_chunks == 0 && end.missing_chunks == 0 &&
            end.missing_records == 0;
  }
  return whole ? 0 : 1;
}
