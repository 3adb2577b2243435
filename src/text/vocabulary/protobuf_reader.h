// protobuf_reader.h: the fields of one protobuf message, one after the other. Internal to text.
//
// Only the wire format is known here: numbers, fixed-width values and byte strings; what a field means is the caller's.
// Units:   bytes. Threads: one at a time. Its views live as long as the bytes it reads.
// Fails:   next() returns nothing at the end and when the bytes make no message; `broken` tells which.
// Source:  the protocol buffers encoding (groups, which nobody writes any more, are refused).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace espalier {

// A field as it stands in the message.
struct ProtobufField {
  std::uint64_t number = 0;
  enum class Wire { varint, fixed64, bytes, fixed32 } wire = Wire::varint;
  std::uint64_t value = 0;  // of a number; the bits of a fixed-width value
  std::string_view bytes;   // of a string or a message inside

  std::int64_t integer() const { return static_cast<std::int64_t>(value); }
  bool boolean() const { return value != 0; }
  float real() const { return std::bit_cast<float>(static_cast<std::uint32_t>(value)); }
};

// Walks through a message.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  std::optional<ProtobufField> next() {
    if (rest_.empty() || broken_) return std::nullopt;
    const auto tag = varint();
    if (!tag || *tag >> 3 == 0) return failed();
    ProtobufField field;
    field.number = *tag >> 3;
    switch (*tag & 7) {
      case 0:
        return number(field);
      case 1:
        return fixed(field, ProtobufField::Wire::fixed64, 8);
      case 2:
        return string(field);
      case 5:
        return fixed(field, ProtobufField::Wire::fixed32, 4);
      default:
        return failed();
    }
  }
  bool broken() const { return broken_; }

 private:
  std::nullopt_t failed() {
    broken_ = true;
    return std::nullopt;
  }

  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (rest_.empty()) return std::nullopt;
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7fu) << shift;
      if ((byte & 0x80u) == 0) return value;
    }
    return std::nullopt;
  }

  std::optional<ProtobufField> number(ProtobufField field) {
    const auto value = varint();
    if (!value) return failed();
    field.value = *value;
    return field;
  }

  std::optional<ProtobufField> fixed(ProtobufField field, ProtobufField::Wire wire, std::size_t size) {
    if (rest_.size() < size) return failed();
    field.wire = wire;
    for (std::size_t i = 0; i < size; ++i)
      field.value |= static_cast<std::uint64_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
    rest_.remove_prefix(size);
    return field;
  }

  std::optional<ProtobufField> string(ProtobufField field) {
    const auto size = varint();
    if (!size || *size > rest_.size()) return failed();
    field.wire = ProtobufField::Wire::bytes;
    field.bytes = rest_.substr(0, static_cast<std::size_t>(*size));
    rest_.remove_prefix(static_cast<std::size_t>(*size));
    return field;
  }

  std::string_view rest_;
  bool broken_ = false;
};

}  // namespace espalier
