#include "base/system/own_object.h"

#include <fmt/format.h>

#include <cstdlib>
#include <system_error>
#include <vector>

#include "base/system/this_process.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

// In the order in which they are looked through.
std::vector<fs::path> folders() {
  if (const char* folder = std::getenv("ESPALIER_DEVICE_DIR"); folder != nullptr && *folder != '\0') return {folder};
  const fs::path program = own_program().parent_path();
  return {program, program.parent_path() / "lib" / "espalier"};
}

}  // namespace

Result<fs::path> find_own_object(const std::string& name, std::string_view what_works, std::string_view field) {
  std::string looked;
  for (const fs::path& folder : folders()) {
    const fs::path path = folder / name;
    std::error_code ignored;
    if (fs::exists(path, ignored)) return path;
    looked += (looked.empty() ? "" : ", ") + folder.string();
  }
  return Error{Error::Kind::not_found,
               fmt::format("there is no {} in {}: {}", name, looked, what_works),
               std::string(field),
               {}};
}

}  // namespace espalier
