#include "grammar/tags/tag_schemas.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "grammar/characters/spelling.h"
#include "grammar/json_schema/schema_grammar.h"

namespace espalier::grammar {
namespace {

// A schema that is given as a string.
Result<Json> read_schema(const std::string& text, const std::string& place, const JsonLimits& limits) {
  auto read = parse_json(text, limits);
  if (read.ok()) return read;
  return bad_request(
      fmt::format("structural tag: the schema at {} is a string that is no JSON: {}", place, read.error().message),
      place, "grammar_invalid");
}

}  // namespace

Result<Expression> TagSchemas::format(const TagMembers& in) {
  ESP_TRY(const Json* document, in.get("json_schema"));
  ESP_TRY(const ParameterStyle* written, style(in));
  if (written != nullptr) return parameters(*document, *written, in);
  ESP_TRY(const SchemaOptions options, schema_options(in));
  return schema(*document, options, in.place());
}

// None: JSON.
Result<const ParameterStyle*> TagSchemas::style(const TagMembers& in) const {
  const ParameterStyle* none = nullptr;
  const bool older = in.type() == "qwen_xml_parameter";
  if (!older && in.find("style") == nullptr) return none;
  std::string name = "qwen_xml";
  if (!older) {
    ESP_TRY(name, in.text("style"));
  }
  if (name == "json") return none;
  const auto found = std::ranges::find(parameter_styles(), name, &ParameterStyle::name);
  if (found != parameter_styles().end()) return &*found;
  std::string known = "json";
  for (const ParameterStyle& one : parameter_styles()) known += fmt::format(", {}", one.name);
  return TagMembers::unsupported(
      in.place_of("style"),
      fmt::format("the style {} cannot be enforced; those that can are {}", in_quotes(name), known));
}

Result<Expression> TagSchemas::parameters(const Json& document, const ParameterStyle& style, const TagMembers& in) {
  ESP_TRY(const SchemaOptions options, schema_options(in));
  if (options.order == MemberOrder::any)
    return TagMembers::unsupported(in.place_of("any_order"), "any_order cannot be enforced in this style; false can");
  const auto make_json = [&](const Json& value) { return schema(value, options, in.place()); };
  const Expression space = store_.lexeme(json_space(store_, options.most_space));
  auto whole = ParameterText(store_, style, space, make_json).whole(document);
  if (whole.ok()) return whole;
  Error error = whole.error();
  if (!error.message.ends_with(")")) error.message += fmt::format(" (the schema at {})", in.place());
  return error;
}

Result<SchemaOptions> TagSchemas::schema_options(const TagMembers& in) const {
  SchemaOptions options = options_;
  if (in.find("any_order") != nullptr) {
    ESP_TRY(const bool any, in.flag("any_order"));
    options.order = any ? MemberOrder::any : MemberOrder::declared;
  }
  ESP_TRY(const auto most_space, in.count("max_whitespace_cnt", 1));
  if (most_space) options.most_space = static_cast<std::uint32_t>(*most_space);
  ESP_TRY(const auto excluded, in.words("excludes"));
  if (!excluded.empty()) {
    return TagMembers::unsupported(in.place_of("excludes"),
                                   "excludes of a json_schema cannot be enforced; patterns in the schema can");
  }
  return options;
}

Result<Expression> TagSchemas::schema(const Json& schema, const SchemaOptions& options, const std::string& place) {
  if (out_.sources.size() >= ExpressionSources::kMost - 1)
    return bad_request(fmt::format("structural tag: the schema at {} is one too many: {} schemas and grammars are "
                                   "accepted",
                                   place, ExpressionSources::kMost - 1),
                       place, "grammar_too_complex");
  auto made = SchemaGrammar::make(store_, schema, options);
  if (!made.ok()) {
    Error error = made.error();
    error.message = fmt::format("{} (the schema at {})", error.message, place);
    return error;
  }
  const Expression root = (*made)->root();
  out_.sources.push_back(std::move(made).value());
  return root;
}

Result<Expression> TagSchemas::older(const Json& json, const std::string& place, const std::string& schema_place) {
  if (!json.is_string()) return schema(json, options_, place);
  ESP_TRY(const Json read, read_schema(json.get_ref<const std::string&>(), schema_place,
                                       schema_text_limits(store_.limits().deadline())));
  return schema(read, options_, place);
}

}  // namespace espalier::grammar
