// The parts of the check (check.h).
//
// Threading, errors: as check.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tools/trace/check/check.h"
#include "tools/trace/db/database_reader.h"

namespace slipstream::trace_check {

using ByProcess = std::map<int64_t, ProcessCheck>;

void CheckOrder(trace_db::DatabaseReader* reader, ByProcess* processes);
void CheckClocks(trace_db::DatabaseReader* reader, ByProcess* processes);

// "3 kernels", "1 kernel"
std::string Count(uint64_t count, const std::string& one, const std::string& many);
// "1.25 s"
std::string At(int64_t ns);

// Adds it to a list, where there are any.
void Say(uint64_t count, const std::string& key, const std::string& text, std::vector<Finding>* to);

}  // namespace slipstream::trace_check
