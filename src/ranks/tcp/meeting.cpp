#include "ranks/tcp/meeting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/system/socket_calls.h"

namespace espalier::ranks {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kToldEvery = 10s;
constexpr auto kGreeting = 5s;      // for one caller to greet
constexpr auto kConnecting = 3s;    // for one call to be answered
constexpr auto kCallAgain = 200ms;  // after a call in vain
constexpr auto kMeshing = 30s;      // from the table on
constexpr std::size_t kMostCallers = 256;

Error network(std::string message, Error::Kind kind = Error::Kind::network) {
  return {kind, std::move(message), "dist-init-addr", {}};
}

// A connection on its way to a greeting, or in one.
struct Pending {
  UniqueFd connecting;  // until it is connected; ours
  std::unique_ptr<Greeting> greeting;
  int node = -1;  // whom we call; -1: we are called
  ConnectionRole role = ConnectionRole::control;
  HostAndPort other;
  Clock::time_point until;
  bool over = false;
  int fd() const { return greeting ? greeting->socket().fd() : connecting.get(); }
  bool wants_to_write() const { return greeting ? greeting->socket().has_unsent() : true; }
};

// A call that is still to be made.
struct Call {
  int node = 0;
  ConnectionRole role = ConnectionRole::control;
  HostAndPort where;
  Clock::time_point at;
};

class Meeting {
 public:
  explicit Meeting(const MeetingOptions& options)
      : o_(options),
        own_(options.hello.node),
        until_(Clock::now() + options.limit),
        nodes_(count()),
        entries_(count()) {}

  Result<std::vector<MetNode>> run() {
    auto met = go_on();
    if (met.ok()) return met;
    const std::string why = met.error().message;  // the others end with the same line
    for (MetNode& node : nodes_)
      if (node.control) node.control.send(FrameKind::refusal, why);
    return met;
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(o_.hello.nodes); }
  MetNode& node(int number) { return nodes_[static_cast<std::size_t>(number)]; }

  Result<std::vector<MetNode>> go_on() {
    if (own_ == 0) {
      ESP_TRY(listener_, listen_at(o_.where, {"node 0", "dist-init-addr", true}));
    } else {
      calls_.push_back({0, ConnectionRole::control, o_.where, Clock::now()});
    }
    while (!gone_) {
      ESP_CHECK(look_at_time());
      make_calls();
      wait();
      accept_callers();
      ESP_CHECK(advance());
      ESP_CHECK(listen_to_nodes());
      if (own_ == 0) lead();
      if (own_ != 0 && table_known_ && !said_ready_ && all_connected()) {
        node(0).control.send(FrameKind::ready, {});
        said_ready_ = true;
      }
    }
    return std::move(nodes_);
  }

  // The limit, and a word now and then about who is missing.
  Result<> look_at_time() {
    if (o_.stop && o_.stop()) return network("this node has ended", Error::Kind::cancelled);
    const auto now = Clock::now();
    if (now >= until_)
      return network(whats_missing() + fmt::format(" within {} s", o_.limit.count() / 1000), Error::Kind::timeout);
    if (table_known_ && now >= mesh_until_) return network(whats_missing(), Error::Kind::timeout);
    if (now >= tell_at_) {
      tell_at_ += kToldEvery;
      log::info("{}", "waiting: " + whats_missing());
    }
    return success();
  }

  std::vector<int> missing() const {
    std::vector<int> numbers;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const bool here = nodes_[i].control && (!table_known_ || nodes_[i].data);
      if (static_cast<int>(i) != own_ && !here) numbers.push_back(static_cast<int>(i));
    }
    return numbers;
  }
  bool all_connected() const { return missing().empty(); }

  std::string whats_missing() const {
    const std::string where = describe(o_.where);
    if (own_ != 0 && !nodes_[0].control)
      return fmt::format("node {} of {} did not reach node 0 at {}{}", own_, count(), where,
                         last_error_.empty() ? "" : " (" + last_error_ + ")");
    if (own_ != 0 && !table_known_) return fmt::format("not all of {} nodes came to node 0 at {}", count(), where);
    const std::vector<int> numbers = missing();
    if (numbers.empty()) return fmt::format("not all of {} nodes reached all others", count());
    return fmt::format("node(s) {} of {} did not {}", fmt::join(numbers, ", "), count(),
                       own_ == 0 && !table_known_ ? "come to " + where : "connect to node " + std::to_string(own_));
  }

  void make_calls() {
    const auto now = Clock::now();
    std::vector<Call> later;
    for (Call& call : calls_)
      if (call.at > now || !begin(call)) later.push_back(std::move(call));
    calls_ = std::move(later);
  }

