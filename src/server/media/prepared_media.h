// prepared_media.h: a picture or film made ready for a model, kept for the next request that brings the same bytes.
//
// The key is a hash of the bytes as the body brought them and of what was asked for, so a picture of several turns is
// decoded once. What is alive is charged to a budget, whether the cache, a request or the engine holds it.
// Units:   bytes of the floats that the tower reads. Threads: any.
// Fails:   never; what is too large for the cache is not kept.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "image/content_hash.h"
#include "image/processors/processor.h"
#include "server/admission/budget.h"

namespace espalier::server {

// What the tower reads, what stands for it in the text, and its hash.
struct PreparedMedium {
  pictures::PixelBlock block;
  pictures::Placeholders places;
  pictures::ContentHash content;
  bool film = false;
  std::shared_ptr<Budget> memory;  // that is charged: it goes behind all that it counts
  Budget::Charge charge;

  std::int64_t bytes() const { return static_cast<std::int64_t>(block.values.size() * sizeof(float)); }
};
using Prepared = std::shared_ptr<const PreparedMedium>;

// 128 bits of what a body brought.
using MediaKey = std::array<std::uint64_t, 2>;

// The least lately used leave when the bytes are too many.
class MediaCache {
 public:
  explicit MediaCache(std::int64_t most_bytes) : most_bytes_(most_bytes) {}

  Prepared find(const MediaKey& key);
  void keep(const MediaKey& key, Prepared made);
  void clear();
  std::int64_t bytes() const;

 private:
  struct Entry {
    MediaKey key;
    Prepared made;
  };
  void make_room(std::int64_t bytes);

  const std::int64_t most_bytes_;
  mutable std::mutex mutex_;
  std::int64_t bytes_ = 0;
  std::list<Entry> entries_;  // the most lately used first
  std::map<MediaKey, std::list<Entry>::iterator> places_;
};

}  // namespace espalier::server
