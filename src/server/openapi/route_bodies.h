// route_bodies.h: what the bodies and queries of routes may hold, by the tables that read them.
// Threads: pure functions. Fails: never; null for a route whose body nobody reads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json/json.h"

namespace espalier::server {

// The schema of a body, and the name under which the document keeps it.
struct RouteBody {
  std::string name;
  std::string media_type;
  Json schema;
};
// Of a POST or PUT to a route of ours.
std::optional<RouteBody> body_of_route(std::string_view pattern);

// The query's parameters, as OpenAPI lists them; empty where the route looks at none.
Json query_of_route(std::string_view method, std::string_view pattern);

}  // namespace espalier::server
