#include "grammar/structural_tag.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/json_schema/schema_grammar.h"
#include "grammar/regex.h"
#include "grammar/rule_grammar.h"
#include "grammar/spelling.h"

namespace espalier::grammar {
namespace {

constexpr int kMostNesting = 64;

class TagReader {
 public:
  TagReader(ExpressionStore& store, const SchemaOptions& options, TagSources& out)
      : store_(store), spelling_(store, Spelling::Kind::plain), options_(options), out_(out) {
    any_text_ = store_.star(spelling_.any_character());
    something_ = store_.concat(store_.bytes(ByteSet::all()), store_.anything());
  }

  Result<Expression> document(const Json& json);

 private:
  struct Tag {
    std::string begin;
    Expression rest = ExpressionStore::nothing;  // behind it: content and end
  };

  static Error invalid(const std::string& place, std::string_view wanted) {
    return bad_request(fmt::format("structural tag: {} must be {}", place, wanted), place, "grammar_invalid");
  }
  // What is wrong with a schema, pattern or grammar, which knows nothing of the tags around it.
  static Error inside(Error error, std::string_view what, const std::string& place);
  static Result<const Json*> member(const Json& json, const char* name, const std::string& place) {
    const Json* found = find_field(json, name);
    if (found != nullptr) return found;
    return bad_request(fmt::format("structural tag: {} has no {}", place, name), place, "grammar_invalid");
  }
  static Result<std::string> text(const Json& json, const char* name, const std::string& place) {
    ESP_TRY(const Json* found, member(json, name, place));
    if (found->is_string()) return found->get<std::string>();
    return invalid(fmt::format("{}/{}", place, name), "a string");
  }
  static Result<std::vector<std::string>> texts(const Json& json, const char* name, const std::string& place);
  static bool flag(const Json& json, const char* name) {
    const Json* found = find_field(json, name);
    return found != nullptr && found->is_boolean() && found->get<bool>();
  }

  Result<Expression> format(const Json& json, const std::string& place);
  Result<Expression> schema(const Json& json, const char* name, const std::string& place);
  Result<Expression> grammar(const Json& json, const std::string& place);
  Result<std::vector<Expression>> elements(const Json& json, const std::string& place);
  Result<Tag> tag(const Json& json, const std::string& place);
  Result<std::vector<Tag>> tags(const Json& json, const std::string& place);
  Result<Expression> triggered(const Json& json, const std::string& place);
  Result<Expression> separated(const Json& json, const std::string& place);
  Result<Expression> structures(const Json& json);
  Expression tag_dispatch(const std::vector<Tag>& tags, const std::vector<std::string>& triggers, bool begin_with_tag,
                          bool only_one);
  Expression whole(const Tag& tag) { return store_.concat(store_.text(tag.begin), tag.rest); }
  Expression any_of(const std::vector<std::string>& words);
  Expression up_to_first(const std::vector<std::string>& words, Expression last);

