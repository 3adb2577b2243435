// How a disk tier begins: its folder, and what an earlier process left in it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <optional>
#include <tuple>

#include "base/checksum.h"
#include "base/log.h"
#include "base/threads/start_thread.h"
#include "cache/disk/disk_tier.h"

namespace espalier {
namespace {

constexpr std::string_view kKept = "kv-", kPassing = "run-", kSuffix = ".kv";

// Sixteen hexadecimal digits: "00000000000000a3" -> 0xa3.
std::optional<std::uint64_t> number_in(std::string_view digits) {
  const auto is_ours = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (digits.size() != 16 || !std::ranges::all_of(digits, is_ours)) return std::nullopt;
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

// "00000000000000a3.kv" -> 0xa3
std::optional<std::uint64_t> number_of(std::string_view name) {
  return name.ends_with(kSuffix) ? number_in(name.substr(0, name.size() - kSuffix.size())) : std::nullopt;
}

// Not merely somebody's folder "kv-store".
bool is_kept_folder(std::string_view name) {
  return name.starts_with(kKept) && number_in(name.substr(kKept.size())).has_value();
}

// Files of other keys (another model, another version) may take half of the capacity; the oldest go first. Returns what
// they take. Folders that another process uses are left alone and not counted.
std::uint64_t trim_others(const std::filesystem::path& base, const std::string& ours, std::uint64_t capacity) {
  struct ForeignFile {
    std::size_t folder;
    CacheFolder::Entry file;
  };
  std::vector<std::unique_ptr<CacheFolder>> folders;
  std::vector<ForeignFile> files;
  std::uint64_t bytes = 0;
  for (const std::string& name : folders_in(base, kKept)) {
    if (name == ours || !is_kept_folder(name)) continue;
    auto folder = CacheFolder::open(base, name);
    if (!folder.ok()) continue;
    for (auto& entry : (*folder)->list()) {
      if (!number_of(entry.name)) continue;  // not one of ours
      bytes += entry.bytes;
      files.push_back({folders.size(), std::move(entry)});
    }
    folders.push_back(std::move(folder).value());
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.file.modified < b.file.modified; });
  for (const auto& [folder, file] : files) {
    if (bytes <= capacity / 2) break;
    if (folders[folder]->remove(file.name).ok()) bytes -= file.bytes;
  }
  for (const auto& folder : folders)
    if (folder->list().empty()) folder->remove_all();
  return bytes;
}

std::string passing_name() {
  static std::atomic<unsigned> count{0};
  return fmt::format("{}{}-{}", kPassing, ::getpid(), count++);
}

}  // namespace

Result<std::unique_ptr<DiskTier>> DiskTier::open(DiskTierOptions options, DiskTierCounters& counters) {
  if (options.key.size() > PrefixFileLimits::text)
    return internal_error("the key of the prefix cache is longer than its files can hold");
  std::string name;
  std::unique_ptr<CacheFolder> folder;
  const bool on_disk = options.capacity > 0;
  if (!on_disk) {
    options.keep = false;
  } else if (options.keep) {
    name = fmt::format("{}{:016x}", kKept, checksum(options.key));
    options.capacity -= std::min(options.capacity, trim_others(options.base, name, options.capacity));
  } else {
    remove_abandoned(options.base, kPassing);
    name = passing_name();
  }
  if (on_disk) {
    ESP_TRY(folder, CacheFolder::open(options.base, name, options.fault));
  }
  std::unique_ptr<DiskTier> tier;
  try {
    tier.reset(new DiskTier(std::move(options), std::move(folder), counters));  // NOLINT: its constructor is private
  } catch (const std::system_error& refused) {
    return no_thread("disk tier's", refused.code().message());
  }
  if (tier->options_.keep) tier->take_over_files();
  return tier;
}

Result<PrefixFile> DiskTier::read_header(const CacheFolder::Entry& entry) const {
  std::vector<std::byte> bytes(kFileAlignment);
  ESP_TRY(std::size_t read, files_.folder()->peek(entry.name, bytes));
  ESP_TRY(const std::uint64_t length, header_length(std::span(bytes).first(read), entry.bytes));
  if (length > bytes.size()) {
    bytes.resize(length);
    ESP_TRY(read, files_.folder()->peek(entry.name, bytes));
  }
  ESP_TRY(PrefixFile file, parse_header(std::span(bytes).first(read), entry.bytes));
  if (file.key != options_.key) return bad_file("it belongs to another model or configuration");
  if (file.block_stride != stride_) return bad_file(fmt::format("its blocks have {} bytes", file.block_stride));
  return file;
}

// Reads the header of every file, oldest first, so that ages go on; what cannot be used is named and removed.
void DiskTier::take_over_files() {
  constexpr int kMostNamed = 8;
  auto entries = files_.folder()->list();
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return std::tie(a.modified, a.name) < std::tie(b.modified, b.name); });
  int refused = 0;
  for (const auto& entry : entries) {
    const auto number = number_of(entry.name);
    if (!number) continue;
    next_name_ = std::max(next_name_, *number + 1);
    auto file = read_header(entry);
    if (file.ok() && catalogue_.add(file->scope, file->tokens,
                                    {entry.name, entry.bytes, file->header_bytes, file->first_block, file->blocks(),
                                     std::move(file->checksums), true, 0, 0, 0}))
      continue;  // else others hold all of it
    if (!file.ok() && ++refused <= kMostNamed)
      log::warning("prefix cache: {} is refused: {}", (files_.folder()->path() / entry.name).string(),
                   file.error().message);
    if (file.ok() || file.error().kind == Error::Kind::bad_file) (void)files_.folder()->remove(entry.name);
  }
  if (refused > kMostNamed) log::warning("prefix cache: {} files were refused in all", refused);
  counters_.damaged_files.add(static_cast<std::uint64_t>(refused));
  make_room(0, UINT64_MAX);
  counters_.used_bytes.set(static_cast<double>(catalogue_.bytes()));
}

}  // namespace espalier
