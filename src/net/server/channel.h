// channel.h: one connected socket on one io thread. It reads ahead (bounded), sends what fits, notices the end of the
// peer, and gives the coroutine that owns it one place to sleep: wait(deadline). Internal to the module.
//
// With TLS (tls.h) input and queue() are the client's bytes, and unsent() those of the network.
//
// Nothing is buffered for an idle connection: the kernel tells that bytes are there, and one buffer per io thread takes
// them.
// Threads: its Loop's only.
// Fails:   broken(): the peer reset the connection, or the socket failed; then only destruction helps.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "net/http/response_head.h"
#include "net/server/server_state.h"
#include "net/socket.h"

namespace espalier::net {

class Connection;
using Clock = std::chrono::steady_clock;

// What the connections of one io thread share.
struct Loop : std::enable_shared_from_this<Loop> {
  boost::asio::io_context context{1};  // one thread runs it
  std::vector<char> scratch = std::vector<char>(64 * 1024);
  DateText date;
  std::mt19937_64 random{std::random_device{}()};
  std::list<Connection*> connections;
};

// A socket of one connection with its read-ahead, its unsent bytes and its one waiting coroutine.
class Channel : public std::enable_shared_from_this<Channel> {
 public:
  Channel(Loop& loop, ServerState& state, UniqueFd socket);

  // What was read and not consumed.
  std::string_view input() const { return std::string_view(input_).substr(consumed_); }
  void consume(std::size_t bytes);
  std::uint64_t bytes_read() const { return bytes_read_; }
  bool input_full() const;
  bool end_of_input() const { return end_of_input_; }
  bool broken() const { return broken_; }
  bool peer_gone();  // asks the kernel; so does the next one
  bool peer_closed_its_side() const { return peer_state(socket_.native_handle()).closed_its_side; }

  void queue(std::string bytes);  // to go out with the next flush()
  void flush();                   // sends what the socket takes now; the rest follows by itself
  std::size_t unsent() const { return output_.bytes() + (tls_ ? tls_->waiting() : 0); }
  Clock::time_point last_sent() const { return last_sent_; }  // when the peer last took bytes, or there were none

  // Sleeps until something happened here, notify() was called or the deadline passed. May wake without a cause.
  boost::asio::awaitable<void> wait(Clock::time_point deadline);
  void notify();

  void shut_down_sending();
  void discard_input() { input_ = {}, consumed_ = 0; }
  void close();
  void reset();  // closes without a FIN: what was sent may be lost

 private:
  void watch_input();
  void watch_output();
  void watch_errors();
  void read_some();
  void take_bytes(std::string_view bytes);
  void send_sealed();  // what TLS has to say
  void fail();

  Loop& loop_;
  ServerState& state_;
  const std::unique_ptr<TlsSession> tls_;  // null: plain. Before socket_, for its making may fail
  mutable boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer timer_;
  std::string input_;
  std::size_t consumed_ = 0;
  std::uint64_t bytes_read_ = 0;
  SendQueue output_;
  Clock::time_point last_sent_ = Clock::now();
  bool notified_ = false;
  bool watching_input_ = false, watching_output_ = false, watching_errors_ = false;
  bool end_of_input_ = false, broken_ = false;
};

}  // namespace espalier::net
