// environment.h: variables ESPALIER_... that nothing reads, so that a mistyped one is not silently without effect.
//
// Known are the twins of all verbs' flags, what other parts of the program read, and what the project's tests and tools
// do. Values are never shown: they may be keys. Threads: the one that starts the program. Fails: never.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace espalier::command {

// A line that names the unknown variables, each with the nearest known one if any is near; empty without any.
// `app` has the verbs.
std::string unknown_variables(const CLI::App& app);

}  // namespace espalier::command