  ExpressionStore& store_;
  Spelling spelling_;
  const SchemaOptions options_;
  TagSources& out_;
  Expression any_text_ = ExpressionStore::nothing, something_ = ExpressionStore::nothing;
  int depth_ = 0;
};

Error TagReader::inside(Error error, std::string_view what, const std::string& place) {
  error.message = fmt::format("{} (the {} at {})", error.message, what, place);
  error.field = place + (error.field.starts_with('#') ? error.field.substr(1) : std::string());
  return error;
}

Result<std::vector<std::string>> TagReader::texts(const Json& json, const char* name, const std::string& place) {
  ESP_TRY(const Json* found, member(json, name, place));
  std::vector<std::string> out;
  if (found->is_string()) out.push_back(found->get<std::string>());
  if (found->is_array()) {
    for (const Json& one : *found)
      if (one.is_string()) out.push_back(one.get<std::string>());
  }
  const std::size_t wanted = found->is_array() ? found->size() : 1;
  if (out.empty() || out.size() != wanted)
    return invalid(fmt::format("{}/{}", place, name), "a string or a list of them");
  return out;
}

Result<Expression> TagReader::document(const Json& json) {
  if (!json.is_object()) return invalid("#", "an object");
  if (find_field(json, "structures") != nullptr) return structures(json);
  ESP_TRY(const Json* inner, member(json, "format", "#"));
  return format(*inner, "#/format");
}

Result<Expression> TagReader::format(const Json& json, const std::string& place) {
  if (!json.is_object()) return invalid(place, "an object");
  if (++depth_ > kMostNesting)
    return bad_request(fmt::format("structural tag: formats are nested more than {} deep at {}", kMostNesting, place),
                       place, "grammar_too_complex");
  struct Leave {
    int& depth;
    ~Leave() { --depth; }
  } leave{depth_};
  ESP_TRY(const std::string type, text(json, "type", place));
  if (type == "const_string") {
    ESP_TRY(const std::string value, text(json, "value", place));
    return store_.text(value);
  }
  if (type == "json_schema") return schema(json, "json_schema", place);
  if (type == "grammar") return grammar(json, place);
  if (type == "regex") {
    ESP_TRY(const std::string pattern, text(json, "pattern", place));
    const auto regex = parse_regex(pattern);
    if (!regex.ok()) return inside(regex.error(), "pattern", place + "/pattern");
    return spelling_.whole(*regex);
  }
  if (type == "any_text") return any_text_;
  if (type == "sequence") {
    ESP_TRY(const auto parts, elements(json, place));
    Expression all = ExpressionStore::empty;
    for (std::size_t i = parts.size(); i-- > 0;) all = store_.concat(parts[i], all);
    return all;
  }
  if (type == "or") {
    ESP_TRY(auto parts, elements(json, place));
    return store_.either(std::move(parts));
  }
  if (type == "optional" || type == "plus" || type == "star") {
    ESP_TRY(const Json* content, member(json, "content", place));
    ESP_TRY(const Expression item, format(*content, place + "/content"));
    if (type == "optional") return store_.optional(item);
    return store_.repeat(item, type == "plus" ? 1 : 0);
  }
  if (type == "tag") {
    ESP_TRY(const Tag one, tag(json, place));
    return whole(one);
  }
  if (type == "triggered_tags") return triggered(json, place);
  if (type == "tags_with_separator") return separated(json, place);
  return Error{Error::Kind::unsupported,
               fmt::format("structural tag: the format {} at {} is not supported", type, place), place,
               "grammar_invalid"};
}

// The schema in the member `name`.
Result<Expression> TagReader::schema(const Json& json, const char* name, const std::string& place) {
  ESP_TRY(const Json* schema, member(json, name, place));
  if (out_.sources.size() >= ExpressionStore::kMostSources - 1)
    return bad_request(fmt::format("structural tag: the schema at {} is one too many: at most {} schemas and grammars "
                                   "are accepted",
                                   place, ExpressionStore::kMostSources - 1),
                       place, "grammar_too_complex");
  auto made = SchemaGrammar::make(store_, *schema, options_);
  if (!made.ok()) return inside(made.error(), "schema", fmt::format("{}/{}", place, name));
  const Expression root = (*made)->root();
  out_.sources.push_back(std::move(made).value());
  return root;
}

Result<Expression> TagReader::grammar(const Json& json, const std::string& place) {
  ESP_TRY(const std::string rules, text(json, "grammar", place));
  // Rules are numbered as the first source only.
  if (!out_.sources.empty()) {
    return Error{
        Error::Kind::unsupported,
        fmt::format("structural tag: the grammar at {} stands behind another grammar or schema; only the first "
                    "format may be a grammar",
                    place),
        place, "grammar_invalid"};
  }
  auto parsed = parse_ebnf(rules);
  if (!parsed.ok()) return inside(parsed.error(), "grammar", place + "/grammar");
  out_.rules = std::make_unique<RuleText>(std::move(parsed).value());
  auto made = RuleGrammar::make(store_, *out_.rules);
  if (!made.ok()) return inside(made.error(), "grammar", place + "/grammar");
  const Expression root = (*made)->root();
  out_.sources.push_back(std::move(made).value());
  return root;
}

Result<std::vector<Expression>> TagReader::elements(const Json& json, const std::string& place) {
  ESP_TRY(const Json* list, member(json, "elements", place));
  if (!list->is_array() || list->empty()) return invalid(place + "/elements", "a list of at least one format");
  std::vector<Expression> out;
  for (std::size_t i = 0; i < list->size(); ++i) {
    ESP_TRY(const Expression one, format((*list)[i], fmt::format("{}/elements/{}", place, i)));
    out.push_back(one);
  }
  return out;
}

Result<TagReader::Tag> TagReader::tag(const Json& json, const std::string& place) {
  if (!json.is_object()) return invalid(place, "an object");
  Tag tag;
  ESP_TRY(tag.begin, text(json, "begin", place));
  ESP_TRY(const auto ends, texts(json, "end", place));
  ESP_TRY(const Json* content, member(json, "content", place));
  const Json* type = content->is_object() ? find_field(*content, "type") : nullptr;
  const bool endless = std::ranges::any_of(ends, [](const std::string& end) { return end.empty(); });
  if (type != nullptr && *type == "any_text" && !endless) {
    tag.rest = up_to_first(ends, any_of(ends));
    return tag;
  }
  ESP_TRY(const Expression inner, format(*content, place + "/content"));
  tag.rest = store_.concat(inner, any_of(ends));
  return tag;
}

Result<std::vector<TagReader::Tag>> TagReader::tags(const Json& json, const std::string& place) {
  ESP_TRY(const Json* list, member(json, "tags", place));
  if (!list->is_array() || list->empty()) return invalid(place + "/tags", "a list of at least one tag");
  std::vector<Tag> out;
  for (std::size_t i = 0; i < list->size(); ++i) {
    ESP_TRY(Tag one, tag((*list)[i], fmt::format("{}/tags/{}", place, i)));
    out.push_back(std::move(one));
  }
  return out;
}

Expression TagReader::any_of(const std::vector<std::string>& words) {
  std::vector<Expression> ways;
  for (const std::string& word : words) ways.push_back(store_.text(word));
  return store_.either(std::move(ways));
}

// Free text that ends with `last`, one of the words, and with the first occurrence of any of them.
Expression TagReader::up_to_first(const std::vector<std::string>& words, Expression last) {
  const Expression earlier = store_.concat({store_.anything(), any_of(words), something_});
  return store_.both(store_.concat(any_text_, last), store_.negation(earlier));
}

Result<Expression> TagReader::triggered(const Json& json, const std::string& place) {
  ESP_TRY(const auto triggers, texts(json, "triggers", place));
  ESP_TRY(const auto all, tags(json, place));
  for (const std::string& trigger : triggers)
    if (trigger.empty()) return invalid(place + "/triggers", "strings that are not empty");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto opens = [&](const std::string& trigger) { return all[i].begin.starts_with(trigger); };
    if (std::ranges::none_of(triggers, opens))
      return invalid(fmt::format("{}/tags/{}/begin", place, i), "a text that begins with one of the triggers");
  }
  return tag_dispatch(all, triggers, flag(json, "at_least_one"), flag(json, "stop_after_first"));
}

Expression TagReader::tag_dispatch(const std::vector<Tag>& tags, const std::vector<std::string>& triggers,
                                   bool begin_with_tag, bool only_one) {
  std::vector<Expression> at_once, found;
  for (const Tag& tag : tags) at_once.push_back(whole(tag));
  for (const std::string& trigger : triggers) {
    std::vector<Expression> rests;
    for (const Tag& tag : tags) {
      if (tag.begin.starts_with(trigger))
        rests.push_back(store_.concat(store_.text(tag.begin.substr(trigger.size())), tag.rest));
    }
    found.push_back(store_.concat(up_to_first(triggers, store_.text(trigger)), store_.either(std::move(rests))));
  }
  const Expression first = store_.either(std::move(at_once)), next = store_.either(std::move(found));
  const Expression free =
      store_.both(any_text_, store_.negation(store_.concat({store_.anything(), any_of(triggers), store_.anything()})));
  if (only_one) return begin_with_tag ? first : store_.either(next, free);
  const Expression others = store_.concat(store_.star(next), free);
  return begin_with_tag ? store_.concat(first, others) : others;
}

Result<Expression> TagReader::separated(const Json& json, const std::string& place) {
  ESP_TRY(const auto all, tags(json, place));
  ESP_TRY(const std::string separator, text(json, "separator", place));
  std::vector<Expression> ways;
  for (const Tag& tag : all) ways.push_back(whole(tag));
  const Expression one = store_.either(std::move(ways));
  const Expression some = flag(json, "stop_after_first")
                              ? one
                              : store_.concat(one, store_.star(store_.concat(store_.text(separator), one)));
  return flag(json, "at_least_one") ? some : store_.optional(some);
}

// The older spelling.
Result<Expression> TagReader::structures(const Json& json) {
  ESP_TRY(const Json* list, member(json, "structures", "#"));
  ESP_TRY(const auto triggers, texts(json, "triggers", "#"));
  if (!list->is_array() || list->empty()) return invalid("#/structures", "a list of at least one structure");
  std::vector<Tag> all;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& one = (*list)[i];
    const std::string place = fmt::format("#/structures/{}", i);
    if (!one.is_object()) return invalid(place, "an object");
    Tag tag;
    ESP_TRY(tag.begin, text(one, "begin", place));
    ESP_TRY(const std::string end, text(one, "end", place));
    const char* name = find_field(one, "schema") != nullptr ? "schema" : "json_schema";
    ESP_TRY(const Expression content, schema(one, name, place));
    tag.rest = store_.concat(content, store_.text(end));
    const auto opens = [&](const std::string& trigger) { return !trigger.empty() && tag.begin.starts_with(trigger); };
    if (std::ranges::none_of(triggers, opens)) return invalid(place + "/begin", "a text that begins with a trigger");
    all.push_back(std::move(tag));
  }
  return tag_dispatch(all, triggers, false, false);
}

}  // namespace

Result<Expression> read_structural_tag(ExpressionStore& store, const Json& document, const SchemaOptions& options,
                                       TagSources& out) {
  return TagReader(store, options, out).document(document);
}

}  // namespace espalier::grammar
