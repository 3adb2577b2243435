// names.h: what tensors are called in HF checkpoints and in GGUF files.
//
// A block asks for a tensor by its role, which is the name that GGUF files give it ("attn_q", "ffn_down"); HF names
// differ between families, so an architecture lists those that are not Llama's. Layers' names stand under a prefix.
// Source: the checkpoints of each family; gguf-py's tensor mapping for the roles.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

// Where a checkpoint comes from decides how its tensors are called.
enum class Naming { hf, gguf };

// The names of one architecture.
struct Names {
  struct Entry {
    std::string_view role;
    // Of the layer's tensors below the layer's prefix, else whole; without ".weight". Several spellings apart by '|'; {} is
    // the number of a part of the layer.
    std::string name;
  };
  std::string layer_prefix = "model.layers.{}.";  // HF; GGUF's is "blk.{}."
  std::vector<Entry> hf;                          // where they are not Llama's
  std::vector<Entry> gguf;                        // where they are not the role itself

  // layer -1: a tensor of the whole model. Without ".weight" or ".bias". The first spelling that the file has by `known`;
  // else the first.
  std::string of(Naming naming, std::string_view role, int layer, int part = 0,
                 const std::function<bool(const std::string&)>& known = {}) const;
};

// The layer that a tensor's name says, in any family's way ("model.layers.3.mlp...", "transformer.h.3...", "blk.3..."):
// the first number between points. -1: none.
int layer_in(std::string_view tensor);

}  // namespace espalier
