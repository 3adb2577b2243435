// remote_prefixes.h: joins the radix tree and those with whom prefixes are shared: what a request lacks is asked for, and what the
// tree holds is given.
//
// What others have becomes a file of the disk tier's catalogue for as long as the request waits, so that planning, loading and
// placing are those of any prefix (disk_prefixes.h). What is to be given waits as tokens alone, in a short queue: it is copied
// out of the pool between steps, while buffers are free; what was evicted by then is not given.
//
// Units:   tokens, blocks. Threads: the engine thread. Fails: never. Order: disk tier, tree and copier outlive its calls.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "cache/disk/disk_tier.h"
#include "cache/disk/evicted_leaf.h"
#include "cache/disk/slot_copier.h"
#include "cache/remote/remote_tier.h"
#include "cache/tree/radix_tree.h"

namespace espalier {

// Questions of waiting requests, and prefixes that wait to be given.
class RemotePrefixes {
 public:
  RemotePrefixes(std::unique_ptr<RemoteTier> tier, RemotePolicy policy, DiskTier& disk, RadixTree& tree,
                 SlotCopier& copier)
      : tier_(std::move(tier)), policy_(policy), disk_(disk), tree_(tree), copier_(copier) {}

  // Asks for what lies behind the first `held` tokens of the key, up to `limit`. False: nothing is asked.
  bool ask(std::uint64_t owner, const CacheKey& key, int held, int limit);
  bool is_asking(std::uint64_t owner) const;  // and has no answer
  int asking() const;                         // how many are
  void forget(std::uint64_t owner);           // it was admitted, or left

  void computed(const CacheKey& key, int tokens);    // the tree holds so many of its tokens
  void used_again(const CacheKey& key, int tokens);  // so many were found there
  void evicting(NodeHandle node, int first_evicted_position);

  // Takes answers, and gives at most so many pieces.
  void collect(int most_pieces);
  void filled() { tier_->filled(); }  // no copy goes on
  bool save(DiskTier::Time until);    // gives all that waits; false when the time was up
  void clear();
  RemoteTier& tier() { return *tier_; }

 private:
  struct Question {
    std::uint64_t owner = 0;
    RemoteTier::AskId id = 0;
    bool answered = false;
    FileId file = 0;  // 0: nothing was found, or it does not pay
  };
  struct Offer {
    RemoteTier::Chain chain;
    int next = 0;  // block
  };
  enum class Given { piece, all, nothing };
  void take(const RemoteTier::Answer& answer);
  void offer(const CacheKey& key, int tokens);
  Given give_next(Offer& offer);
  bool give(const RemoteTier::Chain& chain, RemoteTier::Piece piece, NodeHandle node);
  void tell_waiting();

  const std::unique_ptr<RemoteTier> tier_;
  const RemotePolicy policy_;
  DiskTier& disk_;
  RadixTree& tree_;
  SlotCopier& copier_;
  std::vector<Question> questions_;
  std::deque<Offer> offers_;
  EvictedLeaf last_;
};

}  // namespace espalier
