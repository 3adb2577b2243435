#include "net/http/chunked_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace espalier::net {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool token_byte(char c) {
  return valid_field_name(std::string_view(&c, 1));
}
bool text_byte(char c) {
  return valid_field_value(std::string_view(&c, 1));
}

HttpError bad_chunk() {
  return malformed_request("the chunked body is malformed: a chunk is SIZE CRLF DATA CRLF");
}

}  // namespace

std::optional<HttpError> ChunkedReader::read(std::string_view& input, std::string& body) {
  while (!input.empty() && state_ != State::done) {
    if (state_ == State::data) {
      auto piece = input.substr(0, left_);
      body.append(piece);
      left_ -= piece.size();
      input.remove_prefix(piece.size());
      if (left_ == 0) state_ = State::data_cr;
    } else {
      if (auto refusal = step(input.front())) return refusal;
      input.remove_prefix(1);
    }
  }
  return std::nullopt;
}

std::optional<HttpError> ChunkedReader::step(char byte) {
  switch (state_) {
    case State::size:
      return size_byte(byte);
    case State::extension:
      if (byte == '\r') {
        state_ = State::size_lf;
      } else if (!text_byte(byte)) {
        return bad_chunk();
      } else if (++extension_bytes_ > limits_.chunk_extension_bytes) {
        return malformed_request(
            fmt::format("a chunk extension is longer than {} bytes", limits_.chunk_extension_bytes));
      }
      return std::nullopt;
    case State::size_lf:
      if (byte != '\n') return bad_chunk();
      return end_of_size_line();
    case State::data_cr:
      if (byte != '\r') return bad_chunk();
      state_ = State::data_lf;
      return std::nullopt;
    case State::data_lf:
      if (byte != '\n') return bad_chunk();
      state_ = State::size;
      return std::nullopt;
    default:
      return trailer_byte(byte);
  }
}

std::optional<HttpError> ChunkedReader::size_byte(char byte) {
  if (int value = hex_value(byte); value >= 0) {
    if (++digits_ > limits_.chunk_line_bytes) {
      return malformed_request(fmt::format("a chunk-size line is longer than {} bytes", limits_.chunk_line_bytes));
    }
    std::uint64_t room = limits_.body_bytes - body_bytes_;
    auto digit = static_cast<std::uint64_t>(value);
    if (size_ > room / 16 || digit > room - size_ * 16) return body_too_large(limits_.body_bytes);  // nothing wraps
    size_ = size_ * 16 + digit;
    return std::nullopt;
  }
  if (digits_ == 0 || (byte != ';' && byte != '\r')) return bad_chunk();
  extension_bytes_ = 1;
  state_ = byte == ';' ? State::extension : State::size_lf;
  return std::nullopt;
}

std::optional<HttpError> ChunkedReader::end_of_size_line() {
  left_ = std::exchange(size_, 0);
  digits_ = 0;
  body_bytes_ += left_;
  state_ = left_ == 0 ? State::trailer_line : State::data;
  return std::nullopt;
}

std::optional<HttpError> ChunkedReader::trailer_byte(char byte) {
  if (state_ == State::last_lf) {
    if (byte != '\n') return bad_chunk();
    state_ = State::done;
    return std::nullopt;
  }
  if (state_ == State::trailer_line && byte == '\r') {
    state_ = State::last_lf;
    return std::nullopt;
  }
  if (++trailer_bytes_ > limits_.trailer_bytes) {
    return malformed_request(fmt::format("the trailer is longer than {} bytes", limits_.trailer_bytes));
  }
  switch (state_) {
    case State::trailer_line:
      if (++trailer_fields_ > limits_.header_count) {
        return malformed_request(fmt::format("the trailer has more than {} fields", limits_.header_count));
      }
      if (!token_byte(byte)) return bad_chunk();
      state_ = State::trailer_name;
      return std::nullopt;
    case State::trailer_name:
      if (byte == ':')
        state_ = State::trailer_value;
      else if (!token_byte(byte))
        return bad_chunk();
      return std::nullopt;
    case State::trailer_value:
      if (byte == '\r')
        state_ = State::trailer_lf;
      else if (!text_byte(byte))
        return bad_chunk();
      return std::nullopt;
    default:  // trailer_lf
      if (byte != '\n') return bad_chunk();
      state_ = State::trailer_line;
      return std::nullopt;
  }
}

}  // namespace espalier::net
