#include "server/models/model_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/json/json.h"  // in_quotes
#include "base/log.h"
#include "base/threads/start_thread.h"
#include "base/threads/thread_name.h"
#include "server/models/model_slots.h"

namespace espalier::server {
namespace {

constexpr std::chrono::seconds kFailureStands{5};

Error shutting_down() {
  return {Error::Kind::unavailable, "the server is shutting down and takes no new work", {}, "draining"};
}

}  // namespace

std::string_view to_string(ModelState state) {
  constexpr std::string_view kNames[] = {"unloaded", "loading", "loaded", "unloading"};
  return kNames[static_cast<int>(state)];
}

std::optional<ModelWait::Outcome> ModelWait::take() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(outcome_, std::nullopt);
}

ModelSet::ModelSet(ModelSetLimits limits) : limits_(std::move(limits)), shared_(std::make_shared<Shared>()) {}
ModelSet::~ModelSet() {
  stop();
}

Result<> ModelSet::add(std::vector<ModelSource> sources) {
  std::set<std::string> names;
  for (const ModelSource& source : sources)
    for (const std::string& name : source.names)
      if (!names.insert(name).second)
        return bad_request(fmt::format("two models are called {}; NAME=PATH gives one another name", name), "model");
  const std::scoped_lock lock(shared_->mutex);
  shared_->slots.resize(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) shared_->slots[i].source = std::move(sources[i]);
  return success();
}

Result<int> ModelSet::add_one(ModelSource source) {
  const std::scoped_lock lock(shared_->mutex);
  for (const std::string& name : source.names)
    for (const Slot& slot : shared_->slots)
      if (std::ranges::find(slot.source.names, name) != slot.source.names.end())
        return bad_request(fmt::format("a model is called {} already", name), "model");
  shared_->slots.emplace_back().source = std::move(source);
  return static_cast<int>(shared_->slots.size()) - 1;
}

void ModelSet::put(std::shared_ptr<ServedModel> model) {
  {
    const std::scoped_lock lock(shared_->mutex);
    if (shared_->slots.empty()) shared_->slots.emplace_back();
    Slot& slot = shared_->slots.front();
    if (slot.source.names.empty()) slot.source.names = model->names;
    slot.model = std::move(model);
    slot.state = ModelState::loaded;
    slot.used = Clock::now();
    ++slot.loads;
    if (limits_.idle_seconds <= 0 || !slot.source.load) return;
  }
  if (auto started = need_thread(); !started.ok()) log::warning("{}", started.error().message);
}

Result<int> ModelSet::place_of(std::string_view name) const {
  const std::scoped_lock lock(shared_->mutex);
  const auto find = [&](std::string_view asked) {
    for (std::size_t i = 0; i < shared_->slots.size(); ++i)
      for (const std::string& known : shared_->slots[i].source.names)
        if (known == asked) return static_cast<int>(i);
    return -1;
  };
  if (const int exact = find(name); exact >= 0) return exact;
  if (names_no_model(name)) return 0;
  if (const int bare = find(without_latest(name)); bare >= 0) return bare;
  std::vector<std::string> served;
  for (const Slot& slot : shared_->slots)
    served.insert(served.end(), slot.source.names.begin(), slot.source.names.end());
  return no_such_model(name, served);
}

int ModelSet::count() const {
  const std::scoped_lock lock(shared_->mutex);
  return static_cast<int>(shared_->slots.size());
}

std::vector<std::string> ModelSet::names(int place) const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->slots[static_cast<std::size_t>(place)].source.names;
}

std::shared_ptr<ServedModel> ModelSet::lease(int place, bool counts) const {
  Slot& slot = shared_->slots[static_cast<std::size_t>(place)];
  auto lease = std::make_shared<Lease>(shared_, static_cast<std::size_t>(place), counts, slot.model);
  ++slot.in_use;
  if (counts) slot.used = Clock::now();
  ServedModel* model = lease->model.get();
  return {std::move(lease), model};
}

std::shared_ptr<ServedModel> ModelSet::use(int place) {
  const std::scoped_lock lock(shared_->mutex);
  const auto at = static_cast<std::size_t>(place);
  if (at >= shared_->slots.size() || shared_->slots[at].state != ModelState::loaded) return nullptr;
  return lease(place, true);
}

std::shared_ptr<ServedModel> ModelSet::look(int place) const {
  const std::scoped_lock lock(shared_->mutex);
  const auto at = static_cast<std::size_t>(place);
  if (at >= shared_->slots.size() || shared_->slots[at].model == nullptr) return nullptr;
  return lease(place, false);
}

