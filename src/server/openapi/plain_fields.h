// plain_fields.h: the fields of bodies that are read one by one, where no table reads them.
//
// Whoever reads another field adds its row here; tests/server/test_openapi.py sends each to the running server.
// Threads: pure functions over a constant table. Fails: never.
#pragma once

#include <string_view>

#include "base/json/json.h"

namespace espalier::server {

// Adds the fields of the body of that name (route_bodies.cpp) to the properties of `object`; "required" gets those that
// no request may leave out.
void add_plain_fields(Json& object, std::string_view body);

}  // namespace espalier::server
