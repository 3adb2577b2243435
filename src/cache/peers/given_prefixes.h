// given_prefixes.h: what other servers pull out of this one's tree, as its prompts are computed.
//
// A wish is answered with the whole blocks that the tree holds of its tokens. With a room more may follow: as long as a request
// with this room waits or runs here, each of its chunks adds blocks, and they go out between two steps. A wish whose room
// nobody brought yet waits for it; one whose request has ended gets what there is, and is told so.
// Without a room no more follows.
//
// Units:   tokens, blocks. Threads: the engine thread. Fails: never. Order: tree and copier outlive its calls.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cache/disk/slot_copier.h"
#include "cache/peers/peer_listener.h"
#include "cache/tree/radix_tree.h"

namespace espalier {

// Open wishes, and rooms whose requests are here or were lately.
class GivenPrefixes {
 public:
  using Clock = std::chrono::steady_clock;
  // pieces_a_step: that collect() may give however few it is told. patience: how long a wish waits for a request with its room.
  GivenPrefixes(std::unique_ptr<PeerListener> listener, RadixTree& tree, SlotCopier& copier, int pieces_a_step,
                Clock::duration patience = std::chrono::seconds(30))
      : listener_(std::move(listener)),
        tree_(tree),
        copier_(copier),
        pieces_a_step_(pieces_a_step),
        patience_(patience) {}

  void begins(std::uint64_t room);  // a request with it has come
  void ends(std::uint64_t room);    // it has left
  // Whether the tree must keep what was computed for a room that has ended: nobody has pulled it yet.
  bool owes(std::uint64_t room) const;
  std::vector<std::uint64_t> take_given();  // rooms of which all was given since

  void collect(int most_pieces, Clock::time_point now = Clock::now());  // gives at most so many pieces
  void filled() { listener_->filled(); }                                // no copy goes on
  std::uint16_t port() const { return listener_->port(); }
  std::size_t open() const { return wishes_.size(); }  // wishes

 private:
  struct Wish {
    PeerListener::Asked asked;
    int next = 0;  // block
    Clock::time_point since;
  };
  enum class Given { piece, nothing, ended };
  int serve_each(int most_pieces, Clock::time_point now);
  Given serve(Wish& wish, Clock::time_point now);
  Given end(const Wish& wish, PeerEnd why);
  int blocks_of(const Wish& wish, Peek& peek) const;

  struct Room {
    bool here = false;   // a request with it is
    bool given = false;  // a wish with it was answered to its end
  };
  static constexpr std::size_t kRemembered = 4096;  // rooms that have ended

  const std::unique_ptr<PeerListener> listener_;
  RadixTree& tree_;
  SlotCopier& copier_;
  const int pieces_a_step_;
  const Clock::duration patience_;
  std::vector<Wish> wishes_;
  std::unordered_map<std::uint64_t, Room> rooms_;
  std::deque<std::uint64_t> ended_;  // rooms, the oldest first
  std::vector<std::uint64_t> given_;
};

}  // namespace espalier
