// attach_model.h: a service gets its models: names, template, one token to warm up; then they are ready.
// Threads: add_models, attach_model: one, once a service; loads of further models: the model set's own.
// Fails: a name given twice, a template that cannot be read, the warm-up's error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "espalier/engine.h"

namespace espalier::server {

class Service;
struct ServedModel;
struct ServerOptions;

// A model that a server may load, and unload as long as it can open it again.
struct ModelToServe {
  std::vector<std::string> names;                                                // at least one
  std::string path;                                                              // as the operator gave it
  std::int64_t bytes = 0;                                                        // of its files; 0: not known
  std::function<Result<std::unique_ptr<Engine>>(const Engine::Progress&)> open;  // any thread
};

// A model as all routes use it. `is_default`: --chat-template and its content format are its own.
Result<std::shared_ptr<ServedModel>> make_served_model(const ServerOptions& options, std::unique_ptr<Engine> engine,
                                                       std::vector<std::string> names, bool is_default);

// The default model first. --served-model-name names that one.
Result<> add_models(Service& service, std::vector<ModelToServe> models);

// One more, while the server runs.
Result<> add_model(Service& service, ModelToServe model);

// The default model is there. `name`: what it is called when neither options nor add_models() name it.
Result<> attach_model(Service& service, std::unique_ptr<Engine> engine, const std::string& name);

}  // namespace espalier::server
