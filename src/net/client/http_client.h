// http_client.h: outgoing HTTP(S) requests: model downloads today, language back ends (JSON and event streams) as well.
//
// One blocking call on the caller's thread per request; the body arrives whole (fetch) or in pieces (stream). An HTTP
// status is an answer, not an Error: callers read `status`, and http_status_error() makes the usual sentence of it.
// Always on: TLS verification (SSL_CERT_FILE and SSL_CERT_DIR honoured), http and https only, redirects limited, each
// one checked anew and never from https to http, credentials sent to the first origin only, sizes and times limited.
// Proxies come from the environment (http_proxy, https_proxy, all_proxy, no_proxy).
// Units:   bytes, milliseconds. Nothing is decompressed, so sizes are those on the wire.
// Threads: any number may call one HttpClient; connections are kept and used again.
// Fails:   network (no connection, cut off, TLS), timeout, cancelled, too_large, bad_request (URL). Messages name the
//          host, never a header's value nor a URL's query, where signatures and tokens live.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "espalier/error.h"
#include "net/http/http_types.h"  // Headers, Method

namespace espalier::net {

// A request to a URL, with limits on its time and its answer.
struct ClientRequest {
  Method method = Method::get;  // get, head or post
  std::string url;
  Headers headers;
  Headers credentials;  // "Authorization", ...: as headers, but left out once a redirect leaves the URL's origin
  std::string body;     // of a POST

  std::uint64_t range_from = 0;  // > 0 asks for the bytes from there on; see ClientResponse::body_offset

  int max_redirects = 5;                              // 0, and always for a POST: a redirect is an answer like others
  std::uint64_t max_body_bytes = 16ull << 20;         // of the answer
  std::uint64_t max_head_bytes = 256ull << 10;        // of all headers of one answer
  std::chrono::milliseconds connect_timeout{20'000};  // name, connection and TLS together
  std::chrono::milliseconds idle_timeout{60'000};     // longest silence after that; 0 = unlimited
  std::chrono::milliseconds total_timeout{0};         // all of it, redirects too; 0 = unlimited
  bool public_addresses_only = false;                 // refuse loopback, private and link-local ones; uses no proxy
  std::stop_token stop;                               // asked to stop: the call returns `cancelled` at once
};

// What is known before the body.
struct ClientResponse {
  int status = 0;
  Headers headers;
  Headers first_headers;          // of the first answer, when redirects were followed; else empty
  std::string url;                // where the answer came from, after redirects; may hold a signature: do not log
  std::uint64_t body_offset = 0;  // `range_from` when the server honoured it (206), 0 when it sends everything
  std::optional<std::uint64_t> body_bytes;  // announced length of the body that follows
  std::string body;                         // filled by fetch()

  std::string_view header(std::string_view name) const { return headers.get(name); }
};

// Takes the answer of stream(). Order: on_head (on_body)*. An Error from either ends the transfer and is its result.
class BodySink {
 public:
  virtual ~BodySink() = default;
  virtual Result<> on_head(const ClientResponse& response) = 0;
  virtual Result<> on_body(std::string_view piece) = 0;
};

// Makes blocking requests that follow redirects; one object serves any number of threads.
class HttpClient {
 public:
  explicit HttpClient(std::string user_agent = "espalier/" ESPALIER_VERSION);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  Result<ClientResponse> fetch(const ClientRequest& request);
  Result<ClientResponse> stream(const ClientRequest& request, BodySink& sink);

 private:
  std::unique_ptr<struct HttpClientImpl> impl_;
};

// What a status outside 200..299 means: the kind whose Error::http_status() it is, but 500 and 502 from elsewhere are
// `network`, as all that is no 4xx; 529 is 503; another 4xx is bad_request.
Error::Kind kind_of_status(int status);

// The Error of such an answer. `what` says what was asked for ("the model's file list"); a Retry-After is named.
Error http_status_error(const ClientResponse& response, std::string_view what);

}  // namespace espalier::net
