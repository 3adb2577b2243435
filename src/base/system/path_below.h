// path_below.h: what a client may name of a folder. Threads: any. Fails: never: what is not there is nothing.
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

namespace espalier {

// The real path of what is named, as it lies below the folder or with its whole path; none where it does not lie below it,
// whatever links and dots lead away, or is not there.
inline std::optional<std::filesystem::path> path_below(const std::filesystem::path& folder, std::string_view named) {
  namespace fs = std::filesystem;
  if (named.empty() || named.find('\0') != named.npos) return std::nullopt;
  std::error_code failed;
  const fs::path real = fs::canonical(folder, failed);
  if (failed) return std::nullopt;
  fs::path path = fs::canonical(real / fs::path(named), failed);  // an absolute one replaces the folder
  if (failed || std::mismatch(real.begin(), real.end(), path.begin(), path.end()).first != real.end())
    return std::nullopt;
  return path;
}

}  // namespace espalier
