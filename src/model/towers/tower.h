// tower.h: a loaded vision tower with its projector: pictures go in, rows for the text model come out.
//
// A batch of pictures is worked off in slices, so that whoever decodes meanwhile can have the team between two of them; on
// another back end than the CPU it is one slice.
// Promise 1: a picture's features depend on its pixels alone. Memory: keys and values of the batch at hand, of one layer.
// Threads: one caller at a time; the team computes.
// Fails: load() with an Error that names the tensor; begin() with bad_request for pictures it cannot take;
// advance() throws DeviceFailure where a device fails.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/threads/compute_team.h"
#include "model/cpu/load_needs.h"
#include "model/tower_spec.h"

namespace espalier {

class Backend;

// How a tower computes, and how much at once.
struct TowerOptions {
  Activations activations = Activations::int8;
  int max_rows = 16384;        // patches and class tokens of one batch
  Backend* backend = nullptr;  // that computes, if it can; it outlives the tower; null: the CPU
};

// What a picture is for the text model: output 0 stands for embeddings of its place-holders, output 1 .. are added behind
// the first layers.
struct PictureFeatures {
  int rows = 0, width = 0;
  std::vector<std::vector<float>> outputs;  // [rows, width] each
};

// A tower that was loaded from a checkpoint.
class Tower {
 public:
  static Result<std::unique_ptr<Tower>> load(const TowerSpec& spec, const Weights& weights, const TowerOptions& options,
                                             ComputeTeam& team, const LoadProgress& progress = {});
  ~Tower();

  const Program& program() const;
  std::size_t weight_bytes() const;
  // Why the back end does not compute it; empty: it does.
  const std::string& on_cpu_because() const;
  // Rows that a batch of these pictures has.
  int rows_of(std::span<const TowerPicture> pictures) const;

  // Pixels must stay until the batch is done. A batch that was begun before is forgotten.
  Result<> begin(std::span<const TowerPicture> pictures);
  // Works on for at most so many stages (a product, an attention, some row operations); whether the batch is done.
  bool advance(int stages);
  // Or for so many rows of the stage at hand, where it can be cut.
  bool advance_rows(int rows);
  // Of each picture, in order. Requires: the batch is done.
  std::vector<PictureFeatures> take();

 private:
  struct Impl;
  explicit Tower(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier
