#include "lang/graph/options_json.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <type_traits>

#include "base/json/json.h"
#include "base/json/json_fields.h"

namespace espalier::lang {
namespace {

using O = GenOptions;

// Calls visit(name, member) for every option; the one list of them.
template <class Visit>
void each_option(Visit&& visit) {
  visit("max_tokens", &O::max_tokens);
  visit("min_tokens", &O::min_tokens);
  visit("n", &O::n);
  visit("stop", &O::stop);
  visit("stop_regex", &O::stop_regex);
  visit("stop_token_ids", &O::stop_token_ids);
  visit("temperature", &O::temperature);
  visit("top_p", &O::top_p);
  visit("top_k", &O::top_k);
  visit("min_p", &O::min_p);
  visit("frequency_penalty", &O::frequency_penalty);
  visit("presence_penalty", &O::presence_penalty);
  visit("ignore_eos", &O::ignore_eos);
  visit("seed", &O::seed);
  visit("return_logprob", &O::return_logprob);
  visit("logprob_start_len", &O::logprob_start_len);
  visit("top_logprobs_num", &O::top_logprobs_num);
  visit("return_text_in_logprobs", &O::return_text_in_logprobs);
  visit("dtype", &O::type);
  visit("regex", &O::regex);
  visit("json_schema", &O::json_schema);
  visit("ebnf", &O::ebnf);
  visit("json_closing", &O::json_closing);
}

constexpr std::array<std::string_view, 5> kTypes{"", "int", "float", "bool", "str"};

struct Put {
  Json& out;
  const O& options;
  template <class T>
  void operator()(const char* name, std::optional<T> O::* member) {
    if (options.*member) out[name] = *(options.*member);
  }
  void operator()(const char* name, Strings O::* member) {
    if ((options.*member).is_set()) out[name] = (options.*member).list();
  }
  void operator()(const char* name, std::string O::* member) {
    if (!(options.*member).empty()) out[name] = options.*member;
  }
  void operator()(const char* name, ValueType O::* member) {
    if (options.*member != ValueType::none) out[name] = kTypes[static_cast<std::size_t>(options.*member)];
  }
};

Result<Strings> as_strings(const Json& value, const std::string& place) {
  if (value.is_string()) return Strings(value.get<std::string>());
  std::vector<std::string> list;
  if (!value.is_array()) return bad_request(place + " must be a string or a list of strings", place);
  for (const Json& one : value) {
    ESP_TRY(std::string text, as_string(one, place));
    list.push_back(std::move(text));
  }
  return Strings(std::move(list));
}

Result<std::vector<TokenId>> as_ids(const Json& value, const std::string& place) {
  std::vector<TokenId> ids;
  if (!value.is_array()) return bad_request(place + " must be a list of token ids", place);
  for (const Json& one : value) {
    ESP_TRY(const auto id, as_integer(one, place, {0, std::numeric_limits<TokenId>::max()}));
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

// Reads one field into its member; the field that is at fault is the result's.
struct Take {
  O& options;
  const Json& value;
  std::string_view wanted;
  const std::string& place;
  bool found = false;
  Result<> result = success();

  void operator()(const char* name, auto member) {
    if (name != wanted) return;
    found = true;
    result = read(options.*member);
  }

  template <class T>
    requires std::is_integral_v<T>
  Result<> read(std::optional<T>& to) {
    if constexpr (std::is_same_v<T, bool>) {
      if (!value.is_boolean()) return bad_request(place + " must be true or false", place);
      to = value.get<bool>();
    } else {
      ESP_TRY(const auto number, as_integer(value, place));
      if (!std::in_range<T>(number)) return bad_request(place + " is out of range", place);
      to = static_cast<T>(number);
    }
    return success();
  }
  Result<> read(std::optional<double>& to) {
    ESP_TRY(to, as_number(value, place));
    return success();
  }
  Result<> read(std::optional<std::vector<TokenId>>& to) {
    ESP_TRY(to, as_ids(value, place));
    return success();
  }
  Result<> read(Strings& to) {
    ESP_TRY(to, as_strings(value, place));
    return success();
  }
  Result<> read(std::string& to) {
    ESP_TRY(to, as_string(value, place));
    return success();
  }
  Result<> read(ValueType& to) {
    ESP_TRY(const std::string type, as_string(value, place));
    for (std::size_t i = 1; i < kTypes.size(); ++i) {
      if (kTypes[i] != type) continue;
      to = static_cast<ValueType>(i);
      return success();
    }
    return bad_request(place + " must be int, float, bool or str", place);
  }
};

// What /generate calls an option, where that is not gen()'s name.
std::string_view own_name(std::string_view name) {
  if (name == "max_new_tokens") return "max_tokens";
  if (name == "min_new_tokens") return "min_tokens";
  return name == "sampling_seed" ? "seed" : name;
}

}  // namespace

Json options_to_json(const GenOptions& options) {
  Json out = Json::object();
  each_option(Put{out, options});
  return out;
}

Result<GenOptions> options_from_json(const Json& json, const std::string& place) {
  GenOptions options;
  for (const auto& [name, value] : json.get_ref<const Json::object_t&>()) {
    const std::string field = fmt::format("{}.{}", place, name);
    if (name == "json_schema" && (value.is_object() || value.is_boolean())) {
      options.json_schema = json_text(value);  // as /generate takes it: the schema itself, its numbers as written
      continue;
    }
    Take take{options, value, own_name(name), field};
    each_option([&](const char* known, auto member) { take(known, member); });
    if (!take.found) return bad_request(field + " is not known", field);
    ESP_CHECK(take.result);
  }
  return options;
}

}  // namespace espalier::lang
