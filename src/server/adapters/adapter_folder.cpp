#include "server/adapters/adapter_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "espalier/engine.h"  // base_of_adapter

namespace espalier::server {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostEntries = 100'000;

// Empty: some files are missing.
std::string stamp_of(const fs::path& path, bool is_folder) {
  std::error_code failed;
  std::string stamp;
  const auto add = [&](const fs::path& file) {
    const auto bytes = fs::file_size(file, failed);
    if (failed) return false;
    const auto written = fs::last_write_time(file, failed);
    if (failed) return false;
    stamp += fmt::format("{}:{};", bytes, written.time_since_epoch().count());
    return true;
  };
  if (!is_folder) return add(path) ? stamp : std::string();
  return add(path / "adapter_config.json") && add(path / "adapter_model.safetensors") ? stamp : std::string();
}

}  // namespace

const std::map<std::string, FolderAdapter>& AdapterFolder::look() {
  std::map<std::string, FolderAdapter> there;
  std::error_code failed;
  std::vector<std::pair<fs::path, bool>> entries;  // and whether it is a folder
  for (fs::directory_iterator entry(path_, failed), end; !failed && entry != end; entry.increment(failed)) {
    const fs::path& path = entry->path();
    std::error_code unknown;
    const bool is_folder = entry->is_directory(unknown);
    if (path.filename().string().starts_with('.') || (!is_folder && path.extension() != ".gguf")) continue;
    if (entries.size() == kMostEntries) break;
    entries.emplace_back(path, is_folder);
  }
  std::ranges::stable_sort(entries, [](const auto& a, const auto& b) { return a.second && !b.second; });
  for (const auto& [path, is_folder] : entries) {
    FolderAdapter found{
        (is_folder ? path.filename() : path.stem()).string(), path.string(), stamp_of(path, is_folder), {}};
    if (found.stamp.empty() || there.contains(found.name)) continue;
    const auto before = there_.find(found.name);
    const bool same =
        before != there_.end() && before->second.path == found.path && before->second.stamp == found.stamp;
    found.base_model = same ? before->second.base_model : is_folder ? base_of_adapter(found.path) : std::string();
    there.emplace(found.name, std::move(found));
  }
  there_ = std::move(there);
  return there_;
}

}  // namespace espalier::server
