#include "net/http/http_types.h"

#include <algorithm>
#include <array>

namespace espalier::net {
namespace {

constexpr std::array<std::string_view, 8> kMethods = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", ""};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

std::string_view stripped(std::string_view text) {
  auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool list_holds(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    auto comma = std::min(list.find(','), list.size());
    auto item = list.substr(0, comma);
    if (same_ignoring_case(stripped(item.substr(0, item.find(';'))), token)) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

const std::string* find_value(const std::vector<NamedValue>& values, std::string_view name) {
  auto it = std::find_if(values.begin(), values.end(), [&](const NamedValue& v) { return v.name == name; });
  return it == values.end() ? nullptr : &it->value;
}

}  // namespace

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

Method method_from(std::string_view token) {
  for (std::size_t i = 0; i + 1 < kMethods.size(); ++i) {
    if (kMethods[i] == token) return static_cast<Method>(i);
  }
  return Method::other;
}

std::string_view to_string(Method method) {
  return kMethods[static_cast<std::size_t>(method)];
}

void Headers::remove(std::string_view name) {
  std::erase_if(fields_, [&](const Field& f) { return same_ignoring_case(f.name, name); });
}

void Headers::set(std::string_view name, std::string value) {
  remove(name);
  add(std::string(name), std::move(value));
}

const std::string* Headers::find(std::string_view name) const {
  auto it =
      std::find_if(fields_.begin(), fields_.end(), [&](const Field& f) { return same_ignoring_case(f.name, name); });
  return it == fields_.end() ? nullptr : &it->value;
}

std::string_view Headers::get(std::string_view name) const {
  const std::string* value = find(name);
  return value ? std::string_view(*value) : std::string_view();
}

bool Headers::lists(std::string_view name, std::string_view token) const {
  return std::any_of(fields_.begin(), fields_.end(),
                     [&](const Field& f) { return same_ignoring_case(f.name, name) && list_holds(f.value, token); });
}

const std::string* HttpRequest::query_value(std::string_view name) const {
  return find_value(query, name);
}

std::string_view HttpRequest::path_value(std::string_view name) const {
  const std::string* value = find_value(path_values, name);
  return value ? std::string_view(*value) : std::string_view();
}

HttpResponse HttpResponse::text(int status, std::string body) {
  return {status, {{"Content-Type", "text/plain; charset=utf-8"}}, std::move(body), false};
}

HttpResponse HttpResponse::json(int status, std::string body) {
  return {status, {{"Content-Type", "application/json"}}, std::move(body), false};
}

bool printable_id(std::string_view id) {
  constexpr std::size_t kMostBytes = 128;
  return !id.empty() && id.size() <= kMostBytes &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool valid_field_name(std::string_view name) {
  constexpr std::string_view punctuation = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') || punctuation.find(c) != punctuation.npos;
  });
}

bool valid_field_value(std::string_view value) {
  return std::none_of(value.begin(), value.end(), [](char c) {
    auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7f;
  });
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

}  // namespace espalier::net
