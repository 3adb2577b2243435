// msgpack_writer.h: values as MessagePack, as many kinds as cache events need.
// Threads: a value. Fails: never. Source: the MessagePack specification.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace espalier::server {

// Appends one value after the other; who opens an array or a map of n writes its n values, or pairs, behind it.
class MsgpackWriter {
 public:
  void array(std::size_t n) { sized(n, 0x90, 16, 0xdc); }
  void map(std::size_t n) { sized(n, 0x80, 16, 0xde); }
  void nil() { byte(0xc0); }
  void number(double value) {
    byte(0xcb);
    bytes(std::bit_cast<std::uint64_t>(value), 8);
  }
  void whole(std::uint64_t value) {
    if (value < 0x80) return byte(value);
    if (value <= 0xff) return tagged(0xcc, value, 1);
    if (value <= 0xffff) return tagged(0xcd, value, 2);
    if (value <= 0xffffffff) return tagged(0xce, value, 4);
    tagged(0xcf, value, 8);
  }
  void text(std::string_view value) {
    if (value.size() < 32)
      byte(0xa0 | value.size());
    else if (value.size() <= 0xff)
      tagged(0xd9, value.size(), 1);
    else if (value.size() <= 0xffff)
      tagged(0xda, value.size(), 2);
    else
      tagged(0xdb, value.size(), 4);
    out_ += value;
  }
  std::string take() { return std::move(out_); }

 private:
  void byte(std::uint64_t value) { out_ += static_cast<char>(value); }
  void bytes(std::uint64_t value, int count) {  // the highest first
    while (count-- > 0) byte(value >> (8 * count) & 0xff);
  }
  void tagged(std::uint64_t tag, std::uint64_t value, int count) {
    byte(tag);
    bytes(value, count);
  }
  void sized(std::size_t n, std::uint64_t few, std::size_t most, std::uint64_t tag16) {
    if (n < most) return byte(few | n);
    if (n <= 0xffff) return tagged(tag16, n, 2);
    tagged(tag16 + 1, n, 4);
  }

  std::string out_;
};

}  // namespace espalier::server
