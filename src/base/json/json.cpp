#include "base/json/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/json/checkpoint_json.h"
#include "base/json/json_text.h"
#include "base/threads/yield_to_model.h"

namespace espalier {
namespace {

struct Bad {  // where the text stopped making sense, and what would have
  std::size_t offset;
  std::string expected;
};

constexpr std::size_t kBetweenLooks = 64;  // at the clock, in values
constexpr int kTextDepth = 1000;           // of what stays text, from the document on

// An iterative parser: each open container gathers its members in a level of its own, and levels are used again.
class Parser {
 public:
  // `as_python`: with what checkpoint_json.h allows.
  Parser(std::string_view text, const JsonLimits& limits, bool as_python = false)
      : begin_(text.data()), at_(begin_), end_(begin_ + text.size()), limits_(limits), as_python_(as_python) {
    if (!limits_.places.empty()) level().place = 0;
    if (as_python_ && text.starts_with(kByteOrderMark)) at_ += kByteOrderMark.size();
  }

  Result<Json> run() {
    if (document()) return std::move(levels_.front().values.front());
    const char* stop = begin_ + bad_.offset;
    const std::string found = stop >= end_ ? "the end of the text" : shown_from(stop);
    return bad_request(fmt::format("JSON, byte {}: expected {}, found {}", bad_.offset, bad_.expected, found));
  }

 private:
  struct Key {
    std::string text;
    std::size_t offset;
  };
  struct Level {  // of depth 0 is the document, which has one value
    bool object = false;
    int place = JsonStep::nowhere;  // limits_.places
    std::vector<Key> keys;          // of an object; one ahead of the values while a member is being read
    std::vector<Json> values;
  };

  Level& level() { return levels_[open_]; }
  template <class Value>
  bool put(Value&& made) {
    if (text_ == nullptr) level().values.emplace_back(std::forward<Value>(made));
    return true;
  }

  // Enough of what stands there to find it; numbers whole where they are not absurdly long.
  std::string shown_from(const char* stop) const {
    const char* last = stop;
    while (last < end_ && (is_digit(*last) || std::strchr("+-.eE", *last) != nullptr) && *last != '\0') ++last;
    const bool digits = stop < end_ && (is_digit(*stop) || *stop == '-');
    if (digits) return in_quotes({stop, static_cast<std::size_t>(last - stop)}, 60);
    return in_quotes({stop, std::min<std::size_t>(end_ - stop, 12)});
  }

  bool fail(std::string expected, const char* where) {
    bad_ = {static_cast<std::size_t>(where - begin_), std::move(expected)};
    return false;
  }
  bool fail(std::string expected) { return fail(std::move(expected), at_); }

