// sentence_transformer.h: what a folder of sentence-transformers says beside the model: pooling, Dense layers, norms, prompts.
//
// modules.json lists folders: 1_Pooling/config.json, 2_Dense with its matrix, ...; config_sentence_transformers.json has
// prompts, sentence_bert_config.json the length of texts.
// Threads: pure functions, but for reading the files.
// Fails: bad_file naming file and field; unsupported for a module or a pooling that is not computed here.
// Source: sentence-transformers 2 to 5.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/engine.h"
#include "model/pooled_output.h"
#include "model/spec.h"

namespace espalier {

// The folder's modules.
struct SentenceTransformer {
  struct Dense {
    std::string folder;  // of its model.safetensors, below the model's
    int inputs = 0, outputs = 0;
    bool bias = true;
    Activation how = {ActivationKind::tanh};
  };
  std::optional<Pooling> pooling;  // none: no module says
  bool pools_prompt = true, normalised = false, lower_case = false;
  std::vector<Dense> dense;
  std::vector<std::pair<std::string, std::string>> prompts;
  std::string usual_prompt;
  std::optional<int> longest;  // tokens of a text
};

// None: the folder has no modules.json.
Result<std::optional<SentenceTransformer>> read_sentence_transformer(const std::filesystem::path& folder);

// "last", "first" or "cls", "mean", "none", ... and back.
std::optional<Pooling> pooling_named(std::string_view name);
std::string_view name(Pooling how);

// Puts the pooling and the Dense layers behind the model; their tensors are asked for as FOLDER/linear.weight.
void pool_as_told(const SentenceTransformer& told, ModelSpec& spec);

}  // namespace espalier
