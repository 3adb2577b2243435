#include "base/sockets/wire_fields.h"

namespace espalier {

WireWriter& WireWriter::number(std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i));
  return *this;
}

WireWriter& WireWriter::text(std::string_view value) {
  const std::string_view kept = value.substr(0, 0xffff);
  number(kept.size(), 2);
  bytes += kept;
  return *this;
}

std::string_view WireReader::take(std::size_t count) {
  if (count > left_.size()) bad_ = true;
  if (bad_) return {};
  const std::string_view taken = left_.substr(0, count);
  left_.remove_prefix(count);
  return taken;
}

std::uint64_t WireReader::number(int count) {
  std::uint64_t value = 0;
  int at = 0;
  for (const char byte : take(static_cast<std::size_t>(count)))
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(byte)) << (8 * at++);
  return value;
}

std::string WireReader::text(std::size_t most) {
  const std::size_t length = number(2);
  if (length > most) bad_ = true;
  return std::string(take(length));
}

}  // namespace espalier
