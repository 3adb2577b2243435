#include "store/store.h"

#include <fmt/format.h>

#include "store/hub/hub_cache.h"
#include "store/hub/hub_pull.h"
#include "store/package_model.h"

namespace espalier::store {
namespace {

Error not_cached(const std::string& name, const Settings& settings) {
  return {Error::Kind::not_found,
          fmt::format("{} is not in the cache {}; `espalier pull {}` fetches it", name, settings.cache.string(), name),
          "model", "model_not_found"};
}

std::uint64_t bytes_of(const Model& model) {
  std::error_code code;
  const auto bytes = std::filesystem::file_size(model.path, code);
  return code ? 0 : bytes;
}

}  // namespace

Store::Store(Settings settings) : Store(std::move(settings), {packaged_models().begin(), packaged_models().end()}) {}
Store::Store(Settings settings, std::vector<PackagedModel> aliases)
    : settings_(std::move(settings)), aliases_(std::move(aliases)) {}

// A folder that merely bears an alias's name does not hide the alias; one that holds a model does.
Result<ModelName> Store::meaning(const std::string& name) const {
  auto parsed = parse_model_name(name, aliases_);
  const bool path = parsed.ok() && std::holds_alternative<PathName>(*parsed);
  if (path || name.empty() || name.find('\0') != std::string::npos || !exists_locally(name)) return parsed;
  return parsed.ok() && !local_model(name).ok() ? std::move(parsed) : Result<ModelName>(PathName{name});
}

Result<Model> Store::find(const std::string& name) const {
  ESP_TRY(const ModelName meant, meaning(name));
  if (const auto* path = std::get_if<PathName>(&meant)) return local_model(path->path);
  if (const auto* hub = std::get_if<HubName>(&meant)) return HubCache(settings_.hub_cache).find(name, *hub);
  auto found = find_package_model(settings_, std::get<PackagedModel>(meant));
  if (!found) return not_cached(name, settings_);
  return *found;
}

Result<Model> Store::pull(const std::string& name, Progress& progress, std::stop_token stop) {
  ESP_TRY(const ModelName meant, meaning(name));
  if (const auto* path = std::get_if<PathName>(&meant)) return local_model(path->path);
  if (const auto* packaged = std::get_if<PackagedModel>(&meant))
    return pull_package_model(settings_, *packaged, progress, std::move(stop));
  const HubName& hub = std::get<HubName>(meant);
  if (!settings_.offline) return pull_hub_model(settings_, name, hub, progress, std::move(stop));
  auto found = HubCache(settings_.hub_cache).find(name, hub);
  if (!found.ok())
    return Error{Error::Kind::not_found,
                 fmt::format("{} is not in the cache {}, and fetching it is switched off (HF_HUB_OFFLINE)", name,
                             settings_.hub_cache.string()),
                 "model", "model_not_found"};
  return found;
}

Result<Model> Store::resolve(const std::string& name, Progress& progress, std::stop_token stop) {
  auto found = find(name);
  if (found.ok() || found.error().kind != Error::Kind::not_found) return found;
  return pull(name, progress, std::move(stop));
}

Result<std::vector<CachedModel>> Store::list() const {
  std::vector<CachedModel> models;
  for (const PackagedModel& alias : aliases_)
    if (auto found = find_package_model(settings_, alias))
      models.push_back({alias.alias, found->form, found->path, {}, bytes_of(*found)});
  for (HubCache::Entry& entry : HubCache(settings_.hub_cache).models())
    models.push_back({std::move(entry.model.name), entry.model.form, std::move(entry.model.path),
                      std::move(entry.model.revision), entry.bytes});
  return models;
}

}  // namespace espalier::store
