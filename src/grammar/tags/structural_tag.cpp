#include "grammar/tags/structural_tag.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json/json_fields.h"
#include "grammar/automaton/free_text.h"
#include "grammar/characters/spelling.h"
#include "grammar/regex/regex.h"
#include "grammar/rules/rule_grammar.h"
#include "grammar/tags/tag_members.h"
#include "grammar/tags/tag_schemas.h"

namespace espalier::grammar {
namespace {

constexpr int kMostTagNesting = 64;

class TagReader {
 public:
  TagReader(ExpressionStore& store, const SchemaOptions& options, const TagSpecials& special, TagSources& out)
      : store_(store),
        special_(special),
        spelling_(store, Spelling::Kind::plain),
        free_text_(store, any_character()),
        schemas_(store, options, out),
        out_(out) {}

  Result<Expression> document(const Json& json);

 private:
  using Words = FreeText::Words;
  using Tag = FreeText::Way;
  struct RepeatBounds {
    std::uint32_t low = 0, high = ExpressionStore::unbounded;
  };
  using Read = Result<Expression> (TagReader::*)(const TagMembers&, const Words& ends);
  struct Kind {
    std::string_view type;
    Read read;
  };
  static const std::vector<Kind>& kinds();

  // `ends`: of the tag around, none empty. Free text in it has none of them.
  Result<Expression> format(const Json& json, const std::string& place, const Words& ends);
  Result<Expression> format(const TagMembers& in, const Words& ends);
  Result<Expression> const_string(const TagMembers& in, const Words&);
  Result<Expression> json_schema(const TagMembers& in, const Words&);
  Result<Expression> regex(const TagMembers& in, const Words&);
  Result<Expression> grammar(const TagMembers& in, const Words&);
  Result<Expression> any_text(const TagMembers& in, const Words& ends);
  Result<Expression> sequence(const TagMembers& in, const Words& ends);
  Result<Expression> alternatives(const TagMembers& in, const Words& ends);
  Result<Expression> repeated(const TagMembers& in, const Words& ends);
  Result<Expression> tag(const TagMembers& in, const Words& ends);
  Result<Expression> triggered(const TagMembers& in, const Words& ends);
  Result<Expression> separated(const TagMembers& in, const Words& ends);
  Result<Expression> dispatch(const TagMembers& in, const Words& ends);

  Result<std::vector<Expression>> elements(const TagMembers& in, const Words& ends);
  Result<std::uint32_t> most_characters(const TagMembers& in) const;
  Result<RepeatBounds> bounds(const TagMembers& in) const;
  Result<Expression> repeated_text(const TagMembers& in, std::uint32_t most, const Words& ends);
  Result<Tag> read_tag(const TagMembers& in, const Words& ends);
  Result<Expression> tag_rest(const TagMembers& in, const Words& around);
  Result<std::vector<Tag>> tags(const TagMembers& in, const Words& ends);
  Result<> check_triggers(const TagMembers& in, const FreeText::Dispatch& dispatch) const;
  Result<Expression> structures(const Json& json);
  Result<Tag> structure(const Json& json, const std::string& place);
  // With codes for the special tokens in them.
  Result<std::string> text(const TagMembers& in, std::string_view name) const;
  Result<Words> texts(const TagMembers& in, std::string_view name) const;
  Result<Words> words(const TagMembers& in, std::string_view name) const;
  Words coded(Words words) const;
  Expression any_character();  // of free text
  Expression whole(const Tag& tag) { return store_.concat(store_.text(tag.begin), tag.rest); }

