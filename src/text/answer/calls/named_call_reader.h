// named_call_reader.h: calls that are a name, a mark and a JSON object.
//
// Where an opening mark is followed by an object or an array of JSON, that is read as JsonCallReader does.
// Units: bytes. Threads: one at a time. Fails: never.
#pragma once

#include <string>

#include "text/answer/calls/call_reader.h"
#include "text/answer/calls/json_arguments.h"
#include "text/answer/calls/json_call_reader.h"

namespace espalier {

// Reads calls of CallFamily::named.
class NamedCallReader : public CallReader {
 public:
  explicit NamedCallReader(const CallContext& context);
  void open(int mark) override;
  CallStep read(char c, EventList& out) override;
  void finish(EventList& out) override;

 private:
  enum class At { between, before_name, name, behind_name, id, behind_id, arguments, object, behind, json, broken };
  CallStep begin_call();
  CallStep between_step(char c);
  CallStep before_name_step(char c);
  CallStep name_step(char c);
  CallStep behind_name_step(char c);
  CallStep id_step(char c);
  CallStep arguments_step(char c, EventList& out);
  CallStep object_step(char c, EventList& out);
  CallStep behind_step(char c);
  CallStep tell(EventList& out);
  void go_to_between();
  void go_behind();

  CallContext context_;
  const CallFormat& format_;
  At at_ = At::between;
  OneOf expected_;
  std::string name_, id_;
  JsonArguments json_;
  JsonCallReader objects_;
  BrokenArguments broken_;
};

}  // namespace espalier
