#include "image/content_hash.h"

#include <array>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace espalier::pictures {

ContentHash content_hash(std::span<const Picture> pictures, std::uint64_t preparation) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  std::array<std::uint64_t, 2> head = {preparation, pictures.size()};
  XXH3_128bits_update(&state, head.data(), sizeof(head));
  for (const Picture& picture : pictures) {
    std::array<std::uint64_t, 2> size = {static_cast<std::uint64_t>(picture.width),
                                         static_cast<std::uint64_t>(picture.height)};
    XXH3_128bits_update(&state, size.data(), sizeof(size));
    XXH3_128bits_update(&state, picture.rgb.data(), picture.rgb.size());
  }
  XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {hash.low64, hash.high64};
}

ContentHash content_hash(const Picture& picture, std::uint64_t preparation) {
  return content_hash(std::span(&picture, 1), preparation);
}

}  // namespace espalier::pictures
