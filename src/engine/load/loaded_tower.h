// loaded_tower.h: the vision tower that a checkpoint brings, as far as it is supported here.
//
// A checkpoint whose files lack the tower's tensors serves its text model alone, and the log says so; so does one whose
// tower was found beside it (tower_file.h), but not one whose tower's file was named. It computes where the text model
// does, but on the CPU where a device cannot compute its program (the log says so).
// Threads: one, while a model is loaded. Fails: bad_file naming field or tensor; out_of_memory.
#pragma once

#include <memory>

#include "base/system/memory_room.h"
#include "engine/engine_options.h"
#include "engine/load/device_to_compute.h"
#include "engine/load/loaded_model.h"
#include "engine/pictures/prompt_pictures.h"
#include "engine/pictures/tower_queue.h"

namespace espalier {

// A tower out of a checkpoint's files, and what the pictures of a prompt depend on.
struct LoadedTower {
  TowerSpec spec;
  PictureRules rules;
  std::unique_ptr<FeatureMaker> maker;
  std::size_t weight_bytes = 0;
  std::int64_t working_bytes = 0;  // that pictures of usual sizes take while they are computed
};

// Tokens that see one another are computed at once: so many a chunk may have beyond its length. 0: of a model where
// nobody sees what follows. context: of all texts, which an encoder sees whole.
Result<int> longest_span_of(const ModelFiles& files, int context);

// Null: the model takes no pictures. `chosen`: with what longest_span_of() said.
Result<std::unique_ptr<LoadedTower>> load_tower(const ModelFiles& files, const EngineChoices& chosen, ComputeTeam& team,
                                                const DeviceToCompute* compute, const Engine::Progress& progress);

}  // namespace espalier
