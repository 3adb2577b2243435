// adapter_file.h: a LoRA adapter as it lies in its files: PEFT's folder (adapter_config.json, adapter_model.safetensors) or
// a GGUF file of general.type adapter, as llama.cpp's convert_lora_to_gguf.py writes it.
//
// Here modules have the names that checkpoints of the adapter's kind give them, without PEFT's own parts: what they mean
// for a model is bind_adapter.h's.
// Source:  PEFT's LoraConfig, save_pretrained() and get_pattern_key(); llama.cpp's llama-adapter.cpp.
// Threads: values. Fails: not_found or bad_file naming file, field or tensor; unsupported for what PEFT knows and this
//          does not (DoRA, other kinds of adapters, replicated layers).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/weights/names.h"
#include "tensor/tensor_file.h"

namespace espalier {

// The factors of one module: what is added to its product is scale * (x A^T) B^T.
struct AdapterFactors {
  std::string module;            // "model.layers.0.self_attn.q_proj", "blk.0.attn_q"
  const Tensor* a = nullptr;     // [rank, inputs]; of a table that is looked up, [rank, rows] or, turned, [rows, rank]
  const Tensor* b = nullptr;     // [outputs, rank]
  const Tensor* bias = nullptr;  // of B: [outputs]; null without
  bool looked_up = false, turned = false;
  float scale = 1.0f;
  int rank() const { return static_cast<int>(b->columns()); }
};

// A tensor that stands instead of the model's: "weight" or "bias" of a module.
struct AdapterTensor {
  std::string module, ending;
  const Tensor* tensor = nullptr;
};

// All that an adapter's files hold.
struct AdapterFile {
  Naming naming = Naming::hf;
  std::shared_ptr<const TensorFile> file;
  std::vector<AdapterFactors> factors;
  std::vector<AdapterTensor> tensors;
  std::string print;  // of contents: 16 hexadecimal digits
};

// The model that a PEFT folder says it is for; empty: it does not, or is none.
std::string base_model_of(const std::filesystem::path& folder);

// `path`: a folder or a .gguf file. most_rank: factors of a larger one are refused; 0 = none is.
Result<AdapterFile> open_adapter(const std::filesystem::path& path, int most_rank = 0);

}  // namespace espalier
