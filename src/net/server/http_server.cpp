#include "net/server/http_server.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <system_error>
#include <thread>
#include <tuple>

#include "base/log.h"
#include "base/threads/start_thread.h"
#include "base/threads/thread_name.h"
#include "base/threads/thread_priority.h"
#include "net/server/connection.h"

namespace espalier::net {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kAcceptsPerWakeUp = 64;     // then the other connections of this io thread have a turn
constexpr std::size_t kCourtesyConnections = 16;  // told 503 at a time; further ones wait in the kernel's queue
constexpr auto kIdleEnough = std::chrono::milliseconds(200);  // to be closed for another: a new one gets to speak
constexpr auto kFirstBackoff = std::chrono::milliseconds(50);
constexpr auto kLongestBackoff = std::chrono::milliseconds(1000);
// A thread that hands something over may still hold a lock that this one needs: it goes first
// (completion_notifier.cpp).
constexpr auto kTimeSlice = std::chrono::microseconds(400);
constexpr auto kQuietFor = std::chrono::seconds(60);  // between two warnings of the same kind

Result<> check_options(const ServerOptions& options) {
  if (options.io_threads < 1 || options.io_threads > 64) return bad_request("io_threads must be 1 to 64", "io_threads");
  if (options.max_connections < 1) return bad_request("max_connections must be at least 1", "max_connections");
  if (options.stream_buffer_bytes < 1)
    return bad_request("stream_buffer_bytes must be at least 1", "stream_buffer_bytes");
  for (auto duration : {options.header_timeout, options.body_timeout, options.idle_timeout, options.write_timeout}) {
    if (duration.count() < 1) return bad_request("time-outs must be at least 1 ms", "header_timeout");
  }
  return success();
}

// The read-ahead must be able to hold the longest head, and the longest trailer, that the parser accepts.
void widen_read_ahead(ServerOptions& options) {
  const auto& parser = options.parser;
  std::size_t head = parser.request_line_bytes + parser.header_bytes;
  std::size_t trailer = parser.chunk_line_bytes + parser.chunk_extension_bytes + parser.trailer_bytes;
  options.read_ahead_bytes = std::max({options.read_ahead_bytes, head + 64, trailer + 64});
}

// So many connections that the process keeps descriptors for its files, whatever `ulimit -n` says.
std::size_t connection_limit(const ServerOptions& options) {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0 || descriptors.rlim_cur == RLIM_INFINITY) {
    return options.max_connections;
  }
  std::size_t all = descriptors.rlim_cur;
  std::size_t left = all > options.reserved_descriptors + 8 ? all - options.reserved_descriptors : 8;
  return std::min(options.max_connections, left);
}

// Whether a warning is due, which then counts as said.
bool said(std::optional<Clock::time_point>& last) {
  const auto now = Clock::now();
  if (last && now - *last < kQuietFor) return false;
  last = now;
  return true;
}

Result<Listener> make_listener(const ServerOptions& options) {
  if (options.listen_fd < 0) return open_listener(options.host, options.port, options.backlog);
  return adopt_listener(options.listen_fd);
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(std::shared_ptr<ServerState> state, Listener listener)
      : listener_(std::move(listener)),
        state_(std::move(state)),
        courtesy_(std::make_shared<ConnectionLimits>(kCourtesyConnections, 0)) {
    for (unsigned i = 0; i < state_->options.io_threads; ++i) loops_.push_back(std::make_shared<Loop>());
    for (auto& loop : loops_) work_.push_back(asio::make_work_guard(loop->context));
  }

  Result<> start();
  void stop(std::chrono::milliseconds timeout);

  const Listener& listener() const { return listener_; }
  ServerState& state() { return *state_; }

 private:
  static void run(Loop& loop, unsigned number);
  void watch_listener();
  void accept_waiting();
  void resume();
  void back_off();
  bool welcome();
  bool place_arrival();
  void tell_full(ConnectionLimits::Verdict verdict);
  void spawn(ConnectionLimits::Place place, bool welcome);
  void make_room();
  void cut_everything();

  struct Arrival {
    UniqueFd socket;
    Peer peer;
  };

  Listener listener_;
  const std::shared_ptr<ServerState> state_;
  const std::shared_ptr<ConnectionLimits> courtesy_;
  std::vector<std::shared_ptr<Loop>> loops_;
  std::vector<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  std::vector<std::thread> threads_;
  std::size_t next_loop_ = 0;

  // Of the first loop's thread.
  std::optional<asio::posix::stream_descriptor> acceptor_;
  std::optional<asio::steady_timer> retry_;
  std::chrono::milliseconds backoff_ = kFirstBackoff;
  std::optional<Arrival> arrival_;  // accepted, and waiting for a place; those behind it wait in the kernel's queue
  std::optional<Clock::time_point> told_full_, told_descriptors_;

  std::atomic<bool> paused_{false};  // nothing is accepted until a place was given back
};

