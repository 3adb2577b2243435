#include "bench/load/dialect.h"

#include <fmt/format.h>

#include "base/json/json_fields.h"
#include "bench/load/dialects.h"

namespace espalier::bench {

std::unique_ptr<Dialect> Dialect::make(Backend::Api api, Backend::Constraints constraints, DialectOptions options) {
  if (api == Backend::Api::native) return std::make_unique<NativeDialect>(constraints, std::move(options));
  return std::make_unique<OpenAiDialect>(api == Backend::Api::chat, constraints, std::move(options));
}

std::string Dialect::body(const Call& call) const {
  Json body = write(call);
  if (options_.extra_body.is_object()) body.update(options_.extra_body, true);
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<> AnswerReader::read(std::string_view text, double now) {
  now_ = now;
  if (text == "[DONE]") {
    ended_ = true;
    return success();
  }
  auto message = parse_json(text);
  if (!message.ok()) return bad_request("the server's answer is not JSON: " + message.error().message);
  if (find_field(*message, "error"))
    return bad_request(refusal_of(0, message->dump(-1, ' ', false, Json::error_handler_t::replace)));
  return take(std::move(*message));
}

void AnswerReader::tokens_came(int count) {
  if (count <= 0) return;
  ++chunks_;
  if (!last_token_) {
    outcome_.first_token = now_;
  } else {
    const double gap = (now_ - *last_token_) / count;
    outcome_.gaps.insert(outcome_.gaps.end(), static_cast<std::size_t>(count), gap);
  }
  last_token_ = now_;
}

Outcome AnswerReader::finish(double now) {
  outcome_.ended = now;
  if (!last_token_) outcome_.first_token = now;
  if (!counted_) outcome_.output_tokens = chunks_;
  outcome_.ok = ended_;
  if (!ended_) outcome_.error = "the stream ended before its last event";
  return std::move(outcome_);
}

std::string refusal_of(int status, std::string_view body) {
  std::string sentence;
  if (auto json = parse_json(body); json.ok()) {
    const Json* error = find_field(*json, "error");
    const Json* message = error && error->is_object() ? find_field(*error, "message") : error;
    if (!message) message = find_field(*json, "message");
    if (!message) message = find_field(*json, "detail");
    if (message && message->is_string()) sentence = message->get<std::string>();
  }
  if (sentence.empty()) sentence = in_quotes(body, 200);
  if (sentence.size() > 400) sentence = sentence.substr(0, 400) + "...";
  return status == 0 ? "the server answered with an error: " + sentence
                     : fmt::format("the server answered {}: {}", status, sentence);
}

}  // namespace espalier::bench
