// engine_flags.h: the flags that shape an engine, one list for every verb that opens one.
//
// Canonical spellings are SGLang's; what people type from habit at other servers is a synonym. Every flag has an
// environment twin ESPALIER_<FLAG>.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/engine.h"

namespace espalier::command {

// The environment twin of a flag, named without its dashes in front.
std::string environment_twin(std::string_view flag);

void add_engine_flags(CLI::App& app, EngineOptions& options);

// Words that CLI11 cannot take as they are: short options of several letters (-np, -ub, -ctk) become long ones.
std::vector<std::string> translate_habits(int argc, char** argv);

}  // namespace espalier::command
