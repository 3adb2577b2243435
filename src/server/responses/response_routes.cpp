// /v1/responses and what is asked of a stored one.
#include <fmt/format.h>

#include "server/delivery/json_writer.h"
#include "server/responses/create_response.h"
#include "server/responses/replay.h"
#include "server/routes/routes.h"
#include "server/store/page_query.h"

namespace espalier::server {
namespace {

// As it is told: with its output, and with what is known of it now.
Json told_response(Service& service, StoredResponse& stored) {
  Json response = std::move(stored.body);
  response["output"] = std::move(stored.output);
  response["status"] = stored.status == "queued" && service.running.contains(stored.id) ? "in_progress" : stored.status;
  return response;
}

Result<StoredResponse> asked_response(Call& call, const ResponseParts& parts) {
  ESP_TRY(auto data, call.service.data.open());
  return load_response(*data, call.http.path_value("id"), call.service.keys->owner(call.http), parts);
}

Result<> replay_response(Call& call, const StoredResponse& stored, net::HttpRequest& request,
                         net::Responder& responder) {
  ESP_TRY(const int after, read_query_integer(request, "starting_after", -1, 0, 1'000'000'000));
  auto log = call.service.running.log_of(stored.id);
  if (log == nullptr && !stored.events.empty()) log = std::make_shared<EventLog>(stored.events);
  if (log == nullptr) {
    return bad_request("this response was not streamed, so there are no events of it; leave stream out", "stream",
                       "unsupported_parameter");
  }
  const int from = after + 1;
  Replay::begin(call.service, request, std::move(responder), log, static_cast<std::size_t>(from));
  return success();
}

Result<> get_response(Call& call, net::HttpRequest& request, net::Responder& responder) {
  const std::string* stream = request.query_value("stream");
  const bool streams = stream != nullptr && *stream == "true";
  ESP_TRY(StoredResponse stored, asked_response(call, {.input = false, .output = true, .events = streams}));
  if (streams) return replay_response(call, stored, request, responder);
  respond(call.service, request, responder, json_answer(told_response(call.service, stored)));
  return success();
}

// No reader waits for more of it.
void end_run(Service& service, std::string_view id) {
  auto log = service.running.log_of(id);
  service.running.drop(id);
  if (log) log->end();
}

Result<net::HttpResponse> remove_response(Call& call) {
  const std::string id(call.http.path_value("id"));
  {
    ESP_TRY(auto data, call.service.data.open());
    ESP_CHECK(delete_response(*data, id, call.service.keys->owner(call.http)));
  }
  end_run(call.service, id);
  const Json told = {{"id", id}, {"object", "response"}, {"deleted", true}};
  return json_answer(told);
}

Result<net::HttpResponse> cancel(Call& call) {
  ESP_TRY(StoredResponse stored, asked_response(call, {}));
  if (stored.body.value("background", Json(false)) != true) {
    return bad_request("only responses that were made with background can be cancelled; hang up to end another one",
                       "response_id", "unsupported_parameter");
  }
  if (!stored.request.empty()) {
    stored.body["status"] = "cancelled";
    {
      ESP_TRY(auto data, call.service.data.open());
      ESP_CHECK(cancel_response(*data, stored.id, stored.body));
    }
    end_run(call.service, stored.id);
    ESP_TRY(stored, asked_response(call, {}));  // it may have ended at the same time
  }
  if (stored.status != "cancelled") {
    return bad_request(fmt::format("the response is {}; only one that is being made can be cancelled", stored.status),
                       "response_id");
  }
  return json_answer(told_response(call.service, stored));
}

Result<net::HttpResponse> list_input_items(Call& call) {
  ESP_TRY(const PageQuery query, read_page_query(call.http, 20, 100));
  ESP_TRY(StoredResponse stored, asked_response(call, {.input = true, .output = false, .events = false}));
  ESP_TRY(const Json page, page_of({stored.input.begin(), stored.input.end()}, query));
  return json_answer(page);
}

Result<net::HttpResponse> count_input(Call& call) {
  ESP_TRY(ResponseTurn turn, read_response_turn(call, true));
  ESP_TRY(const ChatTokens tokens, encode_chat_turn(call, turn.turn.prompt, false, turn.known.get()));
  const Json told = {{"object", "response.input_tokens"}, {"input_tokens", tokens.ids.size()}};
  return json_answer(told);
}

}  // namespace

Result<> add_response_routes(net::Router& router, Service& service) {
  using net::Method;
  constexpr Dialect dialect = Dialect::openai_responses;
  ESP_CHECK(router.add(Method::post, "/v1/responses", serving(service, dialect, create_response)));
  ESP_CHECK(router.add(Method::post, "/v1/responses/input_tokens", answering(service, dialect, count_input)));
  ESP_CHECK(router.add(Method::get, "/v1/responses/{id}", serving_any(service, dialect, get_response)));
  ESP_CHECK(router.add(Method::del, "/v1/responses/{id}", keeping_any(service, dialect, remove_response)));
  ESP_CHECK(router.add(Method::post, "/v1/responses/{id}/cancel", keeping_any(service, dialect, cancel)));
  return router.add(Method::get, "/v1/responses/{id}/input_items", keeping_any(service, dialect, list_input_items));
}

}  // namespace espalier::server
