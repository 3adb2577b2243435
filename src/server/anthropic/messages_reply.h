// messages_reply.h: the answer of /v1/messages: blocks of thinking, text and tool_use, streamed or whole.
//
// A stream opens a block when its first piece comes and closes it before the next one: message_start,
// (content_block_start content_block_delta* content_block_stop)*, message_delta, message_stop. Put together it is the
// whole message. Tokens of the prompt that came from the cache are cache_read_input_tokens, the others input_tokens.
// Order, threads, failures: those of Reply.
// Source:  Anthropic's Messages API, version 2023-06-01.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "server/delivery/json_writer.h"
#include "server/delivery/reply.h"
#include "text/answer/answer_parser.h"

namespace espalier::server {

// What a reply of /v1/messages needs to know.
struct MessagesReplyOptions {
  std::string id, model;
  bool stream = false;
  int prompt_tokens = 0;
  int marked_tokens = 0;     // of these, up to the last cache_control
  bool marked_long = false;  // which keeps them for an hour
  AnswerOptions reading;
  bool only_calls = false;  // text around calls that must come is not told
};

// The Reply of /v1/messages.
class MessagesReply final : public Reply {
 public:
  explicit MessagesReply(MessagesReplyOptions options);
  void add(int prompt, TextEvent event, std::string& out) override;
  void finish(std::string& out) override;
  int calls() const override { return parser_.calls(); }

 private:
  struct Block {
    enum class Kind { thinking, text, call };
    Kind kind;
    std::string text;  // or the arguments
    std::string id, name;
  };

  void begin(int cached, std::string& out);
  void apply(const std::vector<AnswerEvent>& events, std::string& out);
  void extend(Block::Kind kind, std::string_view text, std::string& out);
  void open(Block block, std::string& out);
  void close(std::string& out);
  void write_usage(JsonWriter& json, bool whole) const;
  void write_stop(JsonWriter& json) const;
  std::string_view stop_reason() const;

  MessagesReplyOptions options_;
  AnswerParser parser_;
  std::vector<Block> blocks_;
  bool begun_ = false, open_ = false;
  int cached_ = 0, tokens_ = 0;
  FinishReason reason_ = FinishReason::stop;
  std::optional<std::string> stop_;
};

}  // namespace espalier::server
