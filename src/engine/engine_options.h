// engine_options.h: what the words and numbers of EngineOptions mean; what is out of range is refused.
// Threads: pure functions. Fails: bad_request naming the flag, its value and what it may be.
#pragma once

#include <functional>

#include "base/system/memory_room.h"
#include "base/threads/compute_team.h"
#include "cache/tree/eviction.h"
#include "engine/draft/drafts.h"
#include "engine/schedule/scheduler.h"
#include "espalier/engine.h"
#include "model/decoder.h"

namespace espalier {

// How much memory the token pool gets: bytes, or a share of what is free.
struct KvMemory {
  std::int64_t bytes = 0;  // 0: `share` of what is free once the weights are there
  double share = 0.25;
  bool asked = false;  // else not more than all running sequences at full length take
};

// EngineOptions' words and numbers, read and checked.
struct EngineChoices {
  KvType kv = KvType::bf16;
  Activations activations = Activations::int8;
  SchedulePolicy policy = SchedulePolicy::lpm;
  EvictionKind eviction = EvictionKind::lru;
  DraftSource drafts = DraftSource::none;
  DraftLimits draft_limits;
  KvMemory kv_memory;
  int threads = 1;                  // of computing, the engine's own included
  ComputeTeam::Place place;         // where they run
  std::string processors_left_out;  // where threads were not said
  int max_running = 64;             // sequences in one batch
  int chunk = 512;                  // prompt tokens in one step,
  int longest_span = 0;             // and so many more, where a picture's tokens must be computed at once
  int rows() const { return chunk + longest_span + max_running; }  // of a step
};

Result<EngineChoices> choices_of(const EngineOptions& options);
Result<DraftSource> draft_source_of(const EngineOptions& options);
// Tokens of context and of the pool. The model's own context is 0 when its files do not tell it.
Result<int> context_of(const EngineOptions& options, std::int64_t of_the_model);
// `slots_in`: how many fit in so many bytes (memory/window_plan.h). `beside`: bytes of the pool's memory that states take.
int pool_of(const EngineOptions& options, const EngineChoices& chosen, int context, const MemoryRoom& room,
            const std::function<std::int64_t(std::int64_t)>& slots_in, std::size_t beside = 0);
// Cells of recurrent states of so many bytes each; 0 where the model keeps none.
int state_cells_of(const EngineOptions& options, const EngineChoices& chosen, std::size_t state_bytes,
                   const MemoryRoom& room);
std::string_view name(KvType type);

}  // namespace espalier
