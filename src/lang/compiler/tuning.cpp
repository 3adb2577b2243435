#include "lang/compiler/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json/json.h"
#include "base/json/json_fields.h"

namespace espalier::lang {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 2;
constexpr std::int64_t kMostRuns = 1 << 20;
constexpr std::uintmax_t kMostBytes = 16 << 20;

fs::path path_of(const TuningKey& key) {
  std::string name;
  for (const char c : key.program) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return fs::path(key.folder) / ((name.empty() ? "program" : name.substr(0, 100)) + ".json");
}

// ---- What a file says -----------------------------------------------------------------------------------------------

struct Entry {
  Json model, program;
  BatchSettings settings;
};

Result<BatchSettings> settings_of(const Json& json, const std::string& place) {
  BatchSettings settings;
  ESP_TRY(const auto runs, get_integer(json, {"runs", place}, {1, kMostRuns}));
  ESP_TRY(const auto group, get_integer(json, {"group", place}, {1, kMostRuns}));
  ESP_TRY(settings.scored, get_boolean(json, {"scored", place}));
  settings.runs = static_cast<int>(runs);
  settings.group = static_cast<int>(group);
  return settings;
}

Json to_json(const BatchSettings& settings) {
  return {{"runs", settings.runs}, {"group", settings.group}, {"scored", settings.scored}};
}

Result<Entry> entry_of(const Json& json, const std::string& place) {
  if (!json.is_object()) return bad_request(place + " must be an object", place);
  Entry entry;
  ESP_TRY(entry.model, get_string(json, {"model", place}));
  ESP_TRY(const Json* program, get_object(json, {"program", place}));
  ESP_TRY(const Json* settings, get_object(json, {"settings", place}));
  entry.program = *program;
  ESP_TRY(entry.settings, settings_of(*settings, place + ".settings"));
  return entry;
}

bool is_of(const Entry& entry, const TuningKey& key) {
  return entry.model == key.model && entry.program == key.graph;
}

Result<Json> entries_of(const std::string& text) {
  ESP_TRY(const Json json, parse_json(text));
  if (!json.is_object()) return bad_request("it must be an object with version and entries", "");
  ESP_TRY(const auto version, get_integer(json, {"version"}));
  if (version >= 1 && version < kVersion) return Json(Json::array());
  if (version != kVersion)
    return bad_request(fmt::format("version is {}; this build reads version {}", version, kVersion), "version");
  ESP_TRY(const Json* entries, get_array(json, {"entries"}));
  for (std::size_t i = 0; i < entries->size(); ++i) ESP_CHECK(entry_of((*entries)[i], fmt::format("entries[{}]", i)));
  return *entries;
}

Error of_folder(Error error, const fs::path& path) {
  Error told = in_file(std::move(error), path.string());
  told.message += "; remove it, or name another tuning_folder";
  told.field = "tuning_folder";
  return told;
}

// The entries of a file, each of the form of an Entry; none where there is no file.
Result<Json> read_entries(const fs::path& path) {
  std::error_code failed;
  if (!fs::exists(path, failed)) return Json(Json::array());
  if (!fs::is_regular_file(path, failed) || fs::file_size(path, failed) > kMostBytes)
    return of_folder(bad_file(fmt::format("it is not a file of at most {} bytes", kMostBytes)), path);
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return of_folder(bad_file("it cannot be read"), path);
  auto entries = entries_of(text.str());
  if (!entries.ok()) return of_folder(std::move(entries).error(), path);
  return entries;
}

Error not_written(std::string why) {
  return {Error::Kind::not_found, std::move(why), "tuning_folder", {}};
}

}  // namespace

Result<std::optional<BatchSettings>> load_tuning(const TuningKey& key) {
  std::optional<BatchSettings> found;
  if (key.folder.empty()) return found;
  ESP_TRY(const Json entries, read_entries(path_of(key)));
  for (const Json& json : entries) {
    ESP_TRY(const Entry entry, entry_of(json, "entries"));
    if (is_of(entry, key)) found = entry.settings;
  }
  return found;
}

