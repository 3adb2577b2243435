// window_plan.h: which fields of a model lie in window slots, how many of these there are, and what a pool costs.
//
// Layers that see the last positions only need no more of a running sequence than that, so their fields get slots of
// their own (cache/slots/window_slots.h), fewer than the pool has: those of all running sequences' windows, and as many again
// for cached prefixes, but at most half of the pool's. Where that would save less than a tenth of the pool's bytes,
// where windows are not shorter than half of the context, and where nobody wants it, all lie in one space.
// docs/decisions/windows.md
//
// Units: slots, bytes. Threads: values. Fails: never.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/slots/window_slots.h"
#include "engine/engine_options.h"
#include "engine/memory/kv_pool.h"
#include "model/program/seen_fields.h"

namespace espalier {

// The fields that are read through a window alone, and how many slots they get. No slots: all fields lie in one space.
struct WindowPlan {
  std::vector<bool> fields;  // [CacheLayout::fields]
  Visibility seen;           // what a row sees of any of them
  int slots = 0;
  bool apart() const { return slots > 0; }
};

// Slots of the token pool and of the windows.
struct PoolPlan {
  int slots = 0;
  WindowPlan windows;
};

// What of a model and its options the plan of its pool depends on.
struct PoolWish {
  const EngineOptions& options;
  const EngineChoices& chosen;
  const CacheLayout& layout;
  std::vector<Visibility> seen;  // of each field (model/program/seen_fields.h)
  int context;
  std::size_t bytes_beside;  // of a token, in a draft model's pool
};
// The fields whose windows are shorter than half of the context, without slots as yet.
WindowPlan windows_of(std::span<const Visibility> seen, int context);
WindowRule rule_of(const Visibility& seen);
PoolPlan plan_pool(const PoolWish& wish, const MemoryRoom& room, std::size_t states_bytes);

// Bytes of a pool of so many slots, and the window slots that it needs.
class PoolCost {
 public:
  // `windows`: which fields lie apart; none: one space.
  PoolCost(const PoolWish& wish, const WindowPlan& windows);
  static std::size_t of_token(std::size_t kept);  // that keeps so many bytes; also where it keeps none
  int window_slots(std::int64_t slots) const;
  std::int64_t bytes(std::int64_t slots) const;
  std::int64_t slots_in(std::int64_t bytes) const;  // whole segments

 private:
  std::int64_t token_, window_ = 0;      // bytes of a slot of either space
  std::int64_t least_ = 0, useful_ = 0;  // window slots
  double ratio_ = 0;                     // that was asked for; 0: none was
};

}  // namespace espalier