  void skip_space() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }
  bool take(char c) {
    if (at_ >= end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  bool document() {
    do {
      skip_space();
      if (!value() || !close_finished()) return false;
    } while (open_ > 0);
    skip_space();
    return at_ == end_ || fail("nothing after the document");
  }

  // After a value: either a ',' (and in an object the next key) or the ends of one or more containers.
  bool close_finished() {
    while (open_ > 0) {
      const bool object = level().object;
      if (fresh_) {  // just opened: the first element, or the end
        fresh_ = false;
        skip_space();
        if (!take(object ? '}' : ']')) return !object || key();
      } else {
        skip_space();
        if (take(',')) return !object || (skip_space(), key());
        if (!take(object ? '}' : ']')) return fail(object ? "',' or '}'" : "',' or ']'");
      }
      if (!(text_ != nullptr ? close_in_text() : object ? close_object() : close_array())) return false;
    }
    return true;
  }

  bool value() {
    if (++seen_ > limits_.values) return fail(fmt::format("at most {} values", limits_.values));
    if (seen_ % kBetweenLooks == 0 && !goes_on()) return fail("less than takes so long to read");
    if (at_ >= end_) return fail("a value");
    switch (*at_) {
      case '{':
      case '[':
        return open(*at_ == '{');
      case '"':
        return string_value();
      case 't':
        return literal("true", true);
      case 'f':
        return literal("false", false);
      case 'n':
        return literal("null", nullptr);
      case 'N':
        return as_python_ ? literal("NaN", std::numeric_limits<double>::quiet_NaN()) : fail("a value");
      case 'I':
        return as_python_ ? literal("Infinity", std::numeric_limits<double>::infinity()) : fail("a value");
      case '-':
        if (as_python_ && end_ - at_ > 1 && at_[1] == 'I')
          return literal("-Infinity", -std::numeric_limits<double>::infinity());
        return number();
      default:
        return number();
    }
  }

  bool goes_on() const {
    yield_to_model();
    return std::chrono::steady_clock::now() < limits_.until;
  }

  bool open(bool object) {
    const int place = text_ == nullptr ? place_of_value() : JsonStep::nowhere;
    const bool stays_text = object && place == JsonStep::as_text;
    if (stays_text) text_ = at_, text_around_ = open_;
    const int most = text_ == nullptr ? limits_.depth : std::max(limits_.depth, kTextDepth);
    if (open_ >= most) return fail(fmt::format("at most {} levels", most));
    ++at_;
    ++open_;
    if (levels_.size() <= static_cast<std::size_t>(open_)) levels_.emplace_back();
    level().object = object;
    level().place = place == JsonStep::as_text ? JsonStep::nowhere : place;
    fresh_ = true;
    return true;
  }

  int place_of_value() {
    const Level& around = level();
    if (!around.object || around.place < 0) return around.place;
    return json_place(limits_.places, around.place, around.keys.back().text);
  }

  // Of what stays text there are no values, and where it ends all of it is one.
  bool close_in_text() {
    --open_;
    if (open_ > text_around_) return true;
    return put(std::string(std::exchange(text_, nullptr), at_));
  }

  bool close_array() {
    auto& values = level().values;
    Json::array_t made;
    if (values.size() > 1024) {
      made = std::exchange(values, {});  // a large one keeps its memory, and perhaps some room it does not need
    } else {
      made.assign(std::make_move_iterator(values.begin()), std::make_move_iterator(values.end()));
      values.clear();
    }
    --open_;
    return put(std::move(made));
  }

  bool close_object() {
    Level& top = level();
    if (limits_.repeated_keys)
      drop_replaced(top);
    else if (!keys_unique(top.keys))
      return false;
    Json::object_t made;
    made.reserve(top.values.size());
    for (std::size_t i = 0; i < top.values.size(); ++i) {  // the vector's own emplace_back: no search for the key
      made.emplace_back(std::move(top.keys[i].text), std::move(top.values[i]));
    }
    top.keys.clear();
    top.values.clear();
    --open_;
    return put(std::move(made));
  }

  // Members of which the key comes again.
  static void drop_replaced(Level& members) {
    const std::vector<Key>& keys = members.keys;
    std::vector<std::size_t> order(keys.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) -> const std::string& { return keys[i].text; });
    std::vector<std::size_t> last;
    for (std::size_t i = 0; i < order.size(); ++i)
      if (i + 1 == order.size() || keys[order[i]].text != keys[order[i + 1]].text) last.push_back(order[i]);
    if (last.size() == keys.size()) return;
    std::ranges::sort(last);
    for (std::size_t i = 0; i < last.size(); ++i) {
      if (last[i] == i) continue;
      members.keys[i] = std::move(members.keys[last[i]]);
      members.values[i] = std::move(members.values[last[i]]);
    }
    members.keys.resize(last.size());
    members.values.resize(last.size());
  }

  bool keys_unique(const std::vector<Key>& keys) {
    const auto repeated = [&](const Key& again) {
      return fail("a key that the object does not have yet", begin_ + again.offset);
    };
    if (keys.size() > 16) return sorted_keys_unique(keys, repeated);
    for (std::size_t i = 1; i < keys.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (keys[i].text == keys[j].text) return repeated(keys[i]);
      }
    }
    return true;
  }

