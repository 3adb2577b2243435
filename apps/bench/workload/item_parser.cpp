#include "bench/workload/item_parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json_fields.h"

namespace espalier::bench {
namespace {

constexpr IntegerRange kTokens{1, 1'000'000};

Result<std::vector<std::string>> strings_of(const Json& list, const std::string& place) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    ESP_TRY(std::string text, as_string(list[i], fmt::format("{}[{}]", place, i)));
    out.push_back(std::move(text));
  }
  return out;
}

Result<Messages> parse_messages(const Json& list) {
  if (list.empty()) return bad_request("messages is empty", "messages");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("messages[{}]", i);
    ESP_CHECK(get_string(list[i], {"role", place}));
    ESP_CHECK(get_string(list[i], {"content", place}));
  }
  return Messages{list, false};
}

Result<RequestWork> parse_request(const Json& line, bool chat) {
  RequestWork work;
  ESP_TRY(work.call, parse_generation(line, ""));
  if (chat) {
    ESP_TRY(const Json* messages, get_array(line, "messages"));
    ESP_TRY(work.call.prompt, parse_messages(*messages));
  } else {
    ESP_TRY(work.call.prompt, get_string(line, "prompt"));
  }
  if (find_field(line, "choices")) {
    ESP_TRY(work.choices, parse_choices(line, ""));
  }
  return work;
}

// The longest of the beginnings that the item says it shares.
Result<int> parse_share(const Json& line) {
  std::int64_t longest = 0;
  ESP_TRY(const Json* groups, find_array(line, "share"));
  for (std::size_t i = 0; groups && i < groups->size(); ++i) {
    ESP_TRY(const auto bytes, get_integer((*groups)[i], {"bytes", fmt::format("share[{}]", i)}, {0, 1 << 30}));
    longest = std::max(longest, bytes);
  }
  return static_cast<int>(longest);
}

}  // namespace

Result<std::vector<std::string>> parse_choices(const Json& object, std::string_view place) {
  const JsonField field("choices", place);
  ESP_TRY(const Json* list, get_array(object, field));
  if (list->size() < 2)
    return bad_request(fmt::format("{} needs at least two choices, but has {}", field.path(), list->size()),
                       field.path());
  return strings_of(*list, field.path());
}

int tokens_of_choices(const std::vector<std::string>& choices) {
  std::size_t longest = 1;
  for (const std::string& choice : choices) longest = std::max(longest, choice.size());
  return static_cast<int>(std::min<std::size_t>((longest + 3) / 4, 4096));
}

Result<Call> parse_generation(const Json& object, std::string_view place) {
  Call call;
  ESP_TRY(const auto max_tokens, get_integer(object, {"max_tokens", place}, kTokens));
  call.max_tokens = static_cast<int>(max_tokens);
  ESP_TRY(call.temperature, find_number(object, {"temperature", place}, {0, 100}));
  ESP_TRY(const auto samples, find_integer(object, {"n", place}, {1, 64}));
  call.samples = static_cast<int>(samples.value_or(1));
  ESP_TRY(const auto ignore_eos, find_boolean(object, {"ignore_eos", place}));
  call.ignore_eos = ignore_eos.value_or(false);
  ESP_TRY(const auto expected, find_integer(object, {"expect", place}, {0, 1'000'000}));
  call.expected_output_tokens = static_cast<int>(expected.value_or(0));
  if (const Json* stop = find_field(object, "stop"); stop && stop->is_string()) {
    call.stop = {stop->get<std::string>()};
  } else {
    ESP_TRY(const Json* list, find_array(object, {"stop", place}));
    if (list) {
      ESP_TRY(call.stop, strings_of(*list, JsonField("stop", place).path()));
    }
  }
  ESP_TRY(const auto regex, find_string(object, {"regex", place}));
  ESP_TRY(const Json* schema, find_object(object, {"json_schema", place}));
  if (regex && schema)
    return bad_request(JsonField("regex", place).path() + " and json_schema exclude each other", "regex");
  call.constraint.regex = regex.value_or("");
  if (schema) call.constraint.json_schema = *schema;
  return call;
}

Result<Item> parse_item(const Json& line, bool programs, bool chat) {
  Item item;
  ESP_TRY(item.id, get_string(line, "id"));
  ESP_TRY(item.arrival, find_number(line, "arrival", {0, 1e9}));
  if (const Json* answer = find_field(line, "answer")) item.answer = *answer;
  ESP_TRY(item.shared, parse_share(line));
  if (programs) {
    ESP_TRY(const Json* ops, get_array(line, "ops"));
    ESP_TRY(item.work, parse_program(*ops, chat));
  } else {
    ESP_TRY(item.work, parse_request(line, chat));
  }
  return item;
}

}  // namespace espalier::bench
