#include "server/fields/constraint_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/routes/handler.h"

namespace espalier::server {
namespace {

using F = ConstraintFields;
using Kind = Constraint::Kind;
using Row = FieldRow<F>;

Result<> set(F& out, Kind kind, std::string text, std::string_view place) {
  if (out.constraint.kind != Kind::none) {
    return bad_request(
        fmt::format("{} and {} are both there, but an output has one form; send one of them", out.place, place),
        std::string(place));
  }
  out.constraint.kind = kind;
  out.constraint.text = std::move(text);
  out.constraint.closed = Constraint::Closed::declared;
  out.place = place;
  return success();
}

// Clients send "" for "none".
template <Kind kKind>
Result<> read_text(F& out, const Json& value, std::string_view place) {
  ESP_TRY(std::string text, as_string(value, place));
  return text.empty() ? success() : set(out, kKind, std::move(text), place);
}

// A schema as a value or as a string of JSON.
Result<> read_schema(F& out, const Json& value, std::string_view place) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text == "$$ANY$$") return set(out, Kind::json_object, {}, place);  // SGLang's own clients
    return text.empty() ? success() : set(out, Kind::json_schema, text, place);
  }
  if (value.is_object() || value.is_boolean()) return set(out, Kind::json_schema, json_text(value), place);
  return bad_request(fmt::format("{} must be a JSON schema, as an object or as a string", place), std::string(place));
}

// Where something else has said that there is one.
Result<> read_wanted_schema(F& out, const Json& value, std::string_view place) {
  if (value.is_string() && value.get_ref<const std::string&>().empty())
    return bad_request(fmt::format("{} is empty; it must be a JSON schema, as an object or as a string", place),
                       std::string(place));
  return read_schema(out, value, place);
}

Result<> read_tag(F& out, const Json& value, std::string_view place) {
  if (value.is_object()) return set(out, Kind::structural_tag, json_text(value), place);
  return read_text<Kind::structural_tag>(out, value, place);
}

// Rules with ::= are GBNF, others Lark.
Result<> read_grammar(F& out, const Json& value, std::string_view place) {
  ESP_TRY(std::string text, as_string(value, place));
  if (text.empty()) return success();
  const Kind kind = text.find("::=") == std::string::npos ? Kind::lark : Kind::ebnf;
  return set(out, kind, std::move(text), place);
}

Result<> read_choices(F& out, const Json& value, std::string_view place) {
  ESP_TRY(const auto choices, as_strings(value, place));
  if (!value.is_array() || choices.empty()) {
    return bad_request(fmt::format("{} must be a list of at least one string", place), std::string(place));
  }
  return set(out, Kind::choice, value.dump(), place);
}

Result<> read_json_object(F& out, const Json& value, std::string_view place) {
  ESP_TRY(const bool wanted, as_bool(value, place));
  return wanted ? set(out, Kind::json_object, {}, place) : success();
}

Result<> read_whitespace(F& out, const Json& value, std::string_view place) {
  if (value == "compact" || value == "flexible") {
    out.flexible_whitespace = value == "flexible";
    return success();
  }
  return bad_request(fmt::format("{} must be \"compact\" or \"flexible\"", place), std::string(place));
}

Result<> read_whitespace_pattern(F&, const Json& value, std::string_view place) {
  ESP_TRY(const std::string pattern, as_string(value, place));
  if (pattern.empty()) return success();
  return Error{Error::Kind::unsupported,
               fmt::format("{} is not supported; json_whitespace may be compact or flexible", place),
               std::string(place),
               {}};
}

Result<> read_no_whitespace(F& out, const Json& value, std::string_view place) {
  ESP_TRY(const bool none, as_bool(value, place));
  if (none) out.flexible_whitespace = false;
  return success();
}

// Of back ends: there is one.
Result<> read_no_fallback(F&, const Json& value, std::string_view place) {
  ESP_CHECK(as_bool(value, place));
  return success();
}

