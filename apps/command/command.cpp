#include "command/command.h"

#include <unistd.h>

#include <cstdio>

#include "command/output.h"
#include "store/store.h"

namespace espalier::command {

int fail(const Error& error) {
  std::fprintf(stderr, "espalier: %s\n", printable(error.message).c_str());
  return error.exit_code();
}

Result<std::string> find_model(const std::string& name) {
  store::Store models;
  const auto progress = store::make_progress(store::ProgressStyle::automatic, STDERR_FILENO);
  ESP_TRY(const store::Model model, models.resolve(name, *progress));
  return model.path.string();
}

Result<std::string> find_local_model(const std::string& name) {
  ESP_TRY(const store::Model model, store::Store().find(name));
  return model.path.string();
}

Result<> find_models(const std::string& name, EngineOptions& options) {
  ESP_TRY(options.model_path, find_model(name));
  if (options.draft_model.empty()) return success();
  ESP_TRY(options.draft_model, find_model(options.draft_model));
  return success();
}

}  // namespace espalier::command
