// server_state.h: what all connections of one server share: options, hooks, counters, and who may connect.
// Internal to the module, without Boost.
// Threads: any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "net/http/cors.h"
#include "net/server/http_server.h"
#include "net/server/tls.h"

namespace espalier::net {

// One counter of ServerStats; relaxed, for nobody decides by it.
class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  void subtract(std::uint64_t n) { value_.fetch_sub(n, std::memory_order_relaxed); }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Counts open connections, in total and by address. A Place is given back by its destructor.
class ConnectionLimits : public std::enable_shared_from_this<ConnectionLimits> {
 public:
  ConnectionLimits(std::size_t total, std::size_t per_address) : total_(total), per_address_(per_address) {}

  class Place {
   public:
    Place(std::shared_ptr<ConnectionLimits> limits, std::string address)
        : limits_(std::move(limits)), address_(std::move(address)) {}
    Place(Place&&) noexcept = default;
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (limits_) limits_->release(address_);
    }

   private:
    std::shared_ptr<ConnectionLimits> limits_;
    std::string address_;
  };
  enum class Verdict { admitted, total_reached, address_reached };
  Verdict admit(const std::string& address, std::optional<Place>& place);
  std::uint64_t open() const;
  // Called, under a lock, whenever a place was given back: it must be quick and not call back. Null: nobody is.
  void on_release(std::function<void()> released);

 private:
  void release(const std::string& address);

  const std::size_t total_, per_address_;
  mutable std::mutex mutex_;
  std::size_t open_ = 0;
  std::map<std::string, std::size_t> by_address_;
  std::function<void()> released_;
};

// Requests between `handle` and the last byte of their answer; stop() waits until there is none.
class ActiveRequests {
 public:
  void begin();
  void end();
  bool wait_until_none(std::chrono::steady_clock::time_point deadline);
  std::uint64_t count() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable none_;
  std::uint64_t count_ = 0;
};

// Everything that the connections of one server share.
struct ServerState {
  ServerState(ServerOptions given, ServerHooks hooks_given, std::size_t connection_limit,
              std::shared_ptr<TlsContext> tls_given = nullptr);

  const ServerOptions options;
  const ServerHooks hooks;
  const Cors cors;
  const std::shared_ptr<TlsContext> tls;  // null: plain HTTP
  const std::shared_ptr<ConnectionLimits> limits;
  ActiveRequests active;
  std::atomic<bool> draining{false};
  Counter accepted, refused, evicted, backoffs, requests, requests_refused, timeouts, clients_gone, slow_readers,
      handler_failures, bytes_received, bytes_sent, body_bytes;

  ServerStats stats() const;
};

// The share of body_total_bytes that one body being received takes.
class BodyCharge {
 public:
  explicit BodyCharge(ServerState& state) : state_(state) {}
  BodyCharge(const BodyCharge&) = delete;
  BodyCharge& operator=(const BodyCharge&) = delete;
  ~BodyCharge() { release(); }
  bool raise_to(std::uint64_t bytes);  // false: over the limit of all bodies together
  void release();

 private:
  ServerState& state_;
  std::uint64_t bytes_ = 0;
};

}  // namespace espalier::net
