#include "text/answer/calls/named_call_reader.h"

#include <algorithm>
#include <utility>

namespace espalier {
namespace {

// "functions.f:0" -> "f".
std::string name_of_id(std::string_view id) {
  constexpr std::string_view kPrefix = "functions.";
  if (id.starts_with(kPrefix)) id.remove_prefix(kPrefix.size());
  const std::size_t colon = id.rfind(':');
  const bool numbered = colon != id.npos && colon + 1 < id.size() &&
                        std::ranges::all_of(id.substr(colon + 1), [](char c) { return c >= '0' && c <= '9'; });
  return std::string(numbered ? id.substr(0, colon) : id);
}

}  // namespace

NamedCallReader::NamedCallReader(const CallContext& context)
    : context_(context), format_(*context.format), objects_(context, marks_of(context.format->ends)) {}

void NamedCallReader::open(int mark) {
  const bool one_call =
      format_.call_begin.empty() || format_.opens[static_cast<std::size_t>(mark)] == format_.call_begin;
  if (one_call)
    begin_call();
  else
    go_to_between();
}

CallStep NamedCallReader::begin_call() {
  name_.clear();
  id_.clear();
  at_ = format_.before_name.empty() ? At::name : At::before_name;
  expected_.expect({format_.before_name});
  return CallStep::more;
}

void NamedCallReader::go_to_between() {
  at_ = At::between;
  Marks marks = marks_of(format_.ends);
  marks.insert(marks.begin(), format_.call_begin);
  expected_.expect(std::move(marks));
}

CallStep NamedCallReader::read(char c, EventList& out) {
  switch (at_) {
    case At::between:
      return between_step(c);
    case At::before_name:
      return before_name_step(c);
    case At::name:
      return name_step(c);
    case At::behind_name:
      return behind_name_step(c);
    case At::id:
    case At::behind_id:
      return id_step(c);
    case At::arguments:
      return arguments_step(c, out);
    case At::object:
      return object_step(c, out);
    case At::behind:
      return behind_step(c);
    case At::json:
      return objects_.read(c, out);
    case At::broken:
      if (!broken_.step(c, out)) return CallStep::more;
      if (format_.call_end.empty()) return CallStep::done;
      go_to_between();
      return CallStep::more;
  }
  return CallStep::refused;
}

CallStep NamedCallReader::between_step(char c) {
  const int found = expected_.step(c);
  if (found == OneOf::none) return CallStep::refused;
  if (found == 0) return begin_call();
  return found > 0 ? CallStep::done : CallStep::more;
}

CallStep NamedCallReader::before_name_step(char c) {
  const int found = expected_.step(c);
  if (found >= 0) at_ = At::name;
  return found == OneOf::none ? CallStep::refused : CallStep::more;
}

CallStep NamedCallReader::name_step(char c) {
  if (name_.empty() && is_blank(c)) return CallStep::more;
  if (name_.empty() && (c == '{' || c == '[') && format_.call_begin.empty()) {
    objects_.open(0);
    at_ = At::json;
    return CallStep::again;
  }
  if (is_name_letter(c)) {
    name_ += c;
    return name_.size() > kNameMost ? CallStep::refused : CallStep::more;
  }
  if (name_.empty()) return CallStep::refused;
  if (format_.name_is_id) {
    id_ = name_;
    name_ = name_of_id(id_);
  }
  Marks marks = {format_.name_ends[0], format_.id_end};
  if (format_.call_begin.empty()) marks.push_back("{");  // the mark may be missing
  expected_.expect(std::move(marks));
  at_ = At::behind_name;
  return behind_name_step(c);
}

CallStep NamedCallReader::behind_name_step(char c) {
  const int found = expected_.step(c);
  if (found == OneOf::none) return CallStep::refused;
  if (found == OneOf::more) return CallStep::more;
  const bool id = found == 1 && !format_.id_end.empty();
  at_ = id ? At::id : At::arguments;
  if (!id) expected_.expect({"{", format_.call_end});
  return c == '{' ? CallStep::again : CallStep::more;
}

CallStep NamedCallReader::id_step(char c) {
  if (at_ == At::id && is_name_letter(c)) {
    id_ += c;
    return id_.size() > kNameMost ? CallStep::refused : CallStep::more;
  }
  if (at_ == At::id) expected_.expect({format_.name_ends[0]});
  at_ = At::behind_id;
  const int found = expected_.step(c);
  if (found < 0) return found == OneOf::none ? CallStep::refused : CallStep::more;
  at_ = At::arguments;
  expected_.expect({"{", format_.call_end});
  return CallStep::more;
}

CallStep NamedCallReader::tell(EventList& out) {
  if (context_.refuses(name_)) return CallStep::refused;
  out.begin_call(name_, id_);
  return CallStep::more;
}

CallStep NamedCallReader::arguments_step(char c, EventList& out) {
  const int found = expected_.step(c);
  if (found == OneOf::none) return CallStep::refused;
  if (found == OneOf::more) return CallStep::more;
  const CallStep step = tell(out);
  if (step != CallStep::more) return step;
  if (found > 0) {  // no arguments at all
    out.end_call();
    go_to_between();
    return CallStep::more;
  }
  json_.start();
  at_ = At::object;
  return object_step(c, out);
}

CallStep NamedCallReader::object_step(char c, EventList& out) {
  std::string json;
  const JsonScan::Step step = json_.step(c, json);
  out.arguments(json);
  if (step == JsonScan::Step::broken) {
    Marks ends = marks_of(format_.ends);
    ends.push_back(format_.call_end);
    broken_.start(std::move(ends));
    at_ = At::broken;
  }
  if (step != JsonScan::Step::ended) return CallStep::more;
  out.end_call();
  if (format_.call_end.empty()) return CallStep::done;
  go_behind();
  return CallStep::more;
}

void NamedCallReader::go_behind() {
  at_ = At::behind;
  expected_.expect({format_.call_end, format_.after_arguments});
}

CallStep NamedCallReader::behind_step(char c) {
  if (c == '}' && !expected_.begun()) return CallStep::settled;  // one too many
  const int found = expected_.step(c);
  if (found == OneOf::none) return CallStep::refused;
  if (found == OneOf::more) return CallStep::more;
  if (found == 0) go_to_between();
  if (found == 1) expected_.expect({format_.call_end});
  return CallStep::settled;
}

void NamedCallReader::finish(EventList& out) {
  if (at_ == At::json) objects_.finish(out);
  if (at_ == At::broken) broken_.finish(out);
  if (out.call_open()) out.end_call();
}

}  // namespace espalier
