// json_arguments.h: arguments that are a JSON object, passed on while they come.
//
// Bytes go out as they are written, but for control characters in strings, which no reader of JSON takes otherwise than
// escaped.
// Units: bytes. Threads: one at a time. Fails: never.
#pragma once

#include <string>

#include "text/answer/calls/json_scan.h"

namespace espalier {

// Follows one JSON value and hands on its text.
class JsonArguments {
 public:
  void start() { scan_.start(); }
  bool in_string() const { return scan_.in_string(); }
  JsonScan::Step step(char c, std::string& out) {
    const bool in_string = scan_.in_string();
    const JsonScan::Step step = scan_.step(c);
    if (step == JsonScan::Step::ended_before) return step;
    if (in_string && static_cast<unsigned char>(c) < 0x20)
      append_json_escaped(out, std::string_view(&c, 1));
    else
      out += c;
    return step;
  }

 private:
  JsonScan scan_;
};

}  // namespace espalier
