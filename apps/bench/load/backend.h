// backend.h: the kinds of servers that can be measured, as users name them.
// Threads: constants. Fails: find_backend() names what there is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"

namespace espalier::bench {

struct Backend {
  enum class Api { native, completions, chat };
  enum class Constraints { sglang, vllm, openai, llamacpp };  // how a body asks for a regex, a schema or choices

  std::string_view name;
  Api api = Api::native;
  Constraints constraints = Constraints::sglang;
  int port = 30000;               // where such a server listens by default
  bool takes_samples = true;      // knows `n`; else as many requests are sent
  std::string_view refusal = {};  // not empty: known by name, but not measured here, and why
};

// "sglang" or "vllm-chat" or ...
Result<const Backend*> find_backend(std::string_view name);
std::vector<std::string> backend_names();  // those that are measured

}  // namespace espalier::bench
