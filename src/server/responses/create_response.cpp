#include "server/responses/create_response.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "base/json/json_fields.h"
#include "base/log.h"
#include "server/answer/call_id.h"
#include "server/answer/treatment.h"
#include "server/delivery/delivery.h"
#include "server/fields/request_names.h"
#include "server/media/prepare_media.h"
#include "server/prompt/sampling_defaults.h"
#include "server/responses/conversation_store.h"
#include "server/responses/items.h"
#include "server/responses/replay.h"
#include "server/responses/response_reply.h"
#include "server/routes/model_waiter.h"

namespace espalier::server {
namespace {

constexpr const char* kResponsesRoute = "/v1/responses";

Error in_input(Error error) {
  const Alias names[] = {{"messages", "input"}, {"verbosity", "text.verbosity"}};
  return renamed(std::move(error), names);
}

// What was said before, oldest first; references in the input become what they name.
Result<History> said_before(Call& call, ResponseTurn& turn) {
  ResponseBody& body = turn.body;
  History history;
  const auto is_reference = [](const Json& item) { return item.value("type", "") == "item_reference"; };
  const bool refers = std::ranges::any_of(body.input, is_reference);
  if (body.previous.empty() && body.conversation.empty() && !refers) return history;
  ESP_TRY(auto data, call.service.data.open());
  if (!body.previous.empty()) {
    ESP_TRY(history, history_of(*data, body.previous, turn.owner, call.service.options.max_messages));
  }
  if (!body.conversation.empty()) {
    ESP_CHECK(load_conversation(*data, body.conversation, turn.owner));
    ESP_TRY(auto items, load_items(*data, body.conversation, 0));
    for (Json& item : items) history.items.push_back(std::move(item));
    ESP_TRY(history.kept, kept_in_conversation(*data, body.conversation, turn.owner));
  }
  for (Json& item : body.input) {
    if (!is_reference(item)) continue;
    ESP_TRY(item, find_item(*data, item.value("id", ""), turn.owner));
  }
  return history;
}

}  // namespace

Result<ResponseTurn> read_response_turn(Call& call, bool counts) {
  const ServerOptions& options = call.service.options;
  ResponseTurn turn;
  ESP_TRY(turn.body, parse_response(call.body, options, chat_defaults(call.model->info(), options), counts));
  ESP_CHECK(call.service.unknown_fields.note(unknown_response_fields(call.body), kResponsesRoute));
  ESP_CHECK(call.check_model_name(turn.body.model));
  turn.owner = call.service.keys->owner(call.http);
  ESP_TRY(History history, said_before(call, turn));
  turn.known->pieces = known_pieces(history.kept, *call.model);
  const std::size_t former = history.items.size();
  for (const Json& item : turn.body.input) history.items.push_back(item);
  Json messages = Json::array();
  if (!turn.body.instructions.empty()) messages.push_back({{"role", "system"}, {"content", turn.body.instructions}});
  const char* former_place = turn.body.conversation.empty() ? "previous_response_id" : "conversation";
  for (Json& message : messages_of(history.items, former, former_place)) messages.push_back(std::move(message));
  if (messages.empty()) return bad_request("input is empty; it needs at least one item", "input");
  turn.body.chat["messages"] = std::move(messages);
  auto prompt = parse_chat_prompt(turn.body.chat, options);
  if (!prompt) return in_input(std::move(prompt).error());
  turn.turn.prompt = std::move(prompt).value();
  return turn;
}

namespace {

// One response between its body and its submission.
struct NewResponse {
  ResponseTurn turn;
  StoredResponse stored;  // without its output
  std::shared_ptr<EventLog> log;
  Generation generation;
};

Json first_response(const Call& call, const ResponseTurn& turn, const std::string& id, std::int64_t created) {
  Json response = {{"id", id}, {"object", "response"}, {"created_at", created}, {"status", "in_progress"}};
  for (const char* name : {"completed_at", "error", "incomplete_details"}) response[name] = nullptr;
  response["model"] = call.model_name();
  response["output"] = Json::array();
  for (const auto& [name, value] : turn.body.echo.get_ref<const Json::object_t&>()) response[name] = value;
  response["usage"] = nullptr;
  return response;
}

Result<Request> request_of_response(Call& call, ResponseTurn& turn, ChatReading& reading) {
  ResponseBody& body = turn.body;
  ESP_TRY(RequestFields fields, treatment(call, body, call.http.id));
  if (fields.user.empty()) fields.user = body.safety_identifier;
  fields.sampling = body.sampling;
  fields.logprobs.enabled = body.logprobs || body.top_logprobs.value_or(0) > 0;
  fields.logprobs.top = body.top_logprobs.value_or(0);
  turn.turn.known = turn.known.get();
  auto begun = begin_chat_turn(call, turn.turn, body.constraint, fields);
  if (!begun) return in_input(std::move(begun).error());
  reading = std::move(begun).value();
  return make_request(std::move(fields), call.model->limits(), chat_names("input", "max_output_tokens"));
}

// The pictures of what is said now, with their files: an address may give something else, or nothing, when the conversation
// goes on. Requires: their request was made.
Result<> keep_files(const Call& call, Json& input) {
  for (Json& item : input) {
    for (const char* list : {"content", "output"}) {
      if (!item.contains(list) || !item[list].is_array()) continue;
      for (Json& part : item[list]) {
        if (part.value("type", "") != "input_image") continue;
        ESP_TRY(const auto source, read_media_part(part, "input"));
        ESP_TRY(const std::vector<MediaSource> own, with_own_files(call, std::span(&*source, 1)));
        part["image_url"] = own.front().addresses.front();
      }
    }
  }
  return success();
}

// How it is stored when it ends; what goes before its end is told.
void keep_response(Call& call, NewResponse& made, ResponseReplyOptions& reply,
                   std::shared_ptr<const std::vector<TokenId>> shown) {
  Service& service = call.service;
  const bool detached = made.turn.body.detached;
  const auto row = std::make_shared<StoredResponse>(made.stored);
  const auto fill = [row](const EndedResponse& ended) {
    row->body = ended.response;
    row->status = ended.response.value("status", "");
    row->output = std::exchange(row->body["output"], Json::array());
    row->events = ended.events;
  };
  reply.keep = [&service, row, fill, detached, model = call.model, known = made.turn.known,
                shown = std::move(shown)](const EndedResponse& ended) -> Result<> {
    fill(ended);
    row->kept = kept_tokens(*model, *known, ended, shown.get());
    ESP_TRY(auto data, service.data.open());
    if (!detached) return store_response(*data, *row);
    ESP_CHECK(end_response(*data, *row));
    return success();
  };
  if (!detached) return;
  reply.stopped = [&service, row, fill](const net::HttpError& why, const EndedResponse& so_far) {
    if (why.code == "draining") return;  // the next start goes on with it
    fill(so_far);
    auto data = service.data.open();
    if (auto kept = data ? end_response(**data, *row) : Result<bool>(data.error()); !kept)
      log::error("the response {} failed and that could not be stored: {}", row->id, kept.error().message);
  };
}

Result<NewResponse> new_response(Call& call, std::string id, std::string request_text, std::int64_t created) {
  NewResponse made;
  ESP_TRY(made.turn, read_response_turn(call, false));
  const ResponseBody& body = made.turn.body;
  ChatReading reading;
  ESP_TRY(Request request, request_of_response(call, made.turn, reading));
  if (body.store) {  // before anything is made that could not be kept
    ESP_CHECK(call.service.data.open());
    ESP_CHECK(keep_files(call, made.turn.body.input));
  }

  ResponseReplyOptions reply;
  reply.response = first_response(call, made.turn, id, created);
  reply.stream = body.stream && !body.detached;
  reply.prompt_tokens = static_cast<int>(request.prompt().size());
  reply.image_tokens = ImageTokens(request.fields().pictures);
  reply.reading = std::move(reading.options);
  reply.only_calls = reading.only_calls;
  reply.logprobs = body.logprobs;
  reply.tokenizer = call.model->tokenizer();
  if (body.stream && body.store) reply.log = made.log = std::make_shared<EventLog>();
  made.stored.id = std::move(id);
  made.stored.owner = made.turn.owner;
  made.stored.previous = body.previous;
  made.stored.conversation = body.conversation;
  made.stored.body = reply.response;
  made.stored.input = body.input;
  made.stored.request = std::move(request_text);
  if (body.store) keep_response(call, made, reply, request.fields().shown_special);

  Generation& generation = made.generation;
  generation.headers = std::move(reading.headers);
  generation.dialect = Dialect::openai_responses;
  generation.stream = reply.stream;
  generation.waits_for_disk = body.store;
  generation.reply = std::make_unique<ResponseReply>(std::move(reply));
  generation.requests.push_back(std::move(request));
  return made;
}

// From here on it needs no client. Its answer goes nowhere; what is kept of it is in the store and in the log.
void run_detached(Call& call, NewResponse& made) {
  net::InProcessCall nobody([] {});
  Delivery::begin(call.service, call.model, call.http, nobody.responder(), std::move(made.generation));
  call.service.running.add(made.stored.id, std::move(nobody), made.log);
}

Result<> answer_detached(Call& call, NewResponse& made, net::HttpRequest& request, net::Responder& responder) {
  Service& service = call.service;
  made.stored.status = "queued";
  made.stored.body["status"] = "queued";
  {
    ESP_TRY(auto data, service.data.open());
    ESP_CHECK(store_response(*data, made.stored));
  }
  run_detached(call, made);
  if (auto refusal = service.running.refusal_of(made.stored.id)) {  // the queue was full, say
    ESP_TRY(auto data, service.data.open());
    ESP_CHECK(delete_response(*data, made.stored.id, made.stored.owner));
    respond(service, request, responder, net::HttpResponse::json(refusal->status, std::move(refusal->body)));
    return success();
  }
  if (made.log)
    Replay::begin(service, request, std::move(responder), made.log, 0);
  else
    respond(service, request, responder, json_answer(made.stored.body));
  return success();
}

// A response that is made again has to become what it would have been.
void settle_seed(Json& body) {
  if (find_field(body, "seed") != nullptr) return;
  std::random_device random;
  body["seed"] = (std::int64_t{random()} << 31) ^ std::int64_t{random()};
}

bool asks_for_background(const Json& body) {
  const Json* detached = find_field(body, "background");
  return detached != nullptr && *detached == true;
}

}  // namespace

Result<> create_response(Call& call, net::HttpRequest& request, net::Responder& responder) {
  if (call.http.own_work && asks_for_background(call.body))
    return bad_request("background is not for batches: their lines are made in the background already", "background");
  std::string request_text;
  if (asks_for_background(call.body)) {
    settle_seed(call.body);
    request_text = json_text(call.body);
  }
  ESP_TRY(NewResponse made, new_response(call, new_call_id("resp_"), std::move(request_text), seconds_now()));
  forget_schemas(call);
  if (responder.closed()) return success();
  if (made.turn.body.detached) return answer_detached(call, made, request, responder);
  Delivery::begin(call.service, call.model, std::move(request), std::move(responder), std::move(made.generation));
  return success();
}

namespace {

Result<> run_again(Service& service, const StoredResponse& unfinished, std::shared_ptr<ServedModel> model, Json body) {
  net::HttpRequest http;
  http.method = net::Method::post;
  http.path = kResponsesRoute;
  http.route = kResponsesRoute;
  http.id = unfinished.id;
  http.own_work = net::OwnWork{unfinished.owner};
  http.received_at = std::chrono::steady_clock::now();
  Call call{service, http, std::move(model), std::move(body), true};
  const Json* name = find_field(call.body, "model");
  const std::string named = name != nullptr && name->is_string() ? name->get<std::string>() : "";
  ESP_TRY(const auto target, NamedAdapters::target(service.adapters, service.models, named, call.body));
  ESP_TRY(call.adapters, NamedAdapters::of(service.adapters, target, named, call.body, AdapterUse::one));
  ESP_CHECK(call.adapters.load(service.adapters, *call.model));
  const std::int64_t created = integer_or_zero(unfinished.body, "created_at");
  ESP_TRY(NewResponse made, new_response(call, unfinished.id, unfinished.request, created));
  run_detached(call, made);
  return success();
}

void fail_resumed(Service& service, StoredResponse unfinished, const Error& why) {
  unfinished.status = "failed";
  unfinished.body["status"] = "failed";
  unfinished.body["error"] = {{"code", "server_error"}, {"message", why.message}};
  auto data = service.data.open();
  if (data) (void)end_response(**data, unfinished);
  log::warning("the response {} could not be made again: {}", unfinished.id, why.message);
}

// Once its model is there.
Result<> resume_response(Service& service, const std::shared_ptr<StoredResponse>& unfinished) {
  ESP_TRY(const Json body, parse_json(unfinished->request, request_limits()));
  const Json* name = find_field(body, "model");
  const std::string named = name != nullptr && name->is_string() ? name->get<std::string>() : "";
  ESP_TRY(const auto target, NamedAdapters::target(service.adapters, service.models, named, body));
  const int place = target.place;
  const auto then = [&service, unfinished, body](const ModelWait::Outcome& outcome) {
    const Result<> resumed = outcome.ok() ? run_again(service, *unfinished, *outcome, body) : Result<>(outcome.error());
    const bool left = !resumed && resumed.error().code == "draining";  // to the next start
    if (!resumed && !left) fail_resumed(service, *unfinished, resumed.error());
    return true;
  };
  if (auto model = service.models.use(place)) {
    then(ModelWait::Outcome(std::move(model)));
    return success();
  }
  return ModelWaiter::begin(service, place, {.closed = [] { return false; }, .then = then});
}

}  // namespace

void resume_responses(Service& service) {
  std::vector<StoredResponse> unfinished;
  {
    auto data = service.data.open_existing();
    if (!data || !*data) return;
    auto found = unfinished_responses(***data);
    if (!found) return;
    unfinished = std::move(found).value();
  }
  for (StoredResponse& each : unfinished) {
    const auto kept = std::make_shared<StoredResponse>(std::move(each));
    if (auto resumed = resume_response(service, kept); !resumed) fail_resumed(service, *kept, resumed.error());
  }
}

}  // namespace espalier::server
