// Sessions: /open_session, /close_session. What a turn of one does: native/generate.cpp.
#include "base/log.h"
#include "server/delivery/json_writer.h"
#include "server/fields/field_table.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

// {"capacity_of_str_len": N, "session_id": "...", "timeout": SECONDS} -> the id as a JSON string. A token stands for at
// least one character, so a context of more tokens than the capacity cannot be within it.
Result<net::HttpResponse> open_session(Call& call) {
  ESP_TRY(std::string id, find_short_string(call.body, "session_id", kMostIdBytes));
  ESP_TRY(const auto capacity, find_integer(call.body, "capacity_of_str_len", {0, 1'000'000'000'000}));
  ESP_TRY(const auto timeout, find_number(call.body, "timeout", {0, 1e9}));
  ESP_TRY(const std::string opened,
          call.service.sessions.open(std::move(id), session_owner(call), capacity.value_or(0), timeout.value_or(0)));
  std::string out;
  JsonWriter(out).value(opened);
  return net::HttpResponse::json(200, std::move(out));
}

Result<net::HttpResponse> close_session(Call& call) {
  ESP_TRY(const std::string id, find_short_string(call.body, "session_id", kMostIdBytes));
  if (id.empty()) return bad_request("session_id is missing", "session_id");
  ESP_TRY(const auto running, call.service.sessions.close(id, session_owner(call)));
  for (const std::string& rid : running) call.model->engine->cancel(rid);
  return net::HttpResponse::json(200, "");
}

}  // namespace

Result<> add_session_routes(net::Router& router, Service& service) {
  ESP_CHECK(router.add(net::Method::post, "/open_session", answering(service, Dialect::native, open_session)));
  return router.add(net::Method::post, "/close_session", answering(service, Dialect::native, close_session));
}

}  // namespace espalier::server
