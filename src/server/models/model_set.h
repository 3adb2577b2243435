// model_set.h: the models of a server: which are in memory, who uses them, who waits for one, which one has to leave.
//
// A model is loaded when somebody waits for it and leaves when nobody has used it for the idle time, when another one
// needs its place (the one that was used least lately, idle ones first), or when it is told to. It never leaves while it
// is used: it is `unloading` until its last request has ended, and whoever asks for it meanwhile waits until it is back.
// Whoever waits when a model is loaded has it before it can leave again. So no request fails because a model leaves.
//
// Order:   add() once, before anything else but put(); stop() before what the sources refer to goes.
// Units:   seconds, bytes. A place is a model's index in the order of add(); place 0 is the default model.
// Threads: any; one thread of its own loads and unloads, one model at a time. It is started when it is first needed.
// Fails:   place_of(): not_found, listing the names. wait_for(): busy when too many wait, no_thread(); and what loading
//          failed with, once it has, for some seconds: a broken model must not be read again for every request.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/served_model.h"

namespace espalier::server {

// Where a model stands; `unloading` ones are still used.
enum class ModelState { unloaded, loading, loaded, unloading };
std::string_view to_string(ModelState state);

// A model that can be had: what it is called and how it is loaded.
struct ModelSource {
  using Load = std::function<Result<std::shared_ptr<ServedModel>>(const Engine::Progress&)>;  // on the set's thread

  std::vector<std::string> names;  // at least one; the first is its id
  std::string path;                // as the operator gave it
  std::int64_t bytes = 0;          // of its files; 0: not known
  Load load;                       // null: it was put() and stays
};

// How many models may be in memory, and for how long.
struct ModelSetLimits {
  int most_loaded = 0;                       // 0: as many as memory holds
  double idle_seconds = 0;                   // 0: a model that nobody uses stays
  std::size_t waits = 1024;                  // that wait for a model at once
  std::function<std::int64_t()> free_bytes;  // memory that models may still take; null: what the system says
};

// What a model of the set looks like from outside.
struct ModelEntry {
  std::vector<std::string> names;
  std::string path;
  ModelState state = ModelState::unloaded;
  bool may_leave = false;
  std::int64_t bytes = 0;  // of its weights in memory, else of its files
  int in_use = 0;
  std::size_t waiting = 0;
  double progress = 0;               // of loading
  std::optional<double> expires_in;  // seconds, when nobody uses it until then; none: it stays
  std::uint64_t loads = 0, unloads = 0, failures = 0;
  double load_seconds = 0;  // the last load
  std::string failure;      // of the last load; empty when it went well
};

class ModelSet;

// One caller's wait for a model. Dropped: the caller waits no more.
class ModelWait {
 public:
  using Outcome = Result<std::shared_ptr<ServedModel>>;
  explicit ModelWait(std::function<void()> wake) : wake_(std::move(wake)) {}
  std::optional<Outcome> take();  // any thread; nothing yet, or no more

 private:
  friend class ModelSet;
  std::mutex mutex_;
  std::optional<Outcome> outcome_;
  const std::function<void()> wake_;  // called when there is an outcome, on the set's thread
};

// All models of a server. A model that is handed out is in use for as long as the pointer lives.
class ModelSet {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ModelSet(ModelSetLimits limits);
  ~ModelSet();

  Result<> add(std::vector<ModelSource> sources);  // bad_request: a name given twice
  // One more, while the set is in use: its place. A name that there is already: bad_request.
  Result<int> add_one(ModelSource source);
  // The model of place 0, which the caller loaded; the place is made where add() was not called.
  void put(std::shared_ptr<ServedModel> model);

  // "", "default" and "unknown" (what routers send where their client named none) are place 0; NAME:latest is NAME.
  Result<int> place_of(std::string_view name) const;
  int count() const;
  std::vector<std::string> names(int place) const;

  std::shared_ptr<ServedModel> use(int place);         // null: it is not loaded, or leaving
  std::shared_ptr<ServedModel> look(int place) const;  // the same, but does not count as a use; leaving ones too
  std::vector<std::shared_ptr<ServedModel>> look_at_all() const;  // the loaded ones
  Result<std::shared_ptr<ModelWait>> wait_for(int place, std::function<void()> wake);

  Result<> load(int place);  // now, whether somebody waits or not
  // Once its requests have ended, those too that wait while it is loaded; bad_request for one that stays.
  Result<> unload(int place);
  // Instead of the idle time of all: from now on, until it is unloaded. 0: as soon as nobody uses it; negative: it stays.
  Result<> keep(int place, double idle_seconds);

  std::vector<ModelEntry> list() const;
  bool loading() const;  // some model is being loaded by the set's thread
  void stop();           // waits for a load to end; those who wait are told that the server ends

 private:
  struct Slot;
  struct Shared;
  struct Lease;
  using Lock = std::unique_lock<std::mutex>;

  std::shared_ptr<ServedModel> lease(int place, bool counts) const;  // under the lock
  Result<> need_thread();
  void work();
  bool act(Lock& lock);  // false: there is nothing to do now
  std::optional<Clock::time_point> next_expiry() const;
  int to_close() const;
  int to_load() const;
  int victim(int besides, bool idle_only) const;
  bool make_room(Slot& wanted, int place);
  void leave(int place);
  void close(Lock& lock, int place);
  void open(Lock& lock, int place);
  bool retry_with_more_room(int place, const Error& error);
  void hand_out(Lock& lock, int place, const Error* failure);

  const ModelSetLimits limits_;
  const std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace espalier::server
