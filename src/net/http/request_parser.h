// request_parser.h: one HTTP/1.x request out of a stream of bytes, refusing whatever two readers could read
// differently.
//
// Boost.Beast's parser reads the head; around it stand the stricter rules it does not have: limits line by line, no
// bare CR or LF, no NUL or other control characters, no folded lines, exactly one Host, one Content-Length of digits
// or one "Transfer-Encoding: chunked" and never both. Bodies are read here and by ChunkedReader.
//
// Order:   (read_head)+ (read_body)* ; read_body only after head_done() and until done(). One parser per request.
// Units:   limits in bytes; a request line and a chunk-size line are counted without CRLF, header and trailer fields
//          with the CRLF of each line.
// Threads: one at a time.
// Fails:   an HttpError: where the next request would begin is then unknown, so the connection must be closed.
// Source:  RFC 9112.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/http/error_body.h"
#include "net/http/http_types.h"

namespace espalier::net {

// What a request may have at most; beyond it stands the status that is answered.
struct ParserLimits {
  std::size_t request_line_bytes = 8 * 1024;    // 414 above
  std::size_t header_bytes = 16 * 1024;         // 431 above
  std::size_t header_count = 100;               // 431 above
  std::uint64_t body_bytes = 32 * 1024 * 1024;  // 413 above, counted after de-chunking
  std::size_t chunk_line_bytes = 256;           // 400 above; the size digits
  std::size_t chunk_extension_bytes = 256;      // 400 above; extensions are ignored
  std::size_t trailer_bytes = 16 * 1024;        // 400 above
};

// Reads one request after another from a connection's bytes.
class RequestParser {
 public:
  explicit RequestParser(const ParserLimits& limits);
  ~RequestParser();
  RequestParser(RequestParser&&) noexcept;
  RequestParser& operator=(RequestParser&&) noexcept;

  // Nothing is taken off `input` until the whole head is there: pass the same bytes again, with more behind them.
  std::optional<HttpError> read_head(std::string_view& input);
  // Takes body bytes off the front of `input` as far as they go.
  std::optional<HttpError> read_body(std::string_view& input);

  bool head_done() const;
  bool done() const;

  // After head_done(): everything but the body. After a refusal: what was read before it.
  HttpRequest& request();
  bool keep_alive() const;
  bool expects_continue() const;
  // The body bytes read so far; the caller may move them out at any time.
  std::string& body();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::net
