#include "server/files/multipart.h"

#include <algorithm>

#include "net/http/http_types.h"

namespace espalier::server {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::size_t kLongestBoundary = 70;

Error broken_form(std::string why) {
  return bad_request("the body is no proper multipart/form-data: " + std::move(why), {}, "invalid_multipart");
}

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// A token or a quoted string off the front.
Result<std::string> take_value(std::string_view& rest) {
  std::string value;
  if (!rest.starts_with('"')) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    value = without_blanks(rest.substr(0, end));
    rest.remove_prefix(end);
    return value;
  }
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '"') {
      rest.remove_prefix(i + 1);
      return value;
    }
    if (rest[i] == '\\' && i + 1 < rest.size() && (rest[i + 1] == '"' || rest[i + 1] == '\\')) ++i;
    value += rest[i];
  }
  return broken_form("a quoted value has no end");
}

// The delimiters of a body, one after the other.
class Delimiters {
 public:
  explicit Delimiters(std::string_view boundary) : mark_("\r\n--" + std::string(boundary)) {}

  // Of a delimiter that stands at `at` what comes behind it; npos: it is none. `last`: it ends the body.
  std::size_t behind(std::string_view body, std::size_t at, bool& last) const {
    std::size_t next = at + mark_.size();
    last = body.substr(next).starts_with("--");
    if (last) return next + 2;
    while (next < body.size() && is_blank(body[next])) ++next;
    return body.substr(next).starts_with(kLineEnd) ? next + kLineEnd.size() : body.npos;
  }
  std::size_t find(std::string_view body, std::size_t from) const { return body.find(mark_, from); }
  // At the very beginning of a body it needs no line end before it.
  bool begins(std::string_view body) const { return body.starts_with(std::string_view(mark_).substr(2)); }

 private:
  std::string mark_;
};

// Reads "name: value" lines; only what says the field's name counts.
Result<> read_part_headers(std::string_view head, FormPart& part) {
  while (!head.empty()) {
    const std::size_t end = std::min(head.find(kLineEnd), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + kLineEnd.size(), head.size()));
    const std::size_t colon = line.find(':');
    if (colon == line.npos) return broken_form("a header of a part has no colon");
    if (!net::same_ignoring_case(without_blanks(line.substr(0, colon)), "content-disposition")) continue;
    const std::string_view value = without_blanks(line.substr(colon + 1));
    ESP_TRY(part.name, header_parameter(value, "name"));
    ESP_TRY(part.filename, header_parameter(value, "filename"));
  }
  if (part.name.empty()) return broken_form("a part has no name");
  return success();
}

Result<std::string> boundary_of(std::string_view content_type) {
  const std::string_view type = without_blanks(content_type.substr(0, content_type.find(';')));
  if (!net::same_ignoring_case(type, "multipart/form-data")) {
    return bad_request("the body must be multipart/form-data and say so in Content-Type", {}, "unsupported_media_type");
  }
  ESP_TRY(std::string boundary, header_parameter(content_type, "boundary"));
  const auto bad = [](unsigned char c) { return c < ' ' || c > '~'; };
  if (boundary.empty() || boundary.size() > kLongestBoundary || std::ranges::any_of(boundary, bad))
    return broken_form("its Content-Type names no boundary of 1 to 70 characters");
  return boundary;
}

}  // namespace

Result<std::string> header_parameter(std::string_view value, std::string_view name) {
  std::string_view rest = value.substr(std::min(value.find(';'), value.size()));
  while (rest.starts_with(';')) {
    rest = rest.substr(1);
    const std::size_t equals = rest.find_first_of("=;");
    if (equals == rest.npos || rest[equals] == ';') {
      rest.remove_prefix(std::min(equals, rest.size()));
      continue;
    }
    const std::string_view key = without_blanks(rest.substr(0, equals));
    rest.remove_prefix(equals + 1);
    while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
    ESP_TRY(std::string found, take_value(rest));
    if (net::same_ignoring_case(key, name)) return found;
    rest.remove_prefix(std::min(rest.find(';'), rest.size()));
  }
  return std::string();
}

Result<std::vector<FormPart>> parse_multipart(std::string_view content_type, std::string_view body,
                                              const MultipartLimits& limits) {
  ESP_TRY(const std::string boundary, boundary_of(content_type));
  const Delimiters delimiters(boundary);
  std::vector<FormPart> parts;
  bool last = false;
  std::size_t at = body.npos;
  if (delimiters.begins(body)) {
    at = delimiters.behind(body, static_cast<std::size_t>(-2), last);
  }
  for (std::size_t found = 0; at == body.npos;) {  // what stands before the first one means nothing
    found = delimiters.find(body, found);
    if (found == body.npos) return broken_form("the boundary does not occur in it");
    at = delimiters.behind(body, found, last);
    ++found;
  }
  while (!last) {
    if (parts.size() == limits.parts) return broken_form("it has more than " + std::to_string(limits.parts) + " parts");
    FormPart& part = parts.emplace_back();
    // A part without headers begins with the empty line.
    const std::string_view window = body.substr(at, limits.header_bytes + 4);
    const std::size_t head = window.starts_with(kLineEnd) ? 0 : window.find("\r\n\r\n");
    if (head == window.npos) return broken_form("the headers of a part have no end, or are too long");
    ESP_CHECK(read_part_headers(window.substr(0, head), part));
    const std::size_t begin = at + head + (head == 0 ? 2 : 4);
    std::size_t end = begin - 2;  // the line end before the content may be that of the delimiter
    for (at = body.npos; at == body.npos;) {
      end = delimiters.find(body, end);
      if (end == body.npos) return broken_form("a part has no end");
      at = delimiters.behind(body, end, last);
      if (at == body.npos) ++end;
    }
    part.content = body.substr(begin, end >= begin ? end - begin : 0);
  }
  return parts;
}

}  // namespace espalier::server
