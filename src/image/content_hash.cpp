#include "image/content_hash.h"

#include <array>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace espalier::pictures {

struct ContentHasher::State {
  XXH3_state_t xxh;
};

ContentHasher::ContentHasher(std::uint64_t preparation) : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->xxh);
  XXH3_128bits_update(&state_->xxh, &preparation, sizeof(preparation));
}

ContentHasher::~ContentHasher() = default;

void ContentHasher::add(const Picture& picture) {
  const std::array<std::uint64_t, 2> size = {static_cast<std::uint64_t>(picture.width),
                                             static_cast<std::uint64_t>(picture.height)};
  XXH3_128bits_update(&state_->xxh, size.data(), sizeof(size));
  XXH3_128bits_update(&state_->xxh, picture.rgb.data(), picture.rgb.size());
}

ContentHash ContentHasher::value() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return {hash.low64, hash.high64};
}

ContentHash content_hash(const Picture& picture, std::uint64_t preparation) {
  ContentHasher hasher(preparation);
  hasher.add(picture);
  return hasher.value();
}

}  // namespace espalier::pictures
