#include "lang/compiler/tuning.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "base/json_fields.h"

namespace espalier::lang {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 1;
constexpr std::int64_t kMostRuns = 1 << 20;

fs::path path_of(const TuningKey& key) {
  std::string name;
  for (const char c : key.program) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return fs::path(key.folder) / ((name.empty() ? "program" : name.substr(0, 100)) + ".json");
}

bool is_of(const Json& entry, const TuningKey& key) {
  const Json* model = find_field(entry, "model");
  const Json* graph = find_field(entry, "program");
  return model && graph && *model == key.model && *graph == key.graph;
}

// The entries of a file that is understood; none else.
Json entries_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  const auto read = parse_json(text.str());
  if (!file || !read.ok() || !read->is_object()) return Json::array();
  const Json* version = find_field(*read, "version");
  const Json* entries = find_field(*read, "entries");
  return version && *version == kVersion && entries && entries->is_array() ? *entries : Json::array();
}

}  // namespace

std::optional<int> load_tuning(const TuningKey& key) {
  if (key.folder.empty()) return std::nullopt;
  for (const Json& entry : entries_in(path_of(key))) {
    if (!entry.is_object() || !is_of(entry, key)) continue;
    const auto runs = get_integer(entry, {"runs"}, {1, kMostRuns});
    if (runs.ok()) return static_cast<int>(*runs);
  }
  return std::nullopt;
}

Result<> save_tuning(const TuningKey& key, int runs, const std::vector<MeasuredRuns>& measured) {
  if (key.folder.empty()) return success();
  const fs::path path = path_of(key);
  Json entries = entries_in(path);
  std::erase_if(entries.get_ref<Json::array_t&>(),
                [&](const Json& entry) { return !entry.is_object() || is_of(entry, key); });
  Json seconds = Json::array();
  for (const MeasuredRuns& one : measured) seconds.push_back({{"runs", one.runs}, {"seconds", one.seconds}});
  entries.push_back({{"model", key.model}, {"program", key.graph}, {"runs", runs}, {"measured", std::move(seconds)}});
  std::error_code failed;
  fs::create_directories(key.folder, failed);
  const fs::path half = path.string() + fmt::format(".{}.new", static_cast<const void*>(&key));
  {
    std::ofstream file(half, std::ios::binary);
    file << Json{{"version", kVersion}, {"entries", std::move(entries)}}.dump(1) << '\n';
    if (!file.flush())
      return Error{Error::Kind::not_found,
                   fmt::format("{} cannot be written: give a folder that can be", half.string()),
                   "tuning_folder",
                   {}};
  }
  fs::rename(half, path, failed);
  if (failed)
    return Error{Error::Kind::not_found, fmt::format("{}: {}", path.string(), failed.message()), "tuning_folder", {}};
  return success();
}

}  // namespace espalier::lang
