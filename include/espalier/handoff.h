// handoff.h: a request whose prompt is computed by one server and whose output by another.
// Threads: a value.
#pragma once

#include <cstdint>
#include <string>

namespace espalier {

// Where the server is that computes the prompt, the number under which both know the request, and which of them this one is.
struct Handoff {
  enum class Part { prompt, output };
  Part part = Part::output;
  std::string host;  // of the other; empty: all is computed here
  int port = 0;      // 0: the usual one
  std::uint64_t room = 0;
};

}  // namespace espalier
