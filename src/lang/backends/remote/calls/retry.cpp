#include "lang/backends/remote/calls/retry.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <string>

namespace espalier::lang {
namespace {

using std::chrono::milliseconds;

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0 || value > 1e9) return std::nullopt;
  return value;
}

}  // namespace

std::optional<milliseconds> asked_pause(const net::ClientResponse& response,
                                        std::chrono::system_clock::time_point now) {
  if (const auto exact = number(response.header("retry-after-ms")))
    return milliseconds(static_cast<std::int64_t>(*exact));
  const std::string text(response.header("retry-after"));
  if (text.empty()) return std::nullopt;
  if (const auto seconds = number(text)) return milliseconds(static_cast<std::int64_t>(*seconds * 1000));
  const time_t date = curl_getdate(text.c_str(), nullptr);
  if (date < 0) return std::nullopt;
  const auto wait = std::chrono::ceil<milliseconds>(std::chrono::system_clock::from_time_t(date) - now);
  return std::max(wait, milliseconds(0));
}

bool worth_retrying(const Error& error, int status) {
  if (error.code == "insufficient_quota") return false;  // OpenAI's 429 for an account without money
  if (status == 501 || status == 505) return false;
  if (status != 0) return status == 408 || status == 409 || status == 425 || status == 429 || status >= 500;
  return error.kind == Error::Kind::network || error.kind == Error::Kind::timeout;
}

std::optional<milliseconds> pause_before_next(const RetryOptions& options, int made, std::optional<milliseconds> asked,
                                              double share) {
  if (made >= options.tries) return std::nullopt;
  if (asked && *asked > options.longest_pause) return std::nullopt;
  double pause = static_cast<double>(options.first_pause.count());
  const auto longest = static_cast<double>(options.longest_pause.count());
  for (int i = 1; i < made && pause < longest; ++i) pause *= 2;
  pause = std::min(pause, longest) * (1 - share / 2);
  return std::max(milliseconds(static_cast<std::int64_t>(pause)), asked.value_or(milliseconds(0)));
}

}  // namespace espalier::lang