  bool begin(Call& call) {
    call.at = Clock::now() + kCallAgain;
    const auto addresses = look_up(call.where);
    if (!addresses.ok()) {
      last_error_ = addresses.error().message;
      return false;
    }
    const SocketAddress& to = (*addresses)[tries_++ % addresses->size()];
    UniqueFd socket = begin_to_connect(to);
    if (!socket) {
      last_error_ = std::generic_category().message(errno);
      return false;
    }
    Pending pending;
    pending.connecting = std::move(socket);
    pending.node = call.node;
    pending.role = call.role;
    pending.other = call.where;
    pending.until = Clock::now() + kConnecting;
    pending_.push_back(std::move(pending));
    return true;
  }

  void call_again(const Pending& pending, std::string why) {
    last_error_ = std::move(why);
    calls_.push_back({pending.node, pending.role, pending.other, Clock::now() + kCallAgain});
  }

  void wait() const {
    std::vector<pollfd> waited;
    if (listener_ && pending_.size() < kMostCallers) waited.push_back({listener_.get(), POLLIN, 0});
    for (const Pending& pending : pending_)
      waited.push_back({pending.fd(), static_cast<short>(POLLIN | (pending.wants_to_write() ? POLLOUT : 0)), 0});
    for (const MetNode& met : nodes_)
      if (met.control)
        waited.push_back({met.control.fd(), static_cast<short>(POLLIN | (met.control.has_unsent() ? POLLOUT : 0)), 0});
    ::poll(waited.data(), static_cast<nfds_t>(waited.size()), 50);
  }

  Hello hello(ConnectionRole role) const {
    Hello hello = o_.hello;
    hello.role = role;
    hello.port = listener_ ? port_of(listener_.get()) : std::uint16_t{0};
    hello.nonce = random_nonce();
    return hello;
  }

  void accept_callers() {
    while (listener_ && pending_.size() < kMostCallers) {
      SocketAddress from;
      from.length = sizeof from.storage;
      UniqueFd socket(accept_socket(listener_.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.length));
      if (!socket) return;
      send_at_once(socket.get());
      Pending pending;
      pending.other = host_and_port(from);
      pending.until = Clock::now() + kGreeting;
      pending.greeting =
          std::make_unique<Greeting>(FrameSocket(std::move(socket)), false, hello(ConnectionRole::control), o_.secret);
      pending_.push_back(std::move(pending));
    }
  }

  Result<> advance() {
    for (std::size_t i = 0; i < pending_.size(); ++i) ESP_CHECK(advance(pending_[i]));
    std::erase_if(pending_, [](const Pending& pending) { return pending.over; });
    return success();
  }

  Result<> advance(Pending& pending) {
    if (!pending.greeting) {
      ESP_CHECK(look_at_call(pending));
      if (!pending.greeting) return success();
    }
    const GreetingEnd end = pending.greeting->advance();
    if (end == GreetingEnd::pending && Clock::now() < pending.until) return success();
    pending.over = true;
    if (end == GreetingEnd::agreed) return take(pending);
    if (end == GreetingEnd::disagrees) return pending.greeting->error();
    return turned_away(pending,
                       end == GreetingEnd::pending ? "it did not greet in time" : pending.greeting->error().message);
  }

  Result<> look_at_call(Pending& pending) {
    pollfd query{pending.connecting.get(), POLLOUT, 0};
    const bool settled = ::poll(&query, 1, 0) > 0;
    if (!settled && Clock::now() < pending.until) return success();
    int error = settled ? connect_error(pending.connecting.get()) : ETIMEDOUT;
    if (error == 0 && is_connected_to_itself(pending.connecting.get())) error = ECONNREFUSED;
    if (error != 0) {
      pending.over = true;
      call_again(pending, std::generic_category().message(error));
      return success();
    }
    if (!listener_) {
      ESP_TRY(listener_, listen_beside(pending.connecting.get(), {"a node", "dist-init-addr"}));
    }
    send_at_once(pending.connecting.get());
    pending.until = Clock::now() + kGreeting;
    pending.greeting =
        std::make_unique<Greeting>(FrameSocket(std::move(pending.connecting)), true, hello(pending.role), o_.secret);
    return success();
  }

  // Callers may be anybody; whom we call must be of the group.
  Result<> turned_away(Pending& pending, const std::string& why) {
    if (pending.node < 0) {
      log::warning("a caller from {} was turned away: {}", describe(pending.other), why);
      return success();
    }
    const bool is_word = pending.greeting->error().kind != Error::Kind::network;
    if (is_word && !why.empty() && pending.greeting->error().kind == Error::Kind::unauthorized)
      return pending.greeting->error();
    if (is_word && !pending.greeting->error().message.empty())
      return bad_request(fmt::format("node {} at {}: {}", pending.node, describe(pending.other), why));
    call_again(pending, why);  // it has just ended, or is not a rank yet
    return success();
  }