  // By sorting hashes and then texts: nobody can choose keys that make this slow, as a hash table's could be.
  template <class Repeated>
  bool sorted_keys_unique(const std::vector<Key>& keys, Repeated&& repeated) {
    struct Hashed {
      std::size_t hash, index;
    };
    std::vector<Hashed> order;
    order.reserve(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) order.push_back({std::hash<std::string>()(keys[i].text), i});
    std::sort(order.begin(), order.end(), [&](Hashed a, Hashed b) {
      if (a.hash != b.hash) return a.hash < b.hash;
      const int texts = keys[a.index].text.compare(keys[b.index].text);
      return texts != 0 ? texts < 0 : a.index < b.index;
    });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const Key &before = keys[order[i - 1].index], &again = keys[order[i].index];
      if (order[i - 1].hash == order[i].hash && before.text == again.text) return repeated(again);
    }
    return true;
  }

  bool key() {
    const auto offset = static_cast<std::size_t>(at_ - begin_);
    if (at_ >= end_ || *at_ != '"') return fail("a key in double quotes");
    auto& keys = level().keys;
    if (text_ == nullptr) keys.push_back({{}, offset});
    std::string passed;
    if (!string(text_ == nullptr ? keys.back().text : passed)) return false;
    skip_space();
    return take(':') || fail("':' after the key");
  }

  bool string_value() {
    std::string text;
    return string(text) && put(std::move(text));
  }

  template <class Value>
  bool literal(std::string_view word, Value made) {
    if (static_cast<std::size_t>(end_ - at_) < word.size() || std::memcmp(at_, word.data(), word.size()) != 0) {
      return fail("a value");
    }
    at_ += word.size();
    return put(made);
  }

  // --- strings ---

  bool string(std::string& out) {
    const char* opening = at_++;
    while (true) {
      const char* run = at_;
      while (end_ - at_ >= 8) {
        std::uint64_t bytes;
        std::memcpy(&bytes, at_, 8);
        if (has_special(bytes)) break;
        at_ += 8;
      }
      while (at_ < end_ && static_cast<signed char>(*at_) >= 0x20 && *at_ != '"' && *at_ != '\\') ++at_;
      if (at_ < end_ && *at_ == '"') {  // the usual whole string: one allocation
        if (text_ == nullptr) out.append(run, at_);
        ++at_;
        return true;
      }
      if (at_ >= end_) return fail("a closing quote of the string", opening);
      while (at_ < end_ && static_cast<unsigned char>(*at_) >= 0x80) {
        if (!skip_utf8()) return false;
      }
      if (text_ == nullptr) out.append(run, at_);
      if (at_ < end_ && *at_ == '\\' && !escape(out)) return false;
      if (at_ < end_ && static_cast<unsigned char>(*at_) < 0x20) return fail("no control character inside a string");
    }
  }

  bool skip_utf8() {
    const int length = utf8_sequence(at_, end_);
    at_ += length;
    return length > 0 || fail("valid UTF-8");
  }

  bool escape(std::string& out) {
    const char* start = at_++;
    const char kind = at_ < end_ ? *at_++ : '\0';
    constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
    if (const auto i = from.find(kind); kind != '\0' && i != std::string_view::npos) {
      out.push_back(to[i]);
      return true;
    }
    if (kind != 'u') return fail("one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u", start);
    std::uint32_t code = 0;
    if (!four_hex(code)) return false;
    if (code >= 0xd800 && code <= 0xdbff && end_ - at_ >= 2 && at_[0] == '\\' && at_[1] == 'u') {
      std::uint32_t low = 0;
      at_ += 2;
      if (!four_hex(low)) return false;
      if (low < 0xdc00 || low > 0xdfff) return fail("a low surrogate after a high one", start);
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code >= 0xd800 && code <= 0xdfff) return fail("surrogates in pairs only", start);
    append_utf8(out, code);
    return true;
  }

