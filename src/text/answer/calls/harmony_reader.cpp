#include "text/answer/calls/harmony_reader.h"

#include <algorithm>
#include <utility>

namespace espalier {
namespace {

constexpr std::string_view kStart = "<|start|>", kChannel = "<|channel|>", kMessage = "<|message|>";
constexpr int kStartMark = 3, kChannelMark = 4;  // of the marks that end a body

// The word behind `key` in a header, up to a blank or a mark.
std::string_view word_behind(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(key);
  if (at == header.npos) return {};
  const std::string_view rest = header.substr(at + key.size());
  return rest.substr(0, std::min(rest.find_first_of(" \t\r\n<"), rest.size()));
}

}  // namespace

HarmonyReader::HarmonyReader(HarmonyBegins begins, const CallTools* tools, bool calls, bool only_known)
    : tools_(tools),
      calls_(calls),
      only_known_(only_known),
      header_end_({kMessage}),
      body_end_({"<|end|>", "<|call|>", "<|return|>", kStart, kChannel}) {
  expected_.expect({kStart, kChannel, kMessage, "to="});
  if (begins == HarmonyBegins::header) return;
  at_ = At::body;
  body_ = begins == HarmonyBegins::analysis ? Body::thinking : Body::content;
}

void HarmonyReader::read(char c, EventList& out) {
  switch (at_) {
    case At::between:
      return between_step(c, out);
    case At::header:
      return header_step(c, out);
    case At::body:
      return body_step(c, out);
  }
}

void HarmonyReader::between_step(char c, EventList& out) {
  const int found = expected_.step(c);
  if (found == OneOf::more) return;
  const std::string held = expected_.held();
  if (found >= 0) {
    begin_header(held);
    if (held == kMessage) begin_body(out);
    return;
  }
  at_ = At::body;  // a text without a header
  body_ = Body::content;
  for (const char one : held) body_step(one, out);
}

void HarmonyReader::begin_header(std::string text) {
  at_ = At::header;
  header_ = std::move(text);
  header_end_.take();
}

void HarmonyReader::header_step(char c, EventList& out) {
  const MarkFinder::Found found = header_end_.push(c);
  header_ += std::string_view(header_end_.held()).substr(0, found.text);
  header_end_.drop(found);
  if (found.mark >= 0) return begin_body(out);
  if (header_.size() <= kHeaderMost) return;
  at_ = At::body;
  body_ = Body::content;
  out.text(std::exchange(header_, {}) + header_end_.take());
}

// The name of the tool that a message is for; empty where it calls none.
std::string HarmonyReader::called(std::string_view recipient) const {
  constexpr std::string_view kFunctions = "functions.";
  const bool function = recipient.starts_with(kFunctions);
  if (function) recipient.remove_prefix(kFunctions.size());
  const bool known = tools_->contains(recipient);
  if (!calls_ || recipient.size() > kNameMost || (only_known_ && !known)) return {};
  return function || known ? std::string(recipient) : std::string();
}

void HarmonyReader::begin_body(EventList& out) {
  const std::string_view recipient = word_behind(header_, "to=");
  const std::string_view channel = word_behind(header_, kChannel);
  const std::string name = called(recipient);
  at_ = At::body;
  body_end_.take();
  if (!name.empty()) {
    out.begin_call(name);
    json_.start();
    body_ = Body::arguments;
    return;
  }
  const bool other_tool = !recipient.empty() && !recipient.starts_with("functions.");
  body_ = channel == "analysis" || other_tool ? Body::thinking : Body::content;
}

void HarmonyReader::body_step(char c, EventList& out) {
  if (body_ == Body::arguments && json_.in_string()) return arguments_step(c, out);
  const MarkFinder::Found found = body_end_.push(c);
  if (found.text > 0) {
    const std::string text = body_end_.held().substr(0, found.text);
    body_end_.drop(found);
    add(text, out);
  }
  if (found.mark < 0) return;
  body_end_.take();
  body_ended(found.mark, out);
}

void HarmonyReader::add(std::string_view text, EventList& out) {
  if (body_ == Body::content) out.text(text);
  if (body_ == Body::thinking) out.thinking(text);
  if (body_ == Body::broken) out.arguments(text);
  if (body_ != Body::arguments) return;
  for (const char c : text) arguments_step(c, out);
}

void HarmonyReader::arguments_step(char c, EventList& out) {
  if (body_ == Body::broken) return out.arguments(std::string_view(&c, 1));
  if (body_ != Body::arguments) return;
  std::string json;
  const JsonScan::Step step = json_.step(c, json);
  out.arguments(json);
  if (step == JsonScan::Step::broken) body_ = Body::broken;
  if (step == JsonScan::Step::ended) body_ = Body::behind;
}

void HarmonyReader::body_ended(int mark, EventList& out) {
  if (out.call_open()) out.end_call();
  if (mark == kStartMark || mark == kChannelMark)
    return begin_header(std::string(mark == kStartMark ? kStart : kChannel));
  at_ = At::between;
  expected_.expect({kStart, kChannel});
}

void HarmonyReader::finish(EventList& out) {
  if (at_ == At::body) add(body_end_.take(), out);
  if (at_ == At::between && expected_.begun()) out.text(expected_.held());
  if (out.call_open()) out.end_call();
}

}  // namespace espalier
