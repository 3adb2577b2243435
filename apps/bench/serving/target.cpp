#include "bench/serving/target.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "base/json/json_fields.h"
#include "net/client/http_client.h"

namespace espalier::bench {
namespace {

using namespace std::chrono_literals;

net::ClientRequest request_to(const Server& server, const std::string& path) {
  net::ClientRequest request;
  request.url = server.url + path;
  request.headers = server.headers;
  request.credentials = server.credentials;
  request.connect_timeout = 5s;
  request.idle_timeout = 60s;
  return request;
}

// The object that a GET gives; null when the server has no such route.
Result<Json> get_json(const Server& server, const std::string& path) {
  net::HttpClient client;
  ESP_TRY(const net::ClientResponse response, client.fetch(request_to(server, path)));
  if (response.status == 401 || response.status == 403)
    return Error{Error::Kind::unauthorized, fmt::format("{} wants a key: give --api-key", server.url), {}, {}};
  if (response.status != 200) return Json();
  auto json = parse_json(response.body);
  return json.ok() && json->is_object() ? std::move(*json) : Json();
}

void read_models(const Json& list, Target& target) {
  const Json* data = find_field(list, "data");
  if (!data || !data->is_array() || data->empty()) return;
  const Json& first = (*data)[0];
  const Json* id = find_field(first, "id");
  if (target.model.empty() && id && id->is_string()) target.model = id->get<std::string>();
  const Json* meta = find_field(first, "meta");  // llama.cpp
  const Json* vocabulary = meta ? find_field(*meta, "n_vocab") : nullptr;
  if (vocabulary && vocabulary->is_number_integer()) target.vocabulary = vocabulary->get<int>();
}

Result<> wait_until_it_answers(const Server& server, const TargetQuestions& questions) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(questions.ready_timeout_s);
  for (;;) {
    if (answers(server)) return success();
    if (questions.interrupted && questions.interrupted()) return Error{Error::Kind::cancelled, "interrupted", {}, {}};
    if (std::chrono::steady_clock::now() >= end) break;
    std::this_thread::sleep_for(50ms);
  }
  return Error{Error::Kind::network,
               fmt::format("no server answers at {}: is the address right (--base-url, --host, --port)? "
                           "--ready-check-timeout-sec waits for one that is still loading",
                           server.url),
               {},
               {}};
}

}  // namespace

bool answers(const Server& server) {
  for (const char* path : {"/health", "/v1/models"}) {
    net::HttpClient client;
    const auto response = client.fetch(request_to(server, path));
    if (!response.ok()) return false;
    if (response->status == 200 || response->status == 401 || response->status == 403) return true;
    if (response->status == 503) return false;  // loading
  }
  return false;
}

Result<Target> ask(Server server, const TargetQuestions& questions) {
  while (server.url.ends_with('/')) server.url.pop_back();
  ESP_CHECK(wait_until_it_answers(server, questions));
  Target target;
  target.name = server.backend->name;
  target.model = questions.model;
  ESP_TRY(const Json models, get_json(server, "/v1/models"));
  read_models(models, target);
  if (server.backend->constraints == Backend::Constraints::sglang) {
    ESP_TRY(const Json model, get_json(server, "/get_model_info"));
    if (const Json* size = find_field(model, "vocab_size"); size && size->is_number_integer())
      target.vocabulary = size->get<int>();
    ESP_TRY(target.info, get_json(server, "/get_server_info"));
    for (const char* name : {"incremental_streaming_output", "stream_output"})
      if (const Json* incremental = find_field(target.info, name); incremental && incremental->is_boolean())
        target.incremental_events = target.incremental_events || incremental->get<bool>();
  }
  target.server = std::move(server);
  return target;
}

Result<> flush_cache(const Server& server) {
  net::ClientRequest request = request_to(server, "/flush_cache");
  request.method = net::Method::post;
  net::HttpClient client;
  ESP_TRY(const net::ClientResponse response, client.fetch(request));
  if (response.status != 200)
    return Error{Error::Kind::unsupported,
                 fmt::format("--flush-cache: {} for /flush_cache; leave the flag out, or give the admin key as "
                             "--api-key",
                             refusal_of(response.status, response.body)),
                 {},
                 {}};
  return success();
}

}  // namespace espalier::bench
