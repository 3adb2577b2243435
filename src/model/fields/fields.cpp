#include "model/fields/fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier {

Fields::Fields(Json object, Naming naming, std::string prefix)
    : object_(std::move(object)),
      naming_(naming),
      prefix_(std::move(prefix)),
      problem_(std::make_shared<std::optional<Error>>()),
      asked_(std::make_shared<std::set<std::string, std::less<>>>()) {}

std::string Fields::path(FieldName name) const {
  std::string_view names = is_gguf() ? name.gguf : name.hf;
  const std::string_view first = names.substr(0, names.find('|'));
  while (!names.empty()) {
    const std::string_view one = names.substr(0, names.find('|'));
    if (find_field(object_, one) != nullptr) return prefix_ + std::string(one);
    names.remove_prefix(std::min(names.size(), one.size() + 1));
  }
  return prefix_ + std::string(first);
}

const Json* Fields::find(FieldName name) const {
  std::string_view names = is_gguf() ? name.gguf : name.hf;
  while (!names.empty()) {
    const std::string_view one = names.substr(0, names.find('|'));
    asked_->emplace(one);
    if (const Json* found = find_field(object_, one)) return found;
    names.remove_prefix(std::min(names.size(), one.size() + 1));
  }
  return nullptr;
}

bool Fields::says_null(FieldName name) const {
  const auto there = object_.find(std::string(is_gguf() ? name.gguf : name.hf));
  return there != object_.end() && there->is_null();
}

void Fields::refuse(Error error) const {
  if (!*problem_) *problem_ = std::move(error);
}
void Fields::refuse(FieldName name, std::string sentence) const {
  refuse(bad_request(std::move(sentence), path(name)));
}

template <class T>
T Fields::taken(Result<T> result, T otherwise) const {
  if (result.ok()) return std::move(result).value();
  refuse(result.error());
  return otherwise;
}

// The value of a layer; of all layers (-1) where a list says the same for each.
const Json* Fields::element(FieldName name, int layer) const {
  const Json* value = find(name);
  if (value == nullptr || !value->is_array()) return value;
  if (layer >= 0) {
    if (static_cast<std::size_t>(layer) < value->size()) {
      const Json& one = (*value)[static_cast<std::size_t>(layer)];
      return one.is_null() ? nullptr : &one;
    }
    refuse(name, fmt::format("{} has {} entries, but there is a layer {}", path(name), value->size(), layer));
    return nullptr;
  }
  if (!value->empty() && std::ranges::all_of(*value, [&](const Json& v) { return v == value->front(); }))
    return &value->front();
  refuse(name, fmt::format("{} differs between layers, which is not supported here", path(name)));
  return nullptr;
}

int Fields::count(FieldName name, std::int64_t most) const {
  const Json* value = element(name, -1);
  if (value == nullptr) {
    refuse(name, path(name) + " is missing");
    return 1;
  }
  return static_cast<int>(taken<std::int64_t>(as_integer(*value, path(name), {1, most}), 1));
}

std::int64_t Fields::integer_or(FieldName name, std::int64_t otherwise, std::int64_t low, std::int64_t most) const {
  const Json* value = element(name, -1);
  return value == nullptr ? otherwise : taken<std::int64_t>(as_integer(*value, path(name), {low, most}), otherwise);
}

int Fields::count_of(FieldName name, int layer, int otherwise, std::int64_t most) const {
  const Json* value = element(name, layer);
  if (value == nullptr) return otherwise;
  return static_cast<int>(taken<std::int64_t>(as_integer(*value, path(name), {0, most}), otherwise));
}

double Fields::number_or(FieldName name, double otherwise, NumberRange range) const {
  return number_of(name, -1, otherwise, range);
}
double Fields::number_of(FieldName name, int layer, double otherwise, NumberRange range) const {
  const Json* value = element(name, layer);
  return value == nullptr ? otherwise : taken<double>(as_number(*value, path(name), range), otherwise);
}

bool Fields::flag_or(FieldName name, bool otherwise) const {
  return flag_of(name, -1, otherwise);
}
bool Fields::flag_of(FieldName name, int layer, bool otherwise) const {
  const Json* value = element(name, layer);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  if (is_gguf() && value->is_number_integer()) return value->get<std::int64_t>() != 0;
  refuse(name, fmt::format("{} must be true or false, but is {} {}", path(name), type_name(*value), value->dump()));
  return otherwise;
}

std::string Fields::word_or(FieldName name, std::string_view otherwise) const {
  return word_of(name, -1, otherwise);
}
std::string Fields::word_of(FieldName name, int layer, std::string_view otherwise) const {
  const Json* value = element(name, layer);
  if (value == nullptr) return std::string(otherwise);
  const std::string place = layer >= 0 ? fmt::format("{}[{}]", path(name), layer) : path(name);
  return taken<std::string>(as_string(*value, place), std::string(otherwise));
}

std::vector<double> Fields::numbers(FieldName name, std::size_t most) const {
  std::vector<double> out;
  const Json* value = find(name);
  if (value == nullptr) return out;
  if (!value->is_array() || value->size() > most) {
    refuse(name, fmt::format("{} must be a list of at most {} numbers", path(name), most));
    return out;
  }
  for (const Json& one : *value)
    out.push_back(taken<double>(as_number(one, fmt::format("{}[{}]", path(name), out.size()), {}), 1.0));
  return out;
}

std::vector<std::int64_t> Fields::integers(FieldName name, std::size_t most) const {
  std::vector<std::int64_t> out;
  const Json* value = find(name);
  if (value == nullptr) return out;
  if (!value->is_array() || value->size() > most) {
    refuse(name, fmt::format("{} must be a list of at most {} integers", path(name), most));
    return out;
  }
  for (const Json& one : *value)
    out.push_back(taken<std::int64_t>(as_integer(one, fmt::format("{}[{}]", path(name), out.size())), 0));
  return out;
}

bool Fields::lists(FieldName name, std::int64_t value) const {
  const auto all = integers(name);
  return std::ranges::find(all, value) != all.end();
}

Fields Fields::at(FieldName name) const {
  const Json* value = find(name);
  if (value != nullptr && !value->is_object()) {
    refuse(name, fmt::format("{} must be an object, but is {}", path(name), type_name(*value)));
    value = nullptr;
  }
  Fields within(value != nullptr ? *value : Json::object(), naming_, path(name) + ".");
  within.problem_ = problem_;
  return within;
}

}  // namespace espalier
