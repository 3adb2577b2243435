#include "text/answer/calls/tag_call_reader.h"

#include <utility>

namespace espalier {
namespace {

Marks ends_of(const CallFormat& format) {
  Marks ends = marks_of(format.ends);
  ends.insert(ends.begin(), format.call_end);
  return ends;
}

std::string_view without_lines_around(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

std::string_view without_cdata(std::string_view text) {
  constexpr std::string_view begin = "<![CDATA[", end = "]]>";
  if (text.size() < begin.size() + end.size() || !text.starts_with(begin) || !text.ends_with(end)) return text;
  return text.substr(begin.size(), text.size() - begin.size() - end.size());
}

}  // namespace

TagCallReader::TagCallReader(const CallContext& context)
    : context_(context),
      format_(*context.format),
      ends_(ends_of(*context.format)),
      key_(marks_of(context.format->key_ends)),
      value_({context.format->value_end}),
      objects_(context, ends_) {}

void TagCallReader::open(int mark) {
  if (format_.opens[static_cast<std::size_t>(mark)] == format_.call_begin) {
    begin_call();
    return;
  }
  at_ = At::between;
  Marks marks = marks_of(format_.ends);
  marks.insert(marks.begin(), {format_.call_begin, "{", "["});
  expected_.expect(std::move(marks));
}

CallStep TagCallReader::read(char c, EventList& out) {
  switch (at_) {
    case At::between:
      return between_step(c);
    case At::name:
      return name_step(c, out);
    case At::behind_name:
      return behind_name_step(c, out);
    case At::members:
      return members_step(c, out);
    case At::key:
      return key_step(c, out);
    case At::before_value:
      return before_value_step(c, out);
    case At::value:
      return value_step(c, out);
    case At::json:
      return json_step(c, out);
    case At::behind_json:
    case At::behind:
      return behind_step(c);
    case At::objects:
      return objects_.read(c, out);
    case At::broken:
      if (broken_.step(c, out)) go_behind();
      return at_ == At::behind && marks_of(format_.ends).empty() ? CallStep::done : CallStep::more;
  }
  return CallStep::refused;
}

CallStep TagCallReader::begin_call() {
  at_ = At::name;
  name_.clear();
  told_ = has_members_ = false;
  return CallStep::more;
}

CallStep TagCallReader::between_step(char c) {
  const int found = expected_.step(c);
  if (found == OneOf::none) return CallStep::refused;
  if (found == OneOf::more) return CallStep::more;
  if (found == 0) return begin_call();
  if (found > 2) return CallStep::done;
  objects_.open(0);
  at_ = At::objects;
  return CallStep::again;
}

CallStep TagCallReader::name_step(char c, EventList& out) {
  if (name_.empty() && is_blank(c)) return CallStep::more;
  if (name_.empty() && (c == '{' || c == '[')) {
    objects_.open(0);
    at_ = At::objects;
    return CallStep::again;
  }
  if (is_name_letter(c)) {
    name_ += c;
    return name_.size() > kNameMost ? CallStep::refused : CallStep::more;
  }
  if (name_.empty()) return CallStep::refused;
  if (format_.name_ends[0].empty()) {
    go_to_members();
    return members_step(c, out);
  }
  at_ = At::behind_name;
  expected_.expect({format_.name_ends[0]});
  return behind_name_step(c, out);
}

CallStep TagCallReader::behind_name_step(char c, EventList& out) {
  const int found = expected_.step(c);
  if (found == OneOf::none) return CallStep::refused;
  if (found == OneOf::more) return CallStep::more;
  const CallStep step = tell(out);
  go_to_members();
  return step;
}

CallStep TagCallReader::tell(EventList& out) {
  if (context_.refuses(name_)) return CallStep::refused;
  out.begin_call(name_);
  told_ = true;
  return CallStep::more;
}

void TagCallReader::go_to_members() {
  at_ = At::members;
  Marks marks = marks_of(format_.ends);
  marks.insert(marks.begin(), {format_.key_begin, format_.call_end});
  if (told_ && !has_members_) marks.push_back("{");
  expected_.expect(std::move(marks));
}

CallStep TagCallReader::members_step(char c, EventList& out) {
  const int found = expected_.step(c);
  if (found == OneOf::more) return CallStep::more;
  if (found == OneOf::none) return told_ ? fail(expected_.held(), out) : CallStep::refused;
  if (!told_)
    if (const CallStep step = tell(out); step != CallStep::more) return step;
  if (found == 0) {
    at_ = At::key;
    key_text_.clear();
    key_.take();
    return CallStep::more;
  }
  if (c != '{') return call_ended(out);
  json_.start();
  at_ = At::json;
  return json_step(c, out);
}

CallStep TagCallReader::key_step(char c, EventList& out) {
  const MarkFinder::Found found = key_.push(c);
  key_text_ += std::string_view(key_.held()).substr(0, found.text);
  key_.drop(found);
  if (key_text_.size() > kNameMost) return fail(key_text_, out);
  if (found.mark < 0) return CallStep::more;
  begin_member(key_text_, found.mark, out);
  if (format_.value_begin.empty()) return begin_value(out);
  at_ = At::before_value;
  expected_.expect({format_.value_begin});
  return CallStep::more;
}

void TagCallReader::begin_member(std::string_view key, int key_end, EventList& out) {
  types_ = context_.tools->types(name_, key);
  if (key_end == 1) types_ = {};
  if (key_end == 2) types_ = {.string = true};
  out.arguments((has_members_ ? ", " : "{") + json_quoted(key) + ": ");
  has_members_ = true;
}

CallStep TagCallReader::begin_value(EventList& out) {
  at_ = At::value;
  value_.take();
  value_text_.clear();
  passes_on_ = types_.only_string() && !format_.cdata;
  line_begins_ = format_.line_around;
  line_held_ = false;
  if (passes_on_) out.arguments("\"");
  return CallStep::more;
}

CallStep TagCallReader::before_value_step(char c, EventList& out) {
  const int found = expected_.step(c);
  if (found >= 0) return begin_value(out);
  return found == OneOf::none ? fail(expected_.held(), out) : CallStep::more;
}

CallStep TagCallReader::value_step(char c, EventList& out) {
  const MarkFinder::Found found = value_.push(c);
  add_value(std::string_view(value_.held()).substr(0, found.text), out);
  value_.drop(found);
  if (found.mark < 0) return CallStep::more;
  value_ended(out);
  go_to_members();
  return CallStep::more;
}

void TagCallReader::add_value(std::string_view text, EventList& out) {
  if (passes_on_) return pass_on(text, out);
  value_text_ += text;
  if (value_text_.size() <= kValueMost) return;
  passes_on_ = true;
  out.arguments("\"");
  pass_on(std::exchange(value_text_, {}), out);
}

// Without the line ends on both sides, where the format has them.
void TagCallReader::pass_on(std::string_view text, EventList& out) {
  std::string json;
  for (const char c : text) {
    if (std::exchange(line_begins_, false) && c == '\n') continue;
    if (std::exchange(line_held_, false)) json += "\\n";
    if (format_.line_around && c == '\n')
      line_held_ = true;
    else
      append_json_escaped(json, std::string_view(&c, 1));
  }
  out.arguments(json);
}

void TagCallReader::value_ended(EventList& out) {
  if (passes_on_) return out.arguments("\"");
  std::string_view text = value_text_;
  if (format_.line_around) text = without_lines_around(text);
  if (format_.cdata) text = without_cdata(text);
  out.arguments(typed_json(text, types_));
}

CallStep TagCallReader::json_step(char c, EventList& out) {
  std::string json;
  const JsonScan::Step step = json_.step(c, json);
  out.arguments(json);
  if (step == JsonScan::Step::broken) return fail({}, out);
  if (step != JsonScan::Step::ended) return CallStep::more;
  out.end_call();
  at_ = At::behind_json;
  expected_.expect(ends_);
  return CallStep::more;
}

CallStep TagCallReader::call_ended(EventList& out) {
  const bool section = expected_.held() != format_.call_end;  // the call's own end is missing
  if (has_members_) out.arguments("}");
  out.end_call();
  go_behind();
  return section || marks_of(format_.ends).empty() ? CallStep::done : CallStep::more;
}

void TagCallReader::go_behind() {
  at_ = At::behind;
  Marks marks = marks_of(format_.ends);
  marks.insert(marks.begin(), {format_.call_begin, format_.behind_call});
  expected_.expect(std::move(marks));
}

CallStep TagCallReader::behind_step(char c) {
  const int found = expected_.step(c);
  if (found == OneOf::none) return CallStep::refused;
  if (found == OneOf::more) return CallStep::more;
  const std::string mark = expected_.held();
  if (mark == format_.call_begin) return begin_call();
  const bool goes_on = mark == format_.call_end || mark == format_.behind_call;
  if (!goes_on || marks_of(format_.ends).empty()) return CallStep::done;
  go_behind();
  return CallStep::settled;
}

CallStep TagCallReader::fail(std::string_view written, EventList& out) {
  out.arguments(written);
  broken_.start(ends_);
  at_ = At::broken;
  return CallStep::more;
}

void TagCallReader::finish(EventList& out) {
  if (at_ == At::objects) objects_.finish(out);
  if (at_ == At::broken) broken_.finish(out);
  if (at_ == At::value) {
    add_value(value_.take(), out);
    if (!passes_on_) out.arguments(value_text_);
  }
  if ((at_ == At::members || at_ == At::key) && told_ && has_members_) out.arguments("}");
  if (out.call_open()) out.end_call();
}

}  // namespace espalier
