// POST /api/pull: a client wants a model to be here. One that is served is; others are fetched where --allow-pull says so.
#include <fmt/format.h>

#include "net/http/sse.h"
#include "server/attach_model.h"
#include "server/delivery/json_writer.h"
#include "server/ollama/ollama_body.h"
#include "server/ollama/ollama_reply.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

std::string progress_line(const FetchProgress& progress, const std::string& digest) {
  std::string out;
  JsonWriter json(out);
  json.open('{').field("status", progress.status);
  if (progress.total > 0)
    json.field("digest", digest).field("total", progress.total).field("completed", progress.completed);
  json.close('}');
  return out + '\n';
}

// Its client gets lines as they come, or one answer at the end.
class Pull {
 public:
  Pull(Service& service, std::string name, bool streams, net::HttpRequest http, net::Responder responder)
      : service_(service),
        name_(std::move(name)),
        digest_("sha256:" + hex_digest(name_)),
        streams_(streams),
        http_(std::move(http)),
        responder_(std::move(responder)) {
    responder_.on_disconnect([gone = gone_]() mutable { gone.request_stop(); });
  }

  void run(const ModelFetch& fetch, const std::stop_token& stop) {
    const std::stop_callback ends(stop, [this] { gone_.request_stop(); });
    finish(get(fetch));
  }
  // It is here already.
  void tell_there() {
    tell({"pulling manifest", 0, 0});
    finish(success());
  }
  void refuse(const Error& why) { respond(service_, http_, responder_, Dialect::ollama, why); }

 private:
  Result<> get(const ModelFetch& fetch) {
    ESP_TRY(ModelToServe model, fetch(name_, [this](const FetchProgress& now) { tell(now); }, gone_.get_token()));
    if (service_.models.place_of(name_)) return success();  // another client's fetch was quicker
    return add_model(service_, std::move(model));
  }

  // The head goes out with the first step, so that a model that cannot be had is a refusal with its status.
  void tell(const FetchProgress& now) {
    if (!streams_) return;
    if (!begun_) {
      net::Headers headers;
      headers.set("x-request-id", http_.id);
      writer_ = net::begin_json_lines(std::move(responder_), std::move(headers));
      begun_ = true;
    }
    const std::string line = progress_line(now, digest_);
    if (line != last_) writer_.write(line);
    last_ = line;
  }

  void finish(const Result<>& got) {
    if (!begun_ && !got) return refuse(got.error());
    if (!streams_) return respond(service_, http_, responder_, net::HttpResponse::json(200, R"({"status":"success"})"));
    if (got) tell({"success", 0, 0});
    service_.metrics.answered(http_.route, "", 200);
    if (got) return writer_.finish();
    writer_.write(stream_error(Dialect::ollama, net::http_error(got.error())));
    writer_.finish_and_close();
  }

  Service& service_;
  const std::string name_, digest_;
  const bool streams_;
  net::HttpRequest http_;
  net::Responder responder_;
  net::StreamWriter writer_;
  std::stop_source gone_;  // the client, or the server ends
  std::string last_;
  bool begun_ = false;
};

Result<> pull(Call& call, net::HttpRequest& http, net::Responder& responder) {
  ESP_TRY(std::string name, read_ollama_model(call.body));
  ESP_TRY(const auto stream, find_boolean(call.body, "stream"));
  if (name.empty()) return bad_request("model is missing", "model");
  Service& service = call.service;
  const bool there = static_cast<bool>(service.models.place_of(name));
  if (!there && !service.fetches.allowed()) {
    return Error{Error::Kind::not_found,
                 fmt::format("the model {} is not served here, and this server fetches none for clients; start it with "
                             "--allow-pull, with `espalier serve {}`, or fetch the model before with `espalier pull`",
                             in_quotes(name, 200), name.substr(0, 200)),
                 "model", "model_not_found"};
  }
  const auto one =
      std::make_shared<Pull>(service, std::move(name), stream.value_or(true), std::move(http), std::move(responder));
  if (there) {
    one->tell_there();
    return success();
  }
  auto begun =
      service.fetches.begin([one](const ModelFetch& fetch, const std::stop_token& stop) { one->run(fetch, stop); });
  if (!begun) one->refuse(begun.error());
  return success();
}

}  // namespace

Result<> add_pull_routes(net::Router& router, Service& service) {
  return router.add(net::Method::post, "/api/pull", serving_without_model(service, Dialect::ollama, pull));
}

}  // namespace espalier::server
