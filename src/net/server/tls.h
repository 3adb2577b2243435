// tls.h: TLS of the server's side with OpenSSL, beside sockets, not in them: a session turns bytes of the network into
// bytes of the client and back, in memory. The Channel moves both as it always does. Internal to the module.
//
// Certificates are read again by reload(), and, at most once a second, by the next connection after the files changed,
// as ACME clients leave them; connections that stand keep theirs. TLS 1.2 and 1.3; HTTP/1.1 by ALPN.
// Threads: TlsContext: any. TlsSession: its Loop's only.
// Fails:   make, reload: bad_request or not_found naming the flag and what is wrong with the file; after a failed reload
//          the old certificate stays. Sessions: broken() once the peer did not speak TLS.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "espalier/error.h"
#include "net/server/http_server.h"

struct ssl_ctx_st;
struct ssl_st;
struct bio_st;

namespace espalier::net {

// One connection's encryption.
class TlsSession {
 public:
  explicit TlsSession(std::shared_ptr<ssl_ctx_st> context);  // throws bad_alloc
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Takes what came from the network and appends what the client said.
  void received(std::string_view bytes, std::string& plain);
  // To be sent to the client; kept until the handshake is done.
  void send(std::string_view plain);
  void close();          // says that nothing follows
  std::string output();  // for the network; "" when there is nothing

  std::size_t waiting() const { return waiting_.size(); }  // bytes that the handshake holds up
  bool peer_closed() const { return peer_closed_; }        // the client said that nothing follows
  bool broken() const { return broken_; }

 private:
  bool handshake_done();
  void read_all(std::string& plain);
  void write(std::string_view plain);
  void over(int result);  // looks at what OpenSSL says of a call that did not succeed

  std::shared_ptr<ssl_ctx_st> context_;
  ssl_st* ssl_ = nullptr;
  bio_st *in_ = nullptr, *out_ = nullptr;  // the session's
  std::string waiting_;
  bool peer_closed_ = false, broken_ = false;
};

// The certificate that new connections get.
class TlsContext {
 public:
  static Result<std::shared_ptr<TlsContext>> make(TlsFiles files);  // null without a certificate

  Result<> reload();
  std::unique_ptr<TlsSession> session();  // throws bad_alloc

 private:
  // When a file was last written, and which one it is.
  struct Stamp {
    std::int64_t inode = 0, seconds = 0, nanoseconds = 0, bytes = 0;
    bool operator==(const Stamp&) const = default;
  };
  struct Stamps {
    Stamp certificate, key;
    bool operator==(const Stamps&) const = default;
  };

  explicit TlsContext(TlsFiles files) : files_(std::move(files)) {}
  Stamps stamps() const;
  static Stamp stamp_of(const std::string& path);
  void look_for_changes();  // under mutex_

  const TlsFiles files_;
  std::mutex mutex_;
  std::shared_ptr<ssl_ctx_st> current_;
  Stamps seen_, warned_;  // of what was read, and of what was said to be broken
  std::chrono::steady_clock::time_point looked_at_{};
};

}  // namespace espalier::net
