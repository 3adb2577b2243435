#include "cache/disk/tier_files.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/steady_seconds.h"

namespace espalier {
namespace {

constexpr std::size_t kMostUnnamed = 16;  // files that are flushed together

}  // namespace

void TierFiles::write(FileId id, const std::string& name, PrefixFile header, std::span<const std::byte> blocks) {
  StoredFile file{id, name, header.header_bytes, header.file_bytes(), header.checksums, true};
  if (!off_ && host_.put(name, header, blocks)) return told_.stored(std::move(file));
  if (write_down(name, std::move(header), blocks)) return untold_.push_back(std::move(file));
  file.done = false;
  told_.stored(std::move(file));
}

bool TierFiles::write_down(const std::string& name, PrefixFile header, std::span<const std::byte> blocks) {
  if (!folder_) return false;
  auto written = write_file(name, header, blocks);
  if (!written.ok()) {
    told_.trouble(written.error());
    return false;
  }
  unnamed_.push_back(std::move(written).value());
  return true;
}

Result<CacheFolder::Unnamed> TierFiles::write_file(const std::string& name, PrefixFile& header,
                                                   std::span<const std::byte> blocks) const {
  if (off_) return internal_error("the tier is off");
  ESP_TRY(const PageBuffer encoded, encode_header(header));
  const std::span<const std::byte> parts[] = {{encoded.data(), encoded.size()}, blocks};
  return folder_->write(name, parts);
}

// Without a folder none has to leave: the catalogue holds no more than memory does.
void TierFiles::spill(std::uint64_t most) {
  while (const auto file = folder_ ? host_.next_to_leave(most) : nullptr) {
    if (write_down(file->name, file->header, file->blocks()))
      leaving_.push_back(file->name);
    else
      host_.remove(file->name);
    publish(true);
  }
}

void TierFiles::publish(bool more_comes) {
  if (unnamed_.empty() || (more_comes && unnamed_.size() < kMostUnnamed)) return;
  auto files = std::exchange(unnamed_, {});
  const auto leaving = std::exchange(leaving_, {});
  if (!off_)
    if (auto published = folder_->publish(std::move(files), durable_); !published.ok())
      told_.trouble(published.error());
  for (const std::string& name : leaving) host_.remove(name);
  for (StoredFile& file : std::exchange(untold_, {})) {
    file.done = !off_;
    told_.stored(std::move(file));
  }
}

void TierFiles::remove(const std::string& name) {
  const bool was_in_memory = host_.remove(name);
  const auto own = std::ranges::find(unnamed_, name, &CacheFolder::Unnamed::name);
  if (own != unnamed_.end()) {
    std::erase_if(untold_, [&](const StoredFile& file) { return file.name == name; });
    std::vector<CacheFolder::Unnamed> others;
    for (auto& file : unnamed_)
      if (file.name() != name) others.push_back(std::move(file));
    unnamed_.swap(others);
  } else if (!was_in_memory && folder_ && !off_) {
    if (auto removed = folder_->remove(name); !removed.ok()) told_.trouble(removed.error());
  }
}

// Also when the tier is off: what was cleared must not come back.
void TierFiles::remove_all() {
  unnamed_.clear();
  untold_.clear();
  leaving_.clear();
  host_.clear();
  if (!folder_) return;
  for (const auto& entry : folder_->list()) (void)folder_->remove(entry.name);
}

Result<TierFiles::Took> TierFiles::read(const std::string& name, std::uint64_t offset, std::span<std::byte> into) {
  if (const auto file = host_.find(name)) {
    std::ranges::copy(file->blocks().subspan(offset - file->header.header_bytes, into.size()), into.begin());
    return Took{};
  }
  if (!folder_) return Error{Error::Kind::not_found, name + " is no longer in memory", {}, {}};
  Took took;
  const auto start = std::chrono::steady_clock::now();
  ESP_TRY(const CacheFolder::Input file, folder_->open_file(name));
  took.opening = seconds_since(start);
  ESP_CHECK(file.read(offset, into));
  took.reading = seconds_since(start) - took.opening;
  if (durable_) file.touch();  // its age for the next process
  return took;
}

}  // namespace espalier
