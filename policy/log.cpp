#include "policy/log.h"

#include <unistd.h>

// The thread number would cost a thread-local variable in every thread of the process, and the pattern
// does not show it.
#define SPDLOG_NO_THREAD_ID
#define SPDLOG_NO_TLS
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "policy/log_file.h"
#include "policy/source_file.h"
#include "policy/text.h"

namespace slipstream::policy {
namespace {

// Keeps one message below one page of a terminal and below what a pipe takes in one piece.
constexpr std::size_t kLongestMessage = 3500;

constexpr const char* kPattern = "%Y-%m-%dT%H:%M:%S.%eZ slipstream[%P] %l: %v";

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kOff:
      return spdlog::level::off;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kDebug:
      return spdlog::level::debug;
  }
  return spdlog::level::off;
}

class StandardErrorSink final : public spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    WriteQuietly(STDERR_FILENO, {line.data(), line.size()});
  }
  void flush_() override {}
};

class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  FileSink(std::string path, std::uint64_t max_size) : file_(std::move(path), max_size) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (file_.Append({line.data(), line.size()}) || file_.error().empty() || complained_) return;
    complained_ = true;
    char reason[128] = "";
    std::string text = "slipstream[" + std::to_string(::getpid()) + "]: the log file " + Quote(file_.path(), 300) + " ";
    text.append(file_.error());
    if (file_.error_number() != 0) text.append(": ").append(strerror_r(file_.error_number(), reason, sizeof(reason)));
    text += "; nothing is logged\n";
    WriteQuietly(STDERR_FILENO, text);
  }
  void flush_() override {}

  LogFile file_;
  bool complained_ = false;
};

// One configuration. Never destroyed: a thread may be in its logger, and static destructors come before
// the last message.
struct Target {
  spdlog::logger logger;
  pid_t process;
  Target* before;  // Keeps the older ones reachable, which is all that a leak checker asks.
};

std::atomic<Target*> current_target{nullptr};
std::atomic<LogLevel> current_level{LogLevel::kOff};
std::atomic<bool> said_once{false};

void Write(LogLevel level, std::string_view message) noexcept {
  if (!LogEnabled(level)) return;
  const int error = errno;
  Target* target = current_target.load(std::memory_order_acquire);
  if (target != nullptr && target->process == ::getpid()) {
    try {
      const std::string text = Escape(message.substr(0, kLongestMessage));
      target->logger.log(ToSpdlog(level), spdlog::string_view_t(text.data(), text.size()));
    } catch (...) {  // Memory ran out: the message is lost.
    }
  }
  errno = error;
}

}  // namespace

void ConfigureLog(const Log& log) noexcept {
  const int error = errno;
  if (log.level == LogLevel::kOff) {
    current_level.store(LogLevel::kOff, std::memory_order_relaxed);
    return;
  }
  try {
    spdlog::sink_ptr sink;
    if (log.file.empty()) {
      sink = std::make_shared<StandardErrorSink>();
    } else {
      sink = std::make_shared<FileSink>(Absolute(log.file), log.max_size);
    }
    auto target = std::make_unique<Target>(Target{spdlog::logger("slipstream", std::move(sink)), ::getpid(), nullptr});
    target->logger.set_level(spdlog::level::trace);  // LogEnabled() decides.
    target->logger.set_formatter(
        std::make_unique<spdlog::pattern_formatter>(kPattern, spdlog::pattern_time_type::utc, std::string("\n")));
    target->logger.set_error_handler([](const std::string&) {});
    target->before = current_target.load(std::memory_order_relaxed);
    Target* fresh = target.release();
    while (!current_target.compare_exchange_weak(fresh->before, fresh, std::memory_order_acq_rel)) {
    }
    current_level.store(log.level, std::memory_order_relaxed);
  } catch (...) {  // Memory ran out: no log.
    current_level.store(LogLevel::kOff, std::memory_order_relaxed);
  }
  errno = error;
}

bool LogEnabled(LogLevel level) noexcept {
  return level != LogLevel::kOff && level <= current_level.load(std::memory_order_relaxed);
}

void LogError(std::string_view message) noexcept { Write(LogLevel::kError, message); }
void LogWarn(std::string_view message) noexcept { Write(LogLevel::kWarn, message); }
void LogInfo(std::string_view message) noexcept { Write(LogLevel::kInfo, message); }
void LogDebug(std::string_view message) noexcept { Write(LogLevel::kDebug, message); }

void LogOnceToStderr(std::string_view message) noexcept {
  if (said_once.exchange(true, std::memory_order_relaxed)) return;
  const int error = errno;
  char line[2048];
  int length = std::snprintf(line, sizeof(line), "slipstream[%d]: %.*s", static_cast<int>(::getpid()),
                             static_cast<int>(std::min<std::size_t>(message.size(), sizeof(line))), message.data());
  if (length < 0) length = 0;
  std::size_t used = std::min(static_cast<std::size_t>(length), sizeof(line) - 2);
  for (std::size_t i = 0; i < used; ++i) {
    const auto byte = static_cast<unsigned char>(line[i]);
    if (byte < 0x20 || byte == 0x7F) line[i] = '?';
  }
  line[used++] = '\n';
  WriteQuietly(STDERR_FILENO, {line, used});
  errno = error;
}

}  // namespace slipstream::policy
