#include "store/settings.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/system/this_process.h"
#include "net/http/http_types.h"  // same_ignoring_case, valid_field_value
#include "store/disk.h"

namespace espalier::store {
namespace {

namespace fs = std::filesystem;

class Environment {
 public:
  explicit Environment(const std::function<const char*(const char*)>& variable) : variable_(variable) {}

  // The first of the variables that is set to something.
  std::string first(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (const char* value = variable_(name); value && *value) return value;
    return {};
  }
  bool is_true(const char* name) const {
    const std::string value = first({name});
    return std::any_of(std::begin(kTrue), std::end(kTrue),
                       [&](auto word) { return net::same_ignoring_case(value, word); });
  }
  fs::path home() const {
    if (std::string home = first({"HOME"}); !home.empty()) return home;
    const passwd* user = ::getpwuid(::getuid());
    return user && user->pw_dir ? user->pw_dir : "";
  }
  // An absolute path out of a variable's value; "~/" means the home folder, as these variables allow.
  fs::path folder(const std::string& value) const {
    const fs::path path = value.starts_with("~/") ? home() / value.substr(2) : fs::path(value);
    std::error_code ignored;
    return path.empty() ? path : fs::absolute(path, ignored);
  }

 private:
  static constexpr std::string_view kTrue[] = {"1", "true", "yes", "on"};
  const std::function<const char*(const char*)>& variable_;
};

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string token_of(const Environment& environment, const fs::path& hub_home) {
  std::string token = trimmed(environment.first({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  if (token.empty() && !environment.is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
    const std::string named = environment.first({"HF_TOKEN_PATH"});
    const auto file = read_small_file(named.empty() ? hub_home / "token" : environment.folder(named), 64 << 10);
    if (file.ok()) token = trimmed(*file);
  }
  return net::valid_field_value(token) ? token : std::string();
}

}  // namespace

Settings Settings::from_environment(const std::function<const char*(const char*)>& variable) {
  const Environment environment(variable);
  const auto folder = [&](std::initializer_list<const char*> names, const fs::path& otherwise) {
    const std::string value = environment.first(names);
    return value.empty() ? otherwise : environment.folder(value);
  };
  Settings settings;
  const fs::path home = environment.home();
  const fs::path caches = folder({"XDG_CACHE_HOME"}, home.empty() ? home : home / ".cache");
  const auto under_caches = [&](const char* name) { return caches.empty() ? fs::path() : caches / name; };
  settings.cache = folder({"ESPALIER_CACHE"}, under_caches("espalier"));
  const fs::path hub_home = folder({"HF_HOME"}, under_caches("huggingface"));
  settings.hub_cache =
      folder({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}, hub_home.empty() ? hub_home : hub_home / "hub");
  settings.token = token_of(environment, hub_home);
  if (std::string endpoint = trimmed(environment.first({"HF_ENDPOINT"})); !endpoint.empty())
    settings.endpoint = endpoint;
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  settings.offline = environment.is_true("HF_HUB_OFFLINE");

  if (std::string python = environment.first({"ESPALIER_PYTHON"}); !python.empty()) settings.pythons.push_back(python);
  settings.pythons.emplace_back("python3");
  // A checkout's own environment lies beside its program: build/espalier and build/venv.
  if (const fs::path program = own_program(); !program.empty())
    settings.pythons.push_back(program.parent_path() / "venv" / "bin" / "python3");
  return settings;
}

Settings Settings::from_environment() {
  return from_environment([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace espalier::store
