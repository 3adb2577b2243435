// served_models.h: what --model says, one model or several, and how the server opens each.
//
// `PATH`, `NAME=PATH`, a hub's org/name, or a folder that holds several models (folders with config.json, GGUF files),
// each then called as its file or folder is. All engines step on one compute team.
// Order:   list_models(), then fetch() before any is opened.
// Threads: fetch(): one; open functions: any, one at a time; fetches for clients: any. Fails: bad_request, not_found, and what the store fails with.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "serve/own_ranks.h"
#include "serve/serve_options.h"
#include "server/attach_model.h"
#include "server/models/model_fetches.h"
#include "store/hub/progress.h"

namespace espalier::serve {

// All models of a server, the default one first.
class ServedModels {
 public:
  // What the options name. Opens no connection.
  // ranks: of this process; it outlives the models.
  static Result<std::unique_ptr<ServedModels>> list(const ServeOptions& options, OwnRanks& ranks);

  // For Server::start(). `*this` must live as long as they may be opened.
  std::vector<server::ModelToServe> to_serve();

  // How models are fetched that clients ask for; null without --allow-pull. `*this` must live as long as the server.
  server::ModelFetch fetch_for_clients();

  // The files of all of them; from a hub only with --allow-download.
  Result<> fetch(store::Progress& progress, const std::stop_token& stop);
  Result<std::unique_ptr<Engine>> open(std::size_t which, const Engine::Progress& progress);
  // Computes the default one as another rank than the first, until that one ends.
  Result<> follow();

  const std::string& name(std::size_t which) const { return entries_[which].name; }
  std::size_t count() const { return entries_.size(); }  // without those of clients

 private:
  struct Entry {
    std::string name, given;  // what clients call it; what the store is asked for
    std::string path;         // empty before fetch()
  };
  ServedModels(const ServeOptions& options, OwnRanks& ranks) : options_(&options), ranks_(&ranks) {}
  Result<> add(const std::string& given);
  Result<server::ModelToServe> fetch_another(const std::string& name, const server::FetchListener& tell,
                                             const std::stop_token& stop);
  server::ModelToServe model_to_serve(std::size_t which, std::int64_t bytes);
  EngineOptions engine_options(std::size_t which);

  const ServeOptions* options_;
  OwnRanks* ranks_;
  std::deque<Entry> entries_;  // they stay where they are
  std::mutex entries_grow_;
  std::string draft_path_;
  std::shared_ptr<SharedTeam> team_;
};

}  // namespace espalier::serve
