// packed_cache.h: whether an engine's matrices come packed out of a file of an earlier start, and go into one for the
// next (model/packed_weights.h, docs/decisions/packed-weights.md).
//
// A file is good for a checkpoint as long as none of its files was written to or replaced: the key has their sizes,
// inodes and times of change, the names, types, shapes and sampled bytes of all tensors, and the layout of panels that
// this program makes. Dummy weights are not kept.
//
// Order:   open, load the decoder with weights(), save. Threads: one.
// Fails:   never: a file or folder that cannot be used is one warning, and the weights are packed as without it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/system/memory_room.h"
#include "engine/load/loaded_model.h"
#include "model/weights/packed_weights.h"

namespace espalier {

// The file of packed matrices for one checkpoint: read from, or to be written after loading.
class PackedCache {
 public:
  // part: which part of the model this process has ("rank 1 of 2"); empty: all of it.
  static PackedCache open(const EngineOptions& options, const ModelFiles& files, const MemoryRoom& room,
                          const std::string& part = {});

  const PackedWeights* weights() const { return weights_ ? &*weights_ : nullptr; }
  std::int64_t mapped_bytes() const;  // of weights that need no memory of their own; 0 where they are read or packed
  void save(const Decoder& decoder, ComputeTeam& team, const std::function<void(double share)>& progress);
  const std::string& description() const { return description_; }  // once saved; empty without a cache

 private:
  void use(PackedWeights weights, const EngineOptions& options, const MemoryRoom& room);

  std::filesystem::path path_;  // empty: no cache
  std::string key_;
  std::optional<PackedWeights> weights_;
  std::string description_;
};

// What packed weights may take of the memory that is left: the token pool and what computes need some too. Bytes.
std::int64_t memory_for_weights(const MemoryRoom& room);

// What a file must have been made for to be of use; a test looks at it.
std::string packed_key(const TensorFile& weights);

}  // namespace espalier
