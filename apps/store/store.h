// store.h: a model's name -> the files it is made of, fetched when they are not on this machine.
//
// Names: a path (GGUF file, folder), the alias smollm2-135m, or a hub repository org/name[:quant][@revision].
// A path that exists wins over the other readings. Nothing here prints; downloads report to a Progress.
// Threads: any; several processes may pull the same model at once.
// Fails:   bad_request (no such form of name), not_found (exit 3), bad_file, network (exit 6), unauthorized, cancelled,
//          out_of_memory (device full): sentences that say what would work.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "espalier/error.h"
#include "store/hub/progress.h"
#include "store/local_model.h"
#include "store/model_name.h"
#include "store/settings.h"

namespace espalier::store {

struct CachedModel {
  std::string name;  // what `find` and the command line take
  ModelForm form = ModelForm::gguf;
  std::filesystem::path path;
  std::string revision;
  std::uint64_t bytes = 0;
};

class Store {
 public:
  explicit Store(Settings settings = Settings::from_environment());
  // Tests bring their own aliases.
  Store(Settings settings, std::vector<PackagedModel> aliases);

  // What is on this machine. Opens no connection and changes nothing.
  Result<Model> find(const std::string& name) const;

  // Fetches what is missing; of a hub's branch or tag, its newest commit.
  Result<Model> pull(const std::string& name, Progress& progress, std::stop_token stop = {});

  // What `serve` and `run` want: find, and only when it is not here, pull.
  Result<Model> resolve(const std::string& name, Progress& progress, std::stop_token stop = {});

  // The models in our cache and in the hub's, by name. Incomplete ones are left out.
  Result<std::vector<CachedModel>> list() const;

  // What a name stands for: an existing path wins over the other readings.
  Result<ModelName> meaning(const std::string& name) const;
  const Settings& settings() const { return settings_; }

 private:
  Settings settings_;
  std::vector<PackagedModel> aliases_;
};

}  // namespace espalier::store
