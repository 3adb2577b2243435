#include "server/media/prepared_media.h"

#include <utility>

namespace espalier::server {

Prepared MediaCache::find(const MediaKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(key);
  if (found == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->made;
}

void MediaCache::make_room(std::int64_t bytes) {
  while (!entries_.empty() && bytes_ + bytes > most_bytes_) {
    bytes_ -= entries_.back().made->bytes();
    places_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

void MediaCache::keep(const MediaKey& key, Prepared made) {
  const std::int64_t bytes = made->bytes();
  const std::lock_guard lock(mutex_);
  if (bytes > most_bytes_ || places_.contains(key)) return;
  make_room(bytes);
  bytes_ += bytes;
  entries_.push_front({key, std::move(made)});
  places_[key] = entries_.begin();
}

void MediaCache::clear() {
  const std::lock_guard lock(mutex_);
  places_.clear();
  entries_.clear();
  bytes_ = 0;
}

std::int64_t MediaCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace espalier::server
