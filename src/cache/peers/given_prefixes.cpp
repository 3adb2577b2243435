#include "cache/peers/given_prefixes.h"

#include <algorithm>

#include "cache/disk/tree_path.h"

namespace espalier {

// --- rooms ---

void GivenPrefixes::begins(std::uint64_t room) {
  Room& known = rooms_[room];
  if (!known.here) known = {.here = true};  // again: it is to be pulled again
}

void GivenPrefixes::ends(std::uint64_t room) {
  const auto known = rooms_.find(room);
  if (known == rooms_.end() || !known->second.here) return;
  known->second.here = false;
  ended_.push_back(room);
  while (ended_.size() > kRemembered) {
    if (const auto oldest = rooms_.find(ended_.front()); oldest != rooms_.end() && !oldest->second.here)
      rooms_.erase(oldest);
    ended_.pop_front();
  }
}

bool GivenPrefixes::owes(std::uint64_t room) const {
  const auto known = rooms_.find(room);
  return known != rooms_.end() && !known->second.given;
}

std::vector<std::uint64_t> GivenPrefixes::take_given() {
  return std::exchange(given_, {});
}

// --- wishes ---

// That the tree holds, from the start of the sequence.
int GivenPrefixes::blocks_of(const Wish& wish, Peek& peek) const {
  const BlockChain& chain = *wish.asked.chain;
  peek = tree_.peek({chain.scope, chain.tokens}, {.with_state = false, .with_window = false});
  return peek.length / kBlockTokens;
}

GivenPrefixes::Given GivenPrefixes::end(const Wish& wish, PeerEnd why) {
  listener_->end(wish.asked.id, {why, {}});
  if (const auto room = rooms_.find(wish.asked.room); room != rooms_.end() && wish.asked.room != 0) {
    room->second.given = true;
    given_.push_back(wish.asked.room);
  }
  return Given::ended;
}

GivenPrefixes::Given GivenPrefixes::serve(Wish& wish, Clock::time_point now) {
  Peek peek;
  const int held = blocks_of(wish, peek);
  if (wish.asked.only_find) {
    listener_->answer(wish.asked.id, std::max(held - wish.asked.first, 0));
    return Given::ended;
  }
  const BlockChain& chain = *wish.asked.chain;
  if (wish.next < held) {
    if (!listener_->may_give(wish.asked.id)) return Given::nothing;
    const PeerPiece piece{wish.next, std::min(held - wish.next, listener_->piece_blocks())};
    const int end = (piece.first + piece.count) * kBlockTokens;
    const Peek at = tree_.peek({chain.scope, chain.tokens}, {.length = end, .with_state = false, .with_window = false});
    const TreePath path = tree_path(tree_, at.node, end, piece.first * kBlockTokens);
    const auto fill = [&](std::span<std::byte> into) {
      copier_.begin_copy_out(path.slots, into, into.size() / static_cast<std::size_t>(piece.count));
    };
    if (!listener_->give(wish.asked.id, wish.asked.chain, piece, fill)) return Given::nothing;
    if (copier_.settled())
      listener_->filled();
    else
      listener_->come_again();  // where nothing else is to be done, it is sent at once all the same
    wish.next += piece.count;
    return Given::piece;
  }
  if (wish.next >= chain.blocks()) return end(wish, PeerEnd::all);
  if (wish.asked.room == 0) return end(wish, PeerEnd::no_more);
  const auto room = rooms_.find(wish.asked.room);
  if (room == rooms_.end()) return now - wish.since > patience_ ? end(wish, PeerEnd::no_room) : Given::nothing;
  return room->second.here ? Given::nothing : end(wish, PeerEnd::no_more);
}

// Wishes take turns, so that a long one does not hold up the others.
void GivenPrefixes::collect(int most_pieces, Clock::time_point now) {
  const auto gone = listener_->take_gone();  // first: of these no wish is still to come
  for (PeerListener::Asked& asked : listener_->take_asked()) {
    const int first = asked.first;
    wishes_.push_back({std::move(asked), first, now});
  }
  for (const PeerListener::WishId id : gone)
    std::erase_if(wishes_, [&](const Wish& wish) { return wish.asked.id == id; });
  most_pieces = std::max(most_pieces, pieces_a_step_);
  while (most_pieces > 0) {
    const int given = serve_each(most_pieces, now);
    if (given == 0) break;
    most_pieces -= given;
  }
  if (wishes_.size() > 1) std::rotate(wishes_.begin(), wishes_.begin() + 1, wishes_.end());
}

// At most one piece of each wish; how many.
int GivenPrefixes::serve_each(int most_pieces, Clock::time_point now) {
  int pieces = 0;
  for (std::size_t i = 0; i < wishes_.size() && pieces < most_pieces;) {
    const Given given = serve(wishes_[i], now);
    if (given == Given::ended) {
      wishes_.erase(wishes_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (given == Given::piece) ++pieces;
    ++i;
  }
  return pieces;
}

}  // namespace espalier