Result<> HttpServer::Impl::start() {
  if (!threads_.empty()) return bad_request("the server was started already");
  try {
    auto& context = loops_.front()->context;
    retry_.emplace(context);
    acceptor_.emplace(context, listener_.fd.get());
    listener_.fd.release();
    for (auto* limits : {state_->limits.get(), courtesy_.get()}) limits->on_release([this] { resume(); });
    watch_listener();
    for (unsigned i = 0; i < loops_.size(); ++i) {
      threads_.emplace_back([loop = loops_[i], i] { run(*loop, i); });
    }
  } catch (const std::exception& failure) {
    stop(std::chrono::milliseconds(0));
    return no_thread("io", failure.what());
  }
  return success();
}

void HttpServer::Impl::run(Loop& loop, unsigned number) {
  name_this_thread(fmt::format("esp-io-{}", number));
  shorten_thread_slices(kTimeSlice);
  for (bool done = false; !done;) {
    try {
      loop.context.run();
      done = true;
    } catch (const std::exception& failure) {  // of one callback; the connections do not depend on each other
      log::error("io thread {}: {}", number, failure.what());
    }
  }
}

// ---- accepting ----------------------------------------------------------------------------------------------------

void HttpServer::Impl::watch_listener() {
  acceptor_->async_wait(asio::posix::stream_descriptor::wait_read, [this](boost::system::error_code ec) {
    if (!ec) accept_waiting();
  });
}

void HttpServer::Impl::accept_waiting() {
  if (!acceptor_->is_open() || (arrival_ && !welcome())) return;
  for (std::size_t i = 0; i < kAcceptsPerWakeUp; ++i) {
    Arrival next;
    switch (accept_one(acceptor_->native_handle(), next.socket, next.peer)) {
      case AcceptState::none_waiting:
        return watch_listener();
      case AcceptState::failed_once:
        continue;
      case AcceptState::out_of_descriptors:
        return back_off();
      case AcceptState::accepted:
        break;
    }
    backoff_ = kFirstBackoff;
    state_->accepted.add();
    arrival_.emplace(std::move(next));
    if (!welcome()) return;
  }
  watch_listener();
}

// Gives the arrival a place; false: there is none, and accepting goes on when one was given back. Nobody is turned away
// with a reset, which clients take for a crash: at the limit connections wait where they are, in the kernel's queue.
bool HttpServer::Impl::welcome() {
  if (place_arrival()) return true;
  paused_ = true;
  const bool placed = place_arrival();         // in one that was given back before anybody would have been told
  if (placed) return paused_.exchange(false);  // else resume() has seen to it that accepting goes on
  retry_->expires_after(kLongestBackoff);      // in case there was no memory to tell us
  retry_->async_wait([this](boost::system::error_code ec) {
    if (!ec && paused_.exchange(false)) accept_waiting();
  });
  return false;
}

// Any thread: a place was given back.
void HttpServer::Impl::resume() {
  if (!paused_.exchange(false)) return;
  try {
    asio::post(loops_.front()->context, [this] { accept_waiting(); });
  } catch (const std::exception&) {
    paused_ = true;  // the timer will look
  }
}

// The kernel keeps reporting the waiting connection, so without a pause this thread would spin.
void HttpServer::Impl::back_off() {
  if (said(told_descriptors_)) {
    log::warning("out of file descriptors (ulimit -n) or memory: new connections wait until some are free");
  }
  state_->backoffs.add();
  make_room();
  retry_->expires_after(backoff_);
  backoff_ = std::min(backoff_ * 2, kLongestBackoff);
  retry_->async_wait([this](boost::system::error_code ec) {
    if (!ec) accept_waiting();
  });
}

bool HttpServer::Impl::place_arrival() {
  std::optional<ConnectionLimits::Place> place;
  try {
    const auto verdict = state_->limits->admit(arrival_->peer.address, place);
    const bool welcome = verdict == ConnectionLimits::Verdict::admitted;
    if (!welcome) {
      tell_full(verdict);
      if (verdict == ConnectionLimits::Verdict::total_reached) make_room();
      if (courtesy_->admit(arrival_->peer.address, place) != ConnectionLimits::Verdict::admitted) return false;
      state_->refused.add();
    }
    spawn(std::move(*place), welcome);
  } catch (const std::exception& failure) {  // no memory, no descriptor for epoll: this client goes, others may come
    state_->refused.add();
    log::error("a connection could not be served: {}", failure.what());
  }
  arrival_.reset();
  return true;
}

void HttpServer::Impl::tell_full(ConnectionLimits::Verdict verdict) {
  if (!said(told_full_)) return;
  if (verdict == ConnectionLimits::Verdict::total_reached) {
    log::warning("{} connections are open, as many as --max-connections and ulimit -n allow: new ones wait or get 503",
                 state_->limits->open());
  } else {
    log::warning("{} has its {} connections open (--max-connections-per-address): new ones wait or get 503",
                 arrival_->peer.address, state_->options.max_per_address);
  }
}