Result<> save_tuning(const TuningKey& key, const BatchSettings& best, const std::vector<MeasuredSettings>& measured) {
  if (key.folder.empty()) return success();
  const fs::path path = path_of(key);
  ESP_TRY(Json entries, read_entries(path));
  std::erase_if(entries.get_ref<Json::array_t&>(), [&](const Json& json) {
    const auto entry = entry_of(json, "entries");
    return !entry.ok() || is_of(*entry, key);
  });
  Json seconds = Json::array();
  for (const MeasuredSettings& one : measured) {
    seconds.push_back(to_json(one.settings));
    seconds.back()["seconds"] = one.seconds;
  }
  entries.push_back(
      {{"model", key.model}, {"program", key.graph}, {"settings", to_json(best)}, {"measured", std::move(seconds)}});
  std::error_code failed;
  fs::create_directories(key.folder, failed);
  const fs::path half = path.string() + fmt::format(".{}.new", static_cast<const void*>(&key));
  {
    std::ofstream file(half, std::ios::binary);
    file << Json{{"version", kVersion}, {"entries", std::move(entries)}}.dump(1) << '\n';
    if (!file.flush())
      return not_written(fmt::format("{} cannot be written: give a folder that can be", half.string()));
  }
  fs::rename(half, path, failed);
  if (failed) return not_written(fmt::format("{}: {}", path.string(), failed.message()));
  return success();
}

// ---- Measuring ------------------------------------------------------------------------------------------------------

namespace {

class Search {
 public:
  Search(int rounds, const std::function<Result<double>(const BatchSettings&)>& measure)
      : rounds_(rounds), measure_(measure) {}

  // Measures them in turns; the quickest is what the next ones begin with.
  Result<> among(const std::vector<BatchSettings>& candidates) {
    std::vector<std::vector<double>> seconds(candidates.size());
    for (int round = 0; round < rounds_; ++round)
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        ESP_TRY(const double took, measure_(candidates[i]));
        seconds[i].push_back(took);
      }
    double least = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      std::ranges::nth_element(seconds[i], seconds[i].begin() + std::ssize(seconds[i]) / 2);
      const double median = seconds[i][seconds[i].size() / 2];
      found_.measured.push_back({candidates[i], median});
      if (i > 0 && median >= least) continue;
      least = median;
      found_.best = candidates[i];
    }
    return success();
  }
  const BatchSettings& best() const { return found_.best; }
  Tuning take() && { return std::move(found_); }

 private:
  const int rounds_;
  const std::function<Result<double>(const BatchSettings&)>& measure_;
  Tuning found_;
};

Result<> check(const TuneOptions& options) {
  const auto at_least_one = [](int value) { return value >= 1; };
  if (options.rounds < 1) return bad_request("tuning needs at least one round", "rounds");
  if (options.runs.empty() || !std::ranges::all_of(options.runs, at_least_one))
    return bad_request("tuning needs numbers of runs at once to try, each at least 1", "runs");
  if (!std::ranges::all_of(options.groups, at_least_one))
    return bad_request("groups that are begun together have at least 1 run", "groups");
  return success();
}

}  // namespace

Result<Tuning> find_quickest(const TuneOptions& options, const Tunable& tunable,
                             const std::function<Result<double>(const BatchSettings&)>& measure) {
  ESP_CHECK(check(options));
  Search search(options.rounds, measure);
  std::vector<BatchSettings> candidates;
  for (const int runs : options.runs) candidates.push_back({runs, 1, false});
  ESP_CHECK(search.among(candidates));
  const int runs = search.best().runs;
  candidates.clear();
  for (const int group : options.groups)
    if (group <= runs) candidates.push_back({runs, group, false});
  if (tunable.groups && candidates.size() > 1) ESP_CHECK(search.among(candidates));
  candidates = {search.best(), search.best()};
  candidates.back().scored = true;
  if (tunable.ways && options.ways) ESP_CHECK(search.among(candidates));
  return std::move(search).take();
}

}  // namespace espalier::lang
