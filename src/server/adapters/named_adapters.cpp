#include "server/adapters/named_adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/fields/field_table.h"

namespace espalier::server {
namespace {

constexpr std::size_t kMostNamed = 1024;  // that one body names

Error no_such_adapter(std::string_view asked) {
  return {Error::Kind::not_found,
          fmt::format("there is no adapter {}; /v1/models lists those that are served", in_quotes(asked, 200)),
          "lora_path", "model_not_found"};
}

// What stands in lora_path, one for all or one for each prompt; "" for null.
Result<std::vector<std::string>> lora_paths(const Json& body) {
  std::vector<std::string> names;
  const Json* given = body.is_object() ? find_field(body, "lora_path") : nullptr;
  if (given == nullptr) return names;
  ESP_CHECK(check_adapter_names(*given, "lora_path"));
  if (given->is_string()) return std::vector<std::string>{given->get<std::string>()};
  for (const Json& one : *given) names.push_back(one.is_null() ? std::string() : one.get<std::string>());
  return names;
}

}  // namespace

Result<NamedAdapters::Target> NamedAdapters::target(AdapterSet& adapters, const ModelSet& models,
                                                    std::string_view named, const Json& body) {
  if (names_no_model(named)) {
    ESP_TRY(const auto paths, lora_paths(body));
    for (const std::string& path : paths)
      if (const auto found = path.empty() ? std::nullopt : adapters.find(path)) return Target{found->place, {}};
    return Target{};
  }
  const auto place = models.place_of(named);
  if (place.ok()) return Target{*place, {}};
  if (const auto found = adapters.find(named)) return Target{found->place, found->name};
  return place.error();
}

Result<NamedAdapters::Target> NamedAdapters::known_target(AdapterSet& adapters, const ModelSet& models,
                                                          std::string_view named) {
  if (names_no_model(named)) return Target{};
  const auto place = models.place_of(named);
  if (place.ok()) return Target{*place, {}};
  if (const auto found = adapters.find_known(named)) return Target{found->place, found->name};
  return place.error();
}

Result<> NamedAdapters::add(AdapterSet& adapters, int place, const std::string& name) {
  if (name.empty() || names_.contains(name)) return success();
  if (names_.size() >= kMostNamed)
    return bad_request(fmt::format("lora_path names more than {} adapters", kMostNamed), "lora_path");
  const auto found = adapters.find(name);
  if (!found) return no_such_adapter(name);
  if (found->place != place)
    return bad_request(fmt::format("the adapter {} is for another model than the request", in_quotes(name)),
                       "lora_path");
  names_.emplace(name, found->name);
  return success();
}

Result<NamedAdapters> NamedAdapters::of(AdapterSet& adapters, const Target& target, std::string_view named,
                                        const Json& body, AdapterUse use) {
  NamedAdapters out;
  if (!target.adapter.empty()) {
    out.named_ = named;
    out.by_model_ = target.adapter;
    out.names_.emplace(target.adapter, target.adapter);
  }
  if (use == AdapterUse::none) return out;
  ESP_TRY(out.by_path_, lora_paths(body));
  if (use != AdapterUse::each && out.by_path_.size() > 1)
    return bad_request(
        fmt::format("lora_path has {} entries, but this route takes one adapter for all of its body; send "
                    "its name",
                    out.by_path_.size()),
        "lora_path");
  for (const std::string& path : out.by_path_) ESP_CHECK(out.add(adapters, target.place, path));
  ESP_CHECK(out.add_numbered(adapters, target.place, body));
  if (use == AdapterUse::named) out.names_.clear();
  return out;
}

// Those with a scale of 0 do not apply.
Result<> NamedAdapters::add_numbered(AdapterSet& adapters, int place, const Json& body) {
  const Json* given = body.is_object() ? find_field(body, "lora") : nullptr;
  if (given == nullptr || !given->is_array() || given->empty()) return success();
  adapters.look();
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

Result<> NamedAdapters::check_count(std::size_t prompts) const {
  if (by_path_.size() <= 1 || by_path_.size() == prompts) return success();
  return bad_request(fmt::format("lora_path has {} entries for {} prompts; send one for all, or one per prompt",
                                 by_path_.size(), prompts),
                     "lora_path");
}

std::shared_ptr<const LoraAdapter> NamedAdapters::get(std::size_t i) const {
  std::string name = by_number_.empty() ? by_model_ : by_number_;
  if (!by_path_.empty()) {
    const std::string& path = by_path_[by_path_.size() == 1 ? 0 : std::min(i, by_path_.size() - 1)];
    if (const auto known = names_.find(path); known != names_.end()) name = known->second;
  }
  const auto found = taken_.find(name);
  return found == taken_.end() ? nullptr : found->second;
}

}  // namespace espalier::server
