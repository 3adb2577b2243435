#include <fmt/format.h>

#include "base/json/json.h"
#include "espalier/program.h"
#include "lang/state_core.h"

namespace espalier {

std::string Value::text() const {
  if (const auto* text = std::get_if<std::string>(&data_)) return *text;
  if (const auto* list = std::get_if<List>(&data_)) return list->empty() ? std::string() : list->front().text();
  if (const Json* held = numbers()) return held->dump();
  return std::get<std::shared_ptr<const ForeignValue>>(data_)->text();
}

Value Value::of_numbers(Json numbers) {
  Value value;
  value.data_ = std::make_shared<const Json>(std::move(numbers));
  return value;
}

const Value::List& Value::list() const {
  if (const auto* list = std::get_if<List>(&data_)) return *list;
  throw ProgramError(bad_request(fmt::format("the value {} is a text, not a list", in_quotes(text(), 40))));
}

Json Value::json() const {
  if (const Json* held = numbers()) return *held;
  if (is_list()) {
    Json all = Json::array();
    for (const Value& value : list()) all.push_back(value.json());
    return all;
  }
  auto parsed = parse_json(text());
  if (!parsed.ok())
    throw ProgramError(
        bad_request(fmt::format("the value {} is no JSON ({}): a regex or json_schema on its gen() makes it one",
                                in_quotes(text(), 40), parsed.error().message)));
  return std::move(parsed).value();
}

Json Value::typed() const {
  if (const Json* held = numbers()) return *held;
  if (is_list()) {
    Json all = Json::array();
    for (const Value& value : list()) all.push_back(value.typed());
    return all;
  }
  std::string plain = text();
  const auto from = plain.find_first_not_of(" \n\t\r");
  plain = from == std::string::npos ? "" : plain.substr(from, plain.find_last_not_of(" \n\t\r") - from + 1);
  if (plain == "True" || plain == "False") return plain == "True";
  if (plain.starts_with('+')) plain.erase(0, 1);
  if (plain.starts_with('.')) plain.insert(0, 1, '0');
  auto parsed = parse_json(plain);
  return parsed.ok() ? std::move(parsed).value() : Json(text());
}

Value Variable::value() const {
  if (awaits_) state_->await_function(name_, {});
  auto read = state_->read(name_);
  if (!read.ok()) throw ProgramError(std::move(read).error());
  return std::move(read).value();
}

}  // namespace espalier
