// POST /v1/messages and /v1/messages/count_tokens: Anthropic's dialect.
#include "server/answer/treatment.h"
#include "server/anthropic/messages_body.h"
#include "server/anthropic/messages_reply.h"
#include "server/fields/request_names.h"
#include "server/prompt/sampling_defaults.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

Result<MessagesBody> read_body(Call& call, const char* route, bool counts) {
  const ServerOptions& options = call.service.options;
  ESP_TRY(MessagesBody body, parse_messages(call.body, options, chat_defaults(call.model->info(), options), counts));
  ESP_CHECK(call.service.unknown_fields.note(unknown_messages_fields(call.body), route));
  ESP_CHECK(call.model->check_name(body.model));
  return body;
}

Result<Generation> messages(Call& call) {
  ESP_TRY(MessagesBody body, read_body(call, "/v1/messages", false));
  RequestFields fields = treatment(call, body, call.http.id);
  fields.sampling = body.sampling;
  ConstraintFields constraint;
  ESP_TRY(ChatReading reading, begin_chat_turn(call, body.turn, constraint, fields));
  ESP_TRY(Request request, make_request(std::move(fields), call.model->limits(), chat_names("messages", "max_tokens")));

  MessagesReplyOptions reply;
  reply.id = "msg_" + call.http.id;
  reply.model = call.model->name();
  reply.stream = body.stream;
  reply.prompt_tokens = static_cast<int>(request.prompt().size());
  reply.reading = std::move(reading.options);
  reply.only_calls = reading.only_calls;

  Generation generation;
  generation.headers = std::move(reading.headers);
  generation.dialect = Dialect::anthropic;
  generation.stream = body.stream;
  generation.reply = std::make_unique<MessagesReply>(std::move(reply));
  generation.requests.push_back(std::move(request));
  return generation;
}

Result<net::HttpResponse> count_tokens(Call& call) {
  ESP_TRY(MessagesBody body, read_body(call, "/v1/messages/count_tokens", true));
  ESP_TRY(const auto ids, encode_chat(*call.model, body.turn.prompt, call.service.options));
  std::string out;
  JsonWriter json(out);
  json.open('{').field("input_tokens", ids.size()).close('}');
  return net::HttpResponse::json(200, std::move(out));
}

}  // namespace

Result<> add_messages_routes(net::Router& router, Service& service) {
  using net::Method;
  ESP_CHECK(router.add(Method::post, "/v1/messages", generating(service, Dialect::anthropic, messages)));
  return router.add(Method::post, "/v1/messages/count_tokens", answering(service, Dialect::anthropic, count_tokens));
}

}  // namespace espalier::server
