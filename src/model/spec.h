// spec.h: what an architecture declares: the blocks of each layer and how they are joined.
//
// An architecture is a function Fields -> ModelSpec (arch/table.h). A block is a value that emits its operations into a
// program (blocks/: one file each); a layer is a few blocks with norms before, after or both, each added to the running
// row. What is rarer (several residual streams, experts beside two attentions) replaces the body of a layer or of the
// model. Threads: values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/pooled_output.h"
#include "model/program/op.h"
#include "model/weights/names.h"

namespace espalier {

class Builder;

// Emits what is computed from the rows; gives where the result stands.
using Block = std::function<Rows(Builder&, Rows)>;

// How rows are normed; the roles say by which vectors.
struct Norm {
  NormOp::Kind kind = NormOp::Kind::rms;
  float eps = 1e-6f;
  bool gain = true, bias = false;
  bool one_plus = false;  // HF checkpoints of the family store the gain less one
};

// One block of a layer: x += scale * after(block(before(x))).
struct Half {
  Block block;
  std::string_view before = {}, after = {};  // roles of norms; empty: none
  float scale = 1.0f;
  float keep = 1.0f;         // factor of what is already there
  bool keep_normed = false;  // what is there is replaced by its norm first
};

// Halves one behind the other, or (parallel) all from the same rows.
struct Layer {
  std::vector<Half> halves;
  bool parallel = false;
  Block body = {};  // instead: x -> x of the next layer
};

// A layer behind the last one that guesses the token after the next (multi-token prediction). Its input is one matrix times
// [embedding of a token | what the model made of the token before, behind the last norm], both normed. Applied again to
// what it made itself it guesses further.
// Roles: nextn.eh_proj, nextn.enorm, nextn.hnorm, nextn.shared_head_norm; nextn.embed_tokens and nextn.shared_head_head
// where the file has them, else the model's are used; those of the layer.
// Source: DeepSeek-V3 (arXiv 2412.19437), section 2.2.
struct DraftLayer {
  Layer layer;
  Names names;
  bool ends_apart = false;     // HF: what is not of the layer itself stands outside its prefix
  bool row_first = false;      // the matrix reads [row | embedding]
  bool before_norm = false;    // rows are those before the last norm, the model's and its own
  bool norm_may_lack = false;  // HF: where it does, the model's last norm stands before the head
};

// One architecture with its numbers: layers, and what stands before and behind them.
struct ModelSpec {
  int vocabulary = 0, hidden = 0;
  Names names;
  bool transposed = false;  // HF checkpoints store matrices [inputs, outputs] (GPT-2)
  Norm norm;                // of layers and before the head
  int embedded = 0;         // tokens that have an embedding, where the head gives fewer; 0: vocabulary
  int embedding = 0;  // width of embeddings, where project_in and project_out lead to and from the layers' ; 0: hidden
  float embedding_scale = 1.0f;
  std::string_view embedding_norm = {};   // role
  int positions = 0, first_position = 0;  // learned ones: how many, and the row of position 0
  std::vector<Layer> layers;
  bool final_norm = true;
  bool tied_head = false;  // the head is the embedding
  bool head_bias = false;
  float logit_scale = 1.0f, logit_cap = 0.0f;
  std::int64_t longest = 2048;      // text, where the checkpoint does not say
  Block enter = {}, leave = {};     // behind the embedding, before the last norm; for several residual streams
  std::optional<DraftLayer> draft;  // that checkpoints of the family may bring
  bool drafts = false;              // it is wanted
  // Rows whose embeddings the caller may bring (pictures; Batch::given), and behind how many of the first layers something
  // it brings is added.
  bool takes_given = false;
  int deep_inputs = 0;
  bool both_ways = false;  // every row sees its whole text, which is computed at once; nothing is kept of it
  int token_types = 0;     // rows of a learned table that is added to embeddings, by the part of a pair; 0: none
  Pooling usual_pooling = Pooling::last;  // of a checkpoint that does not tell one
  // What gives so many scores of a text; empty: one matrix (role cls.output) of its last row.
  std::function<PooledOutput(int labels)> scores = {};
  std::optional<PooledOutput> pooled;  // it gives this instead of logits
  // The token that such rows count as where `enter` looks tokens up; -1: their own.
  int given_counts_as = -1;
};

}  // namespace espalier
