// gguf_config.h: hyperparameters out of a GGUF file's metadata (and, for biases and the head, its list of tensors).
//
// Keys are "<architecture>.<name>". Frequencies of llama3 scaling are not among them: such files carry the tensor
// rope_freqs.weight, which is the weights' business.
// Threads: pure function. Fails: bad_file naming file, key, value and limit.
// Source:  the GGUF specification and the keys that llama.cpp's converter writes.
#pragma once

#include "espalier/error.h"
#include "model/config/config.h"
#include "tensor/file/gguf.h"

namespace espalier {

Result<ModelConfig> read_gguf_config(const GgufFile& file);

// What general.sampling.* proposes, as generation_config.json does beside other checkpoints. A value outside its range is
// left out, with a warning: the file can do without.
GenerationDefaults read_gguf_generation(const GgufFile& file);

}  // namespace espalier
