#include "net/http/head_scanner.h"

#include <fmt/format.h>

namespace espalier::net {
namespace {

// Some old clients end a body with a CRLF that Content-Length does not count (RFC 9112 section 2.2).
constexpr int kEmptyLinesBefore = 2;

}  // namespace

std::optional<HttpError> HeadScanner::scan(std::string_view input) {
  for (; position_ < input.size() && end_ == 0; ++position_) {
    auto byte = static_cast<unsigned char>(input[position_]);
    bool after_cr = position_ > begin_ && input[position_ - 1] == '\r';
    if (byte == '\n' && !after_cr) return malformed_request("a line of the head ends in LF alone; it must end in CRLF");
    auto refusal = byte == '\n' ? line_end() : other_byte(byte, after_cr);
    if (refusal) return refusal;
  }
  return std::nullopt;
}

std::optional<HttpError> HeadScanner::line_end() {
  bool empty = position_ - 1 == line_start_;
  line_start_ = position_ + 1;
  if (fields_start_ != 0) {
    if (!empty && position_ - fields_start_ >= header_bytes_) return fields_too_long();
    if (empty) end_ = position_ + 1;
  } else if (!empty) {
    fields_start_ = position_ + 1;
  } else {
    if (++empty_lines_ > kEmptyLinesBefore) return malformed_request("too many empty lines before the request line");
    begin_ = position_ + 1;
  }
  return std::nullopt;
}

std::optional<HttpError> HeadScanner::other_byte(unsigned char byte, bool after_cr) const {
  if (after_cr) return malformed_request("a CR in the head is not followed by LF");
  if ((byte < 0x20 && byte != '\t' && byte != '\r') || byte == 0x7f) {
    return malformed_request("the head holds a control character");
  }
  if (fields_start_ == 0) {
    if (byte != '\r' && position_ - line_start_ >= request_line_bytes_) {
      return HttpError{414, fmt::format("the request line is longer than {} bytes", request_line_bytes_),
                       "request_line_too_long", "", 0};
    }
    return std::nullopt;
  }
  if (position_ == line_start_ && (byte == ' ' || byte == '\t')) {
    return malformed_request("a header line begins with a space: folded header lines are not accepted");
  }
  bool may_be_last_line = byte == '\r' && position_ == line_start_;
  if (position_ - fields_start_ >= header_bytes_ && !may_be_last_line) return fields_too_long();
  return std::nullopt;
}

HttpError HeadScanner::fields_too_long() const {
  return {431, fmt::format("the header fields are longer than {} bytes", header_bytes_), "headers_too_large", "", 0};
}

}  // namespace espalier::net
