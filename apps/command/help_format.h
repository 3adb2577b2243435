// help_format.h: how --help looks: sections, one line for names, unit and default, the effect below it, wrapped.
//
// Synonyms and environment twins are left out; `espalier help flags` and the footer tell of them.
// Threads: as CLI11 calls it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace espalier::command {

class HelpFormat : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_group(std::string group, bool is_positional, std::vector<const CLI::Option*> options) const override;
  std::string make_positionals(const CLI::App* app) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_description(const CLI::App* app) const override;
};

// What stands in the first line of an option: its names, what its value is called, and what else there is to know.
struct OptionHead {
  std::string names;  // "-t, --threads"
  std::string value;  // "N"; empty for a switch
  std::string notes;  // "(required) (default 2)"
};
OptionHead option_head(const CLI::Option& option, bool is_positional);

// ", or did you mean --port?"; empty when nothing known is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);
// The long names of an app's options, with their dashes.
std::vector<std::string> long_names(const CLI::App& app);

}  // namespace espalier::command
