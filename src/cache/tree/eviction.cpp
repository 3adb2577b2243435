#include "cache/tree/eviction.h"

#include <algorithm>

namespace espalier {
namespace {

class LeastRecentlyUsed final : public EvictionPolicy {
 public:
  EvictionRank rank(const NodeUse& use) const override { return {0, use.last_use}; }
};

class LeastFrequentlyUsed final : public EvictionPolicy {
 public:
  EvictionRank rank(const NodeUse& use) const override { return {static_cast<double>(use.hits), use.last_use}; }
};

// GreedyDual-Size-Frequency (Cherkasova 1998): value = inflation + frequency x cost / size. Cost over size is the cost
// of computing one token again: a constant for the linear layers plus attention over the positions before it.
class RecomputeCost final : public EvictionPolicy {
 public:
  EvictionRank rank(const NodeUse& use) const override {
    double mean_position = (static_cast<double>(use.begin) + use.end) / 2;
    double token_cost = 1 + mean_position / attention_equals_linear_at;
    return {inflation_ + (1.0 + use.hits) * token_cost, use.last_use};
  }
  void evicted(const EvictionRank& rank) override { inflation_ = std::max(inflation_, rank.value); }

 private:
  // Positions before a token at which attending to them costs as much as its linear layers; thousands for any model
  // in use (about 6 x hidden size), and the ranking hardly depends on which.
  static constexpr double attention_equals_linear_at = 8192;
  double inflation_ = 0;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_eviction_policy(EvictionKind kind) {
  switch (kind) {
    case EvictionKind::lfu:
      return std::make_unique<LeastFrequentlyUsed>();
    case EvictionKind::cost:
      return std::make_unique<RecomputeCost>();
    case EvictionKind::lru:
      break;
  }
  return std::make_unique<LeastRecentlyUsed>();
}

void EvictionHeap::put(std::size_t at, Item item) {
  items_[at] = item;
  place_[item.node] = static_cast<std::uint32_t>(at);
}

void EvictionHeap::rise(std::size_t at, Item item) {
  while (at > 0 && item < items_[(at - 1) / 2]) {
    put(at, items_[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  put(at, item);
}

void EvictionHeap::sink(std::size_t at, Item item) {
  for (std::size_t child = 2 * at + 1; child < items_.size(); child = 2 * at + 1) {
    if (child + 1 < items_.size() && items_[child + 1] < items_[child]) ++child;
    if (!(items_[child] < item)) break;
    put(at, items_[child]);
    at = child;
  }
  put(at, item);
}

void EvictionHeap::push(std::uint32_t node, EvictionRank rank) {
  if (node >= place_.size()) place_.resize(node + std::size_t{1}, absent);
  items_.push_back({});
  rise(items_.size() - 1, {rank, node});
}

void EvictionHeap::remove(std::uint32_t node) {
  if (!contains(node)) return;
  std::size_t at = place_[node];
  place_[node] = absent;
  Item last = items_.back();
  items_.pop_back();
  if (at == items_.size()) return;
  if (at > 0 && last < items_[(at - 1) / 2])
    rise(at, last);
  else
    sink(at, last);
}

bool EvictionHeap::consistent() const {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].node >= place_.size() || place_[items_[i].node] != i) return false;
    if (i > 0 && items_[i] < items_[(i - 1) / 2]) return false;
  }
  return static_cast<std::size_t>(std::count(place_.begin(), place_.end(), absent)) == place_.size() - items_.size();
}

}  // namespace espalier
