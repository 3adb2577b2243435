// http_transport.h: calls over HTTP to one server, many at once on one thread.
//
// Times are taken when bytes arrive, before they are read. A call to a server that speaks both ways goes where its
// prompt belongs: messages to the chat route, text and ids to the backend's own.
// Order, units, threads, failures: see transport.h.
#pragma once

#include <chrono>
#include <memory>

#include "bench/load/dialect.h"
#include "bench/load/transport.h"
#include "net/client/transfer_loop.h"

namespace espalier::bench {

struct Server {
  std::string url;  // "http://127.0.0.1:30000"
  const Backend* backend = nullptr;
  std::string endpoint;  // path of the requests; empty: the backend's own
  net::Headers headers;
  net::Headers credentials;
};

struct HttpTransportOptions {
  DialectOptions dialect;
  std::chrono::seconds timeout{6 * 3600};  // of one call
  bool fresh_connections = false;
};

class HttpTransport final : public Transport {
 public:
  static Result<std::unique_ptr<HttpTransport>> open(Server server, HttpTransportOptions options);

  void send(const Call& call, Done done) override;
  void score(const std::string& prompt, int prompt_tokens, const std::vector<std::string>& choices,
             Scored done) override;
  bool scores_choices() const override { return server_.backend->api == Backend::Api::native; }
  void run(double until) override;
  double now() const override;

 private:
  HttpTransport(Server server, HttpTransportOptions options, std::unique_ptr<net::TransferLoop> loop);
  net::ClientRequest request(const std::string& path, std::string body) const;

  const Server server_;
  const HttpTransportOptions options_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const std::unique_ptr<Dialect> plain_, chat_;
  const std::unique_ptr<net::TransferLoop> loop_;
};

}  // namespace espalier::bench
