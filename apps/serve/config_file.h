// config_file.h: `serve --config FILE.yaml`, and `serve --print-config`, which prints such a file.
//
// Keys are the long flags without their dashes (underscores too, and every synonym); values are scalars, or lists for
// flags that may be given several times. JSON is YAML. Command line and environment win over the file.
// Threads: pure functions over the app they are given. Fails: not_found (the file), bad_request naming file, line and
// key: no YAML, an unknown key, a nested or missing value, a value that the flag refuses.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "espalier/error.h"

namespace espalier::serve {

// Gives every option that was not given yet the file's value; the names of those options are appended to `from_file`.
Result<> apply_config(CLI::App& app, const std::string& path, std::vector<const CLI::Option*>& from_file);

// The value that the file has for one option now, perhaps another one than at the start; null: none.
Result<std::optional<std::string>> value_in_config(CLI::App& app, const std::string& path, const CLI::Option& option);

// The effective values as YAML, section by section, each with where it comes from. `secret` options only say that they
// are set. `words` is the command line.
std::string print_config(const CLI::App& app, const std::vector<std::string>& words,
                         const std::vector<const CLI::Option*>& from_file,
                         const std::vector<const CLI::Option*>& secret);

}  // namespace espalier::serve
