// kernels_command.h: `espalier bench kernels`: this machine's limits, then every kernel against them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace espalier::bench {

// Registers the verb under `bench`; the returned function runs it and gives the exit code.
std::function<int()> add_kernels(CLI::App& bench);

}  // namespace espalier::bench