Result<> read_json_schema_format(F& out, const Json& value, std::string_view place) {
  const std::string at = fmt::format("{}.json_schema", place);
  const Json* inner = find_field(value, "json_schema");
  if (inner != nullptr && !inner->is_object()) return bad_request(at + " must be an object", at);
  const Json& holder = inner != nullptr ? *inner : value;  // llama.cpp has the schema beside the type
  const std::string around = inner != nullptr ? at : std::string(place);
  const Json* schema = find_field(holder, "schema");
  if (schema == nullptr) return bad_request(at + ".schema is missing", at + ".schema");
  ESP_CHECK(read_wanted_schema(out, *schema, around + ".schema"));
  ESP_TRY(const auto strict, find_boolean(holder, {"strict", around}));
  if (strict && !*strict) out.constraint.closed = Constraint::Closed::as_written;
  return success();
}

Result<> read_response_format(F& out, const Json& value, std::string_view place) {
  ESP_TRY(const std::string type, get_string(value, {"type", place}));
  if (type == "text") return success();
  if (type == "json_schema") return read_json_schema_format(out, value, place);
  if (type == "structural_tag") return set(out, Kind::structural_tag, json_text(value), place);
  if (type == "json_object") {
    const Json* schema = find_field(value, "schema");
    if (schema != nullptr) return read_wanted_schema(out, *schema, fmt::format("{}.schema", place));
    return set(out, Kind::json_object, {}, place);
  }
  return bad_request(fmt::format("{}.type is {}; it may be text, json_object, json_schema or structural_tag", place,
                                 in_quotes(type, 40)),
                     fmt::format("{}.type", place));
}

constexpr std::size_t kStructuredForms = 6;  // the first ones; the others say how
constexpr Row kStructured[] = {
    {"json", &read_schema, "none", ""},
    {"regex", &read_text<Kind::regex>, "none", ""},
    {"choice", &read_choices, "none", ""},
    {"grammar", &read_grammar, "none", ""},
    {"json_object", &read_json_object, "false", ""},
    {"structural_tag", &read_tag, "none", ""},
    {"disable_any_whitespace", &read_no_whitespace, "false", ""},
    {"whitespace_pattern", &read_whitespace_pattern, "none", ""},
    {"disable_fallback", &read_no_fallback, "false", ""},
};

