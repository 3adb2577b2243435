// serve_options.h: the command line of `espalier serve`: flags, their synonyms in other servers, their environment twins.
//
// Precedence: flag, then environment (ESPALIER_<FLAG>), then built-in. SGLang's spellings are the canonical ones;
// underscores count as dashes.
// Threads: a value. Fails: parse: bad_request with the sentence to print (exit 2); help is a value.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "espalier/engine.h"
#include "server/server_options.h"

namespace espalier::serve {

struct ServeOptions {
  std::string model = "smollm2-135m";
  EngineOptions engine;
  server::ServerOptions server;
  std::string log_level = "info", log_format = "text";
  std::string progress = "auto";        // of downloads
  std::vector<std::string> notices;     // flags of other servers that have no effect here
  std::string help;                     // not empty: print it and stop
};

Result<ServeOptions> parse_serve_options(std::span<const std::string> arguments);

}  // namespace espalier::serve
