#include "_backend.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "espalier/backends.h"
#include "espalier/engine.h"
#include "server/in_process.h"  // who makes pictures ready for the model
#include "store/store.h"        // names of models are the command's, not the library's

namespace example {
namespace {

using Opened = espalier::Result<std::shared_ptr<espalier::Backend>>;

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

Opened open_server(std::string root) {
  while (root.ends_with('/')) root.pop_back();
  if (root.ends_with("/v1")) root.resize(root.size() - 3);
  const std::string key = variable("ESPALIER_API_KEY", variable("OPENAI_API_KEY", "").c_str());
  auto native = espalier::open_native({.base_url = root, .api_key = key});
  if (native.ok() || native.error().kind == espalier::Error::Kind::network) return native;  // or nobody is there
  return espalier::open_openai({.model = variable("OPENAI_MODEL", "default"), .base_url = root + "/v1"});
}

Opened open_model(const std::string& name) {
  espalier::store::Store models;
  const auto progress = espalier::store::make_progress(espalier::store::ProgressStyle::automatic, STDERR_FILENO);
  ESP_TRY(const espalier::store::Model model, models.resolve(name, *progress));
  espalier::EngineOptions options;
  options.model_path = model.path.string();
  options.activations = variable("ESPALIER_ACTIVATIONS", "int8");
  ESP_TRY(auto engine, espalier::Engine::open(std::move(options)));
  ESP_TRY(const auto routes, espalier::server::InProcess::start({}, std::move(engine), name));
  return espalier::open_local({.engine = routes->engine(), .pictures = routes->pictures()});
}

}  // namespace

std::shared_ptr<espalier::Backend> open_backend() {
  const std::string url = variable("ESPALIER_BASE_URL", variable("OPENAI_BASE_URL", "").c_str());
  const Opened backend = url.empty() ? open_model(variable("ESPALIER_MODEL", "smollm2-135m")) : open_server(url);
  if (backend.ok()) return *backend;
  std::fprintf(stderr, "example: %s\n", backend.error().message.c_str());
  std::exit(backend.error().exit_code());
}

}  // namespace example
