#include "server/adapters/adapter_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/json/json.h"  // in_quotes
#include "base/log.h"
#include "base/system/memory_room.h"
#include "base/system/path_below.h"

namespace espalier::server {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostName = 256;
constexpr std::size_t kMostAdapters = 100'000;
constexpr auto kLookEvery = std::chrono::seconds(1);

Result<> check_name(const std::string& name) {
  if (name.empty() || name.size() > kMostName || names_no_model(name))
    return bad_request(
        fmt::format("an adapter's name must have 1 to {} bytes and must not be default or unknown", kMostName),
        "lora_name");
  return success();
}

}  // namespace

// One adapter; its weights are there while `adapter` is.
struct AdapterSet::Slot {
  AdapterWish wish;
  std::string stamp;  // of one in the folder
  bool from_folder = false;
  std::shared_ptr<const LoraAdapter> adapter;
  std::weak_ptr<Engine> engine;  // that it is bound to
  std::int64_t bytes = 0;        // of it
  std::string print;             // of the one that was read last
  int rank = 0;
  std::uint64_t uses = 0;
  Clock::time_point used{};
  std::mutex loading;  // one reads it, others wait

  void take(std::shared_ptr<const LoraAdapter> loaded, const ServedModel& model) {
    const AdapterInfo about = describe(*loaded);
    adapter = std::move(loaded);
    engine = model.engine;
    rank = about.rank;
    bytes = about.bytes;
    print = about.print;
    used = Clock::now();
  }
  // Someone beside the set has it.
  bool in_use() const { return adapter.use_count() > 1; }
};

AdapterSet::AdapterSet(AdapterLimits limits, const ModelSet& models, Aside aside)
    : limits_(std::move(limits)), models_(models), aside_(std::move(aside)), folder_(limits_.folder) {}
AdapterSet::~AdapterSet() = default;

Result<> AdapterSet::check_new(const AdapterWish& wish, bool replaces) const {
  ESP_CHECK(check_name(wish.name));
  if (models_.place_of(wish.name).ok())
    return bad_request(fmt::format("{} is the name of a model that is served here", in_quotes(wish.name)), "lora_name");
  if (!replaces && slots_.contains(wish.name))
    return bad_request(fmt::format("the adapter {} is loaded already; unload it first", in_quotes(wish.name)),
                       "lora_name");
  if (slots_.size() >= kMostAdapters)
    return bad_request(fmt::format("{} adapters are served, which is the most", kMostAdapters), "lora_name");
  return success();
}

Result<> AdapterSet::add(AdapterWish wish) {
  const std::scoped_lock lock(mutex_);
  ESP_CHECK(check_new(wish, false));
  auto slot = std::make_shared<Slot>();
  const std::string name = wish.name;
  slot->wish = std::move(wish);
  hidden_.erase(name);
  slots_.emplace(name, std::move(slot));
  return success();
}

Result<> AdapterSet::load(AdapterWish wish, const ServedModel& model, bool replaces) {
  {
    const std::scoped_lock lock(mutex_);
    ESP_CHECK(check_new(wish, replaces));
  }
  auto adapter = model.engine->load_adapter(wish.path, limits_.most_rank);
  const std::scoped_lock lock(mutex_);
  if (!adapter.ok()) ++counts_.failures;
  ESP_TRY(auto loaded, std::move(adapter));
  ESP_CHECK(check_new(wish, replaces));
  auto slot = std::make_shared<Slot>();
  slot->wish = std::move(wish);
  slot->take(std::move(loaded), model);
  ++counts_.loads;
  hidden_.erase(slot->wish.name);
  const SlotPtr before = std::exchange(slots_[slot->wish.name], slot);
  if (auto room = make_room(*slot); !room.ok()) {
    if (before != nullptr)
      slots_[slot->wish.name] = before;
    else
      slots_.erase(slot->wish.name);
    return room.error();
  }
  return success();
}

Result<> AdapterSet::remove(std::string_view name) {
  look();
  const std::scoped_lock lock(mutex_);
  const auto found = slots_.find(name);
  if (found == slots_.end())
    return Error{Error::Kind::not_found, fmt::format("there is no adapter {}", in_quotes(name)), "lora_name",
                 "model_not_found"};
  if (found->second->from_folder) hidden_[found->first] = found->second->stamp;
  slots_.erase(found);
  return success();
}

AdapterSet::SlotPtr AdapterSet::slot(std::string_view name) const {
  const auto found = slots_.find(name);
  return found == slots_.end() ? nullptr : found->second;
}

