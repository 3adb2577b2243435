#include "net/client/transfer.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>

#include "base/system/socket_calls.h"
#include "net/client/address_policy.h"
#include "net/client/sigpipe.h"

namespace espalier::net {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kMostRedirectBytes = 1 << 20;  // of the page that comes with a redirect, which nobody reads

class AddedToMulti {
 public:
  AddedToMulti(CURLM* multi, CURL* easy) : multi_(multi), easy_(easy) { curl_multi_add_handle(multi, easy); }
  ~AddedToMulti() {
    curl_multi_remove_handle(multi_, easy_);
    curl_easy_reset(easy_);  // drops the pointers to the finished transfer; connections stay with the multi handle
  }
  AddedToMulti(const AddedToMulti&) = delete;
  AddedToMulti& operator=(const AddedToMulti&) = delete;

 private:
  CURLM* multi_;
  CURL* easy_;
};

Error error(Error::Kind kind, std::string message) {
  return {kind, std::move(message), {}, {}};
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The first byte of "bytes 100-199/200".
std::optional<std::uint64_t> first_byte(std::string_view content_range) {
  if (!content_range.starts_with("bytes ")) return std::nullopt;
  content_range.remove_prefix(6);
  return number<std::uint64_t>(content_range.substr(0, content_range.find('-')));
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

Result<Session> Session::open() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  Session session{std::unique_ptr<CURLM, CurlDeleter>(curl_multi_init()),
                  std::unique_ptr<CURL, CurlEasyDeleter>(curl_easy_init())};
  if (!session.multi || !session.easy) return error(Error::Kind::out_of_memory, "no memory for a connection");
  curl_multi_setopt(session.multi.get(), CURLMOPT_MAXCONNECTS, 4L);
  return session;
}

Result<ClientResponse> Transfer::run(Session& session) {
  ESP_CHECK(prepare(session.easy.get()));
  const SigpipeBlocked blocked;
  const AddedToMulti added(session.multi.get(), session.easy.get());
  const std::stop_callback wake(request_.stop, [&] { curl_multi_wakeup(session.multi.get()); });
  ESP_TRY(const CURLcode code, drive(session.multi.get()));
  return conclude(code);
}

Result<> Transfer::prepare(CURL* easy) {
  last_activity_ = Clock::now() + request_.connect_timeout;  // the idle clock starts after the connection's own limit
  return configure(easy);
}

Result<ClientResponse> Transfer::conclude(CURLcode code) {
  if (failure_) return std::move(*failure_);
  if (code != CURLE_OK) return error_of(code);
  if (!head_complete_)
    return error(Error::Kind::network, target_.url.host + " closed the connection without an answer");
  response_.url = target_.url.full();
  return std::move(response_);
}

Result<> Transfer::configure(CURL* easy) {
  const auto set = [&](auto option, auto value) { curl_easy_setopt(easy, option, value); };
  const std::string url = target_.url.full();
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_USERAGENT, user_agent_.c_str());
  set(CURLOPT_ERRORBUFFER, detail_.data());
  set(CURLOPT_BUFFERSIZE, 256L << 10);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request_.connect_timeout.count()));
  set(CURLOPT_HEADERFUNCTION, &Transfer::header_callback);
  set(CURLOPT_HEADERDATA, this);
  set(CURLOPT_WRITEFUNCTION, &Transfer::body_callback);
  set(CURLOPT_WRITEDATA, this);
  set(CURLOPT_XFERINFOFUNCTION, &Transfer::progress_callback);
  set(CURLOPT_XFERINFODATA, this);
  set(CURLOPT_NOPROGRESS, 0L);
  if (target_.method == Method::head) set(CURLOPT_NOBODY, 1L);
  if (target_.method == Method::post) {
    set(CURLOPT_POST, 1L);
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
    set(CURLOPT_POSTFIELDS, request_.body.data());
  }
  configure_route(easy);
  return set_headers(easy);
}

void Transfer::configure_route(CURL* easy) const {
  const auto set = [&](auto option, auto value) { curl_easy_setopt(easy, option, value); };
  // The command-line tools honour these two; libcurl leaves them to the program.
  if (const char* file = std::getenv("SSL_CERT_FILE"); file && *file) set(CURLOPT_CAINFO, file);
  if (const char* folder = std::getenv("SSL_CERT_DIR"); folder && *folder) set(CURLOPT_CAPATH, folder);
  set(CURLOPT_OPENSOCKETFUNCTION, &Transfer::open_socket_callback);
  set(CURLOPT_OPENSOCKETDATA, const_cast<Transfer*>(this));
  if (!request_.public_addresses_only) return;
  // A proxy would resolve the name behind our back, and a kept connection was perhaps opened without the check.
  set(CURLOPT_PROXY, "");
  set(CURLOPT_FRESH_CONNECT, 1L);
  set(CURLOPT_FORBID_REUSE, 1L);
}

