// head_scanner.h: finds the end of a request head, refusing forbidden bytes and lines that grow too long on the way.
// Each byte is looked at once, however many pieces the head comes in.
// Threads: one at a time. Fails: an HttpError (400, 414, 431).
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "net/http/error_body.h"

namespace espalier::net {

// Looks for the empty line that ends a head, keeping its place between calls.
class HeadScanner {
 public:
  HeadScanner(std::size_t request_line_bytes, std::size_t header_bytes)
      : request_line_bytes_(request_line_bytes), header_bytes_(header_bytes) {}

  // `input` begins with the bytes of the last call. Sets end() when the empty line was seen.
  std::optional<HttpError> scan(std::string_view input);
  std::size_t begin() const { return begin_; }  // after empty lines before the request line
  std::size_t end() const { return end_; }      // one past the empty line, 0 while it is not there

 private:
  std::optional<HttpError> line_end();
  std::optional<HttpError> other_byte(unsigned char byte, bool after_cr) const;
  HttpError fields_too_long() const;

  std::size_t request_line_bytes_, header_bytes_;
  std::size_t position_ = 0, begin_ = 0, line_start_ = 0, fields_start_ = 0, end_ = 0;
  int empty_lines_ = 0;
};

}  // namespace espalier::net
