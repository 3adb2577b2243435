// serving_command.h: `espalier bench serving`: load on a server, and what came of it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace espalier::bench {

// Registers the verb under `bench`; the returned function runs it and gives the exit code.
std::function<int()> add_serving(CLI::App& bench);

}  // namespace espalier::bench