std::vector<std::shared_ptr<ServedModel>> ModelSet::look_at_all() const {
  const std::scoped_lock lock(shared_->mutex);
  std::vector<std::shared_ptr<ServedModel>> models;
  for (std::size_t i = 0; i < shared_->slots.size(); ++i)
    if (shared_->slots[i].model != nullptr) models.push_back(lease(static_cast<int>(i), false));
  return models;
}

Result<std::shared_ptr<ModelWait>> ModelSet::wait_for(int place, std::function<void()> wake) {
  ESP_CHECK(need_thread());
  auto wait = std::make_shared<ModelWait>(std::move(wake));
  const std::scoped_lock lock(shared_->mutex);
  if (shared_->stopping) return shutting_down();
  std::size_t waiting = 0;
  for (Slot& slot : shared_->slots) {
    slot.forget_dropped_waits();
    waiting += slot.waits.size();
  }
  if (waiting >= limits_.waits)
    return Error{Error::Kind::busy, "too many requests wait for a model to be loaded; try again", {}, "unavailable"};
  Slot& slot = shared_->slots[static_cast<std::size_t>(place)];
  if (slot.state == ModelState::loaded) {
    wait->outcome_ = lease(place, true);
    return wait;
  }
  if (slot.failure && Clock::now() - slot.failed_at < kFailureStands)
    return load_failed(slot.source.names.front(), *slot.failure);
  if (slot.waits.empty() && !slot.wanted) slot.first_wait = Clock::now();
  slot.waits.push_back(wait);
  shared_->changed.notify_all();
  return wait;
}

Result<> ModelSet::load(int place) {
  ESP_CHECK(need_thread());
  const std::scoped_lock lock(shared_->mutex);
  Slot& slot = shared_->slots[static_cast<std::size_t>(place)];
  slot.unwanted = false;
  if (slot.state == ModelState::loaded || slot.state == ModelState::loading) return success();
  if (slot.waits.empty()) slot.first_wait = Clock::now();
  slot.wanted = true;
  shared_->changed.notify_all();
  return success();
}

Result<> ModelSet::unload(int place) {
  ESP_CHECK(need_thread());
  const std::scoped_lock lock(shared_->mutex);
  Slot& slot = shared_->slots[static_cast<std::size_t>(place)];
  if (!slot.source.load) return bad_request("this model cannot be loaded again, so it stays", "model");
  slot.wanted = false;
  slot.unwanted = slot.state == ModelState::loading;
  leave(place);
  shared_->changed.notify_all();
  return success();
}

Result<> ModelSet::keep(int place, double idle_seconds) {
  ESP_CHECK(need_thread());
  const std::scoped_lock lock(shared_->mutex);
  Slot& slot = shared_->slots[static_cast<std::size_t>(place)];
  slot.idle = idle_seconds;
  slot.used = Clock::now();
  shared_->changed.notify_all();
  return success();
}

std::vector<ModelEntry> ModelSet::list() const {
  const std::scoped_lock lock(shared_->mutex);
  const auto now = Clock::now();
  std::vector<ModelEntry> entries;
  for (Slot& slot : shared_->slots) {
    slot.forget_dropped_waits();
    ModelEntry entry{slot.source.names, slot.source.path,
                     slot.state,        slot.may_leave(),
                     slot.source.bytes, slot.in_use,
                     slot.waits.size(), slot.progress,
                     std::nullopt,      slot.loads,
                     slot.unloads,      slot.failures,
                     slot.load_seconds, slot.failure ? slot.failure->message : ""};
    if (slot.model != nullptr && slot.model->engine != nullptr) entry.bytes = slot.model->info().weight_bytes;
    const auto idle = idle_time(slot.idle, limits_.idle_seconds);
    if (slot.may_leave() && idle)
      entry.expires_in = std::max(0.0, *idle - (slot.in_use > 0 ? 0 : seconds_in(now - slot.used)));
    entries.push_back(std::move(entry));
  }
  return entries;
}

bool ModelSet::loading() const {
  const std::scoped_lock lock(shared_->mutex);
  return std::ranges::any_of(shared_->slots, [](const Slot& slot) { return slot.state == ModelState::loading; });
}

Result<> ModelSet::need_thread() {
  const std::scoped_lock lock(shared_->mutex);
  if (shared_->thread_runs || shared_->stopping) return success();
  ESP_TRY(thread_, start_thread("models'", [this] {
            name_this_thread("esp-models");
            work();
          }));
  shared_->thread_runs = true;
  return success();
}

void ModelSet::stop() {
  {
    Lock lock(shared_->mutex);
    shared_->stopping = true;
    shared_->changed.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  const Error why = shutting_down();
  Lock lock(shared_->mutex);
  for (std::size_t i = 0; i < shared_->slots.size(); ++i) hand_out(lock, static_cast<int>(i), &why);
}

}  // namespace espalier::server
