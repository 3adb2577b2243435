// load_decoder.h: a decoder out of a model's files, or out of what an earlier start kept packed (packed_cache.h).
// Fails: out_of_memory with what would fit; as Decoder::load(); bad_file when a file shrank meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/load/loaded_model.h"

namespace espalier {

// A decoder with its weights in place, and where they lie.
struct LoadedDecoder {
  std::unique_ptr<Decoder> decoder;
  std::int64_t mapped_bytes = 0;  // of its weights that lie in a file's pages, which are to stay in memory
  std::string packed_weights;     // ModelInfo::packed_weights
};

Result<LoadedDecoder> load_decoder(const EngineOptions& options, const ModelFiles& files,
                                   const DecoderOptions& decoder_options, ComputeTeam& team,
                                   const Engine::Progress& progress = {});

}  // namespace espalier
