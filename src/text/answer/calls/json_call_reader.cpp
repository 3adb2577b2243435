#include "text/answer/calls/json_call_reader.h"

#include <utility>

namespace espalier {

void JsonCallReader::open(int mark) {
  at_ = At::start;
  bare_ = mark == bare;
  array_ = false;
}

CallStep JsonCallReader::read(char c, EventList& out) {
  switch (at_) {
    case At::start:
      return start_step(c);
    case At::item:
      return item_step(c);
    case At::between:
      return between_step(c);
    case At::tail:
      return tail_step(c);
    case At::key_or_end:
      return key_or_end_step(c, out);
    case At::key:
      return key_step(c);
    case At::colon:
      if (c == ':') at_ = At::value;
      return c == ':' || is_blank(c) ? CallStep::more : CallStep::refused;
    case At::value:
      return is_blank(c) ? CallStep::more : value_step(c, out);
    case At::name:
      return name_step(c, out);
    case At::object:
      return object_step(c, out);
    case At::text:
      return text_step(c, out);
    case At::null:
      return null_step(c, out);
    case At::skip:
      return skip_step(c, out);
    case At::member_end:
      return member_end_step(c, out);
    case At::broken:
      return broken_.step(c, out) ? CallStep::done : CallStep::more;
  }
  return CallStep::refused;
}

CallStep JsonCallReader::start_step(char c) {
  if (is_blank(c)) return CallStep::more;
  if (c == '{') return begin_object();
  if (c != '[') return CallStep::refused;
  array_ = first_ = true;
  at_ = At::item;
  return CallStep::more;
}

CallStep JsonCallReader::item_step(char c) {
  if (is_blank(c)) return CallStep::more;
  if (c == '{') return begin_object();
  if (c != ']' || bare_ || !first_) return CallStep::refused;
  go_to_tail();
  return ends_.empty() ? CallStep::done : CallStep::more;
}

CallStep JsonCallReader::between_step(char c) {
  if (is_blank(c)) return CallStep::more;
  if (c == ',') {
    first_ = false;
    at_ = At::item;
    return CallStep::more;
  }
  go_to_tail();
  if (c != ']') return tail_step(c);
  array_ = false;
  return ends_.empty() || bare_ ? CallStep::done : CallStep::settled;
}

// Behind an object, or behind the array.
CallStep JsonCallReader::tail_step(char c) {
  if (!end_.begun()) {
    if (is_blank(c) || c == ';' || c == ',') return CallStep::more;
    if (c == '{') return begin_object();
    if ((c == '}' || c == ']') && !ends_.empty()) return CallStep::settled;  // one too many
  }
  if (ends_.empty() || bare_) return CallStep::refused;
  const int found = end_.step(c);
  return found >= 0 ? CallStep::done : found == OneOf::more ? CallStep::more : CallStep::refused;
}

void JsonCallReader::go_to_tail() {
  at_ = At::tail;
  end_.expect(ends_);
}

CallStep JsonCallReader::begin_object() {
  nested_ = 0;
  told_ = call_done_ = has_name_ = has_arguments_ = false;
  name_.clear();
  arguments_.clear();
  at_ = At::key_or_end;
  return CallStep::more;
}

CallStep JsonCallReader::key_or_end_step(char c, EventList& out) {
  if (is_blank(c)) return CallStep::more;
  if (c == '}') return object_end(out);
  if (c != '"') return CallStep::refused;
  key_.clear();
  string_.start();
  at_ = At::key;
  return CallStep::more;
}

CallStep JsonCallReader::key_step(char c) {
  if (string_.step(c, key_)) at_ = At::colon;
  return key_.size() > kNameMost ? CallStep::refused : CallStep::more;
}

JsonCallReader::Member JsonCallReader::member() const {
  if (context_.format->name_is_key) return call_done_ ? Member::other : Member::arguments;
  if (key_ == "name" || key_ == "tool_name") return has_name_ ? Member::other : Member::name;
  if (key_ == "arguments" || key_ == "parameters") return has_arguments_ ? Member::other : Member::arguments;
  return key_ == "function" && !has_name_ ? Member::nest : Member::other;
}

CallStep JsonCallReader::value_step(char c, EventList& out) {
  switch (member()) {
    case Member::arguments:
      return begin_arguments(c, out);
    case Member::nest:
      if (c == '{') return begin_nested();
      [[fallthrough]];
    case Member::name:
      if (c != '"') return begin_skipped(c);
      string_.start();
      at_ = At::name;
      return CallStep::more;
    default:
      return begin_skipped(c);
  }
}

CallStep JsonCallReader::begin_nested() {
  if (nested_ > 0) return CallStep::refused;
  ++nested_;
  at_ = At::key_or_end;
  return CallStep::more;
}

CallStep JsonCallReader::begin_skipped(char c) {
  scan_.start();
  if (scan_.step(c) == JsonScan::Step::broken) return CallStep::refused;
  at_ = At::skip;
  return CallStep::more;
}

CallStep JsonCallReader::begin_arguments(char c, EventList& out) {
  if (c != '{' && c != 'n' && (c != '"' || context_.format->name_is_key)) return CallStep::refused;
  if (context_.format->name_is_key) {
    name_ = key_;
    has_name_ = true;
  }
  if (has_name_) {
    if (context_.refuses(name_)) return CallStep::refused;
    out.begin_call(name_);
    told_ = true;
  }
  has_arguments_ = true;
  at_ = c == '{' ? At::object : c == '"' ? At::text : At::null;
  json_.start();
  string_.start();
  matched_ = 1;
  return c == '{' ? object_step(c, out) : CallStep::more;
}

CallStep JsonCallReader::name_step(char c, EventList& out) {
  const bool ended = string_.step(c, name_);
  if (name_.size() > kNameMost) return CallStep::refused;
  if (!ended) return CallStep::more;
  if (context_.refuses(name_)) return CallStep::refused;
  has_name_ = true;
  at_ = At::member_end;
  if (!has_arguments_) return CallStep::more;
  out.begin_call(name_);
  told_ = true;
  return arguments_ended(out);
}

void JsonCallReader::pass_on(EventList& out) {
  if (streams()) out.arguments(std::exchange(arguments_, {}));
}

CallStep JsonCallReader::object_step(char c, EventList& out) {
  const JsonScan::Step step = json_.step(c, arguments_);
  pass_on(out);
  if (step == JsonScan::Step::ended) return arguments_ended(out);
  if (step != JsonScan::Step::broken) return CallStep::more;
  if (!told_) return CallStep::refused;
  broken_.start(ends_);
  at_ = At::broken;
  return CallStep::more;
}

CallStep JsonCallReader::text_step(char c, EventList& out) {
  const bool ended = string_.step(c, arguments_);
  pass_on(out);
  return ended ? arguments_ended(out) : CallStep::more;
}

CallStep JsonCallReader::null_step(char c, EventList& out) {
  constexpr std::string_view word = "null";
  if (c == word[matched_]) return ++matched_ == word.size() ? arguments_ended(out) : CallStep::more;
  if (!told_) return CallStep::refused;
  out.arguments(word.substr(0, matched_));
  broken_.start(ends_);
  at_ = At::broken;
  return CallStep::again;
}

CallStep JsonCallReader::arguments_ended(EventList& out) {
  at_ = At::member_end;
  if (!told_) return CallStep::more;
  pass_on(out);
  out.end_call();
  call_done_ = true;
  return CallStep::more;
}

CallStep JsonCallReader::skip_step(char c, EventList& out) {
  const JsonScan::Step step = scan_.step(c);
  if (step == JsonScan::Step::broken) return CallStep::refused;
  if (step == JsonScan::Step::inside) return CallStep::more;
  at_ = At::member_end;
  return step == JsonScan::Step::ended ? CallStep::more : member_end_step(c, out);
}

CallStep JsonCallReader::member_end_step(char c, EventList& out) {
  if (is_blank(c)) return CallStep::more;
  if (c == '}') return object_end(out);
  if (c == ',') {
    at_ = At::key_or_end;
    return CallStep::more;
  }
  if (!call_done_) return CallStep::refused;
  go_to_tail();  // the object's closing brace is missing
  return tail_step(c);
}

CallStep JsonCallReader::object_end(EventList& out) {
  if (nested_ > 0) {
    --nested_;
    at_ = At::member_end;
    return CallStep::more;
  }
  if (!call_done_) {
    if (!has_name_ || bare_ || context_.format->name_is_key) return CallStep::refused;
    out.begin_call(name_);
    out.end_call();
  }
  if (array_)
    at_ = At::between;
  else
    go_to_tail();
  return CallStep::settled;
}

void JsonCallReader::finish(EventList& out) {
  if (at_ == At::broken) broken_.finish(out);
  if (at_ == At::null) out.arguments(std::string_view("null").substr(0, matched_));
  if (out.call_open()) out.end_call();
}

}  // namespace espalier
