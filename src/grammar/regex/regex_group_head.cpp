#include "grammar/regex/regex_group_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace espalier::grammar {
namespace {

class GroupHeadParser {
 public:
  GroupHeadParser(RegexCursor& cursor, const RegexFlags& flags, const RegexOptions& options)
      : cursor_(cursor), options_(options), python_(options.dialect == RegexDialect::python), start_(cursor.at() - 1) {
    head_.flags = flags;
  }

  Result<RegexGroupHead> run() {
    if (!cursor_.take("?") || cursor_.take(":")) return head_;
    if (cursor_.take("=") || cursor_.take("!")) return look_ahead();
    if (cursor_.take("<=") || cursor_.take("<!")) return refused("the look-behind");
    if (cursor_.take("P=")) return refused("the back-reference");
    if (cursor_.take("<") || cursor_.take("P<")) return name();
    if (cursor_.take(">")) return refused("the atomic group");
    if (cursor_.take("(")) return refused("the conditional");
    if (python_ && cursor_.take("#")) return comment();
    if (recursion()) return refused("the recursion");
    return flags();
  }

 private:
  Error refused(std::string_view construct) const {
    return regex_unsupported(fmt::format("{} {}", construct, cursor_.since(start_)), start_);
  }

  Result<RegexGroupHead> look_ahead() {
    if (!options_.look_ahead) return refused("the look-ahead");
    head_.kind = RegexGroupHead::Kind::look_ahead;
    head_.negative = cursor_.since(start_).ends_with('!');
    return head_;
  }

  Result<RegexGroupHead> comment() {
    const std::size_t end = cursor_.rest().find(')');
    if (end == std::string_view::npos) return regex_malformed("a comment that does not end, begun", start_);
    cursor_.go_to(cursor_.at() + end + 1);
    head_.kind = RegexGroupHead::Kind::comment;
    return head_;
  }

  // (?R), (?1), (?+1), (?-1), (?&name) and (?P>name).
  bool recursion() {
    if (cursor_.take("R") || cursor_.take("&") || cursor_.take("P>")) return true;
    const bool sign = cursor_.next_is('+') || cursor_.next_is('-');
    if (!cursor_.next_is(is_regex_digit, sign ? 1 : 0)) return false;
    cursor_.go_to(cursor_.at() + (sign ? 2 : 1));
    return true;
  }

  static bool begins_name(char c) { return is_regex_letter(c) || c == '_' || c == '$' || (c & 0x80) != 0; }
  static bool continues_name(char c) { return begins_name(c) || is_regex_digit(c); }

  Result<RegexGroupHead> name() {
    const std::size_t from = cursor_.at();
    const std::size_t size = std::min(cursor_.rest().find('>'), cursor_.rest().size());
    const std::string_view name = cursor_.rest().substr(0, size);
    const bool good = size > 0 && begins_name(name[0]) && std::all_of(name.begin(), name.end(), continues_name);
    if (!good || size == cursor_.rest().size() || (python_ && name.find('$') != std::string_view::npos))
      return regex_malformed("a bad name of a group", from);
    cursor_.go_to(from + size + 1);
    head_.name = name;
    return head_;
  }

  // (?ims-x:...), and (?i) for all that follows.
  Result<RegexGroupHead> flags() {
    if (!cursor_.next_is(is_regex_letter) && !cursor_.next_is('-'))
      return regex_malformed("the unknown group (?", start_);
    ESP_TRY(const std::string on, flag_letters());
    const bool minus = cursor_.take("-");
    ESP_TRY(const std::string off, minus ? flag_letters() : Result<std::string>(std::string()));
    const bool scoped = cursor_.take(":");
    if (on.size() + off.size() == 0 || (minus && (off.empty() || !scoped)) || (!scoped && !cursor_.take(")")))
      return bad_flags();
    if (off.find_first_of("au") != std::string::npos || on.find_first_of(off) != std::string::npos) return bad_flags();
    if (on.find('a') != std::string::npos && on.find('u') != std::string::npos) return bad_flags();
    set(on, true);
    set(off, false);
    if (!scoped) head_.kind = RegexGroupHead::Kind::global_flags;
    return head_;
  }

  Error bad_flags() const { return regex_malformed(fmt::format("bad flags {}", cursor_.since(start_)), start_); }

  Result<std::string> flag_letters() {
    const std::string_view known = python_ ? "imsxau" : "ims";
    std::string letters;
    while (cursor_.next_is(is_regex_letter)) {
      const char letter = cursor_.take_byte();
      if (known.find(letter) == std::string_view::npos)
        return regex_malformed(fmt::format("the unknown group or flag {}", cursor_.since(start_)), start_);
      if (letters.find(letter) == std::string::npos) letters.push_back(letter);
    }
    return letters;
  }

  void set(const std::string& letters, bool on) {
    const auto has = [&letters](char letter) { return letters.find(letter) != std::string::npos; };
    RegexFlags& flags = head_.flags;
    if (has('i')) flags.ignore_case = on;
    if (has('m')) flags.multi_line = on;
    if (has('s')) flags.dot_all = on;
    if (has('x')) flags.verbose = on;
    if (has('a')) flags.ascii = true;
    if (has('u')) flags.ascii = false;
  }

  RegexCursor& cursor_;
  const RegexOptions& options_;
  const bool python_;
  const std::size_t start_;  // of the parenthesis
  RegexGroupHead head_;
};

}  // namespace

Result<RegexGroupHead> parse_regex_group_head(RegexCursor& cursor, const RegexFlags& flags,
                                              const RegexOptions& options) {
  return GroupHeadParser(cursor, flags, options).run();
}

}  // namespace espalier::grammar
