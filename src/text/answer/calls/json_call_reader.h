// json_call_reader.h: calls that are JSON objects, alone, in a row or in an array, between marks.
//
// {"name": f, "arguments": {...}} in any order and with other members, {"function": {...}} around them, "parameters" for
// "arguments", "tool_name" for "name"; arguments may be a string that holds JSON. Or {f: {...}}.
// Units: bytes. Threads: one at a time. Fails: never.
#pragma once

#include <string>
#include <utility>

#include "text/answer/calls/call_reader.h"
#include "text/answer/calls/json_arguments.h"

namespace espalier {

// Reads calls of CallFamily::json.
class JsonCallReader : public CallReader {
 public:
  JsonCallReader(const CallContext& context, Marks ends) : context_(context), ends_(std::move(ends)) {}
  void open(int mark) override;
  CallStep read(char c, EventList& out) override;
  void finish(EventList& out) override;

 private:
  enum class At {
    start,
    item,
    between,
    tail,
    key_or_end,
    key,
    colon,
    value,
    name,
    object,
    text,
    null,
    skip,
    member_end,
    broken
  };
  enum class Member { name, arguments, nest, other };

  CallStep start_step(char c);
  CallStep item_step(char c);
  CallStep between_step(char c);
  CallStep tail_step(char c);
  CallStep key_or_end_step(char c, EventList& out);
  CallStep key_step(char c);
  CallStep value_step(char c, EventList& out);
  CallStep begin_arguments(char c, EventList& out);
  CallStep begin_nested();
  CallStep begin_skipped(char c);
  CallStep name_step(char c, EventList& out);
  CallStep object_step(char c, EventList& out);
  CallStep text_step(char c, EventList& out);
  CallStep null_step(char c, EventList& out);
  CallStep skip_step(char c, EventList& out);
  CallStep member_end_step(char c, EventList& out);
  CallStep object_end(EventList& out);
  CallStep begin_object();
  CallStep arguments_ended(EventList& out);
  void go_to_tail();
  Member member() const;
  bool streams() const { return told_ && !call_done_; }
  void pass_on(EventList& out);

  CallContext context_;
  Marks ends_;
  OneOf end_;
  At at_ = At::start;
  bool bare_ = false, array_ = false, first_ = false;

  // Of the object under way.
  int nested_ = 0;
  std::string key_, name_, arguments_;
  bool told_ = false, call_done_ = false, has_name_ = false, has_arguments_ = false;
  JsonStringReader string_;
  JsonArguments json_;
  JsonScan scan_;
  std::size_t matched_ = 0;  // of "null"
  BrokenArguments broken_;
};

}  // namespace espalier
