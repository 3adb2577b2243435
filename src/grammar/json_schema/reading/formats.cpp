#include "grammar/json_schema/reading/formats.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace espalier::grammar {
namespace {

using Text = std::string;

// RFC 3339. Days are right for their month, leap years included; a leap second only at 23:59:60 UTC.
Text date() {
  const Text leap = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
  const Text day =
      "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
      "02-(?:0[1-9]|1[0-9]|2[0-8]))";
  return "(?:[0-9]{4}-" + day + "|" + leap + "-02-29)";
}

constexpr const char* kHourAndMinute = "(?:[01][0-9]|2[0-3]):[0-5][0-9]";

Text clock_of(const Text& seconds) {
  return Text(kHourAndMinute) + ":" + seconds + "(?:\\.[0-9]+)?";
}
Text zone() {
  return Text("(?:[Zz]|[+-]") + kHourAndMinute + ")";
}

// Local times of 23:59:60 UTC, each with its offset: 1,440 pairs, told by their digits one at a time.
class LeapSecond {
 public:
  static Text everywhere() { return "(?:23:59" + seconds() + "[Zz]|" + west() + "|" + east() + ")"; }

 private:
  static Text seconds() { return ":60(?:\\.[0-9]+)?"; }
  // That behind `from`, and what comes between, the offset has `to`.
  struct Pair {
    Text from, to;
  };
  static Text where(const Text& before, const std::vector<Pair>& pairs, const Text& between) {
    Text ways;
    for (const auto& [from, to] : pairs) ways += (ways.empty() ? "" : "|") + from + between + to;
    return "(?=" + before + "(?:" + ways + "))";
  }
  static Text digit(int value) { return std::to_string(value % 10); }
  // Each of the first digits, with the one that `to` makes of it.
  static std::vector<Pair> digits(int count, int (*to)(int)) {
    std::vector<Pair> pairs;
    for (int value = 0; value < count; ++value) pairs.push_back({digit(value), digit(to(value))});
    return pairs;
  }

  // The offset is 23:59 less the local time.
  static Text west() {
    const Text end = seconds() + "-", minute = ":[0-5][0-9]";
    return where("", {{"0[0-3]", "2"}, {"(?:0[4-9]|1[0-3])", "1"}, {"(?:1[4-9]|2[0-3])", "0"}}, minute + end) +
           where("[0-9]", digits(10, [](int d) { return 13 - d; }), minute + end + "[0-9]") +
           where("[0-9]{2}:", digits(6, [](int d) { return 5 - d; }), "[0-9]" + end + "[0-9]{2}:") +
           where("[0-9]{2}:[0-5]", digits(10, [](int d) { return 9 - d; }), end + "[0-9]{2}:[0-5]") + kHourAndMinute +
           end + kHourAndMinute;
  }
  // The offset is the local time and one minute.
  static Text east() {
    const Text end = seconds() + "\\+", early = ":(?:[0-4][0-9]|5[0-8])";
    std::vector<Pair> tens, late_hours;
    for (int d = 0; d < 6; ++d) tens.push_back({"(?:" + digit(d) + "[0-8]|" + digit((d + 5) % 6) + "9)", digit(d)});
    for (int hour = 0; hour < 24; ++hour) late_hours.push_back({two(hour), two((hour + 1) % 24)});
    const auto same = [](int d) { return d; };
    const Text hours = "(?:" + where("", digits(3, same), "[0-9]" + early + end) +
                       where("[0-9]", digits(10, same), early + end + "[0-9]") + "|" +
                       where("", late_hours, ":59" + end) + ")";
    return hours + where("[0-9]{2}:", tens, end + "[0-9]{2}:") +
           where("[0-9]{2}:[0-5]", digits(10, [](int d) { return d + 1; }), end + "[0-9]{2}:[0-5]") + kHourAndMinute +
           end + kHourAndMinute;
  }
  static Text two(int value) { return digit(value / 10) + digit(value); }
};

Text time() {
  return "(?:" + clock_of("[0-5][0-9]") + zone() + "|" + LeapSecond::everywhere() + ")";
}

Text duration() {
  const Text seconds = "[0-9]+S", minutes = "(?:[0-9]+M(?:[0-9]+S)?)", hours = "(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?)";
  const Text clock = "T(?:" + hours + "|" + minutes + "|" + seconds + ")";
  const Text days = "[0-9]+D", months = "(?:[0-9]+M(?:[0-9]+D)?)", years = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)";
  return "P(?:(?:" + days + "|" + months + "|" + years + ")(?:" + clock + ")?|" + clock + "|[0-9]+W)";
}

Text ipv4() {
  const Text byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return byte + "(?:\\." + byte + "){3}";
}

