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

// Tells a client what a download tells.
class ClientProgress final : public store::Progress {
 public:
  explicit ClientProgress(const server::FetchListener& tell) : tell_(tell) {}
  void on(const store::ProgressEvent& event) override {
    using Stage = store::ProgressEvent::Stage;
    const std::string file(event.file);
    const auto total = static_cast<std::int64_t>(event.total), done = static_cast<std::int64_t>(event.done);
    switch (event.stage) {
      case Stage::resolving:
        return tell_({"pulling manifest", 0, 0});
      case Stage::waiting:
        return tell_({"waiting for another download of " + file, 0, 0});
      case Stage::downloading:
        return tell_({file.empty() ? "pulling" : "pulling " + file, total, done});
      case Stage::verifying:
        return tell_({"verifying digest", 0, 0});
      case Stage::ready:
        return;  // the server says so once it is served
    }
  }

 private:
  const server::FetchListener& tell_;
};

}  // namespace

Result<std::unique_ptr<ServedModels>> ServedModels::list(const ServeOptions& options, OwnRanks& ranks) {
  std::unique_ptr<ServedModels> models(new ServedModels(options, ranks));  // the constructor is private
  for (const std::string& given : options.models) ESP_CHECK(models->add(given));
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
    models.push_back(model_to_serve(i, bytes));
  }
  return models;
}

server::ModelToServe ServedModels::model_to_serve(std::size_t which, std::int64_t bytes) {
  return {{entries_[which].name}, entries_[which].given, bytes, [this, which](const Engine::Progress& progress) {
            return open(which, progress);
          }};
}

server::ModelFetch ServedModels::fetch_for_clients() {
  if (!options_->allow_pull) return {};
  return [this](const std::string& name, const server::FetchListener& tell, const std::stop_token& stop) {
    return fetch_another(name, tell, stop);
  };
}

// A client names models of the hub, and nothing of this machine.
Result<server::ModelToServe> ServedModels::fetch_another(const std::string& name, const server::FetchListener& tell,
                                                         const std::stop_token& stop) {
  std::string_view wanted = name;
  for (const std::string_view hub : {"hf.co/", "huggingface.co/"})
    if (wanted.starts_with(hub)) wanted.remove_prefix(hub.size());
  const std::string given(wanted.ends_with(":latest") ? wanted.substr(0, wanted.size() - 7) : wanted);
  store::Store store;
  ESP_TRY(const store::ModelName meant, store.meaning(given));
  if (std::holds_alternative<store::PathName>(meant))
    return bad_request("a model that is to be fetched is named org/name[:quant][@revision]", "model");
  ClientProgress progress(tell);
  ESP_TRY(const store::Model model, store.pull(given, progress, stop));
  const std::scoped_lock lock(entries_grow_);
  entries_.push_back({name, given, model.path.string()});
  auto made = model_to_serve(entries_.size() - 1, static_cast<std::int64_t>(store::weight_file_bytes(model)));
  if (given != name) made.names.push_back(given);
  return made;
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
EngineOptions ServedModels::engine_options(std::size_t which) {
  EngineOptions engine = options_->engine;
  std::size_t entries = 0;
  {
    const std::scoped_lock lock(entries_grow_);
    engine.model_path = entries_[which].path;
    entries = entries_.size();
  }
  engine.draft_model = draft_path_;
  const auto limit = static_cast<std::size_t>(options_->server.max_loaded_models);
  const auto at_once = limit > 0 ? std::min(entries, limit) : entries;
  if (at_once > 2) engine.kv_share = 0.5 / static_cast<double>(at_once);  // pools of all: half of the memory
  if (which == 0) {
    ranks_->give_to(engine);
    return engine;
  }
  engine.tokenizer_path.clear();
  engine.tower_path.clear();
  engine.draft_model.clear();
  if (!draft_path_.empty()) engine.speculative = "none";
  if (engine.load_format != "dummy") engine.load_format = "auto";
  return engine;
}

Result<> ServedModels::follow() {
  return follow_first_rank(engine_options(0));
}

Result<std::unique_ptr<Engine>> ServedModels::open(std::size_t which, const Engine::Progress& progress) {
  EngineOptions engine = engine_options(which);
  if ((options_->allow_pull || entries_.size() > 1) && team_ == nullptr) {
    ESP_TRY(team_, start_shared_team(engine));
  }
  auto opened = Engine::open(engine, progress, team_);
  const bool too_long = !opened.ok() && opened.error().field == "context_length" && which > 0;
  if (!too_long) return opened;
  engine.context_length = 0;  // longer than this model's: its own
  return Engine::open(std::move(engine), progress, team_);
}

}  // namespace espalier::serve
