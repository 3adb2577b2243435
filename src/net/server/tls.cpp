#include "net/server/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/system/file_times.h"

namespace espalier::net {
namespace {

constexpr std::size_t kPieceBytes = 16 * 1024;  // a record's
constexpr auto kLookEvery = std::chrono::seconds(1);

std::string last_reason() {
  const unsigned long code = ::ERR_peek_last_error();
  const char* reason = code == 0 ? nullptr : ::ERR_reason_error_string(code);
  ::ERR_clear_error();
  return reason == nullptr ? "unknown reason" : reason;
}

// Only HTTP/1.1 is spoken here; clients that offer no ALPN are served too.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* offered,
                    unsigned int size, void*) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  const int verdict = ::SSL_select_next_proto(&chosen, out_size, kOurs, sizeof kOurs - 1, offered, size);
  *out = chosen;
  return verdict == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

int give_password(char* buffer, int size, int, void* password) {
  const auto& text = *static_cast<const std::string*>(password);
  if (text.size() > static_cast<std::size_t>(size)) return -1;
  std::copy(text.begin(), text.end(), buffer);
  return static_cast<int>(text.size());
}

Error unusable(std::string_view flag, std::string_view path, std::string_view what) {
  return bad_request(fmt::format("--{} {}: {}", flag, path, what), std::string(flag));
}

Result<> check_file(std::string_view flag, const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), R_OK) == 0)
    return success();
  return Error{
      Error::Kind::not_found, fmt::format("--{} {} is not a readable file", flag, path), std::string(flag), {}};
}

Result<std::shared_ptr<ssl_ctx_st>> read_files(const TlsFiles& files) {
  const std::string& key = files.key.empty() ? files.certificate : files.key;
  ESP_CHECK(check_file("ssl-certfile", files.certificate));
  ESP_CHECK(check_file("ssl-keyfile", key));
  std::shared_ptr<SSL_CTX> context(::SSL_CTX_new(::TLS_server_method()), &::SSL_CTX_free);
  if (context == nullptr) throw std::bad_alloc();
  ::ERR_clear_error();
  ::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  // Half closes and idle connections: what HTTP does every day is no error, and buffers are not kept.
  ::SSL_CTX_set_options(context.get(), SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF |
                                           SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  ::SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  ::SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_alpn_select_cb(context.get(), &choose_protocol, nullptr);
  ::SSL_CTX_set_default_passwd_cb(context.get(), &give_password);
  ::SSL_CTX_set_default_passwd_cb_userdata(context.get(), const_cast<std::string*>(&files.password));
  if (::SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1)
    return unusable("ssl-certfile", files.certificate, "no certificate in PEM form can be read: " + last_reason());
  if (::SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1)
    return unusable(
        "ssl-keyfile", key,
        fmt::format("no private key of this certificate in PEM form can be read ({}); a key with a password "
                    "needs --ssl-keyfile-password",
                    last_reason()));
  if (::SSL_CTX_check_private_key(context.get()) != 1)
    return unusable("ssl-keyfile", key, "the key is not that of the certificate: " + last_reason());
  return context;
}

}  // namespace

// ---- a session ----------------------------------------------------------------------------------------------------

TlsSession::TlsSession(std::shared_ptr<ssl_ctx_st> context) : context_(std::move(context)) {
  ssl_ = ::SSL_new(context_.get());
  in_ = ::BIO_new(::BIO_s_mem());
  out_ = ::BIO_new(::BIO_s_mem());
  if (ssl_ == nullptr || in_ == nullptr || out_ == nullptr) {
    ::BIO_free(in_);
    ::BIO_free(out_);
    ::SSL_free(ssl_);
    throw std::bad_alloc();
  }
  ::SSL_set_bio(ssl_, in_, out_);  // which owns them now
  ::SSL_set_accept_state(ssl_);
}

TlsSession::~TlsSession() {
  ::SSL_free(ssl_);
}

void TlsSession::received(std::string_view bytes, std::string& plain) {
  while (!bytes.empty() && !broken_) {
    const auto piece = std::min<std::size_t>(bytes.size(), 1 << 20);
    if (::BIO_write(in_, bytes.data(), static_cast<int>(piece)) != static_cast<int>(piece)) throw std::bad_alloc();
    bytes.remove_prefix(piece);
    read_all(plain);
  }
}

