// rank_follower.h: what another rank than the first does of an engine's work: its part of the model, with its part of the
// pool, as the first rank tells it (rank_leader.h).
//
// Threads: one, which runs until the group ends; its compute team computes. Fails: open() as Engine::open(); afterwards
// what goes wrong ends the group, for the others cannot go on.
#pragma once

#include <map>
#include <memory>

#include "engine/engine_options.h"
#include "engine/load/device_to_compute.h"
#include "engine/load/loaded_model.h"
#include "engine/memory/kv_copy.h"
#include "engine/memory/kv_pool.h"
#include "engine/memory/state_pool.h"
#include "engine/ranks/rank_blocks.h"
#include "engine/ranks/rank_message.h"
#include "espalier/engine.h"
#include "model/decoder.h"
#include "ranks/collective.h"

namespace espalier {

// One such rank.
class RankFollower {
 public:
  static Result<std::unique_ptr<RankFollower>> open(const EngineOptions& options,
                                                    const Engine::Progress& progress = {});
  // Until the first rank says that it is over.
  Result<> run();

 private:
  Result<> load(const EngineOptions& options, const Engine::Progress& progress);
  Result<bool> obey_if_it_can(MessageReader& message);  // false: the group ends
  Result<bool> obey(MessageReader& message);            // throws DeviceFailure
  Result<> allocate(MessageReader& message);
  Result<> bind(MessageReader& message);
  void copy(MessageReader& message);
  void move_blocks(RankCall call, MessageReader& message);
  void move_state(RankCall call, MessageReader& message);

  std::unique_ptr<DeviceToCompute> compute_;  // null: the CPU; what follows lies in its memory
  EngineChoices chosen_;
  ModelFiles files_;
  std::shared_ptr<ranks::Collective> group_;
  std::unique_ptr<ComputeTeam> team_;
  std::unique_ptr<Decoder> decoder_;
  KvPools kv_;
  StatePool states_;
  std::unique_ptr<KvCopier> copier_, window_copier_;  // window_copier_: null where all lies in one space
  std::optional<RankBlocks> blocks_, windows_;
  std::optional<RankStates> shared_states_;
  BatchNumbers numbers_;
  ReadBatch batch_;
  std::map<int, std::shared_ptr<const LoraAdapter>> adapters_;
};

// What must be the same in all ranks of a group: the model's tensors and numbers, how it computes, how much at once.
std::string group_key(const EngineOptions& options, const EngineChoices& chosen, const ModelFiles& files,
                      std::string_view device);

}  // namespace espalier
