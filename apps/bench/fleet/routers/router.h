// router.h: which of several servers gets a request, by the rules of sglang-router 0.3.2 and smg.
//
//   random          any, equally likely
//   round_robin     one after the other
//   power_of_two    of two that are drawn the one with fewer requests, the first of equals
//   cache_aware     where most of the prompt was sent before (prompt_tree.h), if that is more than cache_threshold of it;
//                   else the one with least to do, and that in any case while loads are uneven: most - least above
//                   balance_abs and most above balance_rel x least
//   prefix_hash     the first tokens' place on a ring of hashes (hash_ring.h); the one with least to do where that one has
//                   more than load_factor x the mean
//   consistent_hash the client's place on the ring, whatever there is to do
//   manual          where the client's first request was sent: to any, or with assign_least to the one with least to do, any
//                   of equals. Who did not ask for max_idle is forgotten
//   bucket          by the prompt's length (length_buckets.h); only among servers that compute prompts for others
//
// The router's own part of a load is the requests that it sent and that have not ended. It sees texts as characters; here
// as token ids: shares of a prompt are the same, sizes are in tokens, and a token stands for four characters.
// Units:   tokens, seconds of simulated time. Threads: one. Fails: never.
// Source:  the policies of github.com/sgl-project/sglang, sgl-model-gateway/src/policies, read 2026-11; nothing copied.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "espalier/types.h"

namespace espalier::bench {

enum class RouterPolicy {
  random,
  round_robin,
  power_of_two,
  cache_aware,
  prefix_hash,
  consistent_hash,
  manual,
  bucket
};
inline constexpr std::string_view kRouterPolicies[] = {"random",      "round_robin",     "power_of_two", "cache_aware",
                                                       "prefix_hash", "consistent_hash", "manual",       "bucket"};

// The defaults are those of sglang-router 0.3.2's launcher.
struct RouterOptions {
  RouterPolicy policy = RouterPolicy::cache_aware;
  double cache_threshold = 0.3;
  int balance_abs = 64;
  double balance_rel = 1.5;
  double eviction_interval = 60;       // seconds
  std::int64_t tree_tokens = 1 << 24;  // of a server, in the router's tree: 2^26 characters
  bool smallest_tree = false;          // below the threshold the server with least in the tree, as in early versions
  int prefix_tokens = 256;
  double load_factor = 1.25;
  bool assign_least = false;
  double max_idle = 4 * 3600;   // seconds; 0: nobody is forgotten
  double bucket_interval = 5;   // seconds
  int characters_of_token = 4;  // for bucket, whose thresholds are in characters
  std::uint64_t seed = 42;
};

struct RoutedRequest {
  std::span<const TokenId> prompt;
  std::uint64_t client = 0;  // whose it is: a session, a user
};

class Router {
 public:
  virtual ~Router() = default;
  // An index into `loads`: requests of every server that have not ended, never empty and always as many.
  virtual int choose(const RoutedRequest& request, std::span<const int> loads) = 0;
  virtual void pass_time(double /*now*/) {}  // does what is due by then
};
std::unique_ptr<Router> make_router(const RouterOptions& options, int servers);

}  // namespace espalier::bench
