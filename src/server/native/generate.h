// generate.h: POST and PUT /generate, SGLang's native route.
#pragma once

#include "server/native/generate_body.h"
#include "server/routes/handler.h"

namespace espalier::server {

Result<Generation> generate(Call& call);
Result<> add_generate_routes(net::Router& router, Service& service);

}  // namespace espalier::server
