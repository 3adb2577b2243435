// json_fields.h: fields out of a JSON object, with the type and range they must have.
//
// get_*  the field must be there.   find_*  nullopt (or nullptr) when it is absent or null.
// No value is ever converted: 1 is not true, "1" is not 1, 1.0 is not an integer (an integer is a number, though).
// Threads: pure functions; returned pointers and views live as long as the object.
// Fails:   Error::bad_request with the field's path, saying what was wanted and what was found. Readers of files turn
//          it into Error::bad_file with in_file().
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/json/json.h"

namespace espalier {

// A field's name and, for messages, the place of the object it is in: {"role", "messages[2]"} is messages[2].role.
struct JsonField {
  std::string_view name;
  std::string_view parent = {};

  JsonField(const char* n) : name(n) {}
  JsonField(std::string_view n, std::string_view p = {}) : name(n), parent(p) {}
  std::string path() const;
};

struct IntegerRange {  // both ends included
  std::int64_t low = std::numeric_limits<std::int64_t>::min(), high = std::numeric_limits<std::int64_t>::max();
};
struct NumberRange {  // both ends included, unless the low end is excluded
  double low = -std::numeric_limits<double>::max(), high = std::numeric_limits<double>::max();
  bool above_low = false;
};

Result<std::string> get_string(const Json& object, JsonField field);
Result<bool> get_boolean(const Json& object, JsonField field);
Result<std::int64_t> get_integer(const Json& object, JsonField field, IntegerRange range = {});
Result<double> get_number(const Json& object, JsonField field, NumberRange range = {});
Result<const Json*> get_array(const Json& object, JsonField field);
Result<const Json*> get_object(const Json& object, JsonField field);

Result<std::optional<std::string>> find_string(const Json& object, JsonField field);
Result<std::optional<bool>> find_boolean(const Json& object, JsonField field);
Result<std::optional<std::int64_t>> find_integer(const Json& object, JsonField field, IntegerRange range = {});
Result<std::optional<double>> find_number(const Json& object, JsonField field, NumberRange range = {});
Result<const Json*> find_array(const Json& object, JsonField field);
Result<const Json*> find_object(const Json& object, JsonField field);

// The field whatever its type; nullptr when it is absent or null, or when `object` is no object.
const Json* find_field(const Json& object, std::string_view name);

// For counts that a server tells or does not: 0 when the field is no integer of 64 bits, or is not there.
std::int64_t integer_or_zero(const Json& object, std::string_view name);
// For words that a server tells or does not: empty when the field is no string, or is not there.
std::string text_or_empty(const Json& object, std::string_view name);

bool is_numbers(const Json& value);  // a number, or lists of such, none of them empty

// One value that stands under no name of its own, such as an element of an array; `place` as messages should call it.
Result<std::int64_t> as_integer(const Json& value, std::string_view place, IntegerRange range = {});
Result<double> as_number(const Json& value, std::string_view place, NumberRange range = {});
Result<std::string> as_string(const Json& value, std::string_view place);

// The same Error as one of kind bad_file whose sentence begins with the file's name.
Error in_file(Error error, std::string_view file);  // but for a lack of memory

}  // namespace espalier