std::optional<AdapterSet::Found> AdapterSet::known(std::string_view asked) const {
  for (const std::string_view name : {asked, without_latest(asked)}) {
    if (const SlotPtr known = slot(name)) return Found{std::string(name), known->wish.place};
    for (auto colon = name.find(':'); colon != std::string_view::npos; colon = name.find(':', colon + 1)) {
      const auto place = models_.place_of(name.substr(0, colon));
      const SlotPtr known = slot(name.substr(colon + 1));
      if (place.ok() && known != nullptr && known->wish.place == *place)
        return Found{std::string(name.substr(colon + 1)), *place};
    }
  }
  return std::nullopt;
}

std::optional<AdapterSet::Found> AdapterSet::find_known(std::string_view asked) {
  look_aside();
  const std::scoped_lock lock(mutex_);
  return known(asked);
}

// One that is known is not waited for while another thread looks.
std::optional<AdapterSet::Found> AdapterSet::find(std::string_view asked) {
  std::optional<Found> found;
  {
    const std::scoped_lock lock(mutex_);
    found = known(asked);
    if (found && !slot(found->name)->from_folder) return found;
  }
  if (!is_due()) return found;
  look_now(found ? std::unique_lock(looking_, std::try_to_lock) : std::unique_lock(looking_));
  const std::scoped_lock lock(mutex_);
  return known(asked);
}

// --- what is in memory ---

std::shared_ptr<const LoraAdapter> AdapterSet::loaded(Slot& slot, const ServedModel& model) const {
  if (slot.adapter == nullptr || slot.engine.lock() != model.engine) return nullptr;
  ++slot.uses;
  slot.used = Clock::now();
  return slot.adapter;
}

std::shared_ptr<const LoraAdapter> AdapterSet::use_if_loaded(const std::string& name, const ServedModel& model) {
  const std::scoped_lock lock(mutex_);
  const SlotPtr known = slot(name);
  return known == nullptr ? nullptr : loaded(*known, model);
}

Result<std::shared_ptr<const LoraAdapter>> AdapterSet::use(const std::string& name, const ServedModel& model) {
  SlotPtr known;
  {
    const std::scoped_lock lock(mutex_);
    known = slot(name);
  }
  if (known == nullptr)
    return Error{Error::Kind::not_found, fmt::format("there is no adapter {}", in_quotes(name)), "lora_path",
                 "model_not_found"};
  const std::scoped_lock one_reader(known->loading);
  {
    const std::scoped_lock lock(mutex_);
    if (auto there = loaded(*known, model)) return there;
  }
  auto adapter = model.engine->load_adapter(known->wish.path, limits_.most_rank);
  const std::scoped_lock lock(mutex_);
  if (!adapter.ok()) {
    ++counts_.failures;
    Error error = adapter.error();
    error.message = fmt::format("the adapter {} cannot be loaded: {}", in_quotes(name), error.message);
    return error;
  }
  known->take(std::move(adapter).value(), model);
  ++counts_.loads;
  if (auto room = make_room(*known); !room.ok()) {
    known->adapter = nullptr;
    return room.error();
  }
  return loaded(*known, model);
}

std::int64_t AdapterSet::bytes_loaded() const {
  std::int64_t sum = 0;
  for (const auto& [name, slot] : slots_)
    if (slot->adapter) sum += slot->bytes;
  return sum;
}

// Others leave until all fits. Those in use stay, also where they are more than may be in memory.
Result<> AdapterSet::make_room(const Slot& for_slot) {
  if (limits_.most_bytes == 0) limits_.most_bytes = std::max<std::int64_t>(1, memory_room().least() / 4);
  for (;;) {
    int count = 0;
    Slot* victim = nullptr;
    for (const auto& [name, slot] : slots_) {
      if (slot->adapter == nullptr) continue;
      ++count;
      if (slot.get() == &for_slot || slot->wish.pinned || slot->in_use()) continue;
      if (victim == nullptr || slot->used < victim->used) victim = slot.get();
    }
    const bool too_many = limits_.most_loaded > 0 && count > limits_.most_loaded;
    const bool too_large = bytes_loaded() > limits_.most_bytes;
    if (!too_many && !too_large) return success();
    if (victim == nullptr) {
      if (!too_large) return success();
      return Error{Error::Kind::busy,
                   fmt::format("adapters in use take all of the {} MiB that adapters may have (--max-lora-memory); try "
                               "again later",
                               limits_.most_bytes >> 20),
                   "lora_path",
                   {}};
    }
    victim->adapter = nullptr;
    ++counts_.evictions;
  }
}

