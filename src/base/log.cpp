#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>

namespace espalier::log {
namespace {

std::atomic<Level> lowest_level{Level::info};
std::atomic<Format> line_format{Format::text};
std::atomic<std::uint64_t> lost{0};

constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};

// Control characters would let a client forge log lines or drive a terminal; JSON wants them escaped anyway.
std::string escape(std::string_view text, bool json) {
  std::string out;
  out.reserve(text.size());
  for (unsigned char c : text) {
    if (c == '\n' && !json) {
      out += "\n  ";
    } else if (c < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      if (json && (c == '"' || c == '\\')) out += '\\';
      out += static_cast<char>(c);
    }
  }
  return out;
}

std::string timestamp() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  char text[32];
  std::size_t n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", std::string_view(text, n), now.tv_nsec / 1'000'000);
}

}  // namespace

void configure(Level lowest, Format format) {
  lowest_level = lowest;
  line_format = format;
}

bool enabled(Level level) {
  return level >= lowest_level.load(std::memory_order_relaxed);
}

std::uint64_t lost_lines() {
  return lost;
}

void write(Level level, std::string_view message) {
  auto name = kNames[static_cast<int>(level)];
  bool json = line_format.load(std::memory_order_relaxed) == Format::json;
  std::string line = json ? fmt::format("{{\"time\":\"{}\",\"level\":\"{}\",\"message\":\"{}\"}}\n", timestamp(), name,
                                        escape(message, true))
                          : fmt::format("{} {:<7} {}\n", timestamp(), name, escape(message, false));
  // One write per line keeps lines of several threads whole; a full or closed stderr must never be fatal.
  ssize_t n = 0;
  do {
    n = ::write(STDERR_FILENO, line.data(), line.size());
  } while (n < 0 && errno == EINTR);
  if (n != static_cast<ssize_t>(line.size())) lost.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace espalier::log
