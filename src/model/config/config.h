// config.h: what a checkpoint says of its model, the same whether it came from config.json or from GGUF metadata.
//
// Readers (hf_config.h, gguf_config.h) are the only makers: every number lies in its range and agrees with the others,
// so whoever allocates by it need not ask again.
// Units:   positions in tokens. Threads: a value.
// Fails:   readers with Error::bad_file naming file, field, value and limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/types.h"
#include "model/quant/quantisation.h"
#include "model/spec.h"
#include "tensor/dtype.h"

namespace espalier {

// What the checkpoint has on top of the decoder.
enum class Head { language_model, none, classification };

// A checkpoint's model, its numbers checked.
struct ModelConfig {
  std::string architecture;  // of the table: "llama"
  std::string class_name;    // as config.json has it, or as HF would call it: "LlamaForCausalLM"
  Head head = Head::language_model;
  int labels = 0;                        // of a classification head
  std::vector<std::string> label_names;  // as many, or none

  ModelSpec spec;
  int vocabulary = 0;
  std::int64_t context_length = 0;  // positions a sequence may have, scaling considered

  std::optional<TokenId> bos, pad;
  std::vector<TokenId> eos;  // in the file's order, without repetitions
  std::optional<DType> stored_type;
  Quantisation quantisation;  // of an HF checkpoint
};

// What a checkpoint's generation_config.json proposes; a request's own values win.
struct GenerationDefaults {
  std::vector<TokenId> eos;  // to be added to ModelConfig::eos
  std::optional<bool> do_sample;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int64_t> top_k, max_new_tokens;
};

// Special tokens lie inside the vocabulary.
Result<> check_tokens(const ModelConfig& config, std::string_view file);

// Whether this build computes what the configuration says. Fails: unsupported, naming what it does not.
Result<> can_compute(const ModelConfig& config);

// "... is not supported; the nearest supported are llama (LlamaForCausalLM), ..."; `unknown`: fields of the
// configuration that the nearest one does not know.
Error unsupported_architecture(std::string_view file, std::string_view field, std::string_view found,
                               const std::vector<std::string>& unknown = {});

}  // namespace espalier
