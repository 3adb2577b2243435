// attach_model.h: a service gets its model: names, template, one token to warm up; then it is ready.
// Threads: one, once a service. Fails: a template that cannot be read, the warm-up's error.
#pragma once

#include <memory>
#include <string>

#include "server/service.h"

namespace espalier::server {

// `name`: what the model is called when options name nothing.
Result<> attach_model(Service& service, std::unique_ptr<Engine> engine, const std::string& name);

}  // namespace espalier::server
