// `slipstream metrics`: what runs under slipstream on this node, for Prometheus.
//
// Once to standard output or into a file, or into the file again and again. Then SIGTERM, SIGINT and SIGHUP end it,
// with exit status 0, and it removes the file: nothing stale is scraped.
//
// Threading: call from one thread.
// Errors: the return value is the exit status (exit_codes.h).
#pragma once

#include <string>

namespace slipstream::cli {

struct MetricsOptions {
  std::string output{};        // empty: standard output
  double interval_s = 0;       // between two writes of the file; 0: once
  bool open_metrics = false;   // else the text format of Prometheus
  std::string version{};       // of slipstream
  std::string proc = "/proc";  // what the system says about processes
};

int Metrics(const MetricsOptions& options);

}  // namespace slipstream::cli
