// POST /v1/messages and /v1/messages/count_tokens: Anthropic's dialect.
#include <fmt/format.h>

#include <algorithm>

#include "base/fingerprint.h"
#include "server/answer/treatment.h"
#include "server/anthropic/cache_marks.h"
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
  ESP_CHECK(call.check_model_name(body.model));
  return body;
}

// A prefix of the prompt that a mark asks to keep.
struct MarkedPrefix {
  std::size_t tokens = 0;
  int seconds = 0;
};

// How much of the prompt is the same without what stands behind the mark.
Result<MarkedPrefix> marked_prefix(const Call& call, const CacheMark& mark, std::span<const TokenId> prompt) {
  if (mark.whole) return MarkedPrefix{prompt.size(), mark.seconds};
  ESP_TRY(ChatPrompt cut, messages_prompt(body_up_to(call.body, mark), call.service.options));
  cut.add_generation_prompt = false;
  const auto beginning = encode_chat(call, cut);
  if (!beginning.ok() && call.runs_again()) return beginning.error();
  if (!beginning.ok()) return MarkedPrefix{0, mark.seconds};  // the template takes no such beginning alone
  const auto same = std::ranges::mismatch(prompt, beginning->ids).in1 - prompt.begin();
  return MarkedPrefix{static_cast<std::size_t>(same), mark.seconds};
}

// So many tokens of the prompt, and the pictures among them; none is cut.
PinWish wish_for(const Request& request, std::size_t tokens) {
  PinWish wish;
  wish.scope = request.scope();
  for (const PictureInput& picture : request.fields().pictures) {
    const auto begin = static_cast<std::size_t>(picture.spans.front().first);
    const auto end =
        static_cast<std::size_t>(picture.spans.back().first) + static_cast<std::size_t>(picture.spans.back().count);
    if (end <= tokens)
      wish.pictures.push_back(picture);
    else
      tokens = std::min(tokens, begin);
  }
  wish.tokens.assign(request.prompt().begin(), request.prompt().begin() + static_cast<std::ptrdiff_t>(tokens));
  return wish;
}

// The same prefix has the same pin.
std::string pin_name(const PinWish& wish) {
  Fingerprint name;
  name.add(std::string_view(wish.scope));
  name.add(std::as_bytes(std::span(wish.tokens)));
  for (const PictureInput& picture : wish.pictures) {
    for (const std::uint64_t half : picture.content) name.add_number(half);
    name.add_number(static_cast<std::uint64_t>(picture.spans.front().first));
  }
  return fmt::format("cache-control-{}", name.text());
}

// The longest prefix of each length of time, the shortest first.
Result<std::vector<MarkedPrefix>> marked_prefixes(const Call& call, std::span<const TokenId> prompt) {
  ESP_TRY(const std::vector<CacheMark> marks, read_cache_marks(call.body));
  std::vector<MarkedPrefix> prefixes;
  for (auto mark = marks.rbegin(); mark != marks.rend(); ++mark) {
    const auto known = [&](const MarkedPrefix& prefix) { return prefix.seconds >= mark->seconds; };
    if (std::ranges::any_of(prefixes, known)) continue;
    ESP_TRY(const MarkedPrefix prefix, marked_prefix(call, *mark, prompt));
    if (prefix.tokens > 0) prefixes.insert(prefixes.begin(), prefix);
  }
  return prefixes;
}

// Pins what the marks name, as soon as the prompt is computed.
class MarkPins final : public RequestObserver {
 public:
  MarkPins(std::shared_ptr<ServedModel> model, std::vector<PinWish> wishes)
      : model_(std::move(model)), wishes_(std::move(wishes)) {}
  void token(int, TokenId) override {
    for (PinWish& wish : std::exchange(wishes_, {})) model_->engine->pin_soon(std::move(wish));
  }
  Result<> ended() override { return success(); }

 private:
  const std::shared_ptr<ServedModel> model_;
  std::vector<PinWish> wishes_;
};

std::unique_ptr<RequestObserver> pins_of(const Call& call, const Request& request,
                                         const std::vector<MarkedPrefix>& prefixes) {
  std::vector<PinWish> wishes;
  for (const MarkedPrefix& prefix : prefixes) {
    PinWish wish = wish_for(request, prefix.tokens);
    if (wish.tokens.empty()) continue;
    wish.id = pin_name(wish);
    wish.seconds = prefix.seconds;
    wish.automatic = true;
    wishes.push_back(std::move(wish));
  }
  return wishes.empty() ? nullptr : std::make_unique<MarkPins>(call.model, std::move(wishes));
}

Result<Generation> messages(Call& call) {
  ESP_TRY(MessagesBody body, read_body(call, "/v1/messages", false));
  ESP_TRY(RequestFields fields, treatment(call, body, call.http.id));
  fields.sampling = body.sampling;
  ConstraintFields constraint;
  ESP_TRY(ChatReading reading, begin_chat_turn(call, body.turn, constraint, fields));
  ESP_TRY(Request request, make_request(std::move(fields), call.model->limits(), chat_names("messages", "max_tokens")));

  ESP_TRY(const std::vector<MarkedPrefix> marked, marked_prefixes(call, request.prompt()));
  MessagesReplyOptions reply;
  if (!marked.empty()) {
    reply.marked_tokens = static_cast<int>(marked.back().tokens);
    reply.marked_long = marked.back().seconds == kLongMark;
  }
  reply.id = "msg_" + call.http.id;
  reply.model = call.model_name();
  reply.stream = body.stream;
  reply.prompt_tokens = static_cast<int>(request.prompt().size());
  reply.reading = std::move(reading.options);
  reply.only_calls = reading.only_calls;

  Generation generation;
  generation.headers = std::move(reading.headers);
  generation.dialect = Dialect::anthropic;
  generation.stream = body.stream;
  generation.observer = pins_of(call, request, marked);
  generation.reply = std::make_unique<MessagesReply>(std::move(reply));
  generation.requests.push_back(std::move(request));
  return generation;
}

Result<net::HttpResponse> count_tokens(Call& call) {
  ESP_TRY(MessagesBody body, read_body(call, "/v1/messages/count_tokens", true));
  ESP_TRY(const ChatTokens tokens, encode_chat(call, body.turn.prompt));
  std::string out;
  JsonWriter json(out);
  json.open('{').field("input_tokens", tokens.ids.size()).close('}');
  return net::HttpResponse::json(200, std::move(out));
}

}  // namespace

Result<> add_messages_routes(net::Router& router, Service& service) {
  using net::Method;
  ESP_CHECK(router.add(Method::post, "/v1/messages", generating(service, Dialect::anthropic, messages)));
  return router.add(Method::post, "/v1/messages/count_tokens", answering(service, Dialect::anthropic, count_tokens));
}

}  // namespace espalier::server
