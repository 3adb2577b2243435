#include "command/help_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "store/model_name.h"  // near_names

namespace espalier::command {
namespace {

constexpr std::size_t kWidth = 100, kIndent = 6;

std::string wrapped(const std::string& text) {
  std::string out, line;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!line.empty() && kIndent + line.size() + 1 + word.size() > kWidth) {
      out += fmt::format("{:{}}{}\n", "", kIndent, line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return line.empty() ? out : out + fmt::format("{:{}}{}\n", "", kIndent, line);
}

// "-t, --threads": the short name and the first long one; the others are synonyms.
std::string shown_name(const CLI::Option& option) {
  std::string name;
  if (!option.get_snames().empty()) name = "-" + option.get_snames().front();
  if (option.get_lnames().empty()) return name;
  const std::string& first = option.get_lnames().front();
  name += (name.empty() ? "--" : ", --") + first;
  if (option.check_lname("no-" + first)) name += ", --no-" + first;
  return name;
}

}  // namespace

OptionHead option_head(const CLI::Option& option, bool is_positional) {
  OptionHead head{is_positional ? option.get_name(true, false) : shown_name(option), {}, {}};
  if (option.get_expected_max() > 0 && !is_positional) head.value = option.get_type_name();
  if (option.get_required()) head.notes = "(required)";
  if (const std::string value = option.get_default_str(); !value.empty() && value != "\"\"")
    head.notes += fmt::format("{}(default {})", head.notes.empty() ? "" : " ", value);
  return head;
}

std::string HelpFormat::make_option(const CLI::Option* option, bool is_positional) const {
  const OptionHead head = option_head(*option, is_positional);
  std::string line = "  " + head.names;
  for (const std::string& part : {head.value, head.notes})
    if (!part.empty()) line += " " + part;
  return line + "\n" + wrapped(option->get_description());
}

std::string HelpFormat::make_group(std::string group, bool is_positional,
                                   std::vector<const CLI::Option*> options) const {
  std::string out = group + ":\n";
  for (const CLI::Option* option : options) out += make_option(option, is_positional);
  return out;
}

// What can also be given as a flag stands there.
std::string HelpFormat::make_positionals(const CLI::App* app) const {
  const auto options = app->get_options([](const CLI::Option* option) {
    return option->get_positional() && !option->nonpositional() && !option->get_group().empty();
  });
  return options.empty() ? std::string() : make_group("Arguments", true, options) + "\n";
}

std::string HelpFormat::make_usage(const CLI::App* app, std::string name) const {
  return CLI::Formatter::make_usage(app, std::move(name)) + "\n";
}

std::string HelpFormat::make_description(const CLI::App* app) const {
  return app->get_description() + "\n\n";
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const auto near = store::near_names(word, known);
  return near.empty() ? std::string() : fmt::format(", did you mean {}?", fmt::join(near, " or "));
}

std::vector<std::string> long_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // not in --help
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

}  // namespace espalier::command