  Result<> take(Pending& pending) {
    const Hello& theirs = pending.greeting->theirs();
    if (pending.node >= 0 && theirs.node != pending.node)
      return network(fmt::format("node {} answers at {}, where node {} should", theirs.node, describe(pending.other),
                                 pending.node));
    MetNode& met = node(theirs.node);
    const ConnectionRole role = pending.node >= 0 ? pending.role : theirs.role;
    if (role == ConnectionRole::data) {
      met.data = pending.greeting->take().release();
      return success();
    }
    if (met.control)
      return bad_request(fmt::format("two processes were started with --node-rank {}: pid {} on {} and pid {} on {}",
                                     theirs.node, met.pid, met.host, theirs.pid, theirs.host),
                         "node-rank");
    met.pid = theirs.pid;
    met.host = theirs.host;
    entries_[static_cast<std::size_t>(theirs.node)] = {pending.other.host, theirs.port};
    met.control = pending.greeting->take();
    return success();
  }

  Result<> listen_to_nodes() {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].control) ESP_CHECK(listen_to(static_cast<int>(i)));
    return success();
  }

  Result<> listen_to(int number) {
    MetNode& met = node(number);
    const bool open = met.control.flush() && met.control.read();
    for (;;) {
      ESP_TRY(auto frame, met.control.next());
      if (!frame) break;
      ESP_CHECK(take_frame(number, *frame));
      if (gone_) return success();  // what follows is the group's
    }
    if (open) return success();
    if (own_ == 0 && !table_known_) {  // it may come again
      log::warning("node {} (pid {}, host {}) left before all had come", number, met.pid, met.host);
      met = MetNode();
      return success();
    }
    return network(fmt::format("node {} (pid {}, host {}) ended while the nodes met", number, met.pid, met.host));
  }

  Result<> take_frame(int from, const Frame& frame) {
    switch (frame.kind) {
      case FrameKind::refusal:
        return network(frame.body);
      case FrameKind::table:
        return from == 0 && !table_known_ ? take_table(frame.body) : unexpected(from);
      case FrameKind::ready:
        ++ready_;
        return success();
      case FrameKind::go:
        gone_ = from == 0;
        return success();
      case FrameKind::beat:
        return success();  // it was let go before us
      case FrameKind::end:
        return network(frame.body);
      default:
        return unexpected(from);
    }
  }
  static Error unexpected(int from) {
    return network(fmt::format("node {} sent what does not belong to a meeting", from));
  }

  void begin_mesh() {
    table_known_ = true;
    mesh_until_ = Clock::now() + kMeshing;
  }

  Result<> take_table(std::string_view body) {
    WireReader reader(body);
    for (int number = 0; number < own_; ++number) {
      HostAndPort where{reader.text(255), 0};
      where.port = static_cast<std::uint16_t>(reader.number(2));
      if (number == 0) where = o_.where;  // as we reached it
      if (number > 0) calls_.push_back({number, ConnectionRole::control, where, Clock::now()});
      calls_.push_back({number, ConnectionRole::data, where, Clock::now()});
    }
    if (reader.bad()) return unexpected(0);
    begin_mesh();
    return success();
  }

  // Node 0: tells all where all are once all have come, and lets them go once all are connected.
  void lead() {
    if (!table_known_ && all_connected()) {
      WireWriter table;
      for (const HostAndPort& entry : entries_) table.text(entry.host).number(entry.port, 2);
      for (MetNode& met : nodes_)
        if (met.control) met.control.send(FrameKind::table, table.bytes);
      begin_mesh();
    }
    if (!table_known_ || !all_connected() || ready_ < o_.hello.nodes - 1) return;
    for (MetNode& met : nodes_)
      if (met.control) met.control.send(FrameKind::go, {});
    gone_ = true;
  }

  const MeetingOptions& o_;
  const int own_;
  const Clock::time_point until_;
  Clock::time_point tell_at_ = Clock::now() + kToldEvery, mesh_until_;
  UniqueFd listener_;
  std::vector<MetNode> nodes_;
  std::vector<HostAndPort> entries_;  // where nodes listen; node 0 knows
  std::vector<Call> calls_;
  std::vector<Pending> pending_;
  std::string last_error_;
  std::size_t tries_ = 0;
  int ready_ = 0;
  bool table_known_ = false, said_ready_ = false, gone_ = false;
};

}  // namespace

Result<std::vector<MetNode>> meet(const MeetingOptions& options) {
  return Meeting(options).run();
}

}  // namespace espalier::ranks
