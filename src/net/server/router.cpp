#include "net/server/router.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier::net {
namespace {

constexpr std::size_t kQuotedBytes = 200;

std::vector<std::string> split(std::string_view pattern) {
  std::vector<std::string> words;
  while (!pattern.empty()) {
    pattern.remove_prefix(pattern.front() == '/' ? 1 : 0);
    auto end = std::min(pattern.find('/'), pattern.size());
    if (end > 0) words.emplace_back(pattern.substr(0, end));
    pattern.remove_prefix(end);
  }
  return words;
}

std::string shortened(std::string_view text) {
  return text.size() <= kQuotedBytes ? std::string(text) : fmt::format("{}...", text.substr(0, kQuotedBytes));
}

std::string joined(const std::vector<std::string>& words, std::size_t from) {
  std::string out;
  for (std::size_t i = from; i < words.size(); ++i) {
    if (i > from) out += '/';
    out += words[i];
  }
  return out;
}

}  // namespace

Router::Router(std::string prefix, ErrorFormatter errors) : prefix_(std::move(prefix)), errors_(std::move(errors)) {}

Result<> Router::add(Method method, std::string_view pattern, RequestHandler handler) {
  if (pattern.empty() || pattern.front() != '/') return bad_request("a route must begin with '/'", "pattern");
  if (method == Method::other || !handler) return bad_request("a route needs a known method and a handler", "method");
  Route route;
  route.pattern = std::string(pattern);
  for (auto& word : split(prefix_ + route.pattern)) {
    bool name = word.size() > 2 && word.front() == '{' && word.back() == '}';
    if (!name && word.find_first_of("{}") != std::string::npos) {
      return bad_request(fmt::format("the route {} has a brace that is not a whole segment '{{name}}'", pattern),
                         "pattern");
    }
    route.segments.push_back({name ? word.substr(1, word.size() - 2) : std::move(word), name});
  }
  auto known = std::find_if(routes_.begin(), routes_.end(), [&](const Route& r) { return r.pattern == pattern; });
  if (known == routes_.end()) known = routes_.insert(known, std::move(route));
  if (handler_for(*known, method) && method != Method::head) {
    return bad_request(fmt::format("{} {} was added twice", to_string(method), pattern), "pattern");
  }
  known->handlers.emplace_back(method, std::move(handler));
  return success();
}

bool Router::matches(const Route& route, const std::vector<std::string>& path) {
  const auto& segments = route.segments;
  if (path.size() < segments.size() || (path.size() > segments.size() && !route.greedy())) return false;
  return std::equal(
      segments.begin(), segments.end(), path.begin(),
      [](const Segment& segment, const std::string& word) { return segment.name || segment.text == word; });
}

bool Router::more_specific(const Route& a, const Route& b, std::size_t path_segments) {
  bool a_exact = a.segments.size() == path_segments;
  bool b_exact = b.segments.size() == path_segments;
  if (a_exact != b_exact) return a_exact;
  if (a.segments.size() != b.segments.size()) return a.segments.size() > b.segments.size();
  for (std::size_t i = 0; i < a.segments.size(); ++i) {
    if (a.segments[i].name != b.segments[i].name) return b.segments[i].name;
  }
  return false;
}

const Router::Route* Router::find(const HttpRequest& request) const {
  const auto& path = request.segments;
  const Route* best = nullptr;
  bool best_serves = false;
  for (const auto& route : routes_) {
    if (!matches(route, path)) continue;
    bool serves = handler_for(route, request.method) != nullptr;
    if (best && (best_serves != serves ? best_serves : !more_specific(route, *best, path.size()))) continue;
    best = &route;
    best_serves = serves;
  }
  return best;
}

const RequestHandler* Router::handler_for(const Route& route, Method method) {
  for (Method each : {method, method == Method::head ? Method::get : method}) {
    for (const auto& [known, handler] : route.handlers) {
      if (known == each) return &handler;
    }
  }
  return nullptr;
}

HttpResponse Router::method_refusal(const Route& route, const HttpRequest& head) const {
  std::string allow = "OPTIONS";
  for (const auto& [method, handler] : route.handlers) {
    allow += fmt::format(", {}", to_string(method));
    if (method == Method::get) allow += ", HEAD";
  }
  HttpResponse response;
  if (head.method == Method::options) {
    response.status = 204;
  } else {
    response = errors_({405,
                        fmt::format("{} is not possible on {}; use one of: {}", shortened(head.method_name),
                                    shortened(head.path), allow),
                        "method_not_allowed", "", 0},
                       head.path);
  }
  response.headers.set("Allow", allow);
  return response;
}

std::vector<RouteName> Router::routes() const {
  std::vector<RouteName> names;
  for (const Route& route : routes_) {
    names.push_back({route.pattern, split(route.pattern), {}});
    for (const auto& [method, handler] : route.handlers) names.back().methods.push_back(method);
  }
  return names;
}

std::optional<HttpResponse> Router::refuse(const HttpRequest& head) const {
  if (head.path == "*") return method_refusal(Route{}, head);  // "OPTIONS *" asks for the server as a whole
  const Route* route = find(head);
  if (!route) {
    return errors_({404, fmt::format("there is no route {} {}", shortened(head.method_name), shortened(head.path)),
                    "route_not_found", "", 0},
                   head.path);
  }
  if (handler_for(*route, head.method)) return std::nullopt;
  return method_refusal(*route, head);
}

void Router::dispatch(HttpRequest request, Responder responder) const {
  const Route* route = find(request);
  const RequestHandler* handler = route ? handler_for(*route, request.method) : nullptr;
  if (!handler) {
    if (auto refusal = refuse(request)) responder.respond(std::move(*refusal));
    return;
  }
  request.route = route->pattern;
  for (std::size_t i = 0; i < route->segments.size(); ++i) {
    if (!route->segments[i].name) continue;
    bool tail = i + 1 == route->segments.size();
    request.path_values.push_back({route->segments[i].text, tail ? joined(request.segments, i) : request.segments[i]});
  }
  (*handler)(std::move(request), std::move(responder));
}

}  // namespace espalier::net
