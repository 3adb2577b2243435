#include "serve/served_models.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/store.h"

namespace espalier::serve {
namespace {

// "NAME=PATH" -> {NAME, PATH}; what exists as it stands, and what has a slash before the "=", has no name.
std::pair<std::string, std::string> split_name(const std::string& given) {
  const auto equals = given.find('=');
  if (equals == std::string::npos || equals == 0 || given.find('/') < equals || store::exists_locally(given))
    return {{}, given};
  return {given.substr(0, equals), given.substr(equals + 1)};
}

}  // namespace

Result<ServedModels> ServedModels::list(const ServeOptions& options) {
  ServedModels models(options);
  for (const std::string& given : options.models) ESP_CHECK(models.add(given));
  return models;
}

Result<> ServedModels::add(const std::string& given) {
  const auto [name, path] = split_name(given);
  if (path.empty()) return bad_request(fmt::format("--model {} names no path behind the =", given), "model");
  const std::vector<store::Model> inside = store::models_in_folder(path);
  if (inside.size() < 2) {
    entries_.push_back({name.empty() ? path : name, path, {}});
    return success();
  }
  if (!name.empty())
    return bad_request(
        fmt::format("--model {} gives one name to a folder of {} models; leave the name out, or name one "
                    "of them",
                    given, inside.size()),
        "model");
  for (const store::Model& model : inside) entries_.push_back({model.name, model.path.string(), {}});
  return success();
}

std::vector<server::ModelToServe> ServedModels::to_serve() {
  std::vector<server::ModelToServe> models;
  const store::Store here;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const auto found = here.find(entries_[i].given);
    const std::int64_t bytes = found.ok() ? static_cast<std::int64_t>(store::weight_file_bytes(*found)) : 0;
    models.push_back({{entries_[i].name}, entries_[i].given, bytes, [this, i](const Engine::Progress& progress) {
                        return open(i, progress);
                      }});
  }
  return models;
}

Result<> ServedModels::fetch(store::Progress& progress, const std::stop_token& stop) {
  store::Store store;
  const auto path_of = [&](const std::string& given) -> Result<std::string> {
    ESP_TRY(const store::Model model,
            options_->allow_download ? store.resolve(given, progress, stop) : store.find(given));
    return model.path.string();
  };
  for (Entry& entry : entries_) {
    ESP_TRY(entry.path, path_of(entry.given));
  }
  if (options_->engine.draft_model.empty()) return success();
  ESP_TRY(draft_path_, path_of(options_->engine.draft_model));
  return success();
}

// What is about one model's own files is about the default one.
EngineOptions ServedModels::engine_options(std::size_t which) const {
  EngineOptions engine = options_->engine;
  engine.model_path = entries_[which].path;
  engine.draft_model = draft_path_;
  const auto at_once = options_->server.max_loaded_models > 0
                           ? std::min(entries_.size(), static_cast<std::size_t>(options_->server.max_loaded_models))
                           : entries_.size();
  if (at_once > 2 && engine.kv_memory.empty())
    engine.kv_memory = fmt::format("{}%", 50 / std::min<std::size_t>(at_once, 4));  // pools of all: half of the memory
  if (which == 0) return engine;
  engine.tokenizer_path.clear();
  engine.draft_model.clear();
  if (!draft_path_.empty()) engine.speculative = "none";
  if (engine.load_format != "dummy") engine.load_format = "auto";
  return engine;
}

Result<std::unique_ptr<Engine>> ServedModels::open(std::size_t which, const Engine::Progress& progress) {
  EngineOptions engine = engine_options(which);
  if (entries_.size() > 1 && team_ == nullptr) {
    ESP_TRY(team_, start_shared_team(engine));
  }
  auto opened = Engine::open(engine, progress, team_);
  const bool too_long = !opened.ok() && opened.error().field == "context_length" && which > 0;
  if (!too_long) return opened;
  engine.context_length = 0;  // longer than this model's: its own
  return Engine::open(std::move(engine), progress, team_);
}

}  // namespace espalier::serve
