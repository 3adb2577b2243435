#include "engine/ranks/block_pieces.h"

#include <cstring>

namespace espalier {

BlockPieces::BlockPieces(const Program& program, const std::vector<std::size_t>& fields, KvType type, int rank) {
  for (const std::size_t f : fields) {
    const TokenField& whole = program.whole_field(f);
    const Range heads = program.whole_fields[f].heads[static_cast<std::size_t>(rank)];
    const auto all = static_cast<std::size_t>(whole.heads), own = static_cast<std::size_t>(heads.size()),
               first = static_cast<std::size_t>(heads.begin);
    const auto add = [&](std::size_t bytes_of_token) {  // of all heads
      const std::size_t each = kSlotGroup * bytes_of_token / all;
      if (each == 0) return;
      pieces_.push_back({own_bytes_, whole_bytes_ + first * each, own * each});
      own_bytes_ += own * each;
      whole_bytes_ += all * each;
    };
    add(CacheLayout::key_bytes(whole, type));
    add(CacheLayout::value_bytes(whole, type));
    const std::size_t scales = CacheLayout::scale_bytes(whole, type), each = all * sizeof(float);
    for (std::size_t part = 0; part < scales / each; ++part) add(each);  // of keys, of values
  }
}

void BlockPieces::put(std::span<const std::byte> own, std::span<std::byte> whole) const {
  for (const Piece& piece : pieces_) std::memcpy(whole.data() + piece.whole, own.data() + piece.own, piece.bytes);
}

void BlockPieces::take(std::span<const std::byte> whole, std::span<std::byte> own) const {
  for (const Piece& piece : pieces_) std::memcpy(own.data() + piece.own, whole.data() + piece.whole, piece.bytes);
}

std::vector<std::size_t> fields_in(const KvPools& kv, bool windows) {
  const KvView view = kv.view();
  std::vector<std::size_t> fields;
  for (std::size_t f = 0; f < view.layers.size(); ++f)
    if ((!view.in_window_slots.empty() && view.in_window_slots[f] != 0) == windows) fields.push_back(f);
  return fields;
}

}  // namespace espalier
