#include "cache/disk/host_files.h"

#include <cstring>

namespace espalier {

std::uint64_t HostFiles::bytes() const {
  const std::lock_guard lock(mutex_);
  return all_;
}

bool HostFiles::put(const std::string& name, const PrefixFile& header, std::span<const std::byte> blocks) {
  if (blocks.size() > capacity_) return false;
  auto memory = PageBuffer::allocate(blocks.size());
  if (!memory.ok()) return false;
  auto file = std::make_shared<HostFile>(HostFile{name, header, std::move(memory).value()});
  std::memcpy(file->memory.data(), blocks.data(), blocks.size());
  const std::lock_guard lock(mutex_);
  by_use_.push_front(name);
  files_.insert_or_assign(name, Entry{std::move(file), by_use_.begin()});
  staying_ += blocks.size();
  all_ += blocks.size();
  return true;
}

std::shared_ptr<const HostFile> HostFiles::find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(name);
  if (found == files_.end()) return nullptr;
  if (!found->second.leaves) by_use_.splice(by_use_.begin(), by_use_, found->second.place);
  return found->second.file;
}

bool HostFiles::has(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return files_.contains(name);
}

std::shared_ptr<const HostFile> HostFiles::next_to_leave(std::uint64_t most) {
  const std::lock_guard lock(mutex_);
  if (staying_ <= most || by_use_.empty()) return nullptr;
  Entry& entry = files_.at(by_use_.back());
  by_use_.pop_back();
  entry.leaves = true;
  staying_ -= entry.file->blocks().size();
  return entry.file;
}

bool HostFiles::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(name);
  if (found == files_.end()) return false;
  const std::uint64_t bytes = found->second.file->blocks().size();
  if (!found->second.leaves) {
    by_use_.erase(found->second.place);
    staying_ -= bytes;
  }
  all_ -= bytes;
  files_.erase(found);
  return true;
}

void HostFiles::clear() {
  const std::lock_guard lock(mutex_);
  files_.clear();
  by_use_.clear();
  staying_ = all_ = 0;
}

}  // namespace espalier
