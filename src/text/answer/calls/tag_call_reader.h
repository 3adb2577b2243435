// tag_call_reader.h: calls whose parameters stand in tags, each with its value as plain text.
//
// Values become JSON as the tool's schema types them (call_tools.h); those that can only be strings are passed on while
// they come. Arguments may be one object of JSON instead, and a whole call, too.
// Units: bytes. Memory: a value that is no string for certain is held until it ends, or until kValueMost.
// Threads: one at a time. Fails: never.
#pragma once

#include <string>

#include "text/answer/calls/call_reader.h"
#include "text/answer/calls/json_arguments.h"
#include "text/answer/calls/json_call_reader.h"

namespace espalier {

// Reads calls of CallFamily::tags.
class TagCallReader : public CallReader {
 public:
  static constexpr std::size_t kValueMost = 1 << 20;  // longer ones are strings

  explicit TagCallReader(const CallContext& context);
  void open(int mark) override;
  CallStep read(char c, EventList& out) override;
  void finish(EventList& out) override;

 private:
  enum class At {
    between,
    name,
    behind_name,
    members,
    key,
    before_value,
    value,
    json,
    behind_json,
    behind,
    objects,
    broken
  };
  CallStep begin_call();
  CallStep between_step(char c);
  CallStep name_step(char c, EventList& out);
  CallStep behind_name_step(char c, EventList& out);
  CallStep members_step(char c, EventList& out);
  CallStep key_step(char c, EventList& out);
  CallStep before_value_step(char c, EventList& out);
  CallStep value_step(char c, EventList& out);
  CallStep json_step(char c, EventList& out);
  CallStep behind_step(char c);
  CallStep tell(EventList& out);
  CallStep call_ended(EventList& out);
  CallStep fail(std::string_view written, EventList& out);
  void go_to_members();
  void go_behind();
  void begin_member(std::string_view key, int key_end, EventList& out);
  CallStep begin_value(EventList& out);
  void add_value(std::string_view text, EventList& out);
  void pass_on(std::string_view text, EventList& out);
  void value_ended(EventList& out);

  CallContext context_;
  const CallFormat& format_;
  Marks ends_;  // of the call and of the section
  At at_ = At::between;
  OneOf expected_;
  std::string name_;
  bool told_ = false, has_members_ = false;
  MarkFinder key_, value_;
  std::string key_text_, value_text_;
  ValueTypes types_;
  bool passes_on_ = false, line_begins_ = false, line_held_ = false;
  JsonArguments json_;
  JsonCallReader objects_;
  BrokenArguments broken_;
};

}  // namespace espalier