Result<> Transfer::add_headers(const Headers& headers) {
  for (const Headers::Field& header : headers) {
    if (!valid_field_name(header.name))
      return bad_request("a header's name holds a character that no name may hold", "headers");
    if (!valid_field_value(header.value))
      return bad_request(fmt::format("the header '{}' holds a control character", header.name), "headers");
    const std::string line = header.value.empty() ? header.name + ";" : header.name + ": " + header.value;
    curl_slist* longer = curl_slist_append(header_list_.get(), line.c_str());
    if (!longer) return error(Error::Kind::out_of_memory, "no memory for the request's headers");
    static_cast<void>(header_list_.release());
    header_list_.reset(longer);
  }
  return success();
}

Result<> Transfer::set_headers(CURL* easy) {
  ESP_CHECK(add_headers(request_.headers));
  if (target_.with_credentials) ESP_CHECK(add_headers(request_.credentials));
  if (request_.range_from > 0) ESP_CHECK(add_headers({{"Range", fmt::format("bytes={}-", request_.range_from)}}));
  // "Name:" takes away a header that libcurl would add: no waiting for 100-continue, no made-up content type.
  curl_slist* longer = curl_slist_append(header_list_.get(), "Expect:");
  if (longer && !request_.headers.has("content-type")) {
    static_cast<void>(header_list_.release());
    header_list_.reset(longer);
    longer = curl_slist_append(header_list_.get(), "Content-Type:");
  }
  if (!longer) return error(Error::Kind::out_of_memory, "no memory for the request's headers");
  static_cast<void>(header_list_.release());
  header_list_.reset(longer);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, header_list_.get());
  return success();
}

// The error that `now` calls for; else sets how long the wait may last.
std::optional<Error> Transfer::overdue(Clock::time_point now, milliseconds& wait) const {
  const auto limit_wait = [&](Clock::time_point until) {
    wait = std::min(wait, std::chrono::ceil<milliseconds>(until - now));
    return now >= until;
  };
  if (target_.deadline && limit_wait(*target_.deadline))
    return error(Error::Kind::timeout, fmt::format("{} did not finish its answer within {} ms", target_.url.host,
                                                   request_.total_timeout.count()));
  if (request_.idle_timeout.count() > 0 && limit_wait(last_activity_ + request_.idle_timeout))
    return error(Error::Kind::timeout,
                 fmt::format("{} sent nothing for {} ms", target_.url.host, request_.idle_timeout.count()));
  return std::nullopt;
}

Result<CURLcode> Transfer::drive(CURLM* multi) {
  for (;;) {
    int running = 0;
    if (curl_multi_perform(multi, &running) != CURLM_OK) return internal_error("libcurl refused to go on");
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(multi, &left))
      if (message->msg == CURLMSG_DONE) return message->data.result;
    if (request_.stop.stop_requested()) return error(Error::Kind::cancelled, "cancelled");
    milliseconds wait{1000};
    if (auto late = overdue(Clock::now(), wait)) return std::move(*late);
    curl_multi_poll(multi, nullptr, 0, static_cast<int>(wait.count()), nullptr);
  }
}

void Transfer::on_header_line(std::string_view line) {
  if (line.starts_with("HTTP/")) {  // a new block: the answer after a 100-continue, or the first
    response_.headers = {};
    const auto space = line.find(' ');
    response_.status = space == std::string_view::npos ? 0 : number<int>(line.substr(space + 1, 3)).value_or(0);
    return;
  }
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return;
  response_.headers.add(std::string(trimmed(line.substr(0, colon))), std::string(trimmed(line.substr(colon + 1))));
}

