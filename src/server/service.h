// service.h: what the routes share: options, keys, the models, threads, counters.
//
// Threads: every member is safe from any thread; options and keys are constant (keys reload inside).
// Fails:   see the members. Order: destroyed only after the HTTP server has stopped.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>

#include "base/steady_seconds.h"
#include "base/threads/background_pool.h"
#include "engine/stream/completion_notifier.h"
#include "lang/batch/text_budget.h"
#include "net/server/http_server.h"
#include "net/server/router.h"
#include "server/adapters/adapter_set.h"
#include "server/admission/active_ids.h"
#include "server/admission/budget.h"
#include "server/admission/drain_rate.h"
#include "server/admission/keys.h"
#include "server/batches/batch_runner.h"
#include "server/cache_events/cache_event_publisher.h"
#include "server/fields/unknown_fields.h"
#include "server/media/media_downloads.h"
#include "server/media/media_fetch.h"
#include "server/metrics/server_metrics.h"
#include "server/models/model_fetches.h"
#include "server/models/model_set.h"
#include "server/programs/program_host.h"
#include "server/readiness.h"
#include "server/responses/running_responses.h"
#include "server/server_options.h"
#include "server/sessions/sessions.h"
#include "server/store/data_store.h"
#include "server/tracing/tracer.h"
#include "server/watchdog/step_watchdog.h"

namespace espalier::server {

bool is_loopback(std::string_view host);  // whether only this machine can reach a server bound to it

// Owns what all routes use, from options and keys to pools of threads and counters.
class Service {
 public:
  Service(ServerOptions service_options, std::unique_ptr<KeyRing> key_ring);
  ~Service();
  static Result<std::unique_ptr<Service>> make(ServerOptions options, std::unique_ptr<KeyRing> keys);  // no_thread()

  // The default model, to be looked at; null while it is not loaded.
  std::shared_ptr<ServedModel> model() const { return models.look(0); }
  bool has_model() const { return attached; }  // the default model was there once, perhaps still warming up
  // Whether work can be taken now: unavailable with code "loading" (the default model, at the start) or "draining".
  Result<> need_ready() const;

  int retry_after() const;  // seconds
  // How long ago the last step of an engine was that stands still although work waits; none: no engine does.
  std::optional<double> stalled_for();
  bool loopback() const { return is_loopback(options.host); }
  std::size_t active() const { return light.count() + heavy.count() + storing.count(); }

  const ServerOptions options;
  const std::unique_ptr<KeyRing> keys;
  const double started_at;  // seconds since 1970
  Readiness readiness;
  StallWatches stall_watches;
  ServerMetrics metrics;
  DrainRate drain_rate;
  UnknownFields unknown_fields;
  ActiveIds active_ids;
  std::shared_ptr<CacheEventPublisher> cache_events;  // null: nobody is told
  std::unique_ptr<Tracer> tracer;                     // null: nothing is traced
  Sessions sessions;
  Budget logprob_budget;  // entries that large requests may hold together: twice what one may ask for
  const std::shared_ptr<lang::SharedTextBudget> program_texts;  // what programs under way may hold together
  Budget views{4};                             // looks at the cache and drawings of constraints that are made at once
  Budget body_budget;                          // bytes of large bodies that wait to be read: four of the largest
  const std::shared_ptr<Budget> media_memory;  // bytes of pictures made ready, of requests and of caches
  MediaFetcher media;
  DataStore data;            // what is kept for clients
  RunningResponses running;  // without clients that wait
  // Set before the server runs.
  const net::Router* router = nullptr;  // what requests of our own go through
  std::function<net::ServerStats()> net_stats;
  std::uint16_t port = 0;               // the one that was bound
  bool in_process = false;              // there are no sockets: all calls are the operator's (in_process.h)
  std::atomic<bool> told_tools{false};  // that the template leaves tools out: said once
  std::atomic<bool> attached{false};    // has_model()

  ProgramHost programs{media_memory};
  AdapterSet adapters;  // told to those who follow the cache, as long as there are models
  ModelSet models;
  ModelFetches fetches;
  BatchRunner batches{*this};
  std::unique_ptr<StepWatchdog> step_watchdog;  // null: --watchdog-timeout 0
  // Streams go through `light`, stored answers, whose end waits for the disk, through `storing`; whole replies and large
  // lists of log-probabilities through `heavy`, so that formatting and compressing them holds up nobody's tokens. The pools are last: their tasks use all of the above. `bulk` reads
  // one large body after another, `slow` does what may take seconds, and `pictures` makes pictures and films ready, so that
  // short requests never wait behind any of them.
  CompletionNotifier light{"light"}, heavy{"heavy"}, storing{"storing"};
  BackgroundPool pool, bulk, slow, pictures;
  MediaDownloads downloads;
};

}  // namespace espalier::server
