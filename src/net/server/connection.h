// connection.h: one client: reads a request, lets it be admitted and handled, sends the answer, and begins again.
// Internal to the module. run() is the whole life; everything it calls either returns at once or sleeps in the Channel.
// Threads: its Loop's only, but for Exchange, through which handlers of any thread reach it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>

#include "net/http/gzip.h"
#include "net/http/request_parser.h"
#include "net/server/channel.h"
#include "net/server/exchange.h"
#include "net/server/server_state.h"

namespace espalier::net {

// The coroutine that serves one client from its first request to its last.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `welcome` false: a limit is reached; the client gets a place that becomes free at once, or is told so politely and
  // then not waited for long.
  Connection(std::shared_ptr<Loop> loop, std::shared_ptr<ServerState> state, UniqueFd socket, Peer peer,
             ConnectionLimits::Place place, bool welcome);
  ~Connection();

  boost::asio::awaitable<void> run();

  bool idle() const { return idle_; }  // waits for a request, and has nothing of it yet
  Clock::time_point idle_since() const { return idle_since_; }
  void cut();  // ends run() soon; an active request is told that its client is gone

 private:
  enum class Step { ready, refused, gone };

  boost::asio::awaitable<bool> find_place();
  boost::asio::awaitable<Step> read_request();
  boost::asio::awaitable<Step> read_head();
  Step admit();
  boost::asio::awaitable<Step> read_body();
  boost::asio::awaitable<Step> take_body_bytes();
  boost::asio::awaitable<void> serve();
  boost::asio::awaitable<void> finish_sending();
  boost::asio::awaitable<void> linger();
  boost::asio::awaitable<void> yield();

  Step refuse(const HttpError& error);
  Step refuse_slow(std::string message);
  Step refuse_for_memory();
  Step check_coding();
  void begin_request();
  void drop_body();
  void call_handler();
  HttpResponse error_response(const HttpError& error) const;
  void woken();    // the exchange has output
  void forward();  // sends what it has
  void forward_output(ExchangeOutput& output);
  void decorate(int status, Headers& headers) const;
  void send_response(HttpResponse response);
  void send_stream_head(StreamHead head);
  void send_stream_bytes(std::string_view bytes);
  void end_stream(bool close);
  void send_heartbeat();
  void end_of_input();
  void lose_client();
  Clock::time_point next_look() const;
  void check_time();
  std::string choose_id(const HttpRequest& head);
  bool keep_alive() const;
  bool head_only() const { return method_ == Method::head; }

  const std::shared_ptr<Loop> loop_;
  const std::shared_ptr<ServerState> state_;
  const std::shared_ptr<Channel> channel_;
  const Peer peer_;
  std::optional<ConnectionLimits::Place> place_;
  const bool welcome_;
  std::list<Connection*>::iterator in_loop_;

  // Of the connection.
  bool first_request_ = true, idle_ = false, close_ = false;
  bool refused_ = false;  // for want of a place
  Clock::time_point idle_since_ = Clock::now();

  // Of the request being read or answered.
  RequestParser parser_;
  std::optional<GzipReader> unpacker_;
  BodyCharge body_charge_;
  HttpRequest request_;
  std::string request_id_, origin_, path_, traceparent_;  // stay here when the request goes to its handler
  AnswerHeaders answer_headers_;
  Method method_ = Method::get;
  bool http_1_0_ = false, wants_keep_alive_ = false;
  std::shared_ptr<Exchange> exchange_;
  int failure_status_ = 500;  // when nobody answers
  bool answered_ = false;     // all of the answer is queued
  bool streaming_ = false, chunked_ = false;
  bool input_end_seen_ = false;
  StreamOptions stream_;
  Clock::time_point last_write_ = Clock::now();
  Parts unsent_parts_;  // of what was forwarded and the kernel has not taken
};

}  // namespace espalier::net
