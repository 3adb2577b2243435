// hf_config.h: config.json and generation_config.json of a Hugging Face model folder.
//
// Reads both styles: that of 2023-2025 (rope_theta, rope_scaling, torch_dtype) and transformers 5's (rope_parameters,
// dtype). Keys that no decoder here depends on are ignored; keys that change the computation in a way that cannot be
// honoured (another activation, layer type or scaling) are refused.
// Threads: pure functions, but for reading the files.
// Fails:   not_found, or bad_file naming file, field, value and limit.
// Source:  the configuration classes of transformers, whose defaults are taken over.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "espalier/error.h"
#include "model/config/config.h"

namespace espalier {

Result<ModelConfig> read_hf_config(std::string_view json, const std::string& file_name = "config.json");
Result<ModelConfig> load_hf_config(const std::filesystem::path& folder);

Result<GenerationDefaults> read_generation_config(std::string_view json,
                                                  const std::string& file_name = "generation_config.json");
Result<GenerationDefaults> load_generation_config(const std::filesystem::path& folder);  // empty when there is no file

}  // namespace espalier
