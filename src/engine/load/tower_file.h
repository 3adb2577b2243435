// tower_file.h: the vision tower of a GGUF model, which has a file of its own: llama.cpp's mmproj-*.gguf.
//
// EngineOptions::tower_path names it; without it the one beside the model is taken, as its name says
// (tensor/file/gguf_names.h), or, where a hub's cache keeps the model in a folder of its repository, the one at the
// top of that. A tower that was found and cannot be used leaves the text model alone, and the log says so; one that was named
// is an error.
// Threads: one, while a model's files are opened.
// Fails:   not_found, bad_file naming file, key or tensor; bad_request: another width than the text model's, or no GGUF model.
#pragma once

#include <filesystem>
#include <optional>

#include "engine/load/loaded_model.h"

namespace espalier {

// The tower that lies beside a GGUF model; nullopt: none that belongs to it.
std::optional<std::filesystem::path> tower_file_beside(const std::filesystem::path& model);

// Gives a GGUF model its tower. Requires: configuration and text of the model are there.
Result<> take_tower_file(const EngineOptions& options, ModelFiles& files);

}  // namespace espalier