Result<> Transfer::on_head_complete() {
  head_complete_ = true;
  response_.body_bytes = number<std::uint64_t>(response_.header("content-length"));
  if (response_.status == 206) {
    const auto first = first_byte(response_.header("content-range"));
    if (request_.range_from == 0 || first != request_.range_from)
      return error(Error::Kind::network, fmt::format("{} sent other bytes than those asked for (from {})",
                                                     target_.url.host, request_.range_from));
    response_.body_offset = *first;
  }
  redirected_ = target_.follows && is_redirect(response_.status) && !response_.header("location").empty();
  if (redirected_) return success();
  if (target_.method != Method::head && response_.body_bytes.value_or(0) > request_.max_body_bytes)
    return error(Error::Kind::too_large, fmt::format("{} wants to send {} bytes; at most {} are taken here",
                                                     target_.url.host, *response_.body_bytes, request_.max_body_bytes));
  response_.url = target_.url.full();
  return sink_.on_head(response_);
}

Result<> Transfer::on_body(std::string_view piece) {
  body_bytes_ += piece.size();
  if (redirected_ && body_bytes_ <= kMostRedirectBytes) return success();
  if (redirected_ || body_bytes_ > request_.max_body_bytes)
    return error(Error::Kind::too_large, fmt::format("{} sent more than the {} bytes that are taken here",
                                                     target_.url.host, request_.max_body_bytes));
  return sink_.on_body(piece);
}

// Runs a callback's work; a failure, also an exception, ends the transfer and is kept as its reason.
template <class F>
std::size_t Transfer::guarded(std::size_t bytes, F&& work) {
  try {
    if (Result<> result = work(); !result.ok()) failure_ = std::move(result).error();
  } catch (const std::exception& e) {
    failure_ = internal_error(fmt::format("while reading an answer: {}", e.what()));
  }
  last_activity_ = Clock::now();
  return failure_ ? 0 : bytes;
}

std::size_t Transfer::header_callback(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const std::size_t bytes = size * count;
  return transfer.guarded(bytes, [&]() -> Result<> {
    if (transfer.head_complete_) return success();  // trailers
    transfer.head_bytes_ += bytes;
    if (transfer.head_bytes_ > transfer.request_.max_head_bytes)
      return error(Error::Kind::too_large, fmt::format("the headers of {} are longer than {} bytes",
                                                       transfer.target_.url.host, transfer.request_.max_head_bytes));
    const std::string_view line = trimmed({data, bytes});
    if (!line.empty()) {
      transfer.on_header_line(line);
      return success();
    }
    return transfer.response_.status < 200 ? success() : transfer.on_head_complete();
  });
}

std::size_t Transfer::body_callback(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  return transfer.guarded(size * count, [&] { return transfer.on_body({data, size * count}); });
}

int Transfer::progress_callback(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t sent) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (sent > transfer.sent_) {  // an upload moves: not idle
    transfer.sent_ = sent;
    transfer.last_activity_ = Clock::now();
  }
  return 0;
}

curl_socket_t Transfer::open_socket_callback(void* self, curlsocktype, curl_sockaddr* address) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (transfer.request_.public_addresses_only && !is_public_address(&address->addr, address->addrlen)) {
    transfer.failure_ =
        error(Error::Kind::forbidden, fmt::format("{} is not a public address", transfer.target_.url.host));
    return CURL_SOCKET_BAD;
  }
  return open_socket(address->family, address->socktype, address->protocol, Blocking::yes);
}

Error Transfer::error_of(CURLcode code) const {
  const Url& url = target_.url;
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return error(Error::Kind::network,
                   fmt::format("cannot find the host {}: check its name, the network, or the proxy "
                               "settings (https_proxy, no_proxy)",
                               url.host));
    case CURLE_COULDNT_RESOLVE_PROXY:
      return error(Error::Kind::network, "cannot find the proxy's host: check https_proxy and http_proxy");
    case CURLE_COULDNT_CONNECT:
      return error(Error::Kind::network, fmt::format("nothing answers at {}: is the address right, or a proxy needed "
                                                     "(https_proxy)?",
                                                     url.origin()));
    case CURLE_OPERATION_TIMEDOUT:
      return error(Error::Kind::timeout, fmt::format("{} did not accept a connection within {} ms", url.origin(),
                                                     request_.connect_timeout.count()));
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return error(Error::Kind::network, fmt::format("the TLS certificate of {} is not trusted ({}): set SSL_CERT_FILE "
                                                     "to a file that holds its authority",
                                                     url.host, detail_.data()));
    case CURLE_OUT_OF_MEMORY:
      return error(Error::Kind::out_of_memory, "no memory for an answer");
    default:
      return error(Error::Kind::network, fmt::format("the connection to {} broke after {} bytes ({})", url.host,
                                                     body_bytes_, curl_easy_strerror(code)));
  }
}

}  // namespace espalier::net
