// transfer.h: one request to one address over libcurl, without redirects (private to net/client).
//
// A Session is a libcurl multi handle with one easy handle: the multi interface lets another thread's stop request wake
// the wait at once, and keeps the connections for the next request.
// Threads: a Session belongs to one thread at a time.
#pragma once

#include <curl/curl.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>

#include "net/client/http_client.h"
#include "net/client/url.h"

namespace espalier::net {

// Frees libcurl's multi handles and string lists.
struct CurlDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
// Frees libcurl's easy handles.
struct CurlEasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};

// A pair of libcurl handles that may be used for one transfer after another.
struct Session {
  std::unique_ptr<CURLM, CurlDeleter> multi;
  std::unique_ptr<CURL, CurlEasyDeleter> easy;
  static Result<Session> open();
};

// One request on an easy handle: its options, and what came back.
class Transfer {
 public:
  using Clock = std::chrono::steady_clock;
  struct Target {
    Url url;
    Method method = Method::get;
    bool with_credentials = true;
    bool follows = false;  // a redirect with a Location is kept from the sink
    std::optional<Clock::time_point> deadline;
  };

  Transfer(const ClientRequest& request, const Target& target, const std::string& user_agent, BodySink& sink)
      : request_(request), target_(target), user_agent_(user_agent), sink_(sink) {}

  // The answer, its body given to the sink unless redirected() holds.
  Result<ClientResponse> run(Session& session);
  bool redirected() const { return redirected_; }

  // What run() is made of, for one who drives many transfers (TransferLoop). Order: prepare overdue* conclude.
  Result<> prepare(CURL* easy);
  std::optional<Error> overdue(Clock::time_point now, std::chrono::milliseconds& wait) const;
  Result<ClientResponse> conclude(CURLcode code);

 private:
  Result<> configure(CURL* easy);
  void configure_route(CURL* easy) const;
  Result<> set_headers(CURL* easy);
  Result<> add_headers(const Headers& headers);
  Result<CURLcode> drive(CURLM* multi);
  Error error_of(CURLcode code) const;

  void on_header_line(std::string_view line);
  Result<> on_head_complete();
  Result<> on_body(std::string_view piece);

  static std::size_t header_callback(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t body_callback(char* data, std::size_t size, std::size_t count, void* self);
  static int progress_callback(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t sent);
  static curl_socket_t open_socket_callback(void* self, curlsocktype purpose, curl_sockaddr* address);
  template <class F>
  std::size_t guarded(std::size_t bytes, F&& work);

  const ClientRequest& request_;
  const Target& target_;
  const std::string& user_agent_;
  BodySink& sink_;

  ClientResponse response_;
  std::optional<Error> failure_;  // ours or the sink's; libcurl only knows that a callback said no
  std::unique_ptr<curl_slist, CurlDeleter> header_list_;
  std::array<char, CURL_ERROR_SIZE> detail_{};
  std::uint64_t head_bytes_ = 0;
  std::uint64_t body_bytes_ = 0;
  curl_off_t sent_ = 0;
  bool head_complete_ = false;
  bool redirected_ = false;
  Clock::time_point last_activity_;
};

}  // namespace espalier::net
