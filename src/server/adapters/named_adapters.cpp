#include "server/adapters/named_adapters.h"

#include <fmt/format.h>

#include <utility>

namespace espalier::server {
namespace {

constexpr std::size_t kMostNamed = 1024;  // that one body names

Error no_such_adapter(std::string_view asked) {
  return {Error::Kind::not_found,
          fmt::format("there is no adapter {}; /v1/models lists those that are served", in_quotes(asked, 200)),
          "lora_path", "model_not_found"};
}

// What stands in lora_path: names and nulls.
Result<std::vector<std::string>> lora_paths(const Json& body) {
  if (body.is_object() && find_field(body, "lora_name") != nullptr)  // to load or unload one, not to use it
    return std::vector<std::string>();
  std::vector<std::string> names;
  const Json* given = body.is_object() ? find_field(body, "lora_path") : nullptr;
  if (given == nullptr) return names;
  if (given->is_string()) return std::vector<std::string>{given->get<std::string>()};
  if (!given->is_array())
    return bad_request("lora_path must be an adapter's name, or a list of such and null", "lora_path");
  for (std::size_t i = 0; i < given->size(); ++i) {
    const Json& one = (*given)[i];
    const std::string place = fmt::format("lora_path[{}]", i);
    if (one.is_null()) continue;
    ESP_TRY(names.emplace_back(), as_string(one, place));
    if (names.size() > kMostNamed)
      return bad_request(fmt::format("lora_path names more than {} adapters", kMostNamed), "lora_path");
  }
  return names;
}

}  // namespace

Result<NamedAdapters::Target> NamedAdapters::target(AdapterSet& adapters, const ModelSet& models,
                                                    std::string_view named, const Json& body) {
  if (names_no_model(named)) {
    ESP_TRY(const auto paths, lora_paths(body));
    for (const std::string& path : paths)
      if (const auto found = adapters.find(path)) return Target{found->place, {}};
    return Target{};
  }
  const auto place = models.place_of(named);
  if (place.ok()) return Target{*place, {}};
  if (const auto found = adapters.find(named)) return Target{found->place, found->name};
  return place.error();
}

Result<> NamedAdapters::add(AdapterSet& adapters, int place, const std::string& name) {
  if (name.empty() || names_.contains(name)) return success();
  const auto found = adapters.find(name);
  if (!found) return no_such_adapter(name);
  if (found->place != place)
    return bad_request(fmt::format("the adapter {} is for another model than the request", in_quotes(name)),
                       "lora_path");
  names_.emplace(name, found->name);
  return success();
}

Result<NamedAdapters> NamedAdapters::of(AdapterSet& adapters, const Target& target, std::string_view named,
                                        const Json& body) {
  NamedAdapters out;
  if (!target.adapter.empty()) {
    out.named_ = named;
    out.by_model_ = target.adapter;
    out.names_.emplace(target.adapter, target.adapter);
  }
  ESP_TRY(const auto paths, lora_paths(body));
  for (const std::string& path : paths) ESP_CHECK(out.add(adapters, target.place, path));
  ESP_CHECK(out.add_numbered(adapters, target.place, body));
  return out;
}

// Those with a scale of 0 do not apply.
Result<> NamedAdapters::add_numbered(AdapterSet& adapters, int place, const Json& body) {
  const Json* given = body.is_object() ? find_field(body, "lora") : nullptr;
  if (given == nullptr || !given->is_array() || given->empty()) return success();
  const std::vector<AdapterEntry> all = adapters.list();
  for (const Json& one : *given) {
    if (!one.is_object()) return bad_request("lora must be a list of objects {\"id\": N, \"scale\": 1}", "lora");
    ESP_TRY(const auto id, get_integer(one, {"id", "lora[]"}));
    ESP_TRY(const auto scale, find_number(one, {"scale", "lora[]"}));
    if (id < 0 || std::cmp_greater_equal(id, all.size()))
      return bad_request(fmt::format("lora names the adapter {}, but there are {} (/lora-adapters)", id, all.size()),
                         "lora");
    if (scale == 0.0) continue;
    if (scale.value_or(1) != 1 || !by_number_.empty())
      return bad_request("lora may name one adapter, with a scale of 1", "lora", "unsupported_parameter");
    by_number_ = all[static_cast<std::size_t>(id)].name;
    ESP_CHECK(add(adapters, place, by_number_));
  }
  return success();
}

bool NamedAdapters::take_loaded(AdapterSet& adapters, const ServedModel& model) {
  for (const auto& [asked, name] : names_) {
    if (taken_.contains(name)) continue;
    auto adapter = adapters.use_if_loaded(name, model);
    if (adapter == nullptr) return false;
    taken_.emplace(name, std::move(adapter));
  }
  return true;
}

Result<> NamedAdapters::load(AdapterSet& adapters, const ServedModel& model) {
  for (const auto& [asked, name] : names_) {
    if (taken_.contains(name)) continue;
    ESP_TRY(auto adapter, adapters.use(name, model));
    taken_.emplace(name, std::move(adapter));
  }
  return success();
}

Result<std::shared_ptr<const LoraAdapter>> NamedAdapters::get(std::string_view lora_path) const {
  std::string_view name = by_number_.empty() ? by_model_ : by_number_;
  if (!lora_path.empty()) {
    const auto known = names_.find(lora_path);
    if (known == names_.end()) return no_such_adapter(lora_path);
    name = known->second;
  }
  const auto found = taken_.find(name);
  return found == taken_.end() ? std::shared_ptr<const LoraAdapter>() : found->second;
}

}  // namespace espalier::server
