// compare_command.h: `espalier bench compare`: two or more servers in one run, in alternation.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace espalier::bench {

// Registers the verb under `bench`; the returned function runs it and gives the exit code.
std::function<int()> add_compare(CLI::App& bench);

}  // namespace espalier::bench
