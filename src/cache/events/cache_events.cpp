#include "cache/events/cache_events.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"

namespace espalier {
namespace {

static_assert(kCacheBlockTokens == kBlockTokens);

}  // namespace

std::vector<std::uint64_t> block_numbers(std::string_view scope, std::span<const TokenId> tokens) {
  std::vector<std::uint64_t> numbers(tokens.size() / kBlockTokens);
  std::uint64_t number = checksum(std::as_bytes(std::span(scope)), 0);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    number = checksum(std::as_bytes(tokens.subspan(i * kBlockTokens, kBlockTokens)), number);
    numbers[i] = number;
  }
  return numbers;
}

std::vector<CacheEvent> CacheEvents::take() {
  return std::exchange(events_, {});
}

void CacheEvents::cleared() {
  events_.clear();
  events_.push_back({.kind = CacheEvent::Kind::cleared, .tier = {}, .blocks = {}, .parent = {}, .tokens = {}});
}

void CacheEvents::inserted(const RadixTree& tree, NodeHandle node, int begin, int end) {
  if (begin / kBlockTokens == end / kBlockTokens) return;  // no block is whole yet
  add(CacheEvent::Kind::stored, CacheTier::memory, tree.view(node).scope, tokens_up_to(tree, node, end),
      begin / kBlockTokens);
}

void CacheEvents::leaving(const RadixTree& tree, NodeHandle node, int begin, int end) {
  if (begin / kBlockTokens == end / kBlockTokens) return;
  add(CacheEvent::Kind::removed, CacheTier::memory, tree.view(node).scope, tokens_up_to(tree, node, end),
      begin / kBlockTokens);
}

void CacheEvents::readable(std::string_view scope, std::span<const TokenId> tokens, int first_block) {
  add(CacheEvent::Kind::stored, CacheTier::disk, scope, tokens, first_block);
}

void CacheEvents::gone(std::string_view scope, std::span<const TokenId> tokens, int first_block) {
  add(CacheEvent::Kind::removed, CacheTier::disk, scope, tokens, first_block);
}

void CacheEvents::add(CacheEvent::Kind kind, CacheTier tier, std::string_view scope, std::span<const TokenId> tokens,
                      int first) {
  const std::vector<std::uint64_t> numbers = block_numbers(scope, tokens);
  CacheEvent event;
  event.kind = kind;
  event.tier = tier;
  event.blocks.assign(numbers.begin() + first, numbers.end());
  if (event.blocks.empty()) return;
  if (kind == CacheEvent::Kind::stored) {
    if (first > 0) event.parent = numbers[static_cast<std::size_t>(first) - 1];
    const auto own = tokens.subspan(static_cast<std::size_t>(first) * kBlockTokens, event.blocks.size() * kBlockTokens);
    event.tokens.assign(own.begin(), own.end());
    event.scope = scope;
  }
  events_.push_back(std::move(event));
}

}  // namespace espalier
