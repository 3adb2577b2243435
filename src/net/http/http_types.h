// http_types.h: an HTTP request as a handler sees it, and the response it gives back.
// Units:   bodies in bytes, exactly as sent (after de-chunking and decompression); nothing is checked for UTF-8 here.
// Threads: values; move them where they are needed.
// Fails:   never; what reaches a handler has passed the limits of ServerOptions.
// Source:  RFC 9110 (semantics), RFC 9112 (HTTP/1.1).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/http/trace_context.h"

namespace espalier::net {

// A request's method; `other` is any word that is not listed.
enum class Method : std::uint8_t { get, head, post, put, patch, del, options, other };

Method method_from(std::string_view token);  // case-sensitive, as the RFC wants; unknown words are Method::other
std::string_view to_string(Method method);   // "DELETE"; "" for Method::other

bool same_ignoring_case(std::string_view a, std::string_view b);  // ASCII only

// Header fields in the order they came; names compare without regard to case, and may repeat.
class Headers {
 public:
  struct Field {
    std::string name, value;
  };

  Headers() = default;
  Headers(std::initializer_list<Field> fields) : fields_(fields) {}

  void add(std::string name, std::string value) { fields_.push_back({std::move(name), std::move(value)}); }
  void set(std::string_view name, std::string value);  // replaces every field of that name
  void remove(std::string_view name);
  const std::string* find(std::string_view name) const;  // the first one, or null
  std::string_view get(std::string_view name) const;     // the first one's value, or ""
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Whether a comma-separated list field ("Connection", "Accept-Encoding") holds `token`; parameters (";q=1") are cut
  // off.
  bool lists(std::string_view name, std::string_view token) const;

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  std::size_t size() const { return fields_.size(); }
  bool empty() const { return fields_.empty(); }

 private:
  std::vector<Field> fields_;
};

// A header or a query parameter.
struct NamedValue {
  std::string name, value;
};

// Whose work a request is that the server makes by itself, later: a line of a batch, say. No client can send it.
struct OwnWork {
  std::string tenant;  // as keys name it
  bool later = true;   // nobody waits for it: it gives way to what comes
};

// One request, read in full.
struct HttpRequest {
  Method method = Method::get;
  std::string method_name;              // as sent; the only name Method::other has
  std::string path;                     // percent-decoded, without "." and ".." and doubled slashes; begins with '/'
  std::vector<std::string> segments;    // the same, split before decoding: an id "a%2Fb" is one segment "a/b"
  std::vector<NamedValue> query;        // percent-decoded, in order
  std::vector<NamedValue> path_values;  // filled by Router: {id} -> its value
  std::string_view route;  // filled by Router: the pattern, for labels of metrics; lives as long as the Router
  Headers headers;
  std::string body;
  std::string peer_address;  // "203.0.113.7", "::1" or "unix"
  std::uint16_t peer_port = 0;
  std::string id;  // x-request-id: the client's if it was fit to print, else ours
  bool http_1_0 = false;
  std::optional<OwnWork> own_work;
  std::optional<TraceContext> trace;                    // none: nobody traces, and the client sent no traceparent
  std::chrono::steady_clock::time_point received_at{};  // when the head was complete

  const std::string* query_value(std::string_view name) const;
  std::string_view path_value(std::string_view name) const;  // "" when the route has no such name
};

// One answer that is not streamed.
struct HttpResponse {
  int status = 200;
  Headers headers;  // Content-Length, Transfer-Encoding, Connection and Date are the server's business; so is
                    // x-request-id, unless the handler knows a better name for the request
  std::string body;
  bool close = false;  // close the connection after it

  static HttpResponse text(int status, std::string body);
  static HttpResponse json(int status, std::string body);
};

std::string_view reason_phrase(int status);

// Whether a string may be a request's id: 1 to 128 printable ASCII characters without spaces.
bool printable_id(std::string_view id);

// Whether a string may stand as a field name / as a field value (no control characters, so no second header).
bool valid_field_name(std::string_view name);
bool valid_field_value(std::string_view value);

}  // namespace espalier::net
