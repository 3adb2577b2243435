// field_table.h: one row per field of a body: name, where its value goes, range, default and meaning.
//
// The rows drive validation, the list of known names (all others are unknown fields), and docs/http.md.
// A field that is absent or null keeps the default that its target has. Nothing is converted: "1" is not 1.
// Threads: pure functions over constant tables.
// Fails:   bad_request naming the field by its path, what was wanted and what was found.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json/json_fields.h"
#include "espalier/types.h"

namespace espalier::server {

struct FieldRange {  // both ends included, unless the low end is excluded
  double low = -std::numeric_limits<double>::max(), high = std::numeric_limits<double>::max();
  bool above_low = false;
};

// For what no plain type describes: reads `value`, which is not null and stands at `place`.
template <class T>
using FieldReader = Result<> (*)(T& out, const Json& value, std::string_view place);

template <class T>
using FieldTarget = std::variant<bool T::*, int T::*, double T::*, std::string T::*, std::optional<bool> T::*,
                                 std::optional<int> T::*, std::optional<double> T::*, std::optional<std::string> T::*,
                                 std::vector<TokenId> T::*, FieldReader<T>>;

// One field of a body whose values go to a T.
template <class T>
struct FieldRow {
  std::string_view name;
  FieldTarget<T> target;
  std::string_view initial;  // the default, in words
  std::string_view meaning;
  FieldRange range = {};
};

// A field that this version does not honour: refused when it is set to something that would matter.
struct RefusedField {
  std::string_view name;
  std::string_view why;     // a sentence's end, after "NAME ": "is not supported yet; ..."
  bool even_empty = false;  // its presence asks for something already: {} means all defaults
};

Result<int> as_int(const Json& value, std::string_view place, FieldRange range);
Result<bool> as_bool(const Json& value, std::string_view place);
Result<std::vector<TokenId>> as_token_ids(const Json& value, std::string_view place);
// A string, or a list of strings.
Result<std::vector<std::string>> as_strings(const Json& value, std::string_view place);

// What a client may name its own things with, in bytes: requests, sessions, pins; salts, users.
inline constexpr std::size_t kMostIdBytes = 128, kMostSaltBytes = 1024;
Result<std::string> as_short_string(const Json& value, std::string_view place, std::size_t most);
// "" when the field is absent or null.
Result<std::string> find_short_string(const Json& object, std::string_view name, std::size_t most);

// The reader of a row whose string has such a limit.
template <class T, std::string T::* kMember, std::size_t kMost>
Result<> read_short(T& out, const Json& value, std::string_view place) {
  ESP_TRY(out.*kMember, as_short_string(value, place, kMost));
  return success();
}

// lora_path: an adapter's name, or a list with one or null for each prompt. NamedAdapters reads it before the route does.
Result<> check_adapter_names(const Json& value, std::string_view place);
template <class T>
Result<> read_adapter_names(T&, const Json& value, std::string_view place) {
  return check_adapter_names(value, place);
}
// The row of it where a body has one prompt.
template <class T>
inline constexpr FieldRow<T> kAdapterRow = {"lora_path", &read_adapter_names<T>, "none", "a loaded adapter's name"};

// Whether a value asks for anything: null, false, 0, "", [] and {} do not.
bool asks_for_something(const Json& value);
Result<> check_refused(const Json& object, std::span<const RefusedField> rows, std::string_view parent = {});

// Checks one field's value and stores it where the row says.
template <class T>
struct FieldStore {
  T& out;
  const Json& value;
  const std::string& place;
  FieldRange range;

  Result<> operator()(FieldReader<T> reader) const { return reader(out, value, place); }
  template <class V>
  Result<> operator()(V T::* member) const {
    return store(out.*member);
  }

 private:
  template <class V>
  Result<> store(std::optional<V>& target) const {
    V plain{};
    ESP_CHECK(store(plain));
    target = std::move(plain);
    return success();
  }
  Result<> store(bool& target) const { return assign(target, as_bool(value, place)); }
  Result<> store(int& target) const { return assign(target, as_int(value, place, range)); }
  Result<> store(double& target) const {
    return assign(target, as_number(value, place, {range.low, range.high, range.above_low}));
  }
  Result<> store(std::string& target) const { return assign(target, as_string(value, place)); }
  Result<> store(std::vector<TokenId>& target) const { return assign(target, as_token_ids(value, place)); }
  template <class V>
  static Result<> assign(V& target, Result<V> read) {
    if (!read) return std::move(read).error();
    target = std::move(read).value();
    return success();
  }
};

template <class T>
Result<> read_fields(const Json& object, std::span<const FieldRow<T>> rows, T& out, std::string_view parent = {}) {
  for (const auto& row : rows) {
    const Json* value = find_field(object, row.name);
    if (value == nullptr) continue;
    const std::string place = JsonField(row.name, parent).path();
    ESP_CHECK(std::visit(FieldStore<T>{out, *value, place, row.range}, row.target));
  }
  return success();
}

// Collects names of tables, to tell unknown fields.
class KnownNames {
 public:
  template <class Row>
  KnownNames& with(std::span<const Row> rows) {
    for (const auto& row : rows) names_.push_back(row.name);
    return *this;
  }
  KnownNames& with(std::span<const std::string_view> names) {
    names_.insert(names_.end(), names.begin(), names.end());
    return *this;
  }
  KnownNames& with(std::initializer_list<std::string_view> names) {
    names_.insert(names_.end(), names.begin(), names.end());
    return *this;
  }
  std::vector<std::string> unknown_in(const Json& object) const;

 private:
  std::vector<std::string_view> names_;
};

}  // namespace espalier::server
