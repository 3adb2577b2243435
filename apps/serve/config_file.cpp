#include "serve/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/json/json.h"
#include "command/help_format.h"
#include "serve/foreign_flags.h"

namespace espalier::serve {
namespace {

bool takes_value(const CLI::Option& option) {
  return option.get_expected_max() > 0;
}

bool about_the_command(const CLI::Option& option) {
  return option.check_lname("help") || option.check_lname("config") || option.check_lname("print-config");
}

// "max_total_tokens" -> "--max-total-tokens", "seed" -> "--random-seed".
std::string flag_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return respelled({"--" + key}).front();
}

class ConfigFile {
 public:
  ConfigFile(CLI::App& app, std::string path, std::vector<const CLI::Option*>& from_file)
      : app_(app), path_(std::move(path)), from_file_(from_file) {}

  Result<> apply() {
    ESP_TRY(const YAML::Node document, read());
    if (document.IsNull()) return success();  // an empty file
    if (!document.IsMap()) return wrong(document, "flags and their values are expected, as in \"port: 30000\"");
    for (const auto& entry : document) ESP_CHECK(apply(entry.first, entry.second));
    return success();
  }

  Result<std::optional<std::string>> value_of(const CLI::Option& option) const {
    ESP_TRY(const YAML::Node document, read());
    for (const auto& entry : document) {
      if (!entry.first.IsScalar() || app_.get_option_no_throw(flag_of(entry.first.Scalar())) != &option) continue;
      if (!entry.second.IsScalar())
        return wrong(entry.first, fmt::format("{} takes one plain value", option.get_name()));
      return std::optional<std::string>(entry.second.Scalar());
    }
    return std::optional<std::string>();
  }

 private:
  Error wrong(const YAML::Node& node, std::string_view what) const {
    return bad_request(fmt::format("{}, line {}: {}", path_, node.Mark().line + 1, what), "config");
  }

  Result<YAML::Node> read() const {
    constexpr std::uintmax_t kMost = 1 << 20;
    std::error_code failed;
    const auto size = std::filesystem::file_size(path_, failed);
    if (failed || size > kMost || !std::filesystem::is_regular_file(path_, failed))
      return Error{Error::Kind::not_found,
                   fmt::format("--config {} is not a readable file of at most 1 MiB", path_),
                   "config",
                   {}};
    std::ifstream file(path_, std::ios::binary);
    try {
      return YAML::Load(std::string(std::istreambuf_iterator<char>(file), {}));
    } catch (const YAML::Exception& bad) {
      return bad_request(fmt::format("{}, line {}: {}", path_, bad.mark.line + 1, bad.msg), "config");
    }
  }

  Result<> apply(const YAML::Node& key, const YAML::Node& value) const {
    if (!key.IsScalar()) return wrong(key, "a key must be the name of a flag");
    const std::string flag = flag_of(key.Scalar());
    CLI::Option* option = app_.get_option_no_throw(flag);
    if (option == nullptr || about_the_command(*option))
      return wrong(key,
                   fmt::format("there is no flag {}{}", flag, command::did_you_mean(flag, command::long_names(app_))));
    std::vector<std::string> values;
    if (value.IsScalar()) {
      values.push_back(value.Scalar());
    } else if (value.IsSequence() && option->get_expected_max() > 1) {
      for (const YAML::Node& item : value) {
        if (!item.IsScalar()) return wrong(item, fmt::format("{} takes plain values", flag));
        values.push_back(item.Scalar());
      }
    } else {
      return wrong(value.IsDefined() ? value : key, fmt::format("{} takes one plain value", flag));
    }
    if (option->count() > 0) return success();
    return give(*option, flag, key, values);
  }

  Result<> give(CLI::Option& option, const std::string& flag, const YAML::Node& key,
                const std::vector<std::string>& values) const {
    try {
      for (const std::string& value : values)
        option.add_result(takes_value(option) ? value : option.get_flag_value(flag.substr(2), value));
      option.run_callback();
    } catch (const CLI::Error& refused) {
      return wrong(key, refused.what());
    }
    from_file_.push_back(&option);
    return success();
  }

  CLI::App& app_;
  std::string path_;
  std::vector<const CLI::Option*>& from_file_;
};

bool is_number(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return !text.empty() && text.find_first_not_of("-.0123456789e") == std::string::npos && *end == 0;
}

// Numbers as they are, everything else in quotes, which JSON's are.
std::string yaml_value(const std::string& text) {
  return is_number(text) ? text : Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool on_command_line(const CLI::Option& option, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    if (word.starts_with("--")) return option.check_lname(word.substr(2, word.find('=') - 2));
    return word.size() > 1 && word[0] == '-' && option.check_sname(word.substr(1, 1));
  });
}

std::string origin_of(const CLI::Option& option, const std::vector<std::string>& words,
                      const std::vector<const CLI::Option*>& from_file) {
  if (option.count() == 0) return "default";
  if (std::find(from_file.begin(), from_file.end(), &option) != from_file.end()) return "file";
  if (on_command_line(option, words)) return "command line";
  const char* value = option.get_envname().empty() ? nullptr : std::getenv(option.get_envname().c_str());
  return value != nullptr && option.results().size() == 1 && option.results().front() == value ? option.get_envname()
                                                                                               : "command line";
}

// As YAML; empty when the option has no value.
std::string value_of(const CLI::Option& option) {
  if (!takes_value(option)) {
    const std::string last = option.count() > 0 ? option.results().back() : option.get_default_str();
    return !last.empty() && CLI::detail::to_flag_value(last) > 0 ? "true" : "false";
  }
  if (option.count() == 0) {
    const std::string value = option.get_default_str();
    return value.empty() || value == "\"\"" ? std::string() : yaml_value(value);
  }
  const bool alone = option.get_positional() && option.results().size() == 1;
  if (option.get_expected_max() == 1 || alone) return yaml_value(option.results().back());
  std::string list;
  for (const std::string& value : option.results()) list += (list.empty() ? "" : ", ") + yaml_value(value);
  return "[" + list + "]";
}

std::string line_of(const CLI::Option& option, const std::string& origin, bool secret) {
  const std::string& key = option.get_lnames().front();
  const std::string value = value_of(option);
  if (secret && option.count() > 0) return fmt::format("# {}: not shown  # {}\n", key, origin);
  return value.empty() ? fmt::format("# {}: not set\n", key) : fmt::format("{}: {}  # {}\n", key, value, origin);
}

}  // namespace

Result<std::optional<std::string>> value_in_config(CLI::App& app, const std::string& path, const CLI::Option& option) {
  std::vector<const CLI::Option*> none;
  return ConfigFile(app, path, none).value_of(option);
}

Result<> apply_config(CLI::App& app, const std::string& path, std::vector<const CLI::Option*>& from_file) {
  return ConfigFile(app, path, from_file).apply();
}

std::string print_config(const CLI::App& app, const std::vector<std::string>& words,
                         const std::vector<const CLI::Option*>& from_file,
                         const std::vector<const CLI::Option*>& secret) {
  std::string out;
  for (const std::string& section : app.get_groups()) {
    std::string lines;
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group() != section || option->get_lnames().empty() || about_the_command(*option)) continue;
      lines += line_of(*option, origin_of(*option, words, from_file),
                       std::find(secret.begin(), secret.end(), option) != secret.end());
    }
    if (!section.empty() && !lines.empty()) out += fmt::format("{}# {}\n{}", out.empty() ? "" : "\n", section, lines);
  }
  return out;
}

}  // namespace espalier::serve
