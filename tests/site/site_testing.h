// A run's record for tests.
#pragma once

#include <string>

#include "tools/site/run_record.h"

namespace slipstream::site {

inline RunRecord SampleRecord(const std::string& user = "ada", const std::string& program = "python3.12") {
  RunRecord record;
  record.host = "node1";
  record.user = user;
  record.program = program;
  record.version = "0.1.0";
  record.pid = 4711;
  record.start_unix_ns = 1'800'000'000'000'000'000;
  record.duration_s = 3600;
  record.exit_status = 0;
  record.processes = 2;
  record.estimated_gain_ns = 1'500'000;
  record.gain_unknown = true;
  return record;
}

inline constexpr char kSummaryText[] = "{\n  \"schema\": \"slipstream-summary-1\",\n  \"processes\": []\n}\n";

}  // namespace slipstream::site
