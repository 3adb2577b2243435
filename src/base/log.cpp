#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <ctime>

#include "base/json/json_text.h"  // utf8_sequence

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
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (json && c >= 0x80) {
      const int length = utf8_sequence(text.data() + i, text.data() + text.size());
      out += length > 0 ? text.substr(i, static_cast<std::size_t>(length)) : "\xef\xbf\xbd";
      i += static_cast<std::size_t>(length > 0 ? length - 1 : 0);
      continue;
    }
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

std::string json_value(const Field& field) {
  if (const auto* flag = std::get_if<bool>(&field.value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&field.value)) return fmt::format("{}", *whole);
  if (const auto* number = std::get_if<double>(&field.value)) {
    return std::isfinite(*number) ? fmt::format("{:.6g}", *number) : "null";
  }
  return fmt::format("\"{}\"", escape(std::get<std::string_view>(field.value), true));
}

// One write per line keeps lines of several threads whole; a full or closed stderr must never be fatal.
void put(std::string_view line) {
  ssize_t n = 0;
  do {
    n = ::write(STDERR_FILENO, line.data(), line.size());
  } while (n < 0 && errno == EINTR);
  if (n != static_cast<ssize_t>(line.size())) lost.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Format format() {
  return line_format.load(std::memory_order_relaxed);
}

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
  event(level, message, {});
}

void event(Level level, std::string_view message, std::initializer_list<Field> fields) {
  if (!enabled(level)) return;
  const auto name = kNames[static_cast<int>(level)];
  if (format() == Format::text) return put(fmt::format("{} {:<7} {}\n", timestamp(), name, escape(message, false)));
  std::string line =
      fmt::format("{{\"time\":\"{}\",\"level\":\"{}\",\"message\":\"{}\"", timestamp(), name, escape(message, true));
  for (const Field& field : fields) line += fmt::format(",\"{}\":{}", field.name, json_value(field));
  put(line += "}\n");
}

}  // namespace espalier::log
