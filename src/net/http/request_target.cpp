#include "net/http/request_target.h"

#include <algorithm>

namespace espalier::net {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool unreserved(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

Error bad_target(std::string message) {
  return bad_request(std::move(message), "request-target", "invalid_target");
}

Result<> append_segment(RequestTarget& target, std::string_view raw) {
  auto segment = percent_decode(raw);
  if (!segment) return bad_target("the path has a '%' that is not followed by two hexadecimal digits");
  if (!valid_field_value(*segment) || segment->find('\t') != std::string::npos) {
    return bad_target("the path has a control character; only printable bytes are accepted");
  }
  if (segment->empty() || *segment == ".") return success();
  if (*segment == "..") {
    if (!target.segments.empty()) target.segments.pop_back();
  } else {
    target.segments.push_back(std::move(*segment));
  }
  return success();
}

Result<> append_path(RequestTarget& target, std::string_view path) {
  while (!path.empty()) {
    path.remove_prefix(1);  // the '/'
    auto end = std::min(path.find('/'), path.size());
    ESP_CHECK(append_segment(target, path.substr(0, end)));
    path.remove_prefix(end);
  }
  for (const auto& segment : target.segments) target.path += '/' + segment;
  if (target.path.empty()) target.path = "/";
  return success();
}

Result<> append_query(RequestTarget& target, std::string_view query) {
  while (!query.empty()) {
    auto end = std::min(query.find('&'), query.size());
    auto pair = query.substr(0, end);
    auto equals = std::min(pair.find('='), pair.size());
    auto name = percent_decode(pair.substr(0, equals), true);
    auto value = percent_decode(pair.substr(std::min(equals + 1, pair.size())), true);
    if (!name || !value) return bad_target("the query has a '%' that is not followed by two hexadecimal digits");
    if (name->find('\0') != std::string::npos || value->find('\0') != std::string::npos) {
      return bad_target("the query has a NUL character");
    }
    if (!pair.empty()) target.query.push_back({std::move(*name), std::move(*value)});
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return success();
}

// "http://host:1/path?x" -> "/path?x"; proxies and some clients send it, and RFC 9112 makes servers accept it.
Result<std::string_view> without_authority(std::string_view target) {
  auto scheme = target.find("://");
  if (scheme == std::string_view::npos || (!same_ignoring_case(target.substr(0, scheme), "http") &&
                                           !same_ignoring_case(target.substr(0, scheme), "https"))) {
    return bad_target("the request target must begin with '/' or with 'http://'");
  }
  target.remove_prefix(scheme + 3);
  auto end = std::min(target.find_first_of("/?"), target.size());
  if (end == 0 || !valid_host(target.substr(0, end))) return bad_target("the request target names no valid host");
  return target.substr(end);
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      if (text.size() - i < 3) return std::nullopt;
      int high = hex_digit(text[i + 1]);
      int low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

bool valid_host(std::string_view host) {
  auto allowed = [](std::string_view text, std::string_view extra) {
    return std::all_of(text.begin(), text.end(), [&](char c) { return unreserved(c) || extra.find(c) != extra.npos; });
  };
  auto colon = host.find_last_of(":]");
  std::string_view name = host;
  if (colon != std::string_view::npos && host[colon] == ':') {
    auto port = host.substr(colon + 1);
    if (port.size() > 5 || !std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      return false;
    }
    name = host.substr(0, colon);
  }
  if (name.size() > 1 && name.front() == '[' && name.back() == ']') {
    return allowed(name.substr(1, name.size() - 2), ":");
  }
  return allowed(name, "!$&'()*+,;=%");
}

Result<RequestTarget> parse_request_target(std::string_view target, Method method) {
  RequestTarget parsed;
  if (target == "*" && method == Method::options) {
    parsed.path = "*";
    return parsed;
  }
  if (target.find('#') != std::string_view::npos) return bad_target("the request target must not have a '#' part");
  if (target.empty() || target.front() != '/') {
    ESP_TRY(target, without_authority(target));
  }
  auto question = std::min(target.find('?'), target.size());
  ESP_CHECK(append_path(parsed, target.substr(0, question)));
  ESP_CHECK(append_query(parsed, target.substr(std::min(question + 1, target.size()))));
  return parsed;
}

}  // namespace espalier::net
