// local_model.h: a path on disk -> what can be opened there.
//
// Threads: pure functions over the file system.
// Fails:   not_found (nothing there), bad_file (something there that is no model), each saying what was expected.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "espalier/error.h"

namespace espalier::store {

enum class ModelForm {
  gguf,       // `path` is a GGUF file (of a split one, the first part)
  directory,  // `path` is a folder in the Hugging Face form: config.json, perhaps tokenizer and *.safetensors
};

struct Model {
  std::string name;  // as the user gave it
  ModelForm form = ModelForm::gguf;
  std::filesystem::path path;
  std::string revision;  // the commit, of a hub's repository; else empty
};

// A GGUF file, a folder with config.json, or a folder whose only model is one GGUF (split or not). "~/" is expanded.
Result<Model> local_model(const std::string& path);

// The models in a folder that is none itself: folders with config.json and GGUF files, by name; each is called as its file
// or folder is, without .gguf. Empty for anything else.
std::vector<Model> models_in_folder(const std::string& path);

// Of the files that hold its weights, those of a vision tower beside a GGUF included.
std::uint64_t weight_file_bytes(const Model& model);

// Whether the path names something that exists; `local_model` says whether it is a model.
bool exists_locally(const std::string& path);

}  // namespace espalier::store