// RFC 4291, every place of the double colon.
Text ipv6() {
  const Text group = "[0-9A-Fa-f]{1,4}";
  const Text tail = "(?:" + group + ":" + group + "|" + ipv4() + ")";
  Text all = "(?:(?:" + group + ":){6}" + tail;
  for (int before = 0; before <= 5; ++before) {  // groups before the double colon, at most
    const Text left = before == 0 ? "" : "(?:" + group + "(?::" + group + "){0," + std::to_string(before - 1) + "})?";
    const int after = 5 - before;
    all += "|" + left + "::" + (after == 0 ? "" : "(?:" + group + ":){" + std::to_string(after) + "}") + tail;
  }
  all += "|(?:" + group + "(?::" + group + "){0,5})?::" + group;
  all += "|(?:" + group + "(?::" + group + "){0,6})?::)";
  return all;
}

// RFC 1123.
Text wide_hostname() {
  const Text label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return "(?=.{1,253}$)" + label + "(?:\\." + label + ")*";
}
// Names in ASCII of other scripts ("xn--...") are left out: which of them are valid no pattern says.
Text hostname() {
  return "(?!(?:.*\\.)?[Xx][Nn]--)" + wide_hostname();
}

// RFC 5890, of which these are offered: labels in ASCII, and short ones of letters that need no context: Latin, Greek,
// Cyrillic, kana, Han and Hangul. 11 characters of them have at most 63 bytes as ASCII, 50 characters at most 253.
Text idn_hostname() {
  const Text stop = "[.\\u3002\\uff0e\\uff61]";
  const Text letter =
      "a-z\\u00df-\\u00f6\\u00f8-\\u00ff\\u03ac-\\u03ce\\u0430-\\u045f\\u3041-\\u3096\\u30a1-\\u30fa\\u4e00-\\u9fa5"
      "\\uac00-\\ud7a3";
  const Text plain = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
  const Text short_hyphens = "(?!(?:.*" + stop + ")?..--)";
  const Text any = "(?:" + plain + "|[" + letter + "0-9]{1,11})";
  return short_hyphens + "(?:(?=.{1,253}$)" + plain + "(?:" + stop + plain + ")*|(?=.{1,50}$)" + any + "(?:" + stop +
         any + ")*)";
}

// A part of ECMA 262's patterns: groups (without names) up to three deep, ranges within digits or letters of one case,
// no references to groups, no counts {n,m} with n > 0.
class PatternSyntax {
 public:
  static Text whole(int depth) {
    const Text terms = term(depth) + "*";
    return terms + "(?:\\|" + terms + ")*";
  }

 private:
  static Text escape() {
    return "\\\\(?:[dDwWsSfnrtv^$\\\\.*+?()\\[\\]{}|/]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|c[A-Za-z])";
  }
  static Text ranges(char first, char last) {
    Text all;
    for (char low = first; low <= last; ++low) all += Text("|") + low + "-[" + low + "-" + last + "]";
    return all;
  }
  static Text atom() {
    const Text range = ranges('0', '9') + ranges('A', 'Z') + ranges('a', 'z');
    return "[^\\\\^$*+?()\\[\\]{}|]|" + escape() + "|\\[\\^?(?:[^\\\\\\]^-]|" + escape() + range + ")*\\]";
  }
  static Text term(int depth) {
    const Text quantifier = "(?:(?:[*+?]|\\{[0-9]{1,3},?\\}|\\{0,[0-9]{1,3}\\})\\?{0,1})?";
    Text repeated = atom(), all = "\\^|\\$|\\\\[bB]";
    if (depth > 0) {
      repeated += "|\\((?:\\?:)?" + whole(depth - 1) + "\\)";
      all += "|\\(\\?<?[=!]" + whole(depth - 1) + "\\)";
    }
    return "(?:" + all + "|(?:" + repeated + ")" + quantifier + ")";
  }
};

// RFC 3986 (or 3987 with `wide`, characters beyond ASCII).
struct Uri {
  explicit Uri(const Text& wide_characters) : wide(wide_characters) {}
  Text wide;
  Text plain(const Text& more) const { return "(?:[A-Za-z0-9._~!$&'()*+,;=" + more + wide + "-]|%[0-9A-Fa-f]{2})"; }
  Text path_character() const { return plain(":@"); }
  Text authority() const {
    const Text literal = "\\[(?:" + ipv6() + "|[vV][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]";
    return "(?:" + plain(":") + "*@)?(?:" + literal + "|" + plain("") + "*)(?::[0-9]*)?";
  }
  Text private_use() const {
    return wide.empty() ? "" : "\\u{e000}-\\u{f8ff}\\u{f0000}-\\u{ffffd}\\u{100000}-\\u{10fffd}";
  }
  Text tail() const { return "(?:\\?" + plain(":@/?" + private_use()) + "*)?(?:#" + plain(":@/?") + "*)?"; }
  Text path_after_authority() const { return "(?:/" + path_character() + "*)*"; }
  Text rooted() const { return "/(?:" + path_character() + "+(?:/" + path_character() + "*)*)?"; }
  Text rootless(const Text& first) const { return first + "+(?:/" + path_character() + "*)*"; }
  Text with_scheme() const {
    return "[A-Za-z][A-Za-z0-9+.-]*:(?://" + authority() + path_after_authority() + "|" + rooted() + "|" +
           rootless(path_character()) + "|)" + tail();
  }
  Text relative() const {
    return "(?://" + authority() + path_after_authority() + "|" + rooted() + "|" + rootless(plain("@")) + "|)" + tail();
  }
  Text reference() const { return "(?:" + with_scheme() + "|" + relative() + ")"; }
};