std::string listed(std::span<const Row> rows) {
  std::string names;
  for (const Row& row : rows) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

// Whoever writes a member that nobody reads means a constraint that would not be there. Clients write out all members
// of their own that are not set.
Result<> check_known(const Json& value, std::span<const Row> rows, std::string_view place) {
  for (const std::string& name : KnownNames().with(rows).unknown_in(value)) {
    if (!asks_for_something(value[name])) continue;
    return bad_request(fmt::format("{} has no member {}; its members are {}", place, in_quotes(name), listed(rows)),
                       fmt::format("{}.{}", place, name.substr(0, 80)), "unsupported_parameter");
  }
  return success();
}

Result<> read_structured_outputs(F& out, const Json& value, std::string_view place) {
  if (!value.is_object()) return bad_request(fmt::format("{} must be an object", place), std::string(place));
  const std::span<const Row> rows(kStructured);
  ESP_CHECK(check_known(value, rows, place));
  ESP_CHECK(read_fields(value, rows, out, place));
  if (out.place.starts_with(place)) return success();
  return bad_request(fmt::format("{} asks for no form of the output; set one of {}, or leave it out", place,
                                 listed(rows.first(kStructuredForms))),
                     std::string(place));
}

// In every client's spelling, wherever constraints stand: a spelling that one route passed over would be a constraint
// that is not there.
constexpr Row kForms[] = {
    {"choices_method", &F::choices_method, "none",
     "the likeliest of the choices instead of a generated one: token_length_normalized, greedy_token_selection or "
     "unconditional_likelihood_normalized"},
    {"response_format", &read_response_format, "text",
     "text, json_object, json_schema (json_schema.strict false: objects may have members that are not listed), "
     "structural_tag"},
    {"regex", &read_text<Kind::regex>, "none",
     "the whole output matches: Python's syntax without look-around and back-references"},
    {"json_schema", &read_schema, "none",
     "the output is JSON that the schema allows (an object, or a string of JSON); objects that list their properties "
     "have no others, unless additionalProperties or several schemas say so"},
    {"ebnf", &read_text<Kind::ebnf>, "none", "the output follows these rules (GBNF), from root on"},
    {"grammar", &read_grammar, "none", "the same under llama.cpp's name; rules without ::= are Lark"},
    {"structural_tag", &read_tag, "none", "free text in which tags open a form"},
    {"choices", &read_choices, "none", "the output is one of these strings"},
    {"json_closing", &F::json_closing, "false",
     "an output that ends for its length is completed by a shortest text, beyond that length"},
    {"json_whitespace", &read_whitespace, "compact", "compact: none between JSON tokens; flexible: some"},
    {"guided_json", &read_schema, "none", "vLLM's name of json_schema"},
    {"guided_regex", &read_text<Kind::regex>, "none", "vLLM's name of regex"},
    {"guided_choice", &read_choices, "none", "vLLM's name of choices"},
    {"guided_grammar", &read_grammar, "none", "vLLM's name of grammar"},
    {"guided_json_object", &read_json_object, "false", "the output is a JSON object"},
    {"guided_whitespace_pattern", &read_whitespace_pattern, "none", "not supported: json_whitespace"},
    {"structured_outputs", &read_structured_outputs, "none",
     "vLLM's object: json, regex, choice, grammar, json_object, structural_tag, disable_any_whitespace"},
};
constexpr std::span<const Row> kNative = kForms;
constexpr std::span<const Row> kOpenAi = kNative.subspan(1);  // choices are scored under /generate only

// Names of fields that we do not know but whose sender expects a form of the output.
bool is_named_like_constraint(std::string_view name) {
  constexpr std::string_view kNameParts[] = {"guided", "structur", "regex", "schema",   "grammar",
                                             "ebnf",   "gbnf",     "lark",  "constrain"};
  constexpr std::string_view kWholeNames[] = {"choice", "format", "json", "json_mode", "json_object", "pattern"};
  const auto has = [&](std::string_view word) { return name.find(word) != std::string_view::npos; };
  return std::ranges::any_of(kNameParts, has) || std::ranges::find(kWholeNames, name) != std::end(kWholeNames);
}

constexpr std::size_t kLongText = 64 << 10;  // bytes: if it is not known yet it takes longer than a moment

// Of a body: what has constraints inside, those of a program's generations too.
bool holds_fields(std::string_view name) {
  constexpr std::string_view kHolders[] = {"sampling_params", "segments", "program", "nodes", "options"};
  return std::ranges::find(kHolders, name) != std::end(kHolders);
}

Result<std::shared_ptr<grammar::Grammar>> compile(const Call& call, Constraint constraint) {
  using namespace std::chrono;
  if (!call.may_be_slow) {
    const bool quick = constraint.text.size() < kLongText;
    return call.model->engine->compile(std::move(constraint), quick ? kQuickCompile : milliseconds(1));
  }
  const grammar::Waited waited{duration_cast<milliseconds>(call.waited),
                               duration_cast<milliseconds>(steady_clock::now() - call.arrived)};
  return call.model->engine->compile(std::move(constraint), waited);
}

// Where requests have schemas.
constexpr int kBody = 0, kStructuredOutputs = 1, kResponseFormat = 2, kNamedSchema = 3, kTextField = 4, kTextFormat = 5,
              kText = JsonStep::as_text;
constexpr JsonStep kSchemas[] = {
    {kBody, "sampling_params", kBody},
    {kBody, "segments", kBody},
    {kBody, "json_schema", kText},
    {kBody, "guided_json", kText},
    {kBody, "format", kText},  // Ollama's
    {kBody, "structured_outputs", kStructuredOutputs},
    {kStructuredOutputs, "json", kText},
    {kBody, "response_format", kResponseFormat},
    {kResponseFormat, "schema", kText},
    {kResponseFormat, "json_schema", kNamedSchema},
    {kNamedSchema, "schema", kText},
    {kBody, "text", kTextField},  // of /v1/responses
    {kTextField, "format", kTextFormat},
    {kTextFormat, "schema", kText},
};

void forget_schemas_in(Json& value, int place) {
  if (value.is_array()) {
    for (Json& each : value) forget_schemas_in(each, place);
  }
  if (!value.is_object()) return;
  for (auto& [name, member] : value.get_ref<Json::object_t&>()) {
    const int there = json_place(kSchemas, place, name);
    if (there == kText && member.is_string()) member = nullptr;
    if (there != kText && there != JsonStep::nowhere) forget_schemas_in(member, there);
  }
}

}  // namespace

