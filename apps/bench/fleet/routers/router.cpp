#include "bench/fleet/routers/router.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <numeric>

#include "bench/fleet/routers/hash_ring.h"
#include "bench/fleet/routers/prompt_tree.h"
#include "bench/load/random.h"

namespace espalier::bench {
namespace {

int least_of(std::span<const int> loads) {
  return static_cast<int>(std::ranges::min_element(loads) - loads.begin());
}

class RandomRouter final : public Router {
 public:
  explicit RandomRouter(std::uint64_t seed) : random_(seed) {}
  int choose(const RoutedRequest&, std::span<const int> loads) override {
    return static_cast<int>(random_.below(loads.size()));
  }

 private:
  Random random_;
};

class RoundRobin final : public Router {
 public:
  int choose(const RoutedRequest&, std::span<const int> loads) override {
    return static_cast<int>(next_++ % loads.size());
  }

 private:
  std::size_t next_ = 0;
};

class PowerOfTwo final : public Router {
 public:
  explicit PowerOfTwo(std::uint64_t seed) : random_(seed) {}
  int choose(const RoutedRequest&, std::span<const int> loads) override {
    if (loads.size() == 1) return 0;
    const std::size_t first = random_.below(loads.size());
    const std::size_t second = (first + 1 + random_.below(loads.size() - 1)) % loads.size();
    return static_cast<int>(loads[first] <= loads[second] ? first : second);
  }

 private:
  Random random_;
};

class CacheAware final : public Router {
 public:
  CacheAware(const RouterOptions& options, int servers) : options_(options), tree_(servers) {}

  int choose(const RoutedRequest& request, std::span<const int> loads) override {
    const int server = server_for(request, loads);
    tree_.add(request.prompt, server);
    return server;
  }
  void pass_time(double now) override {
    if (options_.eviction_interval <= 0 || now < next_eviction_) return;
    tree_.evict(options_.tree_tokens);
    next_eviction_ = now + options_.eviction_interval;
  }

 private:
  int server_for(const RoutedRequest& request, std::span<const int> loads) {
    const auto [least, most] = std::ranges::minmax(loads);
    if (most - least > options_.balance_abs && most > least * options_.balance_rel) return least_of(loads);
    const PromptTree::Found found = tree_.find(request.prompt);
    const auto length = static_cast<double>(std::max<std::size_t>(request.prompt.size(), 1));
    if (found.server >= 0 && found.length / length > options_.cache_threshold) return found.server;
    if (!options_.smallest_tree) return least_of(loads);
    return static_cast<int>(std::ranges::min_element(tree_.sizes()) - tree_.sizes().begin());
  }

  const RouterOptions options_;
  PromptTree tree_;
  double next_eviction_ = 0;
};

class PrefixHash final : public Router {
 public:
  PrefixHash(const RouterOptions& options, int servers) : options_(options), ring_(servers) {}

  int choose(const RoutedRequest& request, std::span<const int> loads) override {
    const auto prefix =
        request.prompt.first(std::min(request.prompt.size(), static_cast<std::size_t>(options_.prefix_tokens)));
    const int first = ring_.of(XXH3_64bits(prefix.data(), prefix.size_bytes()));
    // Whether the least has too much, too, does not matter: then the mean is above it.
    return is_light(loads[static_cast<std::size_t>(first)], loads) ? first : least_of(loads);
  }

 private:
  bool is_light(int load, std::span<const int> loads) const {
    const auto all = std::accumulate(loads.begin(), loads.end(), std::int64_t{0});
    const double mean = static_cast<double>(all + 1) / static_cast<double>(loads.size());
    return all == 0 || load <= mean * options_.load_factor;
  }

  const RouterOptions options_;
  const HashRing ring_;
};

class ConsistentHash final : public Router {
 public:
  explicit ConsistentHash(int servers) : ring_(servers) {}
  int choose(const RoutedRequest& request, std::span<const int>) override {
    return ring_.of(derived_seed(request.client, 0x72696e67));
  }

 private:
  const HashRing ring_;
};

}  // namespace

std::unique_ptr<Router> make_router(const RouterOptions& options, int servers) {
  switch (options.policy) {
    case RouterPolicy::random:
      return std::make_unique<RandomRouter>(options.seed);
    case RouterPolicy::round_robin:
      return std::make_unique<RoundRobin>();
    case RouterPolicy::power_of_two:
      return std::make_unique<PowerOfTwo>(options.seed);
    case RouterPolicy::cache_aware:
      return std::make_unique<CacheAware>(options, servers);
    case RouterPolicy::prefix_hash:
      return std::make_unique<PrefixHash>(options, servers);
    case RouterPolicy::consistent_hash:
      return std::make_unique<ConsistentHash>(servers);
  }
  return nullptr;
}

}  // namespace espalier::bench
