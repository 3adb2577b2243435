// adapter_set.h: the LoRA adapters of a server: what they are called, where they lie, which are in memory.
//
// An adapter belongs to one of the server's models and is read when a request first wants it with that model in memory.
// Its weights leave the memory when others need the room (the one that was used least lately, pinned ones never); it is
// read again when it is wanted again. Whoever was given an adapter keeps it until the last request ends, whatever becomes
// of its name meanwhile: so loading and unloading lose no request.
// Adapters may also lie in a folder (adapter_folder.h), which is looked at again when somebody asks, once a second at most:
// changed ones are read again, missing ones forgotten.
//
// Units: bytes, seconds. Threads: any. use() and load() may take as long as reading a file, look() and what looks as long as
// the folder's disk takes; nobody waits for them who does not need what they find.
// Fails: add(), load(): bad_request for a name that is there or none; remove(): not_found; use(), load(): what loading failed
// with, busy when adapters in use fill the memory that adapters may take.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/adapters/adapter_folder.h"
#include "server/models/model_set.h"

namespace espalier {
class LoraAdapter;
}

namespace espalier::server {

// How many adapters may be in memory, how large they may be, and where more may lie.
struct AdapterLimits {
  int most_loaded = 0;          // 0: as many as the memory holds
  int most_rank = 0;            // 0: any
  std::int64_t most_bytes = 0;  // 0: a quarter of the memory that is free when the first one is loaded
  std::string folder = {};      // empty: none is looked at
};

// An adapter to be served.
struct AdapterWish {
  std::string name, path;
  int place = 0;        // of its model in the set
  bool pinned = false;  // it does not leave the memory
};

// What an adapter looks like from outside.
struct AdapterEntry {
  std::string name, path;
  int place = 0;
  bool pinned = false, from_folder = false, loaded = false, in_use = false;
  std::int64_t bytes = 0;  // in memory
  int rank = 0;            // 0: it was not loaded yet
  std::uint64_t uses = 0;
};

// What happened to all of them.
struct AdapterCounts {
  std::uint64_t loads = 0, evictions = 0, failures = 0;
  std::int64_t bytes = 0;  // in memory
  int loaded = 0, known = 0;
};

// All adapters of a server.
class AdapterSet {
 public:
  using Clock = std::chrono::steady_clock;

  // aside: runs what takes long on another thread, false where it cannot; null: there is none.
  using Aside = std::function<bool(std::function<void()>)>;
  AdapterSet(AdapterLimits limits, const ModelSet& models, Aside aside = nullptr);
  ~AdapterSet();

  Result<> add(AdapterWish wish);
  // The same, read at once; one of that name gives way where `replaces`, and is there until then.
  Result<> load(AdapterWish wish, const ServedModel& model, bool replaces = false);
  Result<> remove(std::string_view name);

  // Looks at the folder, unless that was done within a second.
  void look();

  // By its name, by "model:name", or by either with ":latest"; none: no adapter is meant.
  struct Found {
    std::string name;
    int place;
  };
  std::optional<Found> find(std::string_view asked);  // as the folder is now: looks at it
  std::optional<Found> find_known(
      std::string_view asked);  // as it was when somebody looked; lets it be looked at aside
  // For requests to this model, which must be that of its place. Null: it must be read first.
  std::shared_ptr<const LoraAdapter> use_if_loaded(const std::string& name, const ServedModel& model);
  Result<std::shared_ptr<const LoraAdapter>> use(const std::string& name, const ServedModel& model);

  std::string name_of(std::string_view print) const;  // of one that was read; empty: none is known
  std::vector<AdapterEntry> list();  // as the folder was when somebody looked; lets it be looked at aside
  AdapterCounts counts() const;
  const std::string& folder() const { return limits_.folder; }
  // The real path of what a client names, which must lie below the folder. Fails: forbidden without a folder, not_found.
  Result<std::string> below_folder(const std::string& path) const;

 private:
  struct Slot;
  using SlotPtr = std::shared_ptr<Slot>;

  bool is_due() const;
  void look_aside();
  void look_now(std::unique_lock<std::mutex> looking);
  void take(const std::map<std::string, FolderAdapter>& there);  // under the lock
  void take_one(const FolderAdapter& found);
  std::optional<Found> known(std::string_view asked) const;
  int place_for(const std::string& base_model) const;
  Result<> check_new(const AdapterWish& wish, bool replaces) const;  // under the lock
  SlotPtr slot(std::string_view name) const;
  std::shared_ptr<const LoraAdapter> loaded(Slot& slot, const ServedModel& model) const;
  Result<> make_room(const Slot& for_slot);
  std::int64_t bytes_loaded() const;

  AdapterLimits limits_;
  const ModelSet& models_;
  mutable std::mutex mutex_;
  std::map<std::string, SlotPtr, std::less<>> slots_;
  std::map<std::string, std::string> hidden_;  // of the folder, unloaded by a client: by name, as they were then
  AdapterCounts counts_;

  Aside aside_;
  std::mutex looking_;  // taken before mutex_
  AdapterFolder folder_;
  std::atomic<Clock::duration::rep> looked_{0};  // when; 0: never
  std::atomic<bool> looks_aside_{false};
};

}  // namespace espalier::server
