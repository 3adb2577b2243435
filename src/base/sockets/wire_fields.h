// wire_fields.h: numbers and short texts as they lie in messages between processes.
// Threads: one owner each. Units: bytes. Fails: a reader says bad(), and gives zeros from then on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace espalier {

// Writes numbers, the lowest byte first, and short texts behind their length.
class WireWriter {
 public:
  WireWriter& number(std::uint64_t value, int bytes);
  WireWriter& text(std::string_view value);
  std::string bytes;
};

// Reads them back. What is not there is 0 or "", and bad() from then on.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : left_(bytes) {}
  std::uint64_t number(int bytes);
  std::string text(std::size_t most);
  std::string_view take(std::size_t bytes);
  bool bad() const { return bad_; }
  bool done() const { return !bad_ && left_.empty(); }

 private:
  std::string_view left_;
  bool bad_ = false;
};

}  // namespace espalier
