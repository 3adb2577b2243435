// response_reply.h: the answer of POST /v1/responses: items of reasoning, messages and calls, streamed or whole.
//
// A stream tells response.created, response.queued where it runs in the background, and response.in_progress, opens an item when its first piece comes and closes it
// before the next one, and ends with response.completed, incomplete or failed; every event has the next
// sequence_number. The items of the whole are those that the stream closes. What is stored is stored before its end is
// told (conclude()).
// Order, threads, failures: those of Reply.
// Source:  OpenAI's API reference, Responses and its streaming events.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "server/delivery/json_writer.h"
#include "server/delivery/reply.h"
#include "server/prompt/media_prompt.h"
#include "server/responses/event_log.h"
#include "text/answer/answer_parser.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {

// A response that has come to its end, however it did.
struct EndedResponse {
  Json response;             // whole, with its output
  std::string text;          // as the model wrote it, marks included
  std::vector<TokenId> ids;  // its tokens, but for the one that ended it
  std::string events;        // all of them, where they are kept
};

// What a reply of /v1/responses needs to know.
struct ResponseReplyOptions {
  Json response;  // what is told of it before it has begun: ids, the request's fields, "output": []
  bool stream = false;
  int prompt_tokens = 0;
  ImageTokens image_tokens;
  AnswerOptions reading;
  bool only_calls = false;  // text around calls that must come is not told
  bool logprobs = false;
  const Tokenizer* tokenizer = nullptr;
  std::shared_ptr<EventLog> log;                             // null: events are not kept
  std::function<Result<>(const EndedResponse& ended)> keep;  // stores it; may be empty
  // Its request failed; may be empty.
  std::function<void(const net::HttpError& why, const EndedResponse& so_far)> stopped;
};

// The Reply of POST /v1/responses.
class ResponseReply final : public Reply {
 public:
  explicit ResponseReply(ResponseReplyOptions options);
  void add(int prompt, TextEvent event, std::string& out) override;
  Result<> conclude() override;
  std::optional<std::string> failed(const net::HttpError& why) override;
  void finish(std::string& out) override;
  int calls() const override { return parser_.calls(); }

 private:
  enum class Kind { message, reasoning, call };
  struct Item {
    Kind kind;
    std::string id, call_id, name;
    std::string text;      // or the arguments
    std::string logprobs;  // JSON values, of a message
    bool cut = false;      // the output ended within it
  };
  template <class Write>
  std::string event_text(std::string_view name, Write&& write);
  template <class Write>
  void event(std::string_view name, std::string& out, Write&& write);
  void part_event(std::string_view name, std::string& out, const Item& item, bool whole);
  void item_event(std::string_view name, std::string& out, const Item& item, bool done);

  bool tells_events() const { return options_.stream || options_.log != nullptr; }
  void tell(const std::string& event, std::string& out);
  std::string events_with(const std::string& last) const;
  void begin(int cached, std::string& out);
  void on_token(const TextDelta& delta, std::string& out);
  void on_end(const TextEnd& end, std::string& out);
  void note_logprob(const TokenEvent& token);
  void apply(const std::vector<AnswerEvent>& events, std::string& out);
  void open(Item item, std::string& out);
  void extend(Kind kind, std::string_view text, std::string& out);
  void close(std::string& out);
  Json response_now(std::string_view status) const;
  std::string_view last_status() const;
  void write_place(JsonWriter& json, const Item& item) const;
  static Json item_json(const Item& item, bool done);
  static void add_usage(Json& usage, int input, int cached, int output, int reasoning);

  ResponseReplyOptions options_;
  AnswerParser parser_;
  std::vector<Item> items_;
  std::string pending_logprobs_;  // of tokens whose text is not told yet
  std::string raw_;               // the output as it came
  std::vector<TokenId> ids_;
  std::string last_;  // the last event, or the whole body
  int sequence_ = 0;
  bool begun_ = false, open_ = false;
  int cached_ = 0, tokens_ = 0, reasoning_tokens_ = 0;
  FinishReason reason_ = FinishReason::stop;
};

}  // namespace espalier::server
