// serve_options.h: the flags of `espalier serve`: the engine's (command/engine_flags.h), the server's, and those of
// other servers that are accepted without effect, so that existing start scripts work.
//
// Precedence: flag, then environment (ESPALIER_<FLAG>), then built-in. SGLang's spellings are the canonical ones.
// Threads: a value that must stay where it is while the app parses into it.
#pragma once

#include <CLI/CLI.hpp>
#include <list>
#include <string>
#include <vector>

#include "espalier/engine.h"
#include "server/server_options.h"

namespace espalier::serve {

struct ServeOptions {
  std::string model = "smollm2-135m", model_path;  // the second: --model-path, which wins
  EngineOptions engine;
  server::ServerOptions server;
  std::string log_level = "info", log_format = "text";
  std::string progress = "auto";  // of downloads

  // Flags that were given and have no effect here.
  std::vector<std::string> notices() const;
  // After parsing: what depends on several flags. Fails: bad_request for a key that was given but is empty, for it
  // would quietly open the server to everybody.
  Result<> settle();

  struct Ignored {
    std::string flag, value;
    CLI::Option* option = nullptr;
  };
  std::list<Ignored> ignored;
  std::vector<std::pair<std::string, const CLI::Option*>> keys;  // --api-key and its like
};

void add_serve_flags(CLI::App& app, ServeOptions& options);

}  // namespace espalier::serve