// --- the folder ---

// A model whose name, or the end of whose path, is that of the file; else the default one.
int AdapterSet::place_for(const std::string& base_model) const {
  if (base_model.empty()) return 0;
  const std::string last = fs::path(base_model).filename().string();
  for (const std::string& name : {base_model, last})
    if (const auto place = names_no_model(name) ? Result<int>(0) : models_.place_of(name); place.ok()) return *place;
  return 0;
}

void AdapterSet::take_one(const FolderAdapter& found) {
  if (!check_name(found.name).ok() || models_.place_of(found.name).ok()) return;
  const auto hidden = hidden_.find(found.name);
  if (hidden != hidden_.end() && hidden->second == found.stamp) return;
  const SlotPtr before = slot(found.name);
  if (before != nullptr && (!before->from_folder || (before->stamp == found.stamp && before->wish.path == found.path)))
    return;
  if (before == nullptr && slots_.size() >= kMostAdapters) return;
  auto fresh = std::make_shared<Slot>();
  fresh->wish = {found.name, found.path, place_for(found.base_model), false};
  fresh->stamp = found.stamp;
  fresh->from_folder = true;
  slots_.insert_or_assign(found.name, std::move(fresh));
  log::info("adapter {} {} in {}", found.name, before ? "has changed" : "found", limits_.folder);
}

void AdapterSet::take(const std::map<std::string, FolderAdapter>& there) {
  for (const auto& [name, found] : there) take_one(found);
  std::erase_if(slots_, [&](const auto& known) { return known.second->from_folder && !there.contains(known.first); });
}

bool AdapterSet::is_due() const {
  if (limits_.folder.empty()) return false;
  const auto looked = looked_.load(std::memory_order_acquire);
  return looked == 0 || Clock::now().time_since_epoch() - Clock::duration(looked) >= kLookEvery;
}

void AdapterSet::look_now(std::unique_lock<std::mutex> looking) {
  if (!looking.owns_lock() || !is_due()) return;
  const auto& there = folder_.look();
  const std::scoped_lock lock(mutex_);
  take(there);
  looked_.store(Clock::now().time_since_epoch().count(), std::memory_order_release);
}

void AdapterSet::look() {
  if (is_due()) look_now(std::unique_lock(looking_));
}

void AdapterSet::look_aside() {
  if (!aside_ || !is_due() || looks_aside_.exchange(true)) return;
  const bool taken = aside_([this] {
    look();
    looks_aside_ = false;
  });
  if (!taken) looks_aside_ = false;
}

Result<std::string> AdapterSet::below_folder(const std::string& path) const {
  if (limits_.folder.empty())
    return Error{
        Error::Kind::forbidden,
        "clients may load adapters only from the folder that --lora-dir names, and the server was started without",
        "lora_path",
        {}};
  if (const auto found = path_below(limits_.folder, path)) return found->string();
  return Error{Error::Kind::not_found,
               fmt::format("there is no adapter {} below --lora-dir", in_quotes(path, 200)),
               "lora_path",
               {}};
}

// --- what is told ---

std::string AdapterSet::name_of(std::string_view print) const {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(slots_, [&](const auto& known) { return known.second->print == print; });
  return found == slots_.end() ? std::string() : found->first;
}

std::vector<AdapterEntry> AdapterSet::list() {
  look_aside();
  const std::scoped_lock lock(mutex_);
  std::vector<AdapterEntry> all;
  for (const auto& [name, slot] : slots_) {
    AdapterEntry& entry = all.emplace_back();
    entry.name = name;
    entry.path = slot->wish.path;
    entry.place = slot->wish.place;
    entry.pinned = slot->wish.pinned;
    entry.from_folder = slot->from_folder;
    entry.loaded = slot->adapter != nullptr;
    entry.in_use = entry.loaded && slot->in_use();
    entry.bytes = entry.loaded ? slot->bytes : 0;
    entry.rank = slot->rank;
    entry.uses = slot->uses;
  }
  return all;
}

AdapterCounts AdapterSet::counts() const {
  const std::scoped_lock lock(mutex_);
  AdapterCounts counts = counts_;
  counts.bytes = bytes_loaded();
  counts.known = static_cast<int>(slots_.size());
  counts.loaded = static_cast<int>(
      std::ranges::count_if(slots_, [](const auto& known) { return known.second->adapter != nullptr; }));
  return counts;
}

}  // namespace espalier::server