JsonLimits request_limits() {
  JsonLimits limits;
  limits.exact_numbers = true;
  limits.places = kSchemas;
  return limits;
}

void forget_schemas(Call& call) {
  if (call.may_be_slow) forget_schemas_in(call.body, kBody);
}

Result<> round_numbers_outside_constraints(Json& fields) {
  if (fields.is_array()) {
    for (Json& each : fields) ESP_CHECK(round_numbers_outside_constraints(each));
    return success();
  }
  if (!fields.is_object()) return round_numbers(fields);
  for (auto& [name, value] : fields.get_ref<Json::object_t&>()) {
    const auto is_named = [&](const Row& row) { return row.name == name; };
    if (std::ranges::any_of(kForms, is_named)) continue;
    ESP_CHECK(holds_fields(name) ? round_numbers_outside_constraints(value) : round_numbers(value));
  }
  return success();
}

std::span<const Row> native_constraint_rows() {
  return kNative;
}
std::span<const Row> openai_constraint_rows() {
  return kOpenAi;
}

Result<> refuse_unread_constraints(const Json& object, std::span<const std::string> unknown, std::string_view parent) {
  for (const std::string& name : unknown) {
    const Json* value = find_field(object, name);
    if (value == nullptr || !is_named_like_constraint(name) || !asks_for_something(*value)) continue;
    const std::string place = JsonField(name, parent).path();
    return bad_request(
        fmt::format("{} is not a field of this route, but is named like a constraint; the form of the output is asked "
                    "for by regex, json_schema, ebnf, grammar, choices, structural_tag or response_format",
                    in_quotes(place)),
        place.substr(0, 80), "unsupported_parameter");
  }
  return success();
}

namespace {

// The special tokens whose texts stand in a structural tag. Free text may have them, too, beside those that it has
// already, but none that ends an answer.
void name_special_tokens(const ServedModel& model, Constraint& constraint) {
  if (constraint.kind != Kind::structural_tag) return;
  constraint.special.clear();
  for (const TokenId id : model.special_ids) {
    const std::string_view text = model.tokenizer()->token_bytes(id);
    if (text.size() >= 2 && constraint.text.find(text) != std::string::npos) constraint.special.push_back(id);
  }
  std::vector<TokenId>& free = constraint.special_in_free_text;
  free.insert(free.end(), constraint.special.begin(), constraint.special.end());
  std::ranges::sort(free);
  free.erase(std::unique(free.begin(), free.end()), free.end());
  const std::vector<TokenId>& ends = model.info().end_tokens;
  std::erase_if(free, [&](TokenId id) { return std::ranges::find(ends, id) != ends.end(); });
}

}  // namespace

Result<> constrain(const Call& call, ConstraintFields& asked, RequestFields& fields) {
  if (asked.constraint.kind == Kind::none) return success();
  fields.json_closing = asked.json_closing;
  fields.constraint_place = asked.place;
  if (asked.compiled != nullptr) {
    fields.grammar = asked.compiled;
    return success();
  }
  asked.constraint.flexible_whitespace =
      asked.flexible_whitespace.value_or(call.service.options.json_whitespace == "flexible");
  name_special_tokens(*call.model, asked.constraint);
  Constraint taken = std::move(asked.constraint);  // its text may be large
  asked.constraint = {};
  asked.constraint.kind = taken.kind;
  auto compiled = compile(call, std::move(taken));
  if (compiled.ok()) {
    fields.grammar = asked.compiled = std::move(compiled).value();
    return success();
  }
  Error error = std::move(compiled).error();
  const bool too_large = error.kind == Error::Kind::too_large;  // whatever the time
  if (!call.may_be_slow && error.code == "grammar_too_complex" && !too_large) return call.run_again_slowly();
  error.message = fmt::format("{}: {}", asked.place, error.message);
  error.field = asked.place;
  return error;
}

}  // namespace espalier::server
