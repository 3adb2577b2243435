// fleet.h: the other servers that a prefix cache deals with: who has prefixes of use here (remote_prefixes.h), who computes a
// request's prompt for this one (peers/room_pulls.h), and who pulls out of its tree (peers/given_prefixes.h). Each may be absent.
//
// Threads: the engine thread. Fails: never. Order: disk tier, tree and copier outlive its calls; what it holds is read by threads of
// the tier, so it outlives that.
#pragma once

#include <memory>

#include "cache/peers/given_prefixes.h"
#include "cache/peers/room_pulls.h"
#include "cache/remote/remote_prefixes.h"

namespace espalier {

// What a waiting request has asked of others.
struct AskedOthers {
  bool prefixes = false, room = false;
};

// All of them.
class Fleet {
 public:
  Fleet(DiskTier& disk, RadixTree& tree, SlotCopier& copier) : disk_(disk), tree_(tree), copier_(copier) {}

  // Of a model without states and window slots; the tier reads foreign blocks.
  void share(std::unique_ptr<RemoteTier> remote, RemotePolicy policy);
  void pull(RoomPullsOptions options, PeerCounters& counters);
  void give(std::unique_ptr<PeerListener> listener, int pieces_a_step);

  RemotePrefixes* prefixes() { return prefixes_.get(); }  // null: nobody is asked for any
  GivenPrefixes* given() { return given_.get(); }         // null: nobody asks for what is here
  bool pulls() const { return pulls_ != nullptr; }
  bool may_have_some() const { return prefixes_ != nullptr || pulls_ != nullptr; }

  // What is done for a request that lacks the tokens of its key from `held` to `limit`.
  enum class Answer {
    nothing,  // or it was asked before
    waits,    // an answer comes
    planned,  // the tier's catalogue has what comes
  };
  Answer ask(std::uint64_t owner, const Handoff* handoff, const CacheKey& key, int held, int limit, AskedOthers& asked);
  bool is_asking(std::uint64_t owner) const { return prefixes_ && prefixes_->is_asking(owner); }
  int asking() const { return prefixes_ ? prefixes_->asking() : 0; }  // requests that have no answer
  void forget(std::uint64_t owner);                                   // it was admitted, or left

  void collect(int most_pieces);  // takes what came; gives at most so many pieces
  void give_pulled(int most_pieces);
  void filled();                              // no copy goes on
  void computed(int tokens, double seconds);  // the engine computed that many prompt tokens
  void evicting(NodeHandle node, int cut);
  void clear();
  void stop();  // nobody waits for others any more

 private:
  DiskTier& disk_;
  RadixTree& tree_;
  SlotCopier& copier_;
  std::unique_ptr<RemotePrefixes> prefixes_;
  std::unique_ptr<RoomPulls> pulls_;
  std::unique_ptr<GivenPrefixes> given_;
};

}  // namespace espalier
