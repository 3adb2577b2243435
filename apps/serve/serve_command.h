// serve_command.h: `espalier serve`: from the command line to the exit code.
//
// Signals: SIGTERM and SIGINT drain (a second one ends at once), SIGHUP rereads the keys, SIGUSR1 logs the state; all
// are taken by the thread that runs it, so it must run before other threads are started. Exit codes: 0 drained; 1
// internal; 2 usage; 3 model; 4 memory; 5 cannot bind; 6 network; 143 cut off. Prints only to stderr.
#pragma once

#include "command/command.h"

namespace espalier::command {

// `words` is the command line; it must live as long as the result.
Run add_serve(CLI::App& app, const std::vector<std::string>& words);

}  // namespace espalier::command
