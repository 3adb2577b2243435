// failure.h: how parsing and rendering end early. Thrown within src/text/jinja only; Template turns it into an Error.
#pragma once

#include <string>
#include <utility>

namespace espalier::jinja {

// What is thrown: the kind decides whose fault it is and which Error it becomes.
struct Failure {
  enum class Kind {
    syntax,   // the template cannot be parsed
    raised,   // the template called raise_exception: the message is for whoever sent the request
    runtime,  // an operation that has no meaning, such as adding a number to a text
    limit,    // a limit of limits.h
  };
  Kind kind;
  std::string message;
  int line = 0;  // of the template, counted from 1; 0 while unknown
};

[[noreturn]] inline void fail(std::string message) {
  throw Failure{Failure::Kind::runtime, std::move(message)};
}

}  // namespace espalier::jinja
