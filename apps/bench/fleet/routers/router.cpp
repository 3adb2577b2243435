#include "bench/fleet/routers/router.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <numeric>

#include "bench/fleet/routers/hash_ring.h"
#include "bench/fleet/routers/length_buckets.h"
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

class Manual final : public Router {
 public:
  explicit Manual(const RouterOptions& options) : options_(options), random_(options.seed) {}

  int choose(const RoutedRequest& request, std::span<const int> loads) override {
    const auto [place, is_new] = places_.try_emplace(request.client);
    if (is_new) place->second.server = options_.assign_least ? any_of_least(loads) : any_of(loads.size());
    place->second.last = now_;
    return place->second.server;
  }
  void pass_time(double now) override {
    now_ = now;
    if (options_.eviction_interval <= 0 || options_.max_idle <= 0 || now < next_eviction_) return;
    boost::unordered::erase_if(places_, [&](const auto& p) { return now - p.second.last >= options_.max_idle; });
    next_eviction_ = now + options_.eviction_interval;
  }

 private:
  struct Place {
    int server = 0;
    double last = 0;
  };
  int any_of(std::size_t count) { return static_cast<int>(random_.below(count)); }
  int any_of_least(std::span<const int> loads) {
    const int least = std::ranges::min(loads);
    auto left = random_.below(static_cast<std::uint64_t>(std::ranges::count(loads, least)));
    const auto is_it = [&](int load) { return load == least && left-- == 0; };
    return static_cast<int>(std::ranges::find_if(loads, is_it) - loads.begin());
  }

  const RouterOptions options_;
  Random random_;
  boost::unordered_flat_map<std::uint64_t, Place> places_;
  double now_ = 0, next_eviction_ = 0;
};

class Bucket final : public Router {
 public:
  Bucket(const RouterOptions& options, int servers)
      : characters_(options.characters_of_token),
        buckets_(servers, options.bucket_interval, options.balance_abs, options.balance_rel) {}

  int choose(const RoutedRequest& request, std::span<const int>) override {
    const std::int64_t length = characters_ * static_cast<std::int64_t>(request.prompt.size());
    const int server = buckets_.choose(length);
    buckets_.sent(length, server);
    return server;
  }
  void pass_time(double now) override { buckets_.pass_time(now); }

 private:
  const std::int64_t characters_;
  LengthBuckets buckets_;
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
    case RouterPolicy::manual:
      return std::make_unique<Manual>(options);
    case RouterPolicy::bucket:
      return std::make_unique<Bucket>(options, servers);
  }
  return nullptr;
}

}  // namespace espalier::bench
