// openapi.h: what this server answers, as an OpenAPI 3.1 document: every route of its router, with the bodies that tables
// describe.
// Threads: pure function over constant tables. Fails: never.
#pragma once

#include "base/json/json.h"
#include "net/server/router.h"

namespace espalier::server {

Json openapi_document(const net::Router& router, std::string_view api_prefix);

}  // namespace espalier::server
