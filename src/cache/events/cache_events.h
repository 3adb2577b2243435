// cache_events.h: collects the events of a radix tree and of a disk tier's catalogue.
//
// The tree holds runs of tokens of any length: a block is stored when its last token comes, and removed when one of its
// tokens goes.
// Cost: O(tokens from the start of the sequence) a change. Threads: the engine thread. Fails: never.
// Order: it outlives the tree and the catalogue that it watches.
#pragma once

#include <vector>

#include "cache/disk/prefix_catalogue.h"
#include "cache/tree/radix_tree.h"
#include "espalier/cache_event.h"

namespace espalier {

// Watches both tiers of the cache.
class CacheEvents final : public TreeWatcher, public CatalogueWatcher {
 public:
  std::vector<CacheEvent> take();  // what happened since
  bool empty() const { return events_.empty(); }
  void cleared();  // all of it, on both tiers

  void inserted(const RadixTree& tree, NodeHandle node, int begin, int end) override;
  void leaving(const RadixTree& tree, NodeHandle node, int begin, int end) override;
  void readable(std::string_view scope, std::span<const TokenId> tokens, int first_block) override;
  void gone(std::string_view scope, std::span<const TokenId> tokens, int first_block) override;

 private:
  void add(CacheEvent::Kind kind, CacheTier tier, std::string_view scope, std::span<const TokenId> tokens, int first);

  std::vector<CacheEvent> events_;
};

// The numbers of all whole blocks of a sequence.
std::vector<std::uint64_t> block_numbers(std::string_view scope, std::span<const TokenId> tokens);

}  // namespace espalier
