#include "net/http/response_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace espalier::net {
namespace {

bool servers_own(std::string_view name) {
  constexpr std::array<std::string_view, 6> names = {"Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive",
                                                     "Date",           "x-request-id"};  // the last is chosen below
  return std::any_of(names.begin(), names.end(), [&](auto own) { return same_ignoring_case(own, name); });
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

bool status_has_body(int status) {
  return status >= 200 && status != 204 && status != 304;
}

std::string response_head(int status, const Headers& headers, const Framing& framing) {
  if (status < 200 || status > 599) status = 500;
  std::string out;
  out.reserve(256);
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\n", status, reason_phrase(status));
  for (const auto& [name, value] : headers) {
    if (!servers_own(name) && valid_field_name(name) && valid_field_value(value)) append_field(out, name, value);
  }
  if (framing.content_length && status_has_body(status)) {
    append_field(out, "Content-Length", std::to_string(*framing.content_length));
  }
  if (framing.chunked) append_field(out, "Transfer-Encoding", "chunked");
  if (!framing.keep_alive) append_field(out, "Connection", "close");
  if (framing.keep_alive && framing.http_1_0) append_field(out, "Connection", "keep-alive");
  append_field(out, "Date", framing.date);
  const std::string_view named = headers.get("x-request-id");
  const std::string_view id = printable_id(named) ? named : std::string_view(framing.request_id);
  if (!id.empty()) append_field(out, "x-request-id", id);
  return out += "\r\n";
}

std::string chunk(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + 12);
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", bytes.size());
  return out.append(bytes).append("\r\n");
}

std::string_view DateText::now() {
  std::time_t second = std::time(nullptr);
  if (second == second_) return text_;
  second_ = second;
  std::tm parts{};
  ::gmtime_r(&second, &parts);
  constexpr std::array<std::string_view, 7> days = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<std::string_view, 12> months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  // Not strftime: the field must be English in every locale.
  text_ = fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", days[static_cast<std::size_t>(parts.tm_wday)],
                      parts.tm_mday, months[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900,
                      parts.tm_hour, parts.tm_min, parts.tm_sec);
  return text_;
}

}  // namespace espalier::net
