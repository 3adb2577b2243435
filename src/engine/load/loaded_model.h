// loaded_model.h: everything that comes out of a model's files: weights, hyperparameters, tokenizer, template,
// defaults.
//
// A GGUF file holds all of it; an HF directory has it in several files. A directory without weights serves under dummy
// weights, one without a tokenizer serves token ids.
// EngineOptions::load_format only says what a model has to be: bad_request for another one.
// Fails: not_found, bad_file (naming file and field or tensor), unsupported, out_of_memory.
#pragma once

#include <memory>

#include "base/threads/compute_team.h"
#include "engine/load/model_tokenizer.h"
#include "espalier/engine.h"
#include "model/config/config.h"
#include "model/decoder.h"
#include "model/tower_spec.h"
#include "tensor/tensor_file.h"

namespace espalier {

struct ModelFiles {  // opened, nothing loaded yet
  std::unique_ptr<TensorFile> weights;
  Naming naming = Naming::hf;
  ModelConfig config;
  std::optional<TowerSpec> tower;             // none: it has none, or one that is not supported here
  std::unique_ptr<TensorFile> tower_weights;  // of a tower in a file of its own; null: among the weights
  std::string tower_path, picture_settings;   // where that is, and ModelInfo::picture_settings
  bool tower_named = false;                   // by the caller, so that it must be usable
  GenerationDefaults defaults;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: token ids only
  std::optional<PooledInfo> pooled;            // none: it generates text; its width is not known yet
  std::string chat_template;                   // source; empty when there is none
  std::string tool_template;                   // the source for requests with tools; empty: the same
  std::string tokenizer_path;
};

Result<ModelFiles> open_model_files(const EngineOptions& options);

// "Q4_1", "Q4_K mixed", "BF16": the type that holds most of the parameters.
std::optional<DType> dominant_dtype(const TensorFile& file);
std::string dominant_type(const TensorFile& file);
std::int64_t parameter_count(const TensorFile& file);

}  // namespace espalier
