// decoder.h: a loaded decoder: weights in panels, and the forward walk over one ragged batch.
//
// forward() writes keys and values of every row into the view's slots and returns logits of the rows that asked for
// them. Promise 1 holds row by row: a row's bits depend on its tokens, position and stored keys and values alone.
// Threads: one caller at a time (the engine thread); the team computes. Fails: load() with an Error that names the
// tensor.
#pragma once

#include <functional>
#include <memory>

#include "model/batch.h"
#include "model/decoder_spec.h"
#include "model/model.h"
#include "model/weights.h"

namespace espalier {

struct DecoderOptions {
  Activations activations = Activations::int8;
  int max_rows = 512;  // of one batch
};

class Decoder final : public Model {
 public:
  using Progress = std::function<void(int done, int total)>;  // layers; called on the loading thread

  // `weights` must outlive the decoder: rows of the embedding are read from it.
  static Result<std::unique_ptr<Decoder>> load(DecoderSpec spec, const Weights& weights, const DecoderOptions& options,
                                               ComputeTeam& team, const Progress& progress = {});
  ~Decoder() override;

  const DecoderSpec& spec() const;
  std::string_view isa() const;               // of the kernels it uses: "avx512"
  std::size_t weight_bytes() const;           // panels, norms, biases
  std::vector<NamedMatrix> matrices() const;  // of all layers and the head, as long as the decoder lives
  int vocabulary() const override { return spec().vocabulary; }
  int max_rows() const override;
  std::span<float> forward(const Batch& batch, const KvView& kv) override;
  void logits_again(int row, int first, std::span<float> out) const override;

 private:
  struct Impl;
  explicit Decoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier
