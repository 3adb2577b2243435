#include "server/ollama/pull.h"

#include <fmt/format.h>

#include "net/sse.h"
#include "server/delivery/json_writer.h"
#include "server/ollama/ollama_body.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

std::string progress_line(const PullProgress& progress) {
  std::string out;
  JsonWriter json(out);
  json.open('{').field("status", progress.status);
  if (!progress.digest.empty()) json.field("digest", progress.digest);
  if (progress.total > 0) json.field("total", progress.total).field("completed", progress.completed);
  json.close('}');
  return out + '\n';
}

// The head goes out with the first step, so that a model that cannot be had is a refusal with its status.
Result<> stream_pull(Call& call, const std::string& name, net::HttpRequest& http, net::Responder& responder) {
  net::StreamWriter writer;
  bool begun = false;
  const auto tell = [&](const PullProgress& progress) {
    if (!begun) {
      net::Headers headers;
      headers.set("x-request-id", http.id);
      writer = net::begin_json_lines(std::move(responder), std::move(headers));
      begun = true;
    }
    writer.write(progress_line(progress));
  };
  const auto pulled = pull_model(call, name, tell);
  if (!pulled && !begun) return pulled;
  call.service.metrics.answered(http.route, "", 200);
  if (!pulled) {
    writer.write(stream_error(Dialect::ollama, net::http_error(pulled.error())));
    writer.finish_and_close();
    return success();
  }
  tell({"success", {}, 0, 0});
  writer.finish();
  return success();
}

Result<> pull(Call& call, net::HttpRequest& http, net::Responder& responder) {
  ESP_TRY(const std::string name, read_ollama_model(call.body));
  ESP_TRY(const auto stream, find_boolean(call.body, "stream"));
  if (name.empty()) return bad_request("model is missing", "model");
  if (stream.value_or(true)) return stream_pull(call, name, http, responder);
  ESP_CHECK(pull_model(call, name, [](const PullProgress&) {}));
  respond(call.service, http, responder, net::HttpResponse::json(200, "{\"status\":\"success\"}"));
  return success();
}

}  // namespace

Result<> pull_model(const Call& call, const std::string& name, const PullListener& tell) {
  if (!call.service.models.place_of(name)) {
    return Error{Error::Kind::not_found,
                 fmt::format("the model {} is not served here, and this server fetches none for clients; start it with "
                             "`espalier serve {}`, or fetch the model before with `espalier pull`",
                             in_quotes(name, 200), name.substr(0, 200)),
                 "model", "model_not_found"};
  }
  tell({"pulling manifest", {}, 0, 0});
  return success();
}

Result<> add_pull_routes(net::Router& router, Service& service) {
  return router.add(net::Method::post, "/api/pull", serving_by_default(service, Dialect::ollama, pull));
}

}  // namespace espalier::server