  bool four_hex(std::uint32_t& code) {
    if (end_ - at_ < 4) return fail("four hexadecimal digits");
    const auto [stop, error] = std::from_chars(at_, at_ + 4, code, 16);
    if (error != std::errc() || stop != at_ + 4) return fail("four hexadecimal digits");
    at_ += 4;
    return true;
  }

  // --- numbers ---

  bool number() {
    const char* start = at_;
    take('-');
    const char* digits = at_;
    if (at_ >= end_ || !is_digit(*at_)) return fail("a value", start);
    while (at_ < end_ && is_digit(*at_)) ++at_;
    if (*digits == '0' && at_ - digits > 1) return fail("a number without leading zeros", start);
    bool integer = true;
    if (take('.')) {
      integer = false;
      if (at_ >= end_ || !is_digit(*at_)) return fail("a digit after the decimal point");
      while (at_ < end_ && is_digit(*at_)) ++at_;
    }
    if (at_ < end_ && (*at_ == 'e' || *at_ == 'E')) {
      integer = false;
      ++at_;
      if (!take('+')) take('-');
      if (at_ >= end_ || !is_digit(*at_)) return fail("a digit in the exponent");
      while (at_ < end_ && is_digit(*at_)) ++at_;
    }
    if (static_cast<std::size_t>(at_ - start) > limits_.number_characters) {
      return fail(fmt::format("a number of at most {} characters", limits_.number_characters), start);
    }
    return text_ != nullptr || (integer ? integer_value(start) : float_value(start));
  }

  bool integer_value(const char* start) {
    if (*start == '-') {
      std::int64_t made = 0;
      if (std::from_chars(start, at_, made).ec != std::errc())
        return wide_integer(start, "an integer of at least -2^63");
      return put(made);
    }
    std::uint64_t made = 0;
    if (std::from_chars(start, at_, made).ec != std::errc()) return wide_integer(start, "an integer below 2^64");
    return put(made);
  }

  bool wide_integer(const char* start, const char* otherwise) {
    return limits_.wide_integers ? float_value(start) : fail(otherwise, start);
  }

  // Every decimal of 15 digits is the shortest one of some double, while it is neither huge nor tiny.
  bool fits_double(const char* start, double made) const {
    constexpr std::ptrdiff_t kSafeDigits = 15;
    const char* last = start;
    while (last < at_ && *last != 'e' && *last != 'E') ++last;
    const char* first = start;
    while (first < last && (*first == '-' || *first == '0' || *first == '.')) ++first;
    const double size = std::abs(made);
    return first == last || (std::count_if(first, last, is_digit) <= kSafeDigits && size > 1e-300 && size < 1e300);
  }

  bool float_value(const char* start) {
    double made = 0;
    if (limits_.exact_numbers) {
      const auto [end, error] = std::from_chars(start, at_, made);
      if (error != std::errc() || !fits_double(start, made)) {
        return put(Json::binary_t(std::vector<std::uint8_t>(start, at_)));
      }
    }
    if (std::from_chars(start, at_, made).ec != std::errc()) {
      if (exceeds_one(start, at_)) return fail("a number that fits a double", start);
      made = *start == '-' ? -0.0 : 0.0;  // too small to tell from zero
    }
    return put(made);
  }

  const char* begin_;
  const char* at_;
  const char* end_;
  JsonLimits limits_;
  const bool as_python_;
  std::vector<Level> levels_ = std::vector<Level>(1);
  int open_ = 0;                // arrays and objects whose end has not come
  std::size_t seen_ = 0;        // values begun
  bool fresh_ = false;          // the last thing read opened a container
  const char* text_ = nullptr;  // where what stays text began, while it is read
  int text_around_ = 0;         // open_ around it
  Bad bad_{};
};

}  // namespace

