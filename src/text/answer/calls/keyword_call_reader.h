// keyword_call_reader.h: calls that name their arguments: f(a=1, b='x') and call:f{a:1,b:<|"|>x<|"|>}.
//
// Values are Python's or Gemma's literals (literal_value.h). Calls in brackets may be objects of JSON instead.
// Units: bytes. Threads: one at a time. Fails: never.
#pragma once

#include <string>

#include "text/answer/calls/call_reader.h"
#include "text/answer/calls/json_call_reader.h"
#include "text/answer/calls/literal_value.h"

namespace espalier {

// Reads calls of CallFamily::keywords.
class KeywordCallReader : public CallReader {
 public:
  explicit KeywordCallReader(const CallContext& context);
  void open(int mark) override;
  CallStep read(char c, EventList& out) override;
  void finish(EventList& out) override;

 private:
  enum class At { start, before_name, name, key, behind_key, value, behind_value, behind, objects, broken };
  CallStep start_step(char c, EventList& out);
  CallStep begin_call(char c);
  CallStep before_name_step(char c);
  CallStep name_step(char c);
  CallStep key_step(char c, EventList& out);
  CallStep begin_value(EventList& out);
  CallStep value_step(char c, EventList& out);
  CallStep behind_value_step(char c, EventList& out);
  CallStep behind_step(char c);
  CallStep call_ended(EventList& out);
  CallStep fail(std::string_view written, EventList& out);
  CallStep tell(EventList& out);
  bool python() const { return dialect_ == LiteralDialect::python; }

  CallContext context_;
  const CallFormat& format_;
  LiteralDialect dialect_;
  Marks ends_;
  At at_ = At::start;
  bool bare_ = false, list_ = false;
  OneOf expected_;
  std::string name_, key_;
  bool told_ = false, has_members_ = false;
  LiteralValue value_;
  JsonCallReader objects_;
  BrokenArguments broken_;
};

}  // namespace espalier
