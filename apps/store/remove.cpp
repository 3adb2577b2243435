#include "store/remove.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "store/disk.h"
#include "store/hub/hub_cache.h"
#include "store/package_model.h"

namespace espalier::store {
namespace {

namespace fs = std::filesystem;

Error not_here(const std::string& name) {
  return {Error::Kind::not_found, fmt::format("{} is not in the caches; `espalier list` tells what is", name), "model",
          "model_not_found"};
}

// A lock that is not waited for.
Result<FileLock> lock_now(const fs::path& path, const std::string& name) {
  std::stop_source stop;
  stop.request_stop();
  auto lock = FileLock::acquire(path, stop.get_token());
  if (!lock.ok() && lock.error().kind == Error::Kind::cancelled)
    return Error{
        Error::Kind::busy, fmt::format("{} is being pulled; try again when that has ended", name), "model", {}};
  return lock;
}

Result<> remove_file(const fs::path& path, Removed& removed) {
  std::error_code code;
  const auto status = fs::symlink_status(path, code);
  const std::uint64_t bytes = fs::is_regular_file(status) ? fs::file_size(path, code) : 0;
  if (!fs::remove(path, code))
    return code ? Result<>(disk_error(code.value(), "removing " + path.string())) : success();
  removed.bytes += code ? 0 : bytes;
  ++removed.files;
  return success();
}

template <class F>
void each_file(const fs::path& folder, F&& visit) {
  std::error_code code;
  for (fs::recursive_directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code))
    if (!entry->is_directory(code) || entry->is_symlink(code)) visit(entry->path());
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  each_file(folder, [&](const fs::path& file) { files.push_back(file); });
  return files;
}

class HubRemoval {
 public:
  HubRemoval(const Settings& settings, const HubName& name, const std::string& given)
      : cache_(settings.hub_cache), root_(settings.hub_cache), name_(name), given_(given) {}

  Result<Removed> run() {
    std::error_code code;
    if (!fs::is_directory(repository(), code)) return not_here(given_);
    ESP_CHECK(lock_all());
    if (name_.quant.empty() && name_.revision == "main") return whole();
    return part();
  }

 private:
  fs::path repository() const { return cache_.repository(name_.repository); }

  // Nobody may be pulling any of its blobs.
  Result<> lock_all() {
    const fs::path folder = root_ / ".locks" / repository().filename();
    for (const fs::path& file : files_below(folder)) {
      if (file.extension() != ".lock") continue;
      ESP_TRY(FileLock lock, lock_now(file, given_));
      locks_.push_back(std::move(lock));
    }
    return success();
  }

  Result<Removed> whole() {
    Removed removed;
    for (const fs::path& file : files_below(repository())) ESP_CHECK(remove_file(file, removed));
    std::error_code code;
    fs::remove_all(repository(), code);
    if (code) return disk_error(code.value(), "removing " + repository().string());
    return removed;
  }

  // The names in the snapshot first, then the blobs that no name is left of.
  Result<Removed> part() {
    ESP_TRY(const Model model, cache_.find(given_, name_));
    const fs::path snapshot = cache_.snapshot(name_.repository, model.revision);
    std::vector<fs::path> names;
    if (name_.quant.empty()) {
      names = files_below(snapshot);
    } else {
      ESP_TRY(const HubChoice choice, chosen(snapshot));
      for (const std::string& file : choice.files)
        if (file.ends_with(".gguf")) names.push_back(snapshot / file);
    }
    Removed removed;
    for (const fs::path& file : names) ESP_CHECK(remove_file(file, removed));
    ESP_CHECK(remove_unnamed_blobs(removed));
    if (files_below(snapshot).empty()) {
      std::error_code ignored;
      fs::remove_all(snapshot, ignored);
    }
    return removed;
  }

  Result<HubChoice> chosen(const fs::path& snapshot) const {
    std::vector<HubFile> files;
    for (const fs::path& file : files_below(snapshot))
      files.push_back({.path = file.lexically_relative(snapshot).generic_string()});
    return choose_gguf(files, name_.quant);
  }

  Result<> remove_unnamed_blobs(Removed& removed) const {
    std::set<fs::path> named;
    std::error_code code;
    each_file(repository() / "snapshots", [&](const fs::path& file) {
      std::error_code gone;
      if (fs::is_symlink(file, gone)) named.insert(fs::weakly_canonical(file, gone));
    });
    const fs::path blobs = fs::weakly_canonical(repository() / "blobs", code);
    for (const fs::path& blob : files_below(blobs))
      if (!named.contains(blob) && blob.extension() != ".incomplete") ESP_CHECK(remove_file(blob, removed));
    return success();
  }

  HubCache cache_;
  fs::path root_;
  const HubName& name_;
  const std::string& given_;
  std::vector<FileLock> locks_;
};

Result<Removed> remove_package(const Settings& settings, const PackagedModel& model) {
  Removed removed;
  if (!find_package_model(settings, model)) return not_here(model.alias);
  ESP_CHECK(remove_file(package_model_path(settings, model), removed));
  return removed;
}

}  // namespace

Result<Removed> remove_model(const Settings& settings, const ModelName& meant, const std::string& given_name) {
  if (const auto* packaged = std::get_if<PackagedModel>(&meant)) return remove_package(settings, *packaged);
  if (const auto* hub = std::get_if<HubName>(&meant)) return HubRemoval(settings, *hub, given_name).run();
  return bad_request(fmt::format("{} is a path, not a model of the caches; such files are yours to remove", given_name),
                     "model");
}

}  // namespace espalier::store
