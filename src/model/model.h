// model.h: what the engine needs of a model: logits for a batch. Decoder is the real one; tests bring small doubles.
#pragma once

#include <span>

#include "model/batch.h"

namespace espalier {

// Whatever gives logits for a batch.
class Model {
 public:
  virtual ~Model() = default;
  virtual int vocabulary() const = 0;
  virtual int max_rows() const = 0;  // of one batch

  // Writes keys and values of every row into the view's slots; returns logits [batch.logit_rows.size(), vocabulary],
  // valid until the next call; rows that the batch's reader takes, or that are unseen, hold nothing. A row's bits depend on its tokens,
  // position and what is stored for its sequence alone. Requires: batch.rows() <= max_rows(); tokens inside the
  // vocabulary. Threads: one caller at a time.
  virtual std::span<float> forward(const Batch& batch, const KvView& kv) = 0;

  // Once more the logits of a tile: columns [first, first + out.size()) of a wanted row of the last forward().
  // Threads: any, several at once. Requires: a tile as the reader saw it.
  virtual void logits_again(int row, int first, std::span<float> out) const = 0;

  // forward() in two, of a model that overlaps(): begin_forward() returns while it computes, end_forward() waits and gives what forward()
  // gives. In between nothing else is asked of it, and what the batch is to draw stands.
  virtual bool overlaps() const { return false; }
  virtual void begin_forward(const Batch& /*batch*/, const KvView& /*kv*/) {}
  virtual std::span<float> end_forward() { return {}; }

  // Whether it draws tokens where its logits lie (Batch::draws); else draw() does nothing.
  virtual bool draws() const { return false; }
  // Draws from rows of the last forward(), whatever was brought of them: for masks that are there only by now.
  virtual void draw(std::span<const RowDraw> /*draws*/, std::span<DrawnToken> /*drawn*/) {}
};

}  // namespace espalier
