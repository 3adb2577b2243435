// The model set's thread: what to load, whom to let go, and when.
#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "base/system/free_memory.h"
#include "base/system/memory_room.h"
#include "server/models/model_slots.h"

namespace espalier::server {

Error load_failed(const std::string& name, const Error& why) {
  return {why.kind == Error::Kind::out_of_memory ? Error::Kind::out_of_memory : Error::Kind::unavailable,
          fmt::format("the model {} cannot be loaded: {}", name, why.message), "model", "model_load_failed"};
}

std::optional<double> idle_time(const std::optional<double>& own, double of_all) {
  if (own) return *own < 0 ? std::nullopt : own;
  return of_all > 0 ? std::optional(of_all) : std::nullopt;
}

void ModelSet::work() {
  Lock lock(shared_->mutex);
  while (!shared_->stopping) {
    if (act(lock)) continue;
    if (const auto expiry = next_expiry())
      shared_->changed.wait_until(lock, *expiry);
    else
      shared_->changed.wait(lock);
  }
}

bool ModelSet::act(Lock& lock) {
  const auto now = Clock::now();
  if (const auto expiry = next_expiry(); expiry && *expiry <= now) {
    for (std::size_t i = 0; i < shared_->slots.size(); ++i) {
      const Slot& slot = shared_->slots[i];
      const auto idle = idle_time(slot.idle, limits_.idle_seconds);
      if (slot.may_leave() && slot.in_use == 0 && idle && seconds_in(now - slot.used) >= *idle)
        leave(static_cast<int>(i));
    }
  }
  if (const int place = to_close(); place >= 0) {
    close(lock, place);
    return true;
  }
  const int place = to_load();
  if (place < 0 || !make_room(shared_->slots[static_cast<std::size_t>(place)], place)) return to_close() >= 0;
  open(lock, place);
  return true;
}

std::optional<ModelSet::Clock::time_point> ModelSet::next_expiry() const {
  std::optional<Clock::time_point> next;
  for (const Slot& slot : shared_->slots) {
    const auto idle = idle_time(slot.idle, limits_.idle_seconds);
    if (!slot.may_leave() || slot.in_use > 0 || !idle) continue;
    const auto expiry = slot.used + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*idle));
    if (!next || expiry < *next) next = expiry;
  }
  return next;
}

int ModelSet::to_close() const {
  for (std::size_t i = 0; i < shared_->slots.size(); ++i) {
    const Slot& slot = shared_->slots[i];
    if (slot.state == ModelState::unloading && slot.in_use == 0) return static_cast<int>(i);
  }
  return -1;
}

// The one that was asked for first.
int ModelSet::to_load() const {
  int first = -1;
  for (std::size_t i = 0; i < shared_->slots.size(); ++i) {
    Slot& slot = shared_->slots[i];
    if (slot.state != ModelState::unloaded || !slot.source.load) continue;
    slot.forget_dropped_waits();
    if (slot.waits.empty() && !slot.wanted) continue;
    if (first < 0 || slot.first_wait < shared_->slots[static_cast<std::size_t>(first)].first_wait)
      first = static_cast<int>(i);
  }
  return first;
}

// Whom another model may have the place of: an idle one before one that is used, the least lately used of them.
int ModelSet::victim(int besides, bool idle_only) const {
  const auto better = [](const Slot& a, const Slot& b) {
    return (a.in_use > 0) != (b.in_use > 0) ? a.in_use == 0 : a.used < b.used;
  };
  int best = -1;
  for (std::size_t i = 0; i < shared_->slots.size(); ++i) {
    const Slot& slot = shared_->slots[i];
    if (static_cast<int>(i) == besides || !slot.may_leave() || (idle_only && slot.in_use > 0)) continue;
    if (best < 0 || better(slot, shared_->slots[static_cast<std::size_t>(best)])) best = static_cast<int>(i);
  }
  return best;
}