  ExpressionStore& store_;
  const TagSpecials& special_;
  Spelling spelling_;
  FreeText free_text_;
  TagSchemas schemas_;
  TagSources& out_;
  int depth_ = 0;
};

const std::vector<TagReader::Kind>& TagReader::kinds() {
  static const std::vector<Kind> all{
      {"const_string", &TagReader::const_string},
      {"json_schema", &TagReader::json_schema},
      {"qwen_xml_parameter", &TagReader::json_schema},
      {"regex", &TagReader::regex},
      {"grammar", &TagReader::grammar},
      {"any_text", &TagReader::any_text},
      {"sequence", &TagReader::sequence},
      {"or", &TagReader::alternatives},
      {"optional", &TagReader::repeated},
      {"plus", &TagReader::repeated},
      {"repeat", &TagReader::repeated},
      {"dispatch", &TagReader::dispatch},
      {"star", &TagReader::repeated},
      {"tag", &TagReader::tag},
      {"triggered_tags", &TagReader::triggered},
      {"tags_with_separator", &TagReader::separated},
  };
  return all;
}

FreeText::Words TagReader::coded(Words words) const {
  for (std::string& word : words) word = with_special_codes(word, special_.named);
  return words;
}

Result<std::string> TagReader::text(const TagMembers& in, std::string_view name) const {
  ESP_TRY(const std::string text, in.text(name));
  return with_special_codes(text, special_.named);
}

Result<FreeText::Words> TagReader::texts(const TagMembers& in, std::string_view name) const {
  ESP_TRY(Words words, in.texts(name));
  return coded(std::move(words));
}

Result<FreeText::Words> TagReader::words(const TagMembers& in, std::string_view name) const {
  ESP_TRY(Words words, in.words(name));
  return coded(std::move(words));
}

Expression TagReader::any_character() {
  std::vector<Expression> ways{spelling_.any_character()};
  for (const TokenId id : special_.in_free_text) ways.push_back(store_.text(special_code(id)));
  return store_.either(std::move(ways));
}

Result<Expression> TagReader::document(const Json& json) {
  if (!json.is_object()) return TagMembers::invalid("#", "an object");
  if (const Json* type = find_field(json, "type"); type != nullptr && *type != "structural_tag")
    return TagMembers::invalid("#/type", "structural_tag");
  if (find_field(json, "structures") != nullptr) return structures(json);
  constexpr std::array<std::string_view, 1> kMembers = {"format"};
  ESP_TRY(const TagMembers members, TagMembers::of_object(json, "#", kMembers));
  ESP_TRY(const Json* inner, members.get("format"));
  return format(*inner, "#/format", {});
}

Result<Expression> TagReader::format(const Json& json, const std::string& place, const Words& ends) {
  ESP_TRY(const TagMembers members, TagMembers::of_format(json, place));
  return format(members, ends);
}

Result<Expression> TagReader::format(const TagMembers& in, const Words& ends) {
  if (++depth_ > kMostTagNesting)
    return bad_request(
        fmt::format("structural tag: formats are nested more than {} deep at {}", kMostTagNesting, in.place()),
        in.place(), "grammar_too_complex");
  struct Leave {
    int& depth;
    ~Leave() { --depth; }
  } leave{depth_};
  const auto kind = std::ranges::find(kinds(), in.type(), &Kind::type);
  return (this->*kind->read)(in, ends);
}

Result<Expression> TagReader::const_string(const TagMembers& in, const Words&) {
  ESP_TRY(const std::string value, text(in, "value"));
  return store_.text(value);
}

Result<Expression> TagReader::regex(const TagMembers& in, const Words&) {
  ESP_TRY(const std::string pattern, in.text("pattern"));
  const auto regex = parse_regex(pattern);
  if (!regex.ok()) return TagMembers::inside(regex.error(), "pattern", in.place_of("pattern"));
  return spelling_.whole(*regex);
}

Result<Expression> TagReader::json_schema(const TagMembers& in, const Words&) {
  return schemas_.format(in);
}

Result<Expression> TagReader::grammar(const TagMembers& in, const Words&) {
  ESP_TRY(const std::string rules, in.text("grammar"));
  // Rules are numbered as the first source only.
  if (!out_.sources.empty()) {
    return TagMembers::unsupported(
        in.place(), "a grammar stands behind another grammar or schema; only the first format may be a grammar");
  }
  auto parsed = parse_ebnf(rules);
  if (!parsed.ok()) return TagMembers::inside(parsed.error(), "grammar", in.place_of("grammar"));
  out_.rules = std::make_unique<RuleText>(std::move(parsed).value());
  auto made = RuleGrammar::make(store_, *out_.rules);
  if (!made.ok()) return TagMembers::inside(made.error(), "grammar", in.place_of("grammar"));
  const Expression root = (*made)->root();
  out_.sources.push_back(std::move(made).value());
  return root;
}

Result<Expression> TagReader::any_text(const TagMembers& in, const Words& ends) {
  ESP_TRY(const std::uint32_t most, most_characters(in));
  return repeated_text(in, most, ends);
}

Result<std::uint32_t> TagReader::most_characters(const TagMembers& in) const {
  ESP_TRY(const auto tokens, in.count("max_tokens"));
  if (tokens) return TagMembers::unsupported(in.place_of("max_tokens"), "max_tokens cannot be enforced; max_chars can");
  ESP_TRY(const auto characters, in.count("max_chars"));
  return characters ? static_cast<std::uint32_t>(*characters) : ExpressionStore::unbounded;
}

Result<Expression> TagReader::repeated_text(const TagMembers& in, std::uint32_t most, const Words& ends) {
  ESP_TRY(Words excluded, words(in, "excludes"));
  excluded.insert(excluded.end(), ends.begin(), ends.end());
  return free_text_.without(excluded, most);
}

Result<Expression> TagReader::sequence(const TagMembers& in, const Words& ends) {
  ESP_TRY(const auto parts, elements(in, ends));
  Expression all = ExpressionStore::empty;
  for (std::size_t i = parts.size(); i-- > 0;) all = store_.concat(parts[i], all);
  return all;
}

Result<Expression> TagReader::alternatives(const TagMembers& in, const Words& ends) {
  ESP_TRY(auto parts, elements(in, ends));
  return store_.either(std::move(parts));
}

Result<std::vector<Expression>> TagReader::elements(const TagMembers& in, const Words& ends) {
  ESP_TRY(const Json* list, in.list("elements", "format"));
  std::vector<Expression> out;
  for (std::size_t i = 0; i < list->size(); ++i) {
    ESP_TRY(const Expression one, format((*list)[i], fmt::format("{}/elements/{}", in.place(), i), ends));
    out.push_back(one);
  }
  return out;
}

Result<TagReader::RepeatBounds> TagReader::bounds(const TagMembers& in) const {
  if (in.type() == "plus") return RepeatBounds{1, ExpressionStore::unbounded};
  if (in.type() == "star") return RepeatBounds{};
  if (in.type() == "optional") return RepeatBounds{0, 1};
  for (const char* name : {"min", "max"}) ESP_CHECK(in.get(name));
  ESP_TRY(const auto low, in.count("min"));
  ESP_TRY(const auto high, in.count("max", -1));
  if (*high >= 0 && *high < *low)
    return TagMembers::invalid(in.place_of("max"), fmt::format("at least min, {}, or -1 for any number", *low));
  const auto most = *high < 0 ? ExpressionStore::unbounded : static_cast<std::uint32_t>(*high);
  return RepeatBounds{static_cast<std::uint32_t>(*low), most};
}

Result<Expression> TagReader::repeated(const TagMembers& in, const Words& ends) {
  ESP_TRY(const RepeatBounds times, bounds(in));
  ESP_TRY(const Json* json, in.get("content"));
  ESP_TRY(const TagMembers content, TagMembers::of_format(*json, in.place_of("content")));
  if (content.type() != "any_text") {
    ESP_TRY(const Expression item, format(content, ends));
    return store_.repeat(item, times.low, times.high);
  }
  // Free text again and again is free text: else what it must not have could come in two pieces.
  ESP_TRY(const std::uint32_t most, most_characters(content));
  const bool bounded = most != ExpressionStore::unbounded && times.high != ExpressionStore::unbounded;
  const std::uint64_t all = std::uint64_t{most} * times.high;
  if (all == 0) return ExpressionStore::empty;
  const bool counts = bounded && all < ExpressionStore::unbounded;
  return repeated_text(content, counts ? static_cast<std::uint32_t>(all) : ExpressionStore::unbounded, ends);
}

Result<Expression> TagReader::tag(const TagMembers& in, const Words& ends) {
  ESP_TRY(const Tag one, read_tag(in, ends));
  return whole(one);
}

Result<TagReader::Tag> TagReader::read_tag(const TagMembers& in, const Words& ends) {
  Tag tag;
  ESP_TRY(tag.begin, text(in, "begin"));
  ESP_TRY(tag.rest, tag_rest(in, ends));
  return tag;
}

// Content and end. A tag whose end may be empty ends at the latest where the one around it does.
Result<Expression> TagReader::tag_rest(const TagMembers& in, const Words& around) {
  ESP_TRY(const Words ends, texts(in, "end"));
  ESP_TRY(const Json* json, in.get("content"));
  ESP_TRY(const TagMembers content, TagMembers::of_format(*json, in.place_of("content")));
  Words visible;
  for (const std::string& end : ends)
    if (!end.empty()) visible.push_back(end);
  const bool endless = visible.size() < ends.size();
  if (endless) visible.insert(visible.end(), around.begin(), around.end());
  if (content.type() == "any_text" && !endless) {
    ESP_TRY(const std::uint32_t most, most_characters(content));
    ESP_TRY(const Words excluded, words(content, "excludes"));
    return free_text_.up_to_end(ends, excluded, most);
  }
  ESP_TRY(const Expression inner, format(content, visible));
  return store_.concat(inner, free_text_.any_of(ends));
}

Result<std::vector<TagReader::Tag>> TagReader::tags(const TagMembers& in, const Words& ends) {
  ESP_TRY(const Json* list, in.list("tags", "tag"));
  constexpr std::array<std::string_view, 3> kMembers = {"begin", "content", "end"};
  std::vector<Tag> out;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string place = fmt::format("{}/tags/{}", in.place(), i);
    ESP_TRY(const TagMembers members, TagMembers::of_object((*list)[i], place, kMembers));
    if (const Json* type = members.find("type"); type != nullptr && *type != "tag")
      return TagMembers::invalid(place + "/type", "tag");
    ESP_TRY(Tag one, read_tag(members, ends));
    out.push_back(std::move(one));
  }
  return out;
}

Result<Expression> TagReader::triggered(const TagMembers& in, const Words& ends) {
  FreeText::Dispatch dispatch;
  ESP_TRY(dispatch.triggers, texts(in, "triggers"));
  ESP_TRY(dispatch.ways, tags(in, ends));
  ESP_TRY(dispatch.begin_with_way, in.flag("at_least_one"));
  ESP_TRY(dispatch.only_one, in.flag("stop_after_first"));
  ESP_TRY(dispatch.excluded, words(in, "excludes"));
  dispatch.excluded.insert(dispatch.excluded.end(), ends.begin(), ends.end());
  ESP_CHECK(check_triggers(in, dispatch));
  return free_text_.dispatch(dispatch);
}

Result<> TagReader::check_triggers(const TagMembers& in, const FreeText::Dispatch& dispatch) const {
  if (std::ranges::find(dispatch.triggers, "") != dispatch.triggers.end())
    return TagMembers::invalid(in.place_of("triggers"), "strings that are not empty");
  for (std::size_t i = 0; i < dispatch.ways.size() && store_.spend(); ++i) {
    const auto opens = [&](const std::string& trigger) { return dispatch.ways[i].begin.starts_with(trigger); };
    if (std::ranges::none_of(dispatch.triggers, opens))
      return TagMembers::invalid(fmt::format("{}/tags/{}/begin", in.place(), i),
                                 "a text that begins with one of the triggers");
  }
  return success();
}

// Each rule is a pattern, where free text ends, and the format behind it.
Result<Expression> TagReader::dispatch(const TagMembers& in, const Words& ends) {
  ESP_TRY(const Json* rules, in.list("rules", "rule"));
  FreeText::Dispatch dispatch;
  for (std::size_t i = 0; i < rules->size(); ++i) {
    const Json& rule = (*rules)[i];
    const std::string place = fmt::format("{}/rules/{}", in.place(), i);
    if (!rule.is_array() || rule.size() != 2 || !rule[0].is_string() || rule[0].get_ref<const std::string&>().empty())
      return TagMembers::invalid(place, "a list of a pattern, which is a string that is not empty, and a format");
    ESP_TRY(const Expression content, format(rule[1], place + "/1", ends));
    dispatch.triggers.push_back(with_special_codes(rule[0].get<std::string>(), special_.named));
    dispatch.ways.push_back({dispatch.triggers.back(), content});
  }
  ESP_TRY(const bool loop, in.flag("loop", true));
  dispatch.only_one = !loop;
  ESP_TRY(dispatch.excluded, words(in, "excludes"));
  dispatch.excluded.insert(dispatch.excluded.end(), ends.begin(), ends.end());
  return free_text_.dispatch(dispatch);
}

Result<Expression> TagReader::separated(const TagMembers& in, const Words& ends) {
  ESP_TRY(const auto all, tags(in, ends));
  ESP_TRY(const std::string separator, text(in, "separator"));
  ESP_TRY(const bool only_one, in.flag("stop_after_first"));
  ESP_TRY(const bool at_least_one, in.flag("at_least_one"));
  std::vector<Expression> ways;
  for (const Tag& tag : all) ways.push_back(whole(tag));
  const Expression one = store_.either(std::move(ways));
  const Expression some = only_one ? one : store_.concat(one, store_.star(store_.concat(store_.text(separator), one)));
  return at_least_one ? some : store_.optional(some);
}

// The older spelling.
Result<Expression> TagReader::structures(const Json& json) {
  constexpr std::array<std::string_view, 2> kMembers = {"structures", "triggers"};
  ESP_TRY(const TagMembers members, TagMembers::of_object(json, "#", kMembers));
  ESP_TRY(const Json* list, members.list("structures", "structure"));
  FreeText::Dispatch dispatch;
  ESP_TRY(dispatch.triggers, texts(members, "triggers"));
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string place = fmt::format("#/structures/{}", i);
    ESP_TRY(Tag one, structure((*list)[i], place));
    const auto opens = [&](const std::string& trigger) { return !trigger.empty() && one.begin.starts_with(trigger); };
    if (std::ranges::none_of(dispatch.triggers, opens))
      return TagMembers::invalid(place + "/begin", "a text that begins with a trigger");
    dispatch.ways.push_back(std::move(one));
  }
  return free_text_.dispatch(dispatch);
}

Result<TagReader::Tag> TagReader::structure(const Json& json, const std::string& place) {
  constexpr std::array<std::string_view, 4> kMembers = {"begin", "schema", "json_schema", "end"};
  ESP_TRY(const TagMembers members, TagMembers::of_object(json, place, kMembers));
  Tag tag;
  ESP_TRY(tag.begin, text(members, "begin"));
  ESP_TRY(const std::string end, text(members, "end"));
  const std::string_view name = members.find("schema") != nullptr ? "schema" : "json_schema";
  ESP_TRY(const Json* written, members.get(name));
  ESP_TRY(const Expression content, schemas_.older(*written, place, members.place_of(name)));
  tag.rest = store_.concat(content, store_.text(end));
  return tag;
}

}  // namespace

Result<Expression> read_structural_tag(ExpressionStore& store, const Json& document, const SchemaOptions& options,
                                       const TagSpecials& special, TagSources& out) {
  return TagReader(store, options, special, out).document(document);
}

}  // namespace espalier::grammar
