// generate.h: POST and PUT /generate, SGLang's native route.
#pragma once

#include "server/handler.h"
#include "server/native/generate_body.h"

namespace espalier::server {

// What an item says of how its request is treated; not the prompt, nor what is to be made of it.
RequestFields treatment(const Call& call, const GenerateItem& item, std::string id);
Result<Generation> generate(Call& call);
Result<> add_generate_routes(net::Router& router, Service& service);

}  // namespace espalier::server