void TlsSession::read_all(std::string& plain) {
  if (!handshake_done()) return;
  char piece[kPieceBytes];
  for (;;) {
    ::ERR_clear_error();
    const int n = ::SSL_read(ssl_, piece, sizeof piece);
    if (n <= 0) return over(n);
    plain.append(piece, static_cast<std::size_t>(n));
  }
}

bool TlsSession::handshake_done() {
  if (::SSL_is_init_finished(ssl_) == 1) return true;
  if (broken_) return false;
  ::ERR_clear_error();
  if (const int result = ::SSL_do_handshake(ssl_); result != 1) {
    over(result);
    return false;
  }
  if (!waiting_.empty()) write(std::exchange(waiting_, {}));
  return true;
}

void TlsSession::over(int result) {
  const int why = ::SSL_get_error(ssl_, result);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return;
  if (why == SSL_ERROR_ZERO_RETURN)
    peer_closed_ = true;
  else
    broken_ = true;
  ::ERR_clear_error();
}

void TlsSession::send(std::string_view plain) {
  if (::SSL_is_init_finished(ssl_) == 1)
    write(plain);
  else
    waiting_.append(plain);
}

void TlsSession::write(std::string_view plain) {
  while (!plain.empty() && !broken_) {
    ::ERR_clear_error();
    const auto piece = std::min<std::size_t>(plain.size(), std::numeric_limits<int>::max());
    const int n = ::SSL_write(ssl_, plain.data(), static_cast<int>(piece));
    if (n <= 0) {
      broken_ = true;  // memory takes everything: anything else is a failure
      return;
    }
    plain.remove_prefix(static_cast<std::size_t>(n));
  }
}

void TlsSession::close() {
  if (broken_ || ::SSL_is_init_finished(ssl_) != 1) return;
  ::ERR_clear_error();
  if (const int result = ::SSL_shutdown(ssl_); result < 0) over(result);
}

std::string TlsSession::output() {
  std::string bytes(static_cast<std::size_t>(::BIO_ctrl_pending(out_)), '\0');
  if (!bytes.empty()) ::BIO_read(out_, bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

// ---- certificates -------------------------------------------------------------------------------------------------

Result<std::shared_ptr<TlsContext>> TlsContext::make(TlsFiles files) {
  if (files.certificate.empty()) return std::shared_ptr<TlsContext>();
  std::shared_ptr<TlsContext> context(new TlsContext(std::move(files)));  // the constructor is private
  ESP_CHECK(context->reload());
  return context;
}

Result<> TlsContext::reload() {
  const Stamps now = stamps();
  ESP_TRY(auto read, read_files(files_));
  const std::scoped_lock lock(mutex_);
  current_ = std::move(read);
  seen_ = now;
  return success();
}

TlsContext::Stamp TlsContext::stamp_of(const std::string& path) {
  struct stat status{};
  if (path.empty() || ::stat(path.c_str(), &status) != 0) return {};
  const timespec written = content_changed(status);
  return {static_cast<std::int64_t>(status.st_ino), written.tv_sec, written.tv_nsec, status.st_size};
}

TlsContext::Stamps TlsContext::stamps() const {
  return {stamp_of(files_.certificate), stamp_of(files_.key)};
}

// Certificate and key are two files: between their two changes they do not fit, which is no news yet.
void TlsContext::look_for_changes() {
  const auto clock = std::chrono::steady_clock::now();
  if (clock - looked_at_ < kLookEvery) return;
  looked_at_ = clock;
  const Stamps now = stamps();
  if (now == seen_) return;
  auto read = read_files(files_);
  if (read.ok()) {
    current_ = std::move(read).value();
    seen_ = now;
    log::info("certificates were read again: their files have changed");
  } else if (std::exchange(warned_, now) != now) {
    log::warning("the certificate stays as it was: {}", read.error().message);
  }
}

std::unique_ptr<TlsSession> TlsContext::session() {
  const std::scoped_lock lock(mutex_);
  look_for_changes();
  return std::make_unique<TlsSession>(current_);
}

}  // namespace espalier::net
