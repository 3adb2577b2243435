// table.h: which towers there are, by the model_type of a whole configuration, and reading them from config.json.
//
// Threads: pure functions. Fails: bad_file naming the field; unsupported for a model whose pictures are not known here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/towers/families/families.h"

namespace espalier {

// One family's tower.
struct TowerFamily {
  std::string_view types;  // model_type of the configuration, apart by '|'
  TowerSpec (*declare)(const TowerFields&);
};
// Null when nothing is called so.
const TowerFamily* tower_family(std::string_view model_type);

// Nothing where the configuration has no tower.
Result<std::optional<TowerSpec>> read_tower_config(std::string_view json, const std::string& file_name = "config.json");

// The text model takes what this tower gives. For GGUF files, whose metadata do not say that there is a tower.
void expect_pictures(const TowerSpec& tower, ModelSpec& text);

}  // namespace espalier
