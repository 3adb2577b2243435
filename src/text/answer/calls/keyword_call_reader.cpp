#include "text/answer/calls/keyword_call_reader.h"

namespace espalier {
namespace {

LiteralDialect dialect_of(const CallFormat& format) {
  if (format.before_name.empty()) return LiteralDialect::python;
  return format.name == "gemma4" ? LiteralDialect::gemma : LiteralDialect::function_gemma;
}

}  // namespace

KeywordCallReader::KeywordCallReader(const CallContext& context)
    : context_(context),
      format_(*context.format),
      dialect_(dialect_of(*context.format)),
      ends_(marks_of(context.format->ends)),
      objects_(context, ends_) {}

void KeywordCallReader::open(int mark) {
  at_ = At::start;
  bare_ = mark == bare;
  list_ = false;
}

CallStep KeywordCallReader::read(char c, EventList& out) {
  switch (at_) {
    case At::start:
      return start_step(c, out);
    case At::before_name:
      return before_name_step(c);
    case At::name:
      return name_step(c);
    case At::key:
    case At::behind_key:
      return key_step(c, out);
    case At::value:
      return value_step(c, out);
    case At::behind_value:
      return behind_value_step(c, out);
    case At::behind:
      return behind_step(c);
    case At::objects:
      return objects_.read(c, out);
    case At::broken:
      return broken_.step(c, out) ? CallStep::done : CallStep::more;
  }
  return CallStep::refused;
}

CallStep KeywordCallReader::start_step(char c, EventList& out) {
  if (is_blank(c)) return CallStep::more;
  if (format_.brackets && c == '[' && !list_) {
    list_ = true;
    return CallStep::more;
  }
  if (c != '{' || !format_.brackets) return begin_call(c);
  objects_.open(bare_ ? bare : 0);
  if (list_) objects_.read('[', out);
  at_ = At::objects;
  return objects_.read(c, out);
}

CallStep KeywordCallReader::begin_call(char c) {
  name_.clear();
  told_ = has_members_ = false;
  at_ = format_.before_name.empty() ? At::name : At::before_name;
  expected_.expect({format_.before_name});
  return at_ == At::name ? name_step(c) : before_name_step(c);
}

CallStep KeywordCallReader::before_name_step(char c) {
  const int found = expected_.step(c);
  if (found >= 0) at_ = At::name;
  return found == OneOf::none ? CallStep::refused : CallStep::more;
}

CallStep KeywordCallReader::name_step(char c) {
  if (name_.empty() && is_blank(c)) return CallStep::more;
  if (is_name_letter(c)) {
    name_ += c;
    return name_.size() > kNameMost ? CallStep::refused : CallStep::more;
  }
  if (name_.empty() || c != (python() ? '(' : '{')) return CallStep::refused;
  key_.clear();
  at_ = At::key;
  return CallStep::more;
}

CallStep KeywordCallReader::tell(EventList& out) {
  if (told_) return CallStep::more;
  if (context_.refuses(name_)) return CallStep::refused;
  out.begin_call(name_);
  told_ = true;
  return CallStep::more;
}

CallStep KeywordCallReader::key_step(char c, EventList& out) {
  if (c == (python() ? '=' : ':') && !key_.empty()) return begin_value(out);
  if (is_blank(c)) {
    if (!key_.empty()) at_ = At::behind_key;
    return CallStep::more;
  }
  if (c == (python() ? ')' : '}') && key_.empty()) {
    const CallStep step = tell(out);
    return step == CallStep::more ? call_ended(out) : step;
  }
  if (at_ == At::key && is_name_letter(c) && key_.size() < kNameMost) {
    key_ += c;
    return CallStep::more;
  }
  return told_ ? fail(key_ + c, out) : CallStep::refused;
}

CallStep KeywordCallReader::begin_value(EventList& out) {
  if (const CallStep step = tell(out); step != CallStep::more) return step;
  out.arguments((has_members_ ? ", " : "{") + json_quoted(key_) + ": ");
  has_members_ = true;
  value_.start(dialect_);
  at_ = At::value;
  return CallStep::more;
}

CallStep KeywordCallReader::value_step(char c, EventList& out) {
  std::string json;
  const LiteralValue::Step step = value_.step(c, json);
  out.arguments(json);
  if (step == LiteralValue::Step::broken) return fail({}, out);
  if (step == LiteralValue::Step::inside) return CallStep::more;
  at_ = At::behind_value;
  return step == LiteralValue::Step::ended ? CallStep::more : behind_value_step(c, out);
}

CallStep KeywordCallReader::behind_value_step(char c, EventList& out) {
  if (is_blank(c)) return CallStep::more;
  if (c == (python() ? ')' : '}')) return call_ended(out);
  if (c != ',') return fail(std::string_view(&c, 1), out);
  key_.clear();
  at_ = At::key;
  return CallStep::more;
}

CallStep KeywordCallReader::call_ended(EventList& out) {
  if (has_members_) out.arguments("}");
  out.end_call();
  at_ = At::behind;
  expected_.expect(ends_);
  return CallStep::more;
}

CallStep KeywordCallReader::behind_step(char c) {
  if (!expected_.begun()) {
    if (is_blank(c)) return CallStep::more;
    if (c == ',') {
      at_ = At::start;
      return CallStep::more;
    }
    if (c == ']' && list_) {
      list_ = false;
      return bare_ ? CallStep::done : CallStep::settled;
    }
    if (python() && !list_ && !bare_ && is_name_letter(c)) return begin_call(c);
  }
  if (bare_) return CallStep::refused;
  const int found = expected_.step(c);
  return found >= 0 ? CallStep::done : found == OneOf::more ? CallStep::more : CallStep::refused;
}

CallStep KeywordCallReader::fail(std::string_view written, EventList& out) {
  out.arguments(written);
  broken_.start(ends_);
  at_ = At::broken;
  return CallStep::more;
}

void KeywordCallReader::finish(EventList& out) {
  if (at_ == At::objects) objects_.finish(out);
  if (at_ == At::broken) broken_.finish(out);
  if (at_ == At::value) {
    std::string json;
    value_.finish(json);
    out.arguments(json);
  }
  if (out.call_open()) out.end_call();
}

}  // namespace espalier