// Whether a model may be loaded now; if not, another one has begun to leave.
bool ModelSet::make_room(Slot& wanted, int place) {
  int held = 0;
  bool leaving = false;
  for (const Slot& slot : shared_->slots) {
    held += slot.state != ModelState::unloaded;
    leaving |= slot.state == ModelState::unloading;
  }
  if (wanted.needs_room && leaving) return false;
  wanted.needs_room = false;
  if (limits_.most_loaded > 0 && held >= limits_.most_loaded) {
    if (leaving) return false;
    const int other = victim(place, false);
    if (other >= 0) leave(other);
    return other < 0;  // all others stay for ever: the limit cannot be kept
  }
  const std::int64_t free = limits_.free_bytes ? limits_.free_bytes() : memory_room().pages;
  if (wanted.source.bytes <= free) return true;
  const int other = victim(place, true);
  if (other >= 0) leave(other);
  return other < 0;  // it may work all the same: weights may be read from their file
}

void ModelSet::leave(int place) {
  Slot& slot = shared_->slots[static_cast<std::size_t>(place)];
  if (slot.state != ModelState::loaded) return;
  slot.state = ModelState::unloading;
  log::info("the model {} is unloaded{}", slot.source.names.front(),
            slot.in_use > 0 ? " as soon as its requests have ended" : "");
}

void ModelSet::close(Lock& lock, int place) {
  Slot& slot = shared_->slots[static_cast<std::size_t>(place)];
  auto model = std::move(slot.model);
  slot.model = nullptr;
  lock.unlock();
  model.reset();
  give_back_free_memory();
  lock.lock();
  slot.state = ModelState::unloaded;
  slot.idle.reset();
  ++slot.unloads;
}

void ModelSet::open(Lock& lock, int place) {
  Slot& slot = shared_->slots[static_cast<std::size_t>(place)];
  slot.state = ModelState::loading;
  slot.progress = 0;
  slot.unwanted = false;
  const auto progress = [&](std::string_view, double share) {
    const std::scoped_lock own(shared_->mutex);
    slot.progress = share;
  };
  const ModelSource::Load load = slot.source.load;
  lock.unlock();
  const auto began = Clock::now();
  auto loaded = [&]() -> Result<std::shared_ptr<ServedModel>> {
    try {
      return load(progress);
    } catch (const std::bad_alloc&) {
      return Error{Error::Kind::out_of_memory, "not enough memory", {}, {}};
    } catch (const std::exception& failure) {
      return internal_error(failure.what());
    }
  }();
  lock.lock();
  if (!loaded.ok()) {
    slot.state = ModelState::unloaded;
    if (retry_with_more_room(place, loaded.error())) return;
    log::error("the model {} cannot be loaded: {}", slot.source.names.front(), loaded.error().message);
    slot.wanted = false;
    slot.failure = loaded.error();
    slot.failed_at = Clock::now();
    ++slot.failures;
    const Error told = load_failed(slot.source.names.front(), loaded.error());
    return hand_out(lock, place, &told);
  }
  slot.model = std::move(loaded).value();
  slot.state = ModelState::loaded;
  slot.wanted = false;
  slot.failure.reset();
  slot.used = Clock::now();
  slot.load_seconds = seconds_in(slot.used - began);
  ++slot.loads;
  log::info("the model {} was loaded in {:.2f} s", slot.source.names.front(), slot.load_seconds);
  hand_out(lock, place, nullptr);
  if (std::exchange(slot.unwanted, false)) leave(place);
}

// Memory was short while others hold some: one of them leaves, and the load is tried again.
bool ModelSet::retry_with_more_room(int place, const Error& error) {
  if (error.kind != Error::Kind::out_of_memory || shared_->stopping) return false;
  const int other = victim(place, false);
  if (other < 0) return false;
  leave(other);
  shared_->slots[static_cast<std::size_t>(place)].needs_room = true;
  return true;
}

// Everybody who waits for the model gets it, or learns why not. Wakes without the lock.
void ModelSet::hand_out(Lock& lock, int place, const Error* failure) {
  std::vector<std::shared_ptr<ModelWait>> told;
  Slot& slot = shared_->slots[static_cast<std::size_t>(place)];
  for (const auto& weak : std::exchange(slot.waits, {})) {
    auto wait = weak.lock();
    if (wait == nullptr) continue;
    {
      const std::scoped_lock own(wait->mutex_);
      if (failure != nullptr)
        wait->outcome_ = *failure;
      else
        wait->outcome_ = lease(place, true);
    }
    told.push_back(std::move(wait));
  }
  lock.unlock();
  for (const auto& wait : told) wait->wake_();
  told.clear();  // without the lock: the last pointer to a wait may be the last to a lease
  lock.lock();
}

}  // namespace espalier::server
