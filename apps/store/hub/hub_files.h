// hub_files.h: which files of a repository a model needs.
//
// Pure functions over the list of names, so that the same rule decides what is fetched and what counts as complete.
// Fails: not_found or unsupported, naming what the repository has instead; bad_file for an index that names no plain
// file or a file that is not there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"

namespace espalier::store {

struct HubFile {
  std::string path;  // inside the repository, with "/"
  std::optional<std::uint64_t> bytes = {};
  std::string sha256 = {};    // of a large file; else empty
  std::string git_sha1 = {};  // Git's name of a small one; else empty
};

struct HubChoice {
  std::string name;                // of a GGUF: its file name, of a split one without the part's number; else empty
  std::string main;                // of a GGUF: the file to open (of a split one, the first part); else empty
  std::vector<std::string> files;  // all that are needed, the small ones first
  std::string index;               // of sharded safetensors: read it, then ask again with its content
};

// Whether a path inside a repository may become a path inside our folder.
bool is_safe_path(std::string_view path);

// The GGUF (all parts of it) that `quant` names; without a quant the only one there is, else Q4_K_M.
Result<HubChoice> choose_gguf(std::span<const HubFile> files, std::string_view quant);

// The vision tower (mmproj-*.gguf) of the model in the GGUF `main`: beside it, else in the top folder; nullopt: none.
std::optional<std::string> tower_of(std::span<const HubFile> files, const std::string& main);

// All GGUFs that are there with all their parts.
std::vector<HubChoice> gguf_choices(std::span<const HubFile> files);

// With a quant a GGUF. Else safetensors with configuration and tokenizer, or when there are none, a GGUF. Sharded
// weights need the index's content: without it the choice holds the index only.
Result<HubChoice> choose_files(std::span<const HubFile> files, std::string_view quant,
                               std::optional<std::string_view> index_content = std::nullopt);

// The file names in an index's weight_map, each once.
Result<std::vector<std::string>> shards_of_index(std::string_view content);

}  // namespace espalier::store
