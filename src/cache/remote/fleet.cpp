#include "cache/remote/fleet.h"

#include <utility>

namespace espalier {

void Fleet::share(std::unique_ptr<RemoteTier> remote, RemotePolicy policy) {
  prefixes_ = std::make_unique<RemotePrefixes>(std::move(remote), policy, disk_, tree_, copier_);
}

void Fleet::pull(RoomPullsOptions options, PeerCounters& counters) {
  pulls_ = std::make_unique<RoomPulls>(std::move(options), disk_, counters);
}

void Fleet::give(std::unique_ptr<PeerListener> listener, int pieces_a_step) {
  given_ = std::make_unique<GivenPrefixes>(std::move(listener), tree_, copier_, pieces_a_step);
}

Fleet::Answer Fleet::ask(std::uint64_t owner, const Handoff* handoff, const CacheKey& key, int held, int limit,
                         AskedOthers& asked) {
  if (pulls_ && handoff != nullptr && !std::exchange(asked.room, true) &&
      pulls_->ask(owner, *handoff, key, held, limit)) {
    asked.prefixes = true;
    return Answer::planned;
  }
  if (!prefixes_ || std::exchange(asked.prefixes, true)) return Answer::nothing;
  return prefixes_->ask(owner, key, held, limit) ? Answer::waits : Answer::nothing;
}

void Fleet::forget(std::uint64_t owner) {
  if (prefixes_) prefixes_->forget(owner);
  if (pulls_) pulls_->forget(owner);
}

void Fleet::collect(int most_pieces) {
  if (prefixes_) prefixes_->collect(most_pieces);
}

void Fleet::give_pulled(int most_pieces) {
  if (given_) given_->collect(most_pieces);
}

void Fleet::filled() {
  if (prefixes_) prefixes_->filled();
  if (given_) given_->filled();
}

void Fleet::computed(int tokens, double seconds) {
  if (prefixes_) prefixes_->tier().computed(tokens, seconds);
}

void Fleet::evicting(NodeHandle node, int cut) {
  if (prefixes_) prefixes_->evicting(node, cut);
}

void Fleet::clear() {
  if (prefixes_) prefixes_->clear();
  if (pulls_) pulls_->clear();
}

void Fleet::stop() {
  if (prefixes_) prefixes_->tier().stop();
  if (pulls_) pulls_->stop();
}

}  // namespace espalier
