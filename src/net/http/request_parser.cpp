#include "net/http/request_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>

#include "net/http/chunked_reader.h"
#include "net/http/head_scanner.h"
#include "net/http/request_target.h"

namespace espalier::net {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

std::string_view std_view(string_view text) {
  return {text.data(), text.size()};
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

class RequestParser::Impl final : public http::basic_parser<true> {
 public:
  explicit Impl(const ParserLimits& limits)
      : limits_(limits), scanner_(limits.request_line_bytes, limits.header_bytes) {
    eager(false);  // stop behind the head
    body_limit(boost::none);
    header_limit(0xffff'ffff);  // HeadScanner has counted already
  }

  std::optional<HttpError> read_head(std::string_view& input);
  std::optional<HttpError> read_body(std::string_view& input);

  HttpRequest request;
  std::string body;
  bool expects_continue = false;
  bool head_complete() const { return complete_; }
  bool complete() const { return complete_ && (chunks_ ? chunks_->done() : body_left_ == 0); }

 private:
  void on_request_impl(http::verb, string_view method, string_view target, int version, error_code& ec) override;
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_field_impl(http::field, string_view name, string_view value, error_code& ec) override;
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view, error_code&) override { return 0; }  // it is never given a body
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view, error_code&) override { return 0; }
  void on_finish_impl(error_code&) override {}

  std::optional<HttpError> check_framing_field(std::string_view name, std::string_view value);
  std::optional<HttpError> check_head() const;
  std::optional<HttpError> failure(error_code ec, std::string_view input);
  void fail(HttpError error, error_code& ec);

  ParserLimits limits_;
  HeadScanner scanner_;
  std::optional<HttpError> refusal_;  // what a callback found
  std::string target_;
  std::size_t hosts_ = 0, lengths_ = 0, codings_ = 0;
  bool complete_ = false;                // the head, and nothing is wrong with it
  std::uint64_t body_left_ = 0;          // of a body with Content-Length
  std::optional<ChunkedReader> chunks_;  // of the other kind
};

void RequestParser::Impl::fail(HttpError error, error_code& ec) {
  refusal_ = std::move(error);
  ec = http::error::bad_value;
}

std::optional<HttpError> RequestParser::Impl::read_head(std::string_view& input) {
  if (auto refusal = scanner_.scan(input)) return refusal;
  if (scanner_.end() == 0) return std::nullopt;
  auto head = input.substr(scanner_.begin(), scanner_.end() - scanner_.begin());
  input.remove_prefix(scanner_.end());
  error_code ec;
  std::size_t taken = put(boost::asio::buffer(head.data(), head.size()), ec);
  if (ec) return failure(ec, head);
  if (taken != head.size() || !is_header_done()) return malformed_request("the head of the request is malformed");
  if (auto refusal = check_head()) return refusal;
  auto target = parse_request_target(target_, request.method);
  if (!target) return http_error(target.error());
  request.path = std::move(target->path);
  request.segments = std::move(target->segments);
  request.query = std::move(target->query);
  body_left_ = content_length().value_or(0);
  if (body_left_ > limits_.body_bytes) return body_too_large(limits_.body_bytes);
  if (codings_ != 0) chunks_.emplace(limits_);
  complete_ = true;
  return std::nullopt;
}

std::optional<HttpError> RequestParser::Impl::read_body(std::string_view& input) {
  if (chunks_) return chunks_->read(input, body);
  auto piece = input.substr(0, body_left_);
  body.append(piece);
  body_left_ -= piece.size();
  input.remove_prefix(piece.size());
  return std::nullopt;
}

void RequestParser::Impl::on_request_impl(http::verb, string_view method, string_view target, int version,
                                          error_code&) {
  request.method_name = std::string(method);
  request.method = method_from(request.method_name);
  request.http_1_0 = version == 10;
  target_ = std::string(target);
}

void RequestParser::Impl::on_field_impl(http::field, string_view name, string_view value, error_code& ec) {
  if (request.headers.size() >= limits_.header_count) {
    fail({431, fmt::format("more than {} header fields", limits_.header_count), "headers_too_large", "", 0}, ec);
    return;
  }
  if (auto refusal = check_framing_field(std_view(name), std_view(value))) return fail(std::move(*refusal), ec);
  request.headers.add(std::string(name), std::string(value));
}

std::optional<HttpError> RequestParser::Impl::check_framing_field(std::string_view name, std::string_view value) {
  if (same_ignoring_case(name, "Host")) {
    if (++hosts_ > 1) return malformed_request("more than one Host field");
    if (!valid_host(value)) return malformed_request("the Host field is not a host name with an optional port");
  } else if (same_ignoring_case(name, "Content-Length")) {
    if (++lengths_ > 1) return malformed_request("more than one Content-Length field");
    if (!all_digits(value)) return malformed_request("Content-Length must be one decimal number");
  } else if (same_ignoring_case(name, "Transfer-Encoding")) {
    if (++codings_ > 1) return malformed_request("more than one Transfer-Encoding field");
    if (!same_ignoring_case(value, "chunked"))
      return malformed_request("the only Transfer-Encoding accepted is 'chunked'");
  } else if (same_ignoring_case(name, "Expect")) {
    if (!same_ignoring_case(value, "100-continue")) {
      return HttpError{417, "the only expectation that can be met is '100-continue'", "expectation_failed", "", 0};
    }
    expects_continue = true;
  }
  return std::nullopt;
}

std::optional<HttpError> RequestParser::Impl::check_head() const {
  if (hosts_ == 0 && !request.http_1_0) return malformed_request("an HTTP/1.1 request must have a Host field");
  if (lengths_ != 0 && codings_ != 0) return malformed_request("both Content-Length and Transfer-Encoding");
  if (codings_ != 0 && request.http_1_0) return malformed_request("HTTP/1.0 has no Transfer-Encoding");
  return std::nullopt;
}

std::optional<HttpError> RequestParser::Impl::failure(error_code ec, std::string_view input) {
  if (refusal_) return std::move(refusal_);
  if (ec == http::error::bad_version) {
    auto line = input.substr(0, input.find('\r'));
    auto version = line.substr(line.rfind(' ') + 1);
    if (version.substr(0, 5) == "HTTP/") {
      return HttpError{505, "only HTTP/1.1 and HTTP/1.0 are spoken here", "http_version", "", 0};
    }
  }
  return malformed_request(fmt::format("the request is malformed: {}", ec.message()));
}

RequestParser::RequestParser(const ParserLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestParser::~RequestParser() = default;
RequestParser::RequestParser(RequestParser&&) noexcept = default;
RequestParser& RequestParser::operator=(RequestParser&&) noexcept = default;

std::optional<HttpError> RequestParser::read_head(std::string_view& input) {
  return impl_->read_head(input);
}
std::optional<HttpError> RequestParser::read_body(std::string_view& input) {
  return impl_->read_body(input);
}
bool RequestParser::head_done() const {
  return impl_->head_complete();
}
bool RequestParser::done() const {
  return impl_->complete();
}
HttpRequest& RequestParser::request() {
  return impl_->request;
}
bool RequestParser::keep_alive() const {
  return impl_->keep_alive();
}
bool RequestParser::expects_continue() const {
  return impl_->expects_continue;
}
std::string& RequestParser::body() {
  return impl_->body;
}

}  // namespace espalier::net
