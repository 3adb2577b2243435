// decoder.h: a loaded decoder: its program, its weights, and the walk over one ragged batch.
//
// forward() writes keys and values of every row into the view's slots and returns logits of the rows that asked for
// them. Promise 1 holds row by row: a row's bits depend on its tokens, position and stored keys, values and state alone.
// Threads: one caller at a time (the engine thread); the team computes. Fails: load() with an Error that names the
// tensor.
#pragma once

#include <functional>
#include <memory>

#include "base/threads/compute_team.h"
#include "kernels/matmul/matmul.h"  // Activations
#include "model/adapters/adapter_file.h"
#include "model/batch.h"
#include "model/model.h"
#include "model/program/program.h"
#include "model/spec.h"
#include "model/weights/weights.h"

namespace espalier {

class Backend;
namespace ranks {
class Collective;
}

// How a decoder computes, and how much at once.
struct DecoderOptions {
  Activations activations = Activations::int8;
  int max_rows = 512;          // of one batch
  Backend* backend = nullptr;  // that computes; it outlives the decoder; null: the CPU
  // The ranks that compute it together, each with a decoder of its own part, which get the same batches in the same order
  // (model/ranks/); it outlives the decoder. Only the first rank's forward() gives logits. Null: one computes all.
  ranks::Collective* group = nullptr;
  bool experts_by_id = false;  // ranks share experts instead of columns of all of them
  int stages = 1;              // of so many, each has some layers; the group's size is a multiple of it
};

// A model that was loaded from a checkpoint.
class Decoder final : public Model {
 public:
  using Progress = std::function<void(int done, int total)>;  // matrices; called on the loading thread

  // `weights` must outlive the decoder: rows of the embedding are read from it.
  static Result<std::unique_ptr<Decoder>> load(const ModelSpec& spec, const Weights& weights,
                                               const DecoderOptions& options, ComputeTeam& team,
                                               const Progress& progress = {});
  ~Decoder() override;

  const Program& program() const;
  const Keeps& keeps() const { return program().keeps; }
  int ranks() const;                   // that compute it together; 1: this one alone
  std::string_view isa() const;        // of the kernels it uses: "avx512"
  std::size_t weight_bytes() const;    // panels, norms, biases
  std::size_t overflow_bytes() const;  // of it in a file (weights/panel_file.h)
  // Gives up the host's copy of weights that a device computes with; matrices() has only sizes then.
  void forget_host_weights();
  std::vector<NamedMatrix> matrices() const;  // of all layers and the head, as long as the decoder lives
  int vocabulary() const override { return program().vocabulary; }
  int max_rows() const override;
  std::span<float> forward(const Batch& batch, const KvView& kv) override;
  void logits_again(int row, int first, std::span<float> out) const override;
  bool overlaps() const override;
  void begin_forward(const Batch& batch, const KvView& kv) override;
  std::span<float> end_forward() override;
  bool draws() const override;
  void draw(std::span<const RowDraw> draws, std::span<DrawnToken> drawn) override;
  // An adapter's file bound to this model, for BatchSequence::adapter. Any thread, also while the model computes. Fails:
  // as bind_adapter().
  Result<std::shared_ptr<const LoraAdapter>> bind(const AdapterFile& file) const;
  // Of a model that pools (ModelSpec::pooled; its rows are vocabulary() wide): what stands behind the pooling, of such
  // vectors, one row of pooled_width() each. Valid until the next call; at most kPooledRows at once.
  static constexpr int kPooledRows = 256;
  // adapters: of each vector, null for those that have none; empty: none has.
  std::span<const float> finish(std::span<const float* const> vectors,
                                std::span<const LoraAdapter* const> adapters = {});
  bool sees_both_ways() const;  // ModelSpec::both_ways
  int pooled_width() const;     // 0: it gives logits
  // The layer that drafts, over the same pool: given a sequence's last token, whose position the model has not computed,
  // logits of the token behind it; then of the token behind that guess, and so on. It writes into the rows' slots what the
  // model will write there again. Null: the program has none (ModelSpec::drafts).
  Model* draft_layer();

 private:
  struct Impl;
  explicit Decoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier
