// serve_options.h: the flags of `espalier serve`: the engine's (command/engine_flags.h), the server's, and those of
// other servers (foreign_flags.h), so that existing start scripts work or say what does not.
//
// Precedence: flag, then environment (ESPALIER_<FLAG>), then --config, then built-in. SGLang's spellings are the
// canonical ones.
// Threads: a value that must stay where it is while the app parses into it.
#pragma once

#include <CLI/CLI.hpp>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "espalier/engine.h"
#include "serve/foreign_flags.h"
#include "serve/rank_options.h"
#include "server/server_options.h"

namespace espalier::serve {

struct ServeOptions {
  std::vector<std::string> models;     // as given: PATH, NAME=PATH or a hub's name; the first is the default one
  std::string model = "smollm2-135m";  // the default one, once it is settled
  bool allow_pull = false;             // of models that clients name (POST /api/pull)
  bool allow_download = true;          // of models that --model names and that are not on this machine
  bool preload = false;                // all models are loaded at the start, not only the default one
  EngineOptions engine;
  RankOptions ranks;
  server::ServerOptions server;
  std::string log_level = "info", log_format = "text";
  std::string progress = "auto";  // of downloads
  bool end_with_stdin = false;

  std::string config;  // a YAML file of flags
  bool print_config = false;

  // Order: read_config take_socket settle notice. The flags that were given and have no effect here, in one line; empty without
  // any.
  std::string notice() const;
  // What the command line and the environment did not give comes from the file.
  Result<> read_config(CLI::App& app);
  // The log level as the file says it now; null where the command line or the environment said it, or there is no file.
  Result<std::optional<std::string>> log_level_now(CLI::App& app) const;
  // Listens on the socket that a service manager opened (LISTEN_FDS), if any; then host and port are that one's.
  Result<> take_socket();
  // After parsing: what depends on several flags. Fails: bad_request for what is out of range, and for a key that was
  // given but is empty, for it would quietly open the server to everybody; unsupported for a foreign flag that changes
  // what clients get.
  Result<> settle();

  struct Foreign {
    const ForeignFlag* flag = nullptr;
    std::vector<std::string> values;
    CLI::Option* option = nullptr;
  };
  std::list<Foreign> foreign;
  std::vector<const CLI::Option*> from_file;                     // that have their value from `config`
  std::vector<std::pair<std::string, const CLI::Option*>> keys;  // --api-key and its like

 private:
  Result<> check_foreign() const;
  Result<> settle_fleet();
};

void add_serve_flags(CLI::App& app, ServeOptions& options);

}  // namespace espalier::serve
