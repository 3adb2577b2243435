// core_options.h: how an EngineCore schedules, what it keeps, and its limits.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "cache/slots/window_slots.h"
#include "cache/tree/eviction.h"
#include "engine/draft/drafts.h"
#include "engine/memory/compaction.h"
#include "engine/pooled/pooling_plan.h"
#include "engine/run/rope_lengths.h"
#include "engine/schedule/scheduler.h"
#include "espalier/types.h"

namespace espalier {

class Tokenizer;

// How a core schedules, what it keeps, and its limits.
struct CoreOptions {
  int max_running = 64;
  int max_adapters = 0;       // different ones in one batch; 0: any number
  int prefill_chunk = 512;    // prompt tokens of one step
  int longest_span = 0;       // tokens that a step may have beyond that, of a picture whose tokens are computed at once
  double target_itl = 0;      // seconds between tokens that prompt chunks should leave possible; 0 = no target
  bool fair_tenants = false;  // tenants take turns (fair_share.h)
  SchedulePolicy policy = SchedulePolicy::lpm;
  bool radix_cache = true;
  EvictionKind eviction = EvictionKind::lru;
  DraftSource drafts = DraftSource::none;
  DraftLimits draft_limits;
  double conservativeness = 1.0;
  CompactionLimits compaction;
  std::vector<TokenId> end_tokens;
  int vocabulary = std::numeric_limits<TokenId>::max();  // tokens with ids from there on stand for pictures
  const Tokenizer* tokenizer = nullptr;  // for the marks of thinking; outlives the core; null: the model has none
  bool jump_forward = true;              // text that a constraint forces is appended at once
  bool ahead = false;   // the runner begins what follows a step before it is committed (engine/run/step_ahead.h)
  int state_cells = 0;  // of recurrent states, of a model that keeps one: at least two; 0 = it keeps none
  RopeLengths rope_lengths;
  std::optional<PoolingPlan> pooling = {};  // of a model that gives vectors or scores
  bool whole_texts = false;                 // rows see their whole text
  int window_slots = 0;    // of a model that reads some layers through a window; 0 = all lies in one space
  WindowRule window = {};  // what a row reads of these layers
};

}  // namespace espalier
