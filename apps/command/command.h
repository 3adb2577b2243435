// command.h: what every verb of the `espalier` command offers to main.
//
// A verb registers its flags on a subcommand; the returned function runs it and gives the exit code. Results go to
// stdout, everything else to stderr.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "espalier/engine.h"
#include "espalier/error.h"

namespace espalier::command {

using Run = std::function<int()>;

Run add_inspect(CLI::App& app);
Run add_run(CLI::App& app);
Run add_pull(CLI::App& app);
Run add_list(CLI::App& app);
Run add_remove(CLI::App& app);
Run add_ps(CLI::App& app);
Run add_show(CLI::App& app);
Run add_plan(CLI::App& app);
Run add_quantize(CLI::App& app);
Run add_doctor(CLI::App& app);
Run add_completion(CLI::App& app);
Run add_manual(CLI::App& app);
Run add_bench(CLI::App& app);
Run add_program(CLI::App& app);
Run add_grammar(CLI::App& app);

// Prints "espalier: <sentence>" to stderr and gives the error's exit code.
int fail(const Error& error);

// A model's name to its path, downloaded when it is not here; progress on stderr.
Result<std::string> find_model(const std::string& name);

// The same for a model that is on this machine: opens no connection.
Result<std::string> find_local_model(const std::string& name);

// Puts the paths of the model of that name, and of the draft model when one is wanted, into the options.
Result<> find_models(const std::string& name, EngineOptions& options);

}  // namespace espalier::command
