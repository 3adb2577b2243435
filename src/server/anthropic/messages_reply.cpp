#include "server/anthropic/messages_reply.h"

#include <utility>

#include "net/http/sse.h"
#include "server/answer/call_id.h"

namespace espalier::server {
namespace {

// An event whose data begin with its own name.
template <class Write>
void write_event(std::string& out, std::string_view name, Write&& write) {
  std::string data;
  JsonWriter json(data);
  json.open('{').field("type", name);
  write(json);
  json.close('}');
  net::append_sse_event(out, data, name);
}

void write_input(JsonWriter& json, std::string_view arguments) {
  const auto parsed = parse_json(arguments);
  json.key("input").raw(parsed.ok() && parsed->is_object() ? arguments : "{}");
}

}  // namespace

MessagesReply::MessagesReply(MessagesReplyOptions options) : options_(std::move(options)), parser_(options_.reading) {}

void MessagesReply::add(int, TextEvent event, std::string& out) {
  if (const auto* delta = std::get_if<TextDelta>(&event)) {
    begin(delta->token.cached_tokens, out);
    ++tokens_;
    apply(parser_.feed(delta->text), out);
  } else if (auto* end = std::get_if<TextEnd>(&event)) {
    begin(end->usage.cached_tokens, out);
    apply(parser_.feed(end->text), out);
    apply(parser_.finish(), out);
    close(out);
    reason_ = end->reason;
    stop_ = std::move(end->matched_string);
    tokens_ = end->usage.completion_tokens;
    cached_ = end->usage.cached_tokens;
  }
}

void MessagesReply::begin(int cached, std::string& out) {
  if (std::exchange(begun_, true)) return;
  cached_ = cached;
  if (!options_.stream) return;
  write_event(out, "message_start", [&](JsonWriter& json) {
    json.key("message").open('{').field("id", options_.id).field("type", "message").field("role", "assistant");
    json.field("model", options_.model).key("content").open('[').close(']');
    json.key("stop_reason").null().key("stop_sequence").null();
    write_usage(json, true);
    json.close('}');
  });
}

void MessagesReply::apply(const std::vector<AnswerEvent>& events, std::string& out) {
  for (const AnswerEvent& event : events) {
    if (const auto* text = std::get_if<TextPiece>(&event)) {
      if (!options_.only_calls) extend(Block::Kind::text, text->text, out);
    } else if (const auto* thinking = std::get_if<ThinkingPiece>(&event)) {
      extend(Block::Kind::thinking, thinking->text, out);
    } else if (const auto* call = std::get_if<CallBegun>(&event)) {
      open({Block::Kind::call, {}, call->id.empty() ? new_call_id("toolu_") : call->id, call->name}, out);
    } else if (const auto* piece = std::get_if<ArgumentsPiece>(&event)) {
      extend(Block::Kind::call, piece->json, out);
    } else if (std::holds_alternative<CallEnded>(event)) {
      close(out);
    }
  }
}

void MessagesReply::open(Block block, std::string& out) {
  close(out);
  blocks_.push_back(std::move(block));
  open_ = true;
  if (!options_.stream) return;
  const Block& made = blocks_.back();
  write_event(out, "content_block_start", [&](JsonWriter& json) {
    json.field("index", blocks_.size() - 1).key("content_block").open('{');
    switch (made.kind) {
      case Block::Kind::thinking:
        json.field("type", "thinking").field("thinking", "").field("signature", "");
        break;
      case Block::Kind::text:
        json.field("type", "text").field("text", "");
        break;
      case Block::Kind::call:
        json.field("type", "tool_use").field("id", made.id).field("name", made.name).key("input").open('{').close('}');
        break;
    }
    json.close('}');
  });
}

void MessagesReply::extend(Block::Kind kind, std::string_view text, std::string& out) {
  if (text.empty()) return;
  if (!open_ || blocks_.back().kind != kind) open({kind, {}, {}, {}}, out);
  blocks_.back().text += text;
  if (!options_.stream) return;
  write_event(out, "content_block_delta", [&](JsonWriter& json) {
    json.field("index", blocks_.size() - 1).key("delta").open('{');
    switch (kind) {
      case Block::Kind::thinking:
        json.field("type", "thinking_delta").field("thinking", text);
        break;
      case Block::Kind::text:
        json.field("type", "text_delta").field("text", text);
        break;
      case Block::Kind::call:
        json.field("type", "input_json_delta").field("partial_json", text);
        break;
    }
    json.close('}');
  });
}

void MessagesReply::close(std::string& out) {
  if (!std::exchange(open_, false) || !options_.stream) return;
  write_event(out, "content_block_stop", [&](JsonWriter& json) { json.field("index", blocks_.size() - 1); });
}

std::string_view MessagesReply::stop_reason() const {
  if (reason_ == FinishReason::length) return "max_tokens";
  if (stop_) return "stop_sequence";
  for (const Block& block : blocks_)
    if (block.kind == Block::Kind::call) return "tool_use";
  return "end_turn";
}

void MessagesReply::write_stop(JsonWriter& json) const {
  json.field("stop_reason", stop_reason()).key("stop_sequence");
  if (stop_)
    json.value(*stop_);
  else
    json.null();
}

// At the start of a stream what is known then; `whole`: of the prompt, too.
void MessagesReply::write_usage(JsonWriter& json, bool whole) const {
  json.key("usage").open('{');
  if (whole) {
    const int created = std::max(0, options_.marked_tokens - cached_);
    json.field("input_tokens", options_.prompt_tokens - cached_ - created);
    json.field("cache_creation_input_tokens", created).field("cache_read_input_tokens", cached_);
    json.key("cache_creation").open('{');
    json.field("ephemeral_5m_input_tokens", options_.marked_long ? 0 : created);
    json.field("ephemeral_1h_input_tokens", options_.marked_long ? created : 0).close('}');
  }
  json.field("output_tokens", tokens_).close('}');
}

void MessagesReply::finish(std::string& out) {
  if (options_.stream) {
    write_event(out, "message_delta", [&](JsonWriter& json) {
      json.key("delta").open('{');
      write_stop(json);
      json.close('}');
      write_usage(json, true);
    });
    write_event(out, "message_stop", [](JsonWriter&) {});
    return;
  }
  JsonWriter json(out);
  json.open('{').field("id", options_.id).field("type", "message").field("role", "assistant");
  json.field("model", options_.model).key("content").open('[');
  for (const Block& block : blocks_) {
    json.open('{');
    switch (block.kind) {
      case Block::Kind::thinking:
        json.field("type", "thinking").field("thinking", block.text).field("signature", "");
        break;
      case Block::Kind::text:
        json.field("type", "text").field("text", block.text);
        break;
      case Block::Kind::call:
        json.field("type", "tool_use").field("id", block.id).field("name", block.name);
        write_input(json, block.text);
        break;
    }
    json.close('}');
  }
  json.close(']');
  write_stop(json);
  write_usage(json, true);
  json.close('}');
}

}  // namespace espalier::server
