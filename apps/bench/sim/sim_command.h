// sim_command.h: `espalier bench sim`: the scheduler and the cache under a workload, with a simulated model.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "espalier/error.h"

namespace espalier::bench {

using FindModel = std::function<Result<std::string>(const std::string& name)>;

// Registers the verb under `bench`; the returned function runs it and gives the exit code.
std::function<int()> add_sim(CLI::App& bench, FindModel find_model);

}  // namespace espalier::bench
