// console.h: what the verbs of the load generator share on the terminal: Ctrl-C, a line of progress, files of results.
// Threads: one; the handler only raises a flag.
// Fails:   write_text: bad_file naming the file.
#pragma once

#include <string>

#include "bench/workload/conductor.h"
#include "espalier/error.h"

namespace espalier::bench {

// From now on SIGINT and SIGTERM end a run early instead of the process.
void catch_interrupts();
bool interrupted();

// Progress on stderr while it is a terminal, and the interrupt.
RunHooks console_hooks(const std::string& what);
void clear_progress();

Result<> write_text(const std::string& path, const std::string& text, bool append);

// Prints "espalier: <sentence>" to stderr and gives the error's exit code.
int fail(const Error& error);

}  // namespace espalier::bench
