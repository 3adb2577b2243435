// model_slots.h: what the two halves of ModelSet share: its face (model_set.cpp) and its thread (model_set_work.cpp).
// Threads: all under Shared::mutex, but for what says otherwise. Fails: never.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>

#include "server/models/model_set.h"

namespace espalier::server {

// A model of the set, in memory or not.
struct ModelSet::Slot {
  ModelSource source;
  ModelState state = ModelState::unloaded;
  std::shared_ptr<ServedModel> model;  // null unless loaded or unloading
  int in_use = 0;
  Clock::time_point used{}, first_wait{}, failed_at{};  // used: when a use began or ended last
  std::optional<double> idle;                           // instead of the limits'
  bool wanted = false;                                  // load() asked for it
  bool unwanted = false;                                // unload() came while it was loaded: it leaves when it is
  bool needs_room = false;                              // memory was short: it waits for another one to leave
  std::vector<std::weak_ptr<ModelWait>> waits;
  std::optional<Error> failure;
  double progress = 0, load_seconds = 0;
  std::uint64_t loads = 0, unloads = 0, failures = 0;

  bool may_leave() const { return state == ModelState::loaded && source.load != nullptr; }
  void forget_dropped_waits() {
    std::erase_if(waits, [](const auto& wait) { return wait.expired(); });
  }
};

// What leases share with the set, and may outlive it with.
struct ModelSet::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Slot> slots;  // they stay where they are when more come
  bool thread_runs = false, stopping = false;
};

// A use of a model, which ends with it.
struct ModelSet::Lease {
  std::shared_ptr<Shared> shared;
  std::size_t place;
  bool counts;
  std::shared_ptr<ServedModel> model;

  ~Lease() {
    model.reset();
    const std::scoped_lock lock(shared->mutex);
    Slot& slot = shared->slots[place];
    if (counts) slot.used = Clock::now();
    if (--slot.in_use == 0 && shared->thread_runs) shared->changed.notify_all();
  }
};

// What a failed load is to who waited for it.
Error load_failed(const std::string& name, const Error& why);

inline double seconds_in(ModelSet::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// After how many seconds without use a model leaves; none: it stays. `own` stands instead of the time `of_all`.
std::optional<double> idle_time(const std::optional<double>& own, double of_all);

}  // namespace espalier::server
