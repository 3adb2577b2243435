// loaded_draft.h: the draft model out of its files, with a pool of its own.
//
// It must speak the target's tokens: as many ids, and the same text for each. The pool has as many tokens as the
// target's, but at most half of its bytes; sequences that find no room there go on without the model's guesses.
// Order:   load_draft, then give_pool once the size of the target's pool is known.
// Fails: as loaded_model.h and KvPool, naming draft_model; bad_request when the vocabularies differ.
#pragma once

#include <memory>

#include "engine/draft/draft_model.h"
#include "engine/engine_options.h"
#include "engine/load/device_to_compute.h"
#include "engine/load/loaded_model.h"

namespace espalier {

// A draft model out of its files; it can run once give_pool() has given it a pool.
struct LoadedDraft {
  std::string name;
  bool keeps_prefixes = true;
  ModelFiles files;
  std::unique_ptr<Decoder> decoder;
  std::int64_t mapped_bytes = 0;  // of weights
  CacheLayout layout;
  KvPool kv;
  std::unique_ptr<DraftModel> model;  // null before give_pool()
  std::string description;            // in words: what it is, and the memory it takes

  // What its pool takes beside each token of the target's.
  std::size_t bytes_per_token(const CacheLayout& target) const;
  Result<> give_pool(const CacheLayout& target, int target_tokens, std::vector<TokenId> end_tokens, ComputeTeam& team,
                     const device::Device* device);
};

// Null when no model is to guess.
Result<std::unique_ptr<LoadedDraft>> load_draft(const EngineOptions& options, const EngineChoices& chosen,
                                                const ModelFiles& target, ComputeTeam& team,
                                                const DeviceToCompute* compute);

// Why the two do not speak the same tokens. Null tokenizers are not compared.
Result<> same_tokens(const ModelFiles& draft, const ModelFiles& target);

}  // namespace espalier
