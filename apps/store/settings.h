// settings.h: where models are kept and fetched from, as the environment says.
//
//   ESPALIER_CACHE                        our own cache; else $XDG_CACHE_HOME/espalier, else ~/.cache/espalier
//   HF_HUB_CACHE, HF_HOME                 the hub's cache, shared with other tools; else beside ours: huggingface/hub
//   HF_TOKEN, HF_TOKEN_PATH               who we are at the hub; else the file $HF_HOME/token
//   HF_ENDPOINT, HF_HUB_OFFLINE           which hub; 1 = no connection is opened, for any model
//   ESPALIER_PYTHON                       the interpreter whose pip is used
// Values are taken once, at start. Fails: never; what is missing shows when it is needed.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace espalier::store {

struct Settings {
  std::filesystem::path cache;
  std::filesystem::path hub_cache;
  std::string endpoint = "https://huggingface.co";
  std::string token;  // never printed, logged or given to another host
  bool offline = false;
  std::vector<std::string> pythons;  // interpreters that may have pip, best first: names for PATH, or files

  // `variable` looks up an environment variable (tests pass their own); null when it is not set.
  static Settings from_environment(const std::function<const char*(const char*)>& variable);
  static Settings from_environment();
};

}  // namespace espalier::store
