// http_server.h: an HTTP/1.1 server that stays polite and bounded whatever comes in.
//
// One or more io threads run every connection; handlers are called there with the whole request and must not block:
// they hand the work to the engine or to a BackgroundPool and keep the Responder. No routes are known here.
//
// A client that leaves is noticed while its request is pending, by a reset, or by an end of input. An end of input may
// also be a legal half-close of a client that still waits, so it is answered with a probe (an interim "100 Continue",
// or the stream's heartbeat): whoever closed fully answers the probe with a reset, and then counts as gone; who only
// half-closed gets the reply. HTTP/1.0 requests and streams without a heartbeat have no harmless probe: for them the
// end of input means gone, as it does for all when `half_close` is off.
//
// Order:   listen start (begin_drain)? stop?   The destructor stops at once.
// Threads: the calls below: any but the io threads. Hooks are called on io threads, several at once if io_threads > 1.
// Fails:   listen: cannot_bind, bad_request for an option out of range. Afterwards a bad client costs its connection.
// Signals: none are touched; sockets are written with MSG_NOSIGNAL.
// Source:  RFC 9112. The limits are those of net::ServerOptions; Envoy's edge profile is their model.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "espalier/error.h"
#include "net/http/error_body.h"
#include "net/http/http_types.h"
#include "net/http/request_parser.h"
#include "net/server/responder.h"

namespace espalier::net {

// A certificate (with its chain) and its private key, as PEM.
struct TlsFiles {
  std::string certificate;  // empty: no TLS
  std::string key;          // empty: it is in the certificate's file
  std::string password;     // of the key
};

// Where the server listens, and every limit that it keeps.
struct ServerOptions {
  using Duration = std::chrono::milliseconds;

  std::string host = "127.0.0.1";  // an address, a name, or "unix:PATH"
  std::uint16_t port = 30000;      // 0: any free one, see HttpServer::port()
  int listen_fd = -1;              // a listening socket inherited from a supervisor; then host and port are unused
  int backlog = 1024;              // connections the kernel holds before accept()
  unsigned io_threads = 1;         // 1 to 64

  ParserLimits parser;                            // bytes of request line, header, body, chunk lines, ...
  std::size_t read_ahead_bytes = 32 * 1024;       // pipelined requests wait here, unread beyond; answered in order
  std::size_t stream_buffer_bytes = 1024 * 1024;  // unsent bytes of one stream before its writer must pause
  std::uint64_t body_total_bytes = 512ull << 20;  // of all bodies being received together; 503 above
  std::size_t gzip_min_bytes = 1024;              // replies from this size on are gzipped when asked for; 0: never

  Duration header_timeout{10'000};     // from the first byte (or from accept) to the end of the head; 408
  Duration body_timeout{30'000};       // without a byte of the body; 408
  Duration idle_timeout{75'000};       // between requests; closed without a word
  Duration write_timeout{60'000};      // unsent bytes and none accepted by the client; reset
  Duration linger_timeout{5'000};      // reading on after the last answer, so that the client gets to read it
  std::uint64_t body_min_rate = 1024;  // bytes/s, averaged over body_timeout; 408 below
  bool half_close = true;              // see above

  // At a limit the longest idle connection is closed to make room; where none is, new ones are told 503, some at a
  // time, and the others wait in the kernel's queue meanwhile. None is reset.
  std::size_t max_connections = 4096;
  std::size_t max_per_address = 0;        // 0: no limit
  std::size_t reserved_descriptors = 32;  // of the process's limit, left for files and outgoing connections

  std::vector<std::string> cors_origins;  // none: off
  TlsFiles tls;                           // none: plain HTTP
};

// Puts fields into the head of an answer, once it is known; null: none.
using AnswerHeaders = std::function<void(int status, Headers& headers)>;

// The functions that the owner of a server gives it: to admit, to handle, to format refusals.
struct ServerHooks {
  // Called with the whole request.
  std::function<void(HttpRequest, Responder)> handle;
  // Called when the head is complete and before a byte of the body is accepted (or asked for by "100 Continue"); an
  // answer here ends the request. The place for keys and for Router::refuse. Unset: everything is admitted.
  std::function<std::optional<HttpResponse>(const HttpRequest& head)> admit;
  // Told of every refusal that comes from here (too large, malformed, too slow, no room): for logs. `path` is empty
  // when the head was not read, `id` likewise.
  std::function<void(std::string_view id, std::string_view path, const HttpError&)> refused;
  // Shape of the refusals that come from here.
  ErrorFormatter error_body = openai_error;
  // Called when the head is complete, before `admit`: what it returns is called with every answer to this request,
  // also to one that is refused, and must be quick. Unset: nobody adds anything.
  std::function<AnswerHeaders(const HttpRequest& head)> answer_headers = {};
  // Decides whether anybody wants to see a request's trace. Set: every request has one, also where the client sent no
  // traceparent.
  std::function<bool(const TraceContext&)> sample = {};
  // Told when the kernel has taken all that a stream had: how long it took from the time at which the oldest of its parts
  // was known, and how many there were (StreamWriter::write). Must be quick.
  std::function<void(std::chrono::steady_clock::duration, std::uint32_t parts)> sent = {};
};

// Counters since start, and gauges (now).
struct ServerStats {
  std::uint64_t connections_accepted = 0;
  std::uint64_t connections_refused = 0;   // over a limit: they found a place yet, or were answered 503
  std::uint64_t connections_evicted = 0;   // idle ones closed to make room
  std::uint64_t accept_backoffs = 0;       // out of descriptors or memory
  std::uint64_t requests = 0;              // heads read
  std::uint64_t requests_refused = 0;      // malformed, too large, too slow
  std::uint64_t timeouts = 0;              // of those, 408
  std::uint64_t clients_gone = 0;          // left before their answer was whole
  std::uint64_t slow_readers_dropped = 0;  // took nothing for write_timeout
  std::uint64_t handler_failures = 0;      // threw, or dropped the Responder
  std::uint64_t bytes_received = 0, bytes_sent = 0;
  std::uint64_t connections_open = 0;  // now
  std::uint64_t requests_active = 0;   // now: handed to `handle` and not fully answered
  std::uint64_t body_bytes_held = 0;   // now: of bodies being received
};

// A listening server with its io threads.
class HttpServer {
 public:
  static Result<std::unique_ptr<HttpServer>> listen(ServerOptions options, ServerHooks hooks);
  ~HttpServer();

  Result<> start();
  std::uint16_t port() const;  // 0 for a Unix socket
  std::string url() const;     // "http://127.0.0.1:30000", "https://...", "unix:/run/x.sock"
  // Reads the certificate again, for connections from now on; also done when its files change. Fails: net/server/tls.h.
  Result<> reload_certificate();

  // From now on every answer closes its connection. New connections and requests still come through, so that the
  // handlers can say 503 (see draining()) and a probe can see that we are not ready.
  void begin_drain();
  bool draining() const;
  // Drains, waits until no request is active or `timeout` has passed, then cuts what is left. Blocks.
  void stop(std::chrono::milliseconds timeout);

  ServerStats stats() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::net
