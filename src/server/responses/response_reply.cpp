#include "server/responses/response_reply.h"

#include <fmt/format.h>

#include <utility>

#include "net/http/sse.h"
#include "server/answer/call_id.h"
#include "server/delivery/token_name.h"
#include "server/store/data_store.h"  // seconds_now

namespace espalier::server {
ResponseReply::ResponseReply(ResponseReplyOptions options) : options_(std::move(options)), parser_(options_.reading) {}

// An event whose data begin with its own name and number.
template <class Write>
std::string ResponseReply::event_text(std::string_view name, Write&& write) {
  std::string data, sent;
  JsonWriter json(data);
  json.open('{').field("type", name).field("sequence_number", sequence_++);
  write(json);
  json.close('}');
  net::append_sse_event(sent, data, name);
  return sent;
}

template <class Write>
void ResponseReply::event(std::string_view name, std::string& out, Write&& write) {
  if (tells_events()) tell(event_text(name, write), out);
}

// To the client, to the log, or to both.
void ResponseReply::tell(const std::string& event, std::string& out) {
  if (options_.log) options_.log->append(event);
  if (options_.stream) out += event;
}

std::string ResponseReply::events_with(const std::string& last) const {
  return options_.log ? options_.log->all() + last : std::string();
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): other replies keep what is in it
void ResponseReply::add(int, TextEvent event, std::string& out) {
  if (const auto* delta = std::get_if<TextDelta>(&event))
    on_token(*delta, out);
  else if (const auto* end = std::get_if<TextEnd>(&event))
    on_end(*end, out);
}

void ResponseReply::begin(int cached, std::string& out) {
  if (std::exchange(begun_, true)) return;
  cached_ = cached;
  if (!tells_events()) return;
  const auto tell_state = [&](const char* name, const char* status) {
    event(name, out, [&](JsonWriter& json) { json.key("response").raw(json_text(response_now(status))); });
  };
  const bool queued = options_.response.value("background", false);
  tell_state("response.created", queued ? "queued" : "in_progress");
  if (queued) tell_state("response.queued", "queued");
  tell_state("response.in_progress", "in_progress");
}

void ResponseReply::on_token(const TextDelta& delta, std::string& out) {
  begin(delta.token.cached_tokens, out);
  const bool thought = parser_.thinks();
  raw_ += delta.text;
  if (!delta.token.ends) ids_.push_back(delta.token.id);
  ++tokens_;
  const auto events = parser_.feed(delta.text);
  if (parser_.thinks()) ++reasoning_tokens_;
  if (options_.logprobs && !thought && !parser_.thinks() && parser_.calls() == 0) note_logprob(delta.token);
  apply(events, out);
}

void ResponseReply::on_end(const TextEnd& end, std::string& out) {
  begin(end.usage.cached_tokens, out);
  raw_ += end.text;
  apply(parser_.feed(end.text), out);
  apply(parser_.finish(), out);
  reason_ = end.reason;
  if (open_ && reason_ != FinishReason::stop) items_.back().cut = true;
  close(out);
  tokens_ = end.usage.completion_tokens;
  cached_ = end.usage.cached_tokens;
}

void ResponseReply::note_logprob(const TokenEvent& token) {
  std::string entry;
  JsonWriter json(entry);
  json.open('{');
  write_token_entry(json, options_.tokenizer, token.id, token.logprob);
  json.key("top_logprobs").open('[');
  for (const TokenLogprob& other : token.alternatives.top) {
    json.open('{');
    write_token_entry(json, options_.tokenizer, other.token, other.logprob);
    json.close('}');
  }
  json.close(']').close('}');
  if (!pending_logprobs_.empty()) pending_logprobs_ += ',';
  pending_logprobs_ += entry;
}

void ResponseReply::apply(const std::vector<AnswerEvent>& events, std::string& out) {
  for (const AnswerEvent& event : events) {
    if (const auto* text = std::get_if<TextPiece>(&event)) {
      if (!options_.only_calls) extend(Kind::message, text->text, out);
    } else if (const auto* thinking = std::get_if<ThinkingPiece>(&event)) {
      extend(Kind::reasoning, thinking->text, out);
    } else if (const auto* call = std::get_if<CallBegun>(&event)) {
      Item item{Kind::call, new_call_id("fc_"), call->id, call->name, {}, {}, false};
      if (item.call_id.empty()) item.call_id = new_call_id("call_");
      open(std::move(item), out);
    } else if (const auto* piece = std::get_if<ArgumentsPiece>(&event)) {
      extend(Kind::call, piece->json, out);
    } else if (std::holds_alternative<CallEnded>(event)) {
      close(out);
    }
  }
}

void ResponseReply::write_place(JsonWriter& json, const Item& item) const {
  json.field("item_id", item.id).field("output_index", items_.size() - 1);
  if (item.kind != Kind::call) json.field("content_index", 0);
}

void ResponseReply::item_event(std::string_view name, std::string& out, const Item& item, bool done) {
  event(name, out, [&](JsonWriter& json) {
    json.field("output_index", items_.size() - 1).key("item").raw(json_text(item_json(item, done)));
  });
}

void ResponseReply::part_event(std::string_view name, std::string& out, const Item& item, bool whole) {
  event(name, out, [&](JsonWriter& json) {
    write_place(json, item);
    json.key("part").open('{').field("type", item.kind == Kind::message ? "output_text" : "reasoning_text");
    json.field("text", whole ? std::string_view(item.text) : std::string_view());
    if (item.kind == Kind::message) {
      json.key("annotations").open('[').close(']').key("logprobs");
      json.raw("[" + (whole ? item.logprobs : std::string()) + "]");
    }
    json.close('}');
  });
}

void ResponseReply::open(Item item, std::string& out) {
  close(out);
  items_.push_back(std::move(item));
  open_ = true;
  const Item& made = items_.back();
  item_event("response.output_item.added", out, made, false);
  if (made.kind != Kind::call) part_event("response.content_part.added", out, made, false);
}

void ResponseReply::extend(Kind kind, std::string_view text, std::string& out) {
  if (text.empty()) return;
  if (!open_ || items_.back().kind != kind)
    open({kind, new_call_id(kind == Kind::message ? "msg_" : "rs_"), {}, {}, {}, {}, false}, out);
  Item& item = items_.back();
  item.text += text;
  const std::string_view name = kind == Kind::message     ? "response.output_text.delta"
                                : kind == Kind::reasoning ? "response.reasoning_text.delta"
                                                          : "response.function_call_arguments.delta";
  event(name, out, [&](JsonWriter& json) {
    write_place(json, item);
    json.field("delta", text);
    if (kind == Kind::message) json.key("logprobs").raw("[" + pending_logprobs_ + "]");
  });
  if (kind != Kind::message || pending_logprobs_.empty()) return;
  if (!item.logprobs.empty()) item.logprobs += ',';
  item.logprobs += std::exchange(pending_logprobs_, {});
}

void ResponseReply::close(std::string& out) {
  if (!std::exchange(open_, false)) return;
  Item& item = items_.back();
  if (item.kind == Kind::message && !pending_logprobs_.empty()) {  // of tokens without text, the last one
    if (!item.logprobs.empty()) item.logprobs += ',';
    item.logprobs += std::exchange(pending_logprobs_, {});
  }
  const std::string_view name = item.kind == Kind::message     ? "response.output_text.done"
                                : item.kind == Kind::reasoning ? "response.reasoning_text.done"
                                                               : "response.function_call_arguments.done";
  event(name, out, [&](JsonWriter& json) {
    write_place(json, item);
    if (item.kind == Kind::call) json.field("name", item.name);
    json.field(item.kind == Kind::call ? "arguments" : "text", item.text);
    if (item.kind == Kind::message) json.key("logprobs").raw("[" + item.logprobs + "]");
  });
  if (item.kind != Kind::call) part_event("response.content_part.done", out, item, true);
  item_event("response.output_item.done", out, item, true);
}

Json ResponseReply::item_json(const Item& item, bool done) {
  const char* status = !done ? "in_progress" : item.cut ? "incomplete" : "completed";
  if (item.kind == Kind::call) {
    return {{"id", item.id},           {"type", "function_call"}, {"status", status},
            {"call_id", item.call_id}, {"name", item.name},       {"arguments", done ? item.text : ""}};
  }
  Json content = Json::array();
  if (item.kind == Kind::reasoning) {
    if (done) content.push_back({{"type", "reasoning_text"}, {"text", item.text}});
    Json reasoning = {{"id", item.id}, {"type", "reasoning"}, {"summary", Json::array()}};
    reasoning["content"] = std::move(content);
    reasoning["encrypted_content"] = nullptr;
    reasoning["status"] = status;
    return reasoning;
  }
  if (done) {
    Json part = {{"type", "output_text"}, {"text", item.text}, {"annotations", Json::array()}};
    auto logprobs = parse_json("[" + item.logprobs + "]");
    part["logprobs"] = logprobs.ok() ? std::move(logprobs).value() : Json::array();
    content.push_back(std::move(part));
  }
  Json message = {{"id", item.id}, {"type", "message"}, {"status", status}, {"role", "assistant"}};
  message["content"] = std::move(content);
  return message;
}

void ResponseReply::add_usage(Json& usage, int input, int cached, int output, int reasoning) {
  usage = {{"input_tokens", input}};
  usage["input_tokens_details"] = {{"cached_tokens", cached}};
  usage["output_tokens"] = output;
  usage["output_tokens_details"] = {{"reasoning_tokens", reasoning}};
  usage["total_tokens"] = input + output;
}

std::string_view ResponseReply::last_status() const {
  if (reason_ == FinishReason::length) return "incomplete";
  return reason_ == FinishReason::abort ? "cancelled" : "completed";
}

Json ResponseReply::response_now(std::string_view status) const {
  Json response = options_.response;
  response["status"] = status;
  if (status == "in_progress") return response;
  Json output = Json::array();
  for (const Item& item : items_) output.push_back(item_json(item, true));
  response["output"] = std::move(output);
  response["completed_at"] = status == "completed" ? Json(seconds_now()) : Json(nullptr);
  if (status == "incomplete") response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  add_usage(response["usage"], options_.prompt_tokens, cached_, tokens_, reasoning_tokens_);
  if (options_.image_tokens.any()) {
    Json& details = response["usage"]["input_tokens_details"];
    details["image_tokens"] = options_.image_tokens.count();
    details["cached_image_tokens"] = options_.image_tokens.among_first(cached_);
  }
  return response;
}

// Nobody is told of the end before it is stored.
Result<> ResponseReply::conclude() {
  const std::string_view status = last_status();
  EndedResponse ended{response_now(status), std::move(raw_), std::move(ids_), {}};
  std::string whole = json_text(ended.response);
  std::string last;
  if (tells_events()) {
    const std::string name = fmt::format("response.{}", status == "cancelled" ? "incomplete" : status);
    last = event_text(name, [&](JsonWriter& json) { json.key("response").raw(whole); });
  }
  ended.events = events_with(last);
  if (options_.keep) {
    if (auto kept = options_.keep(ended); !kept) {
      --sequence_;
      return kept;
    }
  }
  if (options_.log) options_.log->append(last);
  if (options_.log) options_.log->end();
  last_ = options_.stream ? std::move(last) : std::move(whole);
  return success();
}

std::optional<std::string> ResponseReply::failed(const net::HttpError& why) {
  std::string out, last;
  if (options_.log) begin(0, out);
  EndedResponse so_far{response_now("failed"), {}, {}, {}};
  const char* code = why.status == 429 ? "rate_limit_exceeded" : why.status < 500 ? "invalid_prompt" : "server_error";
  so_far.response["error"] = {{"code", code}, {"message", why.message}};
  if (tells_events()) {
    last =
        event_text("response.failed", [&](JsonWriter& json) { json.key("response").raw(json_text(so_far.response)); });
  }
  so_far.events = events_with(last);
  if (options_.stopped) options_.stopped(why, so_far);
  if (options_.log) options_.log->append(last);
  if (options_.log) options_.log->end();
  return out + last;
}

void ResponseReply::finish(std::string& out) {
  out += last_;
}

}  // namespace espalier::server
