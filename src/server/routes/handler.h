// handler.h: from a route's function to a handler of the HTTP server: body to JSON, errors to the dialect's shape.
//
// Large bodies are read one after another, so that short requests never wait behind them. A function that makes tokens
// and finds that its constraint takes long to compile is run again in the slow pool (constraint_fields.h), behind which
// no body waits; one with new pictures in the pool of pictures, once what it needs from other hosts is fetched
// (media/media_downloads.h).
// A route's function runs on the background pool, never on an io thread, with the parsed body; what it
// refuses is answered for it. Functions without a body and without work (health) run on the io thread and must be
// quick.
// The model is the one that the body's `model` names, else the query's (?model=NAME), else the default one; an adapter's
// name means the model that it is for. A call whose model is not in memory waits until it is, without a thread, and runs
// then; one whose adapters are not reads them in the slow pool.
// Threads: handlers are called on io threads. Fails: 400 for a body that is not a JSON object, 404 for a model that is
// not served, 415 for another content type on /v1, 503 when too many bodies wait or the model cannot be loaded.
#pragma once

#include <functional>

#include "base/json/json_fields.h"
#include "net/server/router.h"
#include "server/adapters/named_adapters.h"
#include "server/delivery/delivery.h"
#include "server/media/media_downloads.h"

namespace espalier::server {

// One call of a route's function: the request, its parsed body, and what the function may use.
struct Call {
  Service& service;
  const net::HttpRequest& http;
  std::shared_ptr<ServedModel> model;  // null where the route needs none
  Json body;                           // an object; null where the route looks at none
  bool may_be_slow = false;            // run again: work may take seconds
  std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now();  // with its whole body
  std::chrono::steady_clock::duration waited{0};                                     // in queues, since then

  // Work that would hold up others here: the route's function gives this Error back at once, which nobody is told, and
  // is called again in the slow pool. Requires: !may_be_slow.
  Error run_again_slowly() const {
    again_slowly = true;
    return {Error::Kind::busy, "this takes a while", {}, {}};
  }
  mutable bool again_slowly = false;  // run_again_slowly() was called

  // The same in the pool of pictures, where one that takes long holds up no other; once these files are there.
  Error run_again_for_pictures(std::vector<MediaAddress> files = {}) const {
    again_for_pictures = true;
    wanted = std::move(files);
    return {Error::Kind::busy, "this is made ready first", {}, {}};
  }
  mutable bool again_for_pictures = false;
  mutable std::vector<MediaAddress> wanted = {};  // of run_again_for_pictures()
  std::shared_ptr<FetchedMedia> fetched = {};     // null: none yet
  bool runs_again() const { return again_slowly || again_for_pictures; }
  std::function<bool()> unwanted = {};  // of may_be_slow: the client has left, or the server ends

  NamedAdapters adapters = {};  // those that the body names (adapters/named_adapters.h)
  // What the caller named in `model` is call.model or an adapter of it. Fails: ServedModel::check_name().
  Result<> check_model_name(std::string_view asked) const;
  // What answers call the model: the adapter, where `model` named one.
  const std::string& model_name() const;
};

// Who may use a session: the key that opened it, at the model whose tokens it keeps.
std::string session_owner(const Call& call);

// The answer of a route that makes no tokens.
using AnswerFunction = std::function<Result<net::HttpResponse>(Call&)>;
// The work of a route that does.
using GenerateFunction = std::function<Result<Generation>(Call&)>;
// The work of a route that answers by itself, later: it takes request and responder, or returns an Error first.
using ServeFunction = std::function<Result<>(Call&, net::HttpRequest&, net::Responder&)>;
// A route without a body that needs no model.
using TellFunction = std::function<Result<net::HttpResponse>(Service&, const net::HttpRequest&)>;
// A route without a body that needs the model.
using InfoFunction = std::function<Result<net::HttpResponse>(Service&, const ServedModel&, const net::HttpRequest&)>;

net::RequestHandler answering(Service& service, Dialect dialect, AnswerFunction function,
                              AdapterUse adapters = AdapterUse::named);
net::RequestHandler generating(Service& service, Dialect dialect, GenerateFunction function,
                               AdapterUse adapters = AdapterUse::one);
net::RequestHandler serving(Service& service, Dialect dialect, ServeFunction function,
                            AdapterUse adapters = AdapterUse::one);
// The same where the call uses no model: call.model is null.
net::RequestHandler serving_without_model(Service& service, Dialect dialect, ServeFunction function);
// The same for routes whose body, if any, is not looked at (call.body is null).
net::RequestHandler answering_any(Service& service, Dialect dialect, AnswerFunction function);
net::RequestHandler serving_any(Service& service, Dialect dialect, ServeFunction function);
net::RequestHandler generating_any(Service& service, Dialect dialect, GenerateFunction function);
// Of what is kept for clients, which needs no model in memory: call.model is null. The last one's body may be anything:
// call.http.body has it.
net::RequestHandler keeping(Service& service, Dialect dialect, AnswerFunction function);
net::RequestHandler keeping_any(Service& service, Dialect dialect, AnswerFunction function);
net::RequestHandler keeping_raw(Service& service, Dialect dialect, AnswerFunction function);
// Run on the io thread, `informing` once the model is there.
net::RequestHandler informing(Service& service, Dialect dialect, InfoFunction function);
net::RequestHandler telling(Service& service, Dialect dialect, TellFunction function);

// 200 with a document.
net::HttpResponse json_answer(const Json& value);
// Answers and counts; what is refused is also logged.
void respond(Service& service, const net::HttpRequest& request, net::Responder& responder, net::HttpResponse response);
void respond(Service& service, const net::HttpRequest& request, net::Responder& responder, Dialect dialect,
             const Error& error);
void respond(Service& service, const net::HttpRequest& request, net::Responder& responder, Dialect dialect,
             const net::HttpError& error);

}  // namespace espalier::server
