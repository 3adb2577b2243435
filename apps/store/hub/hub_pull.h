// hub_pull.h: brings a hub's repository into the cache: what a model needs of it, resumed where a download was cut off,
// every file compared with the hash the hub states. A few files come at once.
// Fails: see hub_client.h and disk.h; what came so far stays for the next attempt.
#pragma once

#include <stop_token>
#include <string>

#include "store/hub/hub_cache.h"
#include "store/hub/progress.h"
#include "store/settings.h"

namespace espalier::store {

Result<Model> pull_hub_model(const Settings& settings, const std::string& given_name, const HubName& name,
                             Progress& progress, std::stop_token stop);

}  // namespace espalier::store
