#include "net/request_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>

#include "net/head_scanner.h"
#include "net/request_target.h"

namespace espalier::net {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using boost::beast::string_view;

std::string_view std_view(string_view text) {
  return {text.data(), text.size()};
}

HttpError too_large(std::uint64_t limit) {
  return {413, fmt::format("the request body is larger than {} bytes", limit), "body_too_large", "", 0};
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

class RequestParser::Impl final : public http::basic_parser<true> {
 public:
  explicit Impl(const ParserLimits& limits)
      : limits_(limits), scanner_(limits.request_line_bytes, limits.header_bytes) {
    eager(false);  // one part a put(), so that the body can be refused before it is read
    body_limit(boost::none);
    header_limit(0xffff'ffff);  // the limits here are counted by HeadScanner and on_body()
  }

  std::optional<HttpError> read_head(std::string_view& input);
  std::optional<HttpError> read_body(std::string_view& input);

  HttpRequest request;
  std::string body;
  bool expects_continue = false;

 private:
  void on_request_impl(http::verb, string_view method, string_view target, int version, error_code& ec) override;
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_field_impl(http::field, string_view name, string_view value, error_code& ec) override;
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view bytes, error_code& ec) override;
  void on_chunk_header_impl(std::uint64_t size, string_view extension, error_code& ec) override;
  std::size_t on_chunk_body_impl(std::uint64_t, string_view bytes, error_code& ec) override {
    return on_body_impl(bytes, ec);
  }
  void on_finish_impl(error_code&) override {}

  std::optional<HttpError> check_framing_field(std::string_view name, std::string_view value);
  std::optional<HttpError> check_head() const;
  std::optional<HttpError> check_unfinished_chunk_line(std::string_view input) const;
  std::optional<HttpError> failure(error_code ec, std::string_view input);
  void fail(HttpError error, error_code& ec);

  ParserLimits limits_;
  HeadScanner scanner_;
  std::optional<HttpError> refusal_;  // what a callback found
  std::string target_;
  std::size_t hosts_ = 0, lengths_ = 0, codings_ = 0;
  std::uint64_t body_read_ = 0;
  std::size_t trailer_bytes_ = 0, trailers_ = 0;
  const char* put_begin_ = nullptr;  // what put() is looking at
  bool after_chunk_ = false;         // the CRLF of the last chunk stands before the next chunk-size line
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
  return std::nullopt;
}

std::optional<HttpError> RequestParser::Impl::read_body(std::string_view& input) {
  while (!is_done() && !input.empty()) {
    error_code ec;
    put_begin_ = input.data();
    std::size_t taken = put(boost::asio::buffer(input.data(), input.size()), ec);
    input.remove_prefix(taken);
    if (ec == http::error::need_more) return check_unfinished_chunk_line(input);
    if (ec) return failure(ec, input);
  }
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
  if (is_header_done()) {  // a trailer field: counted and dropped, it must not change a request already admitted
    trailer_bytes_ += name.size() + value.size() + 4;
    if (trailer_bytes_ > limits_.trailer_bytes || ++trailers_ > limits_.header_count) {
      fail(malformed_request(fmt::format("the trailer is longer than {} bytes or {} fields", limits_.trailer_bytes,
                                         limits_.header_count)),
           ec);
    }
    return;
  }
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
  if (auto length = content_length(); length && *length > limits_.body_bytes) return too_large(limits_.body_bytes);
  return std::nullopt;
}

std::size_t RequestParser::Impl::on_body_impl(string_view bytes, error_code&) {
  body_read_ += bytes.size();
  body.append(bytes.data(), bytes.size());
  after_chunk_ = true;  // without meaning for a body with Content-Length
  return bytes.size();
}

void RequestParser::Impl::on_chunk_header_impl(std::uint64_t size, string_view extension, error_code& ec) {
  auto digits = static_cast<std::size_t>(extension.data() - put_begin_) - (after_chunk_ ? 2 : 0);
  if (digits > limits_.chunk_line_bytes) return fail(malformed_request("the chunk-size line is too long"), ec);
  if (extension.size() > limits_.chunk_extension_bytes) {
    return fail(
        malformed_request(fmt::format("a chunk extension is longer than {} bytes", limits_.chunk_extension_bytes)), ec);
  }
  if (!valid_field_value(std_view(extension)))
    return fail(malformed_request("a control character in a chunk extension"), ec);
  if (size > limits_.body_bytes - body_read_) fail(too_large(limits_.body_bytes), ec);
}

// Beast waits for the end of the chunk-size line, and of the whole trailer, as long as they may get.
std::optional<HttpError> RequestParser::Impl::check_unfinished_chunk_line(std::string_view input) const {
  auto line_end = input.find("\r\n", after_chunk_ ? 2 : 0);
  if (line_end == std::string_view::npos) {
    if (input.size() > limits_.chunk_line_bytes + limits_.chunk_extension_bytes + 4) {
      return malformed_request("the chunk-size line is too long");
    }
  } else if (input.size() - line_end > limits_.trailer_bytes + 4) {
    return malformed_request(fmt::format("the trailer is longer than {} bytes", limits_.trailer_bytes));
  }
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
  return impl_->is_header_done();
}
bool RequestParser::done() const {
  return impl_->is_done();
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
