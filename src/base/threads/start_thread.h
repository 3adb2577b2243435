// start_thread.h: a thread, or an Error that says which limits can refuse one.
// Threads: any. Fails: out_of_memory (exit 4): too many threads or processes, or no room for another stack.
#pragma once

#include <fmt/format.h>

#include <new>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "espalier/error.h"

namespace espalier {

// `purpose` names it in the sentence: "the compute thread could not be started".
inline Error no_thread(std::string_view purpose, std::string_view reason) {
  return {Error::Kind::out_of_memory,
          fmt::format("the {} thread could not be started ({}): the limit on processes (ulimit -u, a container's "
                      "pids.max) or on memory (ulimit -v, ulimit -s) must be higher",
                      purpose, reason),
          {},
          {}};
}

template <class Thread = std::thread, class Body>
Result<Thread> start_thread(std::string_view purpose, Body&& body) {
  try {
    return Thread(std::forward<Body>(body));
  } catch (const std::system_error& refused) {
    return no_thread(purpose, refused.code().message());
  } catch (const std::bad_alloc&) {
    return no_thread(purpose, "out of memory");
  }
}

}  // namespace espalier
