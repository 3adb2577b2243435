// gguf_metadata.h: the typed key-value pairs at the head of a GGUF file.
//
// get_*  the key must be there.   find_*  nullopt when it is absent.
// Integers of every width are one kind, an integer is also a number; nothing else is converted.
// Threads: const calls from any thread. Strings are views into the mapped file and live as long as it does.
// Fails:   Error::bad_file that names the file and the key (also in `field`), what was wanted and what is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json_fields.h"  // IntegerRange, NumberRange
#include "espalier/error.h"
#include "tensor/file/name_index.h"

namespace espalier {

enum class GgufType : std::uint8_t {  // numbered as in files
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};

std::string_view name(GgufType type);  // "u8", "bool", "string", "array"

// One value as it lies in the file, already checked: booleans are 0 or 1, strings end where they say, arrays hold
// `count` elements of one type that is not itself an array.
struct GgufValue {
  std::string_view key = {};
  GgufType type = GgufType::u8;           // array or the scalar's type
  GgufType element = GgufType::u8;        // of an array; else the same as `type`
  std::uint64_t count = 1;                // of an array
  std::span<const std::byte> bytes = {};  // of the elements; each string is a u64 length and its bytes
};

// The pairs of one file, asked for by key and type.
class GgufMetadata {
 public:
  GgufMetadata() = default;
  GgufMetadata(std::string file, std::vector<GgufValue> entries);  // Requires: keys differ

  const std::string& file() const { return file_; }  // its name, for messages
  const std::vector<GgufValue>& entries() const { return entries_; }
  const GgufValue* find(std::string_view key) const;

  Result<std::int64_t> get_integer(std::string_view key, IntegerRange range = {}) const;
  Result<double> get_number(std::string_view key, NumberRange range = {}) const;
  Result<bool> get_boolean(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::vector<std::string_view>> get_strings(std::string_view key) const;
  Result<std::vector<std::int64_t>> get_integers(std::string_view key) const;
  Result<std::vector<float>> get_floats(std::string_view key) const;

  Result<std::optional<std::int64_t>> find_integer(std::string_view key, IntegerRange range = {}) const;
  Result<std::optional<double>> find_number(std::string_view key, NumberRange range = {}) const;
  Result<std::optional<bool>> find_boolean(std::string_view key) const;
  Result<std::optional<std::string_view>> find_string(std::string_view key) const;

  // The number of elements of an array, whatever they are.
  Result<std::uint64_t> get_count(std::string_view key) const;

 private:
  Error wrong(std::string_view key, std::string_view wanted, std::string_view found) const;
  Result<const GgufValue*> required(std::string_view key) const;
  Result<const GgufValue*> required_array(std::string_view key) const;

  std::string file_;
  std::vector<GgufValue> entries_;  // in file order
  NameIndex index_;
};

// For `espalier inspect`: one line that shows the value, long strings and arrays cut.
std::string shown(const GgufValue& value, std::size_t most = 60);

}  // namespace espalier
