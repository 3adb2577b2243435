// server.h: the HTTP face of an engine or several, from the open socket to the last drained stream.
//
// Order:   start, progress*, attach_engine, begin_drain, cut, stop. The socket opens in start(): until attach_engine()
//          has made its warm-up token, /livez answers 200, /health 503 with the progress, and inference 503 "loading".
// Threads: all calls from any thread but the server's own; start/attach/stop from one.
// Fails:   start: cannot_bind, bad_request for an option; attach_engine: the warm-up's error.
// Source:  docs/http.md says what is answered; the probes are Kubernetes' (livez, readyz), headers and errors OpenAI's.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "espalier/engine.h"
#include "server/attach_model.h"
#include "server/models/model_fetches.h"
#include "server/server_options.h"

namespace espalier::server {

class Service;

// A running HTTP server, with or without its model.
class Server {
 public:
  // `models`: all that it may load, the default one first, which the caller loads and attaches; none: only what is
  // attached.
  // `fetch`: how models are fetched that clients ask for; null: none are.
  static Result<std::unique_ptr<Server>> start(ServerOptions options, std::vector<ModelToServe> models = {},
                                               ModelFetch fetch = {});
  ~Server();  // stops at once

  std::string url() const;  // "http://127.0.0.1:30000"
  std::uint16_t port() const;

  void progress(std::string_view stage, double share);  // of loading, 0..1
  // `name`: what the model is called when options name nothing.
  Result<> attach_engine(std::unique_ptr<Engine> engine, const std::string& name);

  void load_all();             // every model that is not in memory, one after the other, in the background
  bool loads_a_model() const;  // in the background
  // Prefixes in memory go to the cache folder; tokens that were written, of all models.
  std::int64_t save_caches(std::chrono::milliseconds limit);

  void begin_drain();          // not ready, no new work; running requests go on
  std::size_t active() const;  // requests not fully answered: being read, run, or taken up by a slow client
  void cut();                  // running requests end with an error event
  void stop(std::chrono::milliseconds limit);

  Result<> reload_keys();
  Result<> reload_certificate();
  bool stalled() const;          // work waits, and an engine made no step for --watchdog-timeout
  std::string describe() const;  // what SIGUSR1 prints: phase, requests, pool

  Service& service() { return *service_; }

 private:
  struct Http;
  Server(std::unique_ptr<Http> http, std::unique_ptr<Service> service);
  void go_on_with_stored_work();

  std::unique_ptr<Http> http_;  // the router must outlive the service's threads
  std::unique_ptr<Service> service_;
};

}  // namespace espalier::server
