#include "cache/remote/redis_address.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace espalier {
namespace {

constexpr std::string_view kForm = "redis://[user:password@]host[:port][/database] or unix:///path[?db=database]";

Error refused(std::string_view why) {
  return bad_request(fmt::format("the address of the remote cache {}; it is {}", why, kForm), "cache-remote");
}

std::optional<int> number(std::string_view text, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most) return std::nullopt;
  return value;
}

// %41 -> A. Nothing when a % has no two digits behind it.
std::optional<std::string> unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    unsigned value = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const char* const digits = text.data() + i + 1;
    if (std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) return std::nullopt;
    plain += static_cast<char>(value);
    i += 2;
  }
  return plain;
}

Result<> take_credentials(RedisAddress& address, std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    return refused("has an @ without a colon before it: user:password@ or :password@");
  const auto user = unescaped(text.substr(0, colon)), password = unescaped(text.substr(colon + 1));
  if (!user || !password) return refused("has a % without two hexadecimal digits behind it");
  address.user = *user;
  address.password = *password;
  return success();
}

Result<> take_host(RedisAddress& address, std::string_view text) {
  std::string_view port;
  if (text.starts_with('[')) {  // of IPv6
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return refused("has a [ without a ]");
    address.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else {
    const std::size_t colon = text.find(':');
    address.host = text.substr(0, colon);
    port = colon == std::string_view::npos ? std::string_view() : text.substr(colon);
  }
  if (address.host.empty()) return refused("names no host");
  if (port.empty()) return success();
  const auto value = port.starts_with(':') ? number(port.substr(1), 65535) : std::nullopt;
  if (!value || *value == 0) return refused("has no port from 1 to 65535 behind its host");
  address.port = *value;
  return success();
}

Result<RedisAddress> parse_socket(std::string_view rest) {
  RedisAddress address;
  const std::size_t question = rest.find('?');
  address.path = rest.substr(0, question);
  if (!address.path.starts_with('/')) return refused("names no absolute path");
  if (question == std::string_view::npos) return address;
  const std::string_view query = rest.substr(question + 1);
  const auto database = query.starts_with("db=") ? number(query.substr(3), 1 << 20) : std::nullopt;
  if (!database) return refused("has a ? without db=number behind it");
  address.database = *database;
  return address;
}

}  // namespace

std::string RedisAddress::shown() const {
  const std::string_view before = host.find(':') == std::string::npos ? "" : "[", behind = before.empty() ? "" : "]";
  std::string place = path.empty() ? fmt::format("redis://{}{}{}:{}", before, host, behind, port) : "unix://" + path;
  if (database == 0) return place;
  return fmt::format("{}{}{}", place, path.empty() ? "/" : "?db=", database);
}

Result<RedisAddress> parse_redis_address(std::string_view url) {
  const std::size_t mark = url.find("://");
  if (mark == std::string_view::npos) return refused("has no scheme");
  const std::string_view scheme = url.substr(0, mark);
  std::string_view rest = url.substr(mark + 3);
  if (scheme == "rediss" || scheme == "valkeys")
    return Error{
        Error::Kind::unsupported,
        "the remote cache is asked for over TLS, which this build's Redis client cannot; run stunnel (or another "
        "proxy) beside the server and give redis://localhost:its-port",
        "cache-remote",
        {}};
  if (scheme == "unix" || scheme == "redis+unix") return parse_socket(rest);
  if (scheme != "redis" && scheme != "valkey") return refused("has another scheme");
  RedisAddress address;
  if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos) {
    ESP_CHECK(take_credentials(address, rest.substr(0, at)));
    rest = rest.substr(at + 1);
  }
  const std::size_t slash = rest.find('/');
  ESP_CHECK(take_host(address, rest.substr(0, slash)));
  if (slash == std::string_view::npos || slash + 1 == rest.size()) return address;
  const auto database = number(rest.substr(slash + 1), 1 << 20);
  if (!database) return refused("has no number of a database behind its /");
  address.database = *database;
  return address;
}

}  // namespace espalier
