#include "net/server/server_state.h"

namespace espalier::net {

ConnectionLimits::Verdict ConnectionLimits::admit(const std::string& address, std::optional<Place>& place) {
  std::lock_guard lock(mutex_);
  if (open_ >= total_) return Verdict::total_reached;
  auto& of_address = by_address_[address];  // above 0 where the next line returns, so no entry is left behind
  if (per_address_ != 0 && of_address >= per_address_) return Verdict::address_reached;
  place.emplace(shared_from_this(), address);
  ++of_address;
  ++open_;
  return Verdict::admitted;
}

void ConnectionLimits::release(const std::string& address) {
  std::lock_guard lock(mutex_);
  --open_;
  auto it = by_address_.find(address);
  if (it != by_address_.end() && --it->second == 0) by_address_.erase(it);
  if (released_) released_();
}

void ConnectionLimits::on_release(std::function<void()> released) {
  std::lock_guard lock(mutex_);
  released_ = std::move(released);
}

std::uint64_t ConnectionLimits::open() const {
  std::lock_guard lock(mutex_);
  return open_;
}

void ActiveRequests::begin() {
  std::lock_guard lock(mutex_);
  ++count_;
}

void ActiveRequests::end() {
  std::lock_guard lock(mutex_);
  if (--count_ == 0) none_.notify_all();
}

bool ActiveRequests::wait_until_none(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return none_.wait_until(lock, deadline, [this] { return count_ == 0; });
}

std::uint64_t ActiveRequests::count() const {
  std::lock_guard lock(mutex_);
  return count_;
}

ServerState::ServerState(ServerOptions given, ServerHooks hooks_given, std::size_t connection_limit,
                         std::shared_ptr<TlsContext> tls_given)
    : options(std::move(given)),
      hooks(std::move(hooks_given)),
      cors(options.cors_origins),
      tls(std::move(tls_given)),
      limits(std::make_shared<ConnectionLimits>(connection_limit, options.max_per_address)) {}

ServerStats ServerState::stats() const {
  ServerStats stats;
  stats.connections_accepted = accepted.get();
  stats.connections_refused = refused.get();
  stats.connections_evicted = evicted.get();
  stats.accept_backoffs = backoffs.get();
  stats.requests = requests.get();
  stats.requests_refused = requests_refused.get();
  stats.timeouts = timeouts.get();
  stats.clients_gone = clients_gone.get();
  stats.slow_readers_dropped = slow_readers.get();
  stats.handler_failures = handler_failures.get();
  stats.bytes_received = bytes_received.get();
  stats.bytes_sent = bytes_sent.get();
  stats.connections_open = limits->open();
  stats.requests_active = active.count();
  stats.body_bytes_held = body_bytes.get();
  return stats;
}

bool BodyCharge::raise_to(std::uint64_t bytes) {
  if (bytes <= bytes_) return true;
  state_.body_bytes.add(bytes - bytes_);
  bytes_ = bytes;
  return state_.body_bytes.get() <= state_.options.body_total_bytes;
}

void BodyCharge::release() {
  state_.body_bytes.subtract(bytes_);
  bytes_ = 0;
}

}  // namespace espalier::net
