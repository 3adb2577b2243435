#include "server/admission/deadline.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>

namespace espalier::server {
namespace {

// nullopt when absent or not a number.
std::optional<std::chrono::milliseconds> deadline_header(const net::HttpRequest& request) {
  const std::string_view text = request.headers.get("x-deadline-ms");
  std::int64_t ms = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ms);
  if (error != std::errc() || end != text.data() + text.size() || ms <= 0) return std::nullopt;
  return std::chrono::milliseconds(std::min<std::int64_t>(ms, 86'400'000));
}

}  // namespace

Completion::Time deadline_of(const net::HttpRequest& request, double limit_seconds) {
  auto deadline = Completion::Time::max();
  if (limit_seconds > 0) {
    deadline = request.received_at + std::chrono::milliseconds(static_cast<std::int64_t>(limit_seconds * 1000));
  }
  if (const auto asked = deadline_header(request)) deadline = std::min(deadline, request.received_at + *asked);
  return deadline;
}

}  // namespace espalier::server
