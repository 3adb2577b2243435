// purpose.h: what a checkpoint is served for: text, vectors or scores, by what it is and what the operator asks for.
//
// Threads: pure functions, but for reading the files. Fails: bad_request naming the flag; as sentence_transformer.h.
#pragma once

#include <filesystem>
#include <optional>

#include "base/json/json.h"
#include "engine/load/sentence_transformer.h"
#include "model/config/config.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier {

// Says so in the configuration's spec and context. `told` and `config_json`: of a folder; none or null of a GGUF file.
// None: it generates text.
Result<std::optional<PooledInfo>> choose_purpose(const EngineOptions& options,
                                                 const std::optional<SentenceTransformer>& told,
                                                 const Json& config_json, ModelConfig& config);

// Puts the tokenizer's padding into what stands behind queries.
void name_padding(const Tokenizer& tokenizer, PooledInfo& info);

}  // namespace espalier