constexpr const char* kWide =
    "\\u{a0}-\\u{d7ff}\\u{f900}-\\u{fdcf}\\u{fdf0}-\\u{ffef}\\u{10000}-\\u{1fffd}"
    "\\u{20000}-\\u{2fffd}\\u{30000}-\\u{3fffd}\\u{e1000}-\\u{efffd}";

Text email(const Text& wide) {
  const Text atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~" + wide + "-]+";
  const Text quoted = "\"(?:[ !#-\\[\\]-~" + wide + "]|\\\\[ -~])*\"";
  const Text label = "[A-Za-z0-9" + wide + "](?:[A-Za-z0-9" + wide + "-]{0,61}[A-Za-z0-9" + wide + "])?";
  const Text domain = label + "(?:\\." + label + ")*";
  return "(?:" + atom + "(?:\\." + atom + ")*|" + quoted + ")@(?:" + domain + "|\\[(?:" + ipv4() + "|IPv6:" + ipv6() +
         ")\\])";
}

Text uri_template() {
  const Text name = "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*";
  const Text variable = name + "(?::[1-9][0-9]{0,3}|\\*)?";
  const Text literal = Text("(?:[!#$&-;=?-\\[\\]_a-z~") + kWide + "]|%[0-9A-Fa-f]{2})";
  return "(?:" + literal + "|\\{[+#./;?&=,!@|]?" + variable + "(?:," + variable + ")*\\})*";
}

Text whole(const Text& pattern) {
  return "^(?:" + pattern + ")$";
}

struct PartialFormat {
  std::string_view name;
  Text wide;
};

const std::vector<PartialFormat>& partial_formats() {
  static const std::vector<PartialFormat> formats{
      {"hostname", whole(wide_hostname())}, {"idn-hostname", "[^]*"}, {"regex", "[^]*"}};
  return formats;
}

std::unordered_map<std::string_view, Text> make_table() {
  const Text pointer = "(?:/(?:[^~/]|~[01])*)*";
  const Text uuid = "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}";
  std::unordered_map<std::string_view, Text> table{
      {"date", date()},
      {"time", time()},
      {"date-time", date() + "[Tt]" + time()},
      {"duration", duration()},
      {"ipv4", ipv4()},
      {"ipv6", ipv6()},
      {"hostname", hostname()},
      {"idn-hostname", idn_hostname()},
      {"regex", PatternSyntax::whole(3)},
      {"email", email("")},
      {"idn-email", email("\\u{80}-\\u{10ffff}")},
      {"uri", Uri("").with_scheme()},
      {"uri-reference", Uri("").reference()},
      {"iri", Uri(kWide).with_scheme()},
      {"iri-reference", Uri(kWide).reference()},
      {"uri-template", uri_template()},
      {"uuid", uuid},
      {"json-pointer", pointer},
      {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" + pointer + ")"},
  };
  for (auto& [name, pattern] : table) pattern = whole(pattern);
  return table;
}

}  // namespace

const Regex* format_regex(std::string_view format) {
  struct Entry {
    Text pattern;
    std::once_flag once = {};
    Regex regex = {};
  };
  static std::unordered_map<std::string_view, Entry> table = [] {
    std::unordered_map<std::string_view, Entry> entries;
    for (auto& [name, pattern] : make_table()) entries[name].pattern = pattern;
    return entries;
  }();
  const auto found = table.find(format);
  if (found == table.end()) return nullptr;
  Entry& entry = found->second;
  std::call_once(entry.once, [&] {
    RegexOptions options;
    options.dialect = RegexDialect::ecma;
    options.look_ahead = true;
    entry.regex = parse_regex(entry.pattern, options).value();
  });
  return &entry.regex;
}

std::uint32_t partial_format(std::string_view format) {
  const auto& formats = partial_formats();
  const auto found = std::ranges::find(formats, format, &PartialFormat::name);
  return found == formats.end() ? 0 : static_cast<std::uint32_t>(found - formats.begin()) + 1;
}

std::string_view wide_pattern(std::uint32_t partial_format) {
  return partial_formats()[partial_format - 1].wide;
}

bool is_number_type(std::string_view format) {
  static constexpr std::array<std::string_view, 15> kNames{
      "int8",  "int16",  "int32",   "int64",   "uint8",   "uint16",     "uint32",      "uint64",
      "float", "double", "float32", "float64", "decimal", "decimal128", "utc-millisec"};
  return std::ranges::find(kNames, format) != kNames.end();
}

}  // namespace espalier::grammar