void HttpServer::Impl::spawn(ConnectionLimits::Place place, bool welcome) {
  Loop* loop = loops_[next_loop_++ % loops_.size()].get();  // not shared: a handler must not own what queues it
  // Shared, because asio copies handlers that must not be copied here; the connection is made on its own thread.
  struct Placed {
    Arrival arrival;
    ConnectionLimits::Place place;
  };
  auto placed = std::make_shared<Placed>(Placed{std::move(*arrival_), std::move(place)});
  asio::post(loop->context, [loop, state = state_, placed, welcome] {
    auto connection = std::make_shared<Connection>(loop->shared_from_this(), state, std::move(placed->arrival.socket),
                                                   std::move(placed->arrival.peer), std::move(placed->place), welcome);
    asio::co_spawn(
        loop->context, [connection] { return connection->run(); },
        [connection](std::exception_ptr failure) {
          if (!failure) return;
          try {
            std::rethrow_exception(failure);
          } catch (const std::exception& reason) {
            log::error("a connection ended: {}", reason.what());
          }
        });
  });
}

// Closes, on every io thread, the connection that has been idle longest: a client that waits for an answer, or a new
// one, is worth more than one that may come back.
void HttpServer::Impl::make_room() {
  for (auto& each_loop : loops_) {
    asio::post(each_loop->context, [loop = each_loop.get(), state = state_] {
      Connection* oldest = nullptr;
      auto enough = Clock::now() - kIdleEnough;
      for (Connection* each : loop->connections) {
        if (each->idle_since() < enough && each->idle() && (!oldest || each->idle_since() < oldest->idle_since()))
          oldest = each;
      }
      if (!oldest) return;
      state->evicted.add();
      oldest->cut();
    });
  }
}

// ---- stopping -----------------------------------------------------------------------------------------------------

void HttpServer::Impl::stop(std::chrono::milliseconds timeout) {
  state_->draining = true;
  if (!threads_.empty()) state_->active.wait_until_none(Clock::now() + timeout);
  cut_everything();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
  for (auto* limits : {state_->limits.get(), courtesy_.get()}) limits->on_release(nullptr);
  work_.clear();
  if (std::exchange(listener_.owns_path, false)) ::unlink(listener_.unix_path.c_str());
  listener_.fd.reset();
}

void HttpServer::Impl::cut_everything() {
  if (threads_.empty()) return;
  asio::post(loops_.front()->context, [this] {
    retry_->cancel();
    boost::system::error_code ignored;
    std::ignore = acceptor_->close(ignored);
    arrival_.reset();
    // Only now can no new connection come, also not to the other io threads.
    for (std::size_t i = 0; i < loops_.size(); ++i) {
      asio::post(loops_[i]->context, [this, i] {
        for (Connection* each : loops_[i]->connections) each->cut();
        work_[i].reset();  // its run() returns when the connections have ended
      });
    }
  });
}

// ---- the public face ----------------------------------------------------------------------------------------------

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  stop(std::chrono::milliseconds(0));
}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(ServerOptions options, ServerHooks hooks) {
  ESP_CHECK(check_options(options));
  if (!hooks.handle) return bad_request("a server needs a handler", "hooks.handle");
  if (!hooks.error_body) hooks.error_body = openai_error;
  widen_read_ahead(options);
  ESP_TRY(auto tls, TlsContext::make(options.tls));
  ESP_TRY(auto listener, make_listener(options));
  std::size_t limit = connection_limit(options);
  auto state = std::make_shared<ServerState>(std::move(options), std::move(hooks), limit, std::move(tls));
  try {  // the event loops open descriptors of their own
    auto impl = std::make_unique<Impl>(std::move(state), std::move(listener));
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
  } catch (const std::exception& failure) {
    return Error{
        Error::Kind::cannot_bind, fmt::format("the server's event loop could not be made: {}", failure.what()), {}, {}};
  }
}

Result<> HttpServer::start() {
  return impl_->start();
}

std::uint16_t HttpServer::port() const {
  return impl_->listener().port;
}

std::string HttpServer::url() const {
  const auto& options = impl_->state().options;
  if (port() == 0) return "unix:" + impl_->listener().unix_path;
  const bool v6 = options.host.find(':') != std::string::npos && !options.host.starts_with('[');
  return fmt::format("{}://{}{}{}:{}", impl_->state().tls ? "https" : "http", v6 ? "[" : "", options.host,
                     v6 ? "]" : "", port());
}

Result<> HttpServer::reload_certificate() {
  return impl_->state().tls ? impl_->state().tls->reload() : success();
}

void HttpServer::begin_drain() {
  impl_->state().draining = true;
}
bool HttpServer::draining() const {
  return impl_->state().draining;
}
void HttpServer::stop(std::chrono::milliseconds timeout) {
  impl_->stop(timeout);
}
ServerStats HttpServer::stats() const {
  return impl_->state().stats();
}

}  // namespace espalier::net
