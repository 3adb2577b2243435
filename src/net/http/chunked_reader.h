// chunked_reader.h: the body of a request with "Transfer-Encoding: chunked", piece by piece.
//
// Our own, not Beast's: that one (1.81) asserts on a last chunk that comes in small pieces, and rescans what it has not
// taken. This one looks at each byte once, keeps none, and refuses at the first byte that is wrong or too much.
// Extensions and trailer fields are checked for forbidden bytes and dropped.
// Units:   bytes; a chunk-size line is counted without extension and CRLF, an extension with its ';', a trailer field
//          with its CRLF.
// Threads: one at a time.
// Fails:   HttpError 400 (malformed, or a limit of lines and trailers), 413 (more than the body may have).
// Source:  RFC 9112 section 7.1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/http/request_parser.h"

namespace espalier::net {

// Takes the chunks of one body apart, whatever pieces the bytes come in.
class ChunkedReader {
 public:
  explicit ChunkedReader(const ParserLimits& limits) : limits_(limits) {}

  // Takes bytes off the front of `input` and appends those of the body to `body`.
  std::optional<HttpError> read(std::string_view& input, std::string& body);
  bool done() const { return state_ == State::done; }

 private:
  enum class State {
    size,
    extension,
    size_lf,
    data,
    data_cr,
    data_lf,
    trailer_line,
    trailer_name,
    trailer_value,
    trailer_lf,
    last_lf,
    done
  };

  std::optional<HttpError> step(char byte);
  std::optional<HttpError> size_byte(char byte);
  std::optional<HttpError> end_of_size_line();
  std::optional<HttpError> trailer_byte(char byte);

  ParserLimits limits_;
  State state_ = State::size;
  std::uint64_t size_ = 0;        // of the chunk, while its line is read
  std::uint64_t left_ = 0;        // of the chunk's data
  std::uint64_t body_bytes_ = 0;  // promised by all chunks so far, never above the limit
  std::size_t digits_ = 0, extension_bytes_ = 0;
  std::size_t trailer_bytes_ = 0, trailer_fields_ = 0;
};

}  // namespace espalier::net
