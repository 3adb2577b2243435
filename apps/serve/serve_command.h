// serve_command.h: `espalier serve`: from the command line to the exit code.
//
// Signals: SIGTERM and SIGINT drain (a second one ends at once), SIGHUP rereads the keys, SIGUSR1 logs the state; all are
// taken by this function's thread, so it must be called before other threads are started.
// Exit codes: 0 drained; 1 internal; 2 usage; 3 model; 4 memory; 5 cannot bind; 6 network; 143 cut off.
// Prints only to stderr (--help: stdout).
#pragma once

#include <span>
#include <string>

namespace espalier::serve {

// `arguments`: what follows "serve".
int serve_main(std::span<const std::string> arguments);

}  // namespace espalier::serve
