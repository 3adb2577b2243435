// router.h: which handler a method and a path mean.
//
// Patterns are segments: "/v1/models/{id}". A "{name}" takes one segment, percent-decoded (so it may hold slashes); as
// the last segment of a pattern it also takes all that follows, joined by '/', so that "org/name" works raw. A fixed
// word beats a name, and an exact length beats the greedy tail: "/v1/responses/{id}/cancel" wins over
// "/v1/responses/{id}". HEAD is served by GET's handler; OPTIONS is answered here.
//
// Order:   add* then (refuse, dispatch)*; no add() once a server uses it.
// Threads: add() one; the rest any, on a Router that does not change any more.
// Fails:   add: bad_request for a malformed pattern or one added twice for a method.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "net/http/error_body.h"
#include "net/http/http_types.h"
#include "net/server/responder.h"

namespace espalier::net {

using RequestHandler = std::function<void(HttpRequest, Responder)>;

// A pattern and the methods that it is served for.
struct RouteName {
  std::string pattern;             // without the prefix
  std::vector<std::string> words;  // of the pattern
  std::vector<Method> methods;
};

// Patterns of paths with their handlers, and the answers for paths and methods that have none.
class Router {
 public:
  // `prefix` ("--api-prefix": "", "/llm") stands before every pattern.
  explicit Router(std::string prefix = {}, ErrorFormatter errors = openai_error);

  Result<> add(Method method, std::string_view pattern, RequestHandler handler);

  std::vector<RouteName> routes() const;  // in the order they were added

  // What can be said from the head alone: 404, 405 with Allow, the answer to OPTIONS; nullopt: dispatch() will find a
  // handler. Meant for ServerHooks::admit, so that no body is read for a route that does not exist.
  std::optional<HttpResponse> refuse(const HttpRequest& head) const;
  // Fills route and path_values and calls the handler; answers what refuse() would if there is none.
  void dispatch(HttpRequest request, Responder responder) const;

 private:
  struct Segment {
    std::string text;  // the word, or the name between braces
    bool name = false;
  };
  struct Route {
    std::string pattern;
    std::vector<Segment> segments;
    std::vector<std::pair<Method, RequestHandler>> handlers;
    bool greedy() const { return !segments.empty() && segments.back().name; }
  };

  // The most specific route that serves the method, else (for Allow) the most specific of all.
  const Route* find(const HttpRequest& request) const;
  static bool matches(const Route& route, const std::vector<std::string>& path);
  static bool more_specific(const Route& a, const Route& b, std::size_t path_segments);
  static const RequestHandler* handler_for(const Route& route, Method method);
  HttpResponse method_refusal(const Route& route, const HttpRequest& head) const;

  std::string prefix_;
  ErrorFormatter errors_;
  std::vector<Route> routes_;
};

}  // namespace espalier::net