int json_place(std::span<const JsonStep> steps, int from, std::string_view key) {
  for (const JsonStep& step : steps)
    if (step.from == from && step.key == key) return step.to;
  return JsonStep::nowhere;
}

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  return Parser(text, limits).run();
}

Result<Json> parse_checkpoint_json(std::string_view text, const JsonLimits& limits) {
  return Parser(text, limits, true).run();
}

std::string in_quotes(std::string_view text, std::size_t most) {
  const bool cut = text.size() > most;
  std::string out = Json(std::string(text.substr(0, most))).dump(-1, ' ', false, Json::error_handler_t::replace);
  return cut ? out + "..." : out;
}

namespace {

// The library writes one double in two thousand with a digit too many: 35650346.6886 as 35650346.688600004.
std::string shortest_text(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string number_text(const Json& value) {
  if (!value.is_number_float()) return value.dump();
  const double number = value.get<double>();
  const double size = std::abs(number);  // 2^63: below it a whole double was written with a point or an exponent
  return size >= 0x1p63 && size < 1e40 ? fmt::format("{:.0f}", number) : shortest_text(number);
}

std::string written_number(const Json& value) {
  if (value.is_binary()) return {value.get_binary().begin(), value.get_binary().end()};
  if (value.is_number_float()) return shortest_text(value.get<double>());
  return value.is_number() ? value.dump() : std::string();
}

namespace {

// The library does not write it as written_number() does.
bool is_other_number(const Json& value) {
  return value.is_binary() || value.is_number_float();
}

bool has_other_numbers(const Json& value) {
  return is_other_number(value) || (value.is_structured() && std::ranges::any_of(value, has_other_numbers));
}

void add_text(const Json& value, std::string& text) {
  if (!value.is_structured() || value.empty()) {
    text += is_other_number(value) ? written_number(value) : value.dump();
    return;
  }
  text += value.is_object() ? '{' : '[';
  bool first = true;
  for (const auto& [name, part] : value.items()) {
    if (!std::exchange(first, false)) text += ',';
    if (value.is_object()) text += Json(name).dump() + ':';
    add_text(part, text);
  }
  text += value.is_object() ? '}' : ']';
}

}  // namespace

std::string json_text(const Json& value) {
  if (!has_other_numbers(value)) return value.dump();
  std::string text;
  add_text(value, text);
  return text;
}

void forget(Json value) {
  std::vector<Json> inner;
  inner.push_back(std::move(value));
  std::size_t freed = 0;
  const auto take_apart = [&](auto& parts, const auto& value_of) {
    while (!parts.empty()) {
      if (++freed % kBetweenLooks == 0) yield_to_model();
      if (Json& last = value_of(parts.back()); last.is_structured()) inner.push_back(std::move(last));
      parts.pop_back();
    }
  };
  while (!inner.empty()) {
    Json last = std::move(inner.back());
    inner.pop_back();
    if (last.is_array()) take_apart(last.get_ref<Json::array_t&>(), [](Json& part) -> Json& { return part; });
    if (last.is_object()) take_apart(last.get_ref<Json::object_t&>(), [](auto& part) -> Json& { return part.second; });
  }
}

Result<> round_numbers(Json& value) {
  if (value.is_binary()) {
    ESP_TRY(value, parse_json(written_number(value)));
    return success();
  }
  if (!value.is_structured()) return success();
  for (Json& part : value) {  // most are single values, as the ids of a long prompt: no call for each
    if (part.is_binary() || part.is_structured()) ESP_CHECK(round_numbers(part));
  }
  return success();
}

std::string_view type_name(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      return "object";
    case Json::value_t::array:
      return "array";
    case Json::value_t::string:
      return "string";
    case Json::value_t::boolean:
      return "boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "integer";
    case Json::value_t::number_float:
    case Json::value_t::binary:  // a written number
      return "number";
    default:
      return "null";
  }
}

}  // namespace espalier
