// route_bodies.h: which tables read the body of which route.
// Threads: pure functions. Fails: never; null for a route whose body no table reads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json/json.h"

namespace espalier::server {

// The schema of the body of a POST to a route of ours, and the name under which the document keeps it.
struct RouteBody {
  std::string name;
  Json schema;
};
std::optional<RouteBody> body_of_route(std::string_view pattern);

}  // namespace espalier::server
