#include "command/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/system/child_descriptors.h"
#include "command/output.h"
#include "store/model_name.h"  // near_names

namespace espalier::command {
namespace {

constexpr std::string_view kPrefix = "ESPALIER_";

// Without the prefix, which all have in common.
constexpr const char* kForUsers[] = {"BASE_URL", "CACHE",        "DEVICE_DIR", "DIST_SECRET",
                                     "ISA",      "NCCL_LIBRARY", "PYTHON",     "WGMMA"};
constexpr std::string_view kForTestsAndTools[] = {
    "BINARY",         "LONG_TESTS", "OPERATIONS",   "PYTHON_PACKAGE",
    "REFERENCE",      "SEED",       "TEST_MODEL",   "SHARED",
    "SKIP_SETUP",     "SOURCE_DIR", "TEST_SECONDS", "UNDER_CTEST",
    "MMPROJ_GOLDENS", "EMU_ORDER",  "EMU_SHARED",   "EMU_STRICT",
    "CUDA_TOOLKIT",   "RANK"};  // the last: from a rank to those it starts

void add_twins(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app.get_options())
    if (option->get_envname().starts_with(kPrefix)) names.push_back(option->get_envname().substr(kPrefix.size()));
  for (const CLI::App* verb : app.get_subcommands({})) add_twins(*verb, names);
}

std::string described(const std::string& name, const std::vector<std::string>& known) {
  const auto near = store::near_names(name, known);
  return near.empty() ? printable(fmt::format("{}{}", kPrefix, name))
                      : printable(fmt::format("{0}{1} (did you mean {0}{2}?)", kPrefix, name, near.front()));
}

// As in _PORT_80_TCP_ADDR.
bool has_protocol_port(std::string_view name) {
  const std::size_t number = name.find("_PORT_") + 6;
  const std::size_t protocol = name.find_first_not_of("0123456789", number);
  if (number < 6 || protocol == number || protocol == std::string_view::npos) return false;
  const std::string_view rest = name.substr(protocol);
  return rest.starts_with("_TCP") || rest.starts_with("_UDP") || rest.starts_with("_SCTP");
}

bool is_address(std::string_view value) {
  return value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://");
}

}  // namespace

bool tells_of_a_service(std::string_view name, std::string_view value) {
  if (!name.starts_with(kPrefix)) return false;
  if (name.ends_with("_PORT") && is_address(value)) return true;
  if (name.ends_with("_NAME") && value.starts_with('/')) return true;  // of the linked container
  return name.ends_with("_SERVICE_HOST") || name.find("_SERVICE_PORT") != std::string_view::npos ||
         name.starts_with("ESPALIER_ENV_") || has_protocol_port(name);
}

std::string unknown_variables(const CLI::App& app) {
  std::vector<std::string> known(std::begin(kForUsers), std::end(kForUsers));
  add_twins(app, known);
  std::sort(known.begin(), known.end());  // verbs share flags
  known.erase(std::unique(known.begin(), known.end()), known.end());
  std::string unknown;
  for (char** variable = environment_lines(); *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (!text.starts_with(kPrefix)) continue;
    const std::size_t end = std::min(text.find('='), text.size());
    if (tells_of_a_service(text.substr(0, end), text.substr(std::min(end + 1, text.size())))) continue;
    const std::string name(text.substr(0, end).substr(kPrefix.size()));
    if (std::binary_search(known.begin(), known.end(), name) || std::ranges::count(kForTestsAndTools, name) > 0)
      continue;
    unknown += (unknown.empty() ? "" : ", ") + described(name, known);
  }
  return unknown.empty()
             ? unknown
             : fmt::format("nothing reads these variables of the environment: {}; a flag's is {} and its name", unknown,
                           kPrefix);
}

}  // namespace espalier::command
