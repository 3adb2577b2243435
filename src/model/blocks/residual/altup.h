// altup.h: alternating updates: several streams of rows, of which a layer computes one and predicts the others.
//
// Streams stand side by side in one row. Roles: altup_proj, altup_unembd_proj (of each stream but the first);
// altup_router, altup_router_norm, altup_predict_coef, altup_correct_coef, altup_correct_scale. Keeps nothing.
// Source: Alternating Updates for Efficient Transformers (arXiv 2301.13310); transformers' Gemma3nTextAltUp.
#pragma once

#include "model/spec.h"
#include "model/weights/needs.h"

namespace espalier {

// The block that predicts the streams and corrects them.
struct AltUp {
  int streams = 0, active = 0;
  bool scaled = true;  // what leaves the active stream for the layer's inputs is multiplied by a vector

  Rows enter(Builder& builder, Rows embedded) const;
  Rows leave(Builder& builder, Rows streams) const;
  Rows predict(Builder& builder, Rows streams) const;
  // predicted += what the layer made of the active stream, less its prediction, as much as each stream takes of it.
  void correct(Builder& builder, Rows predicted, Rows activated) const;
  Rows stream(Rows all, int which) const { return all.part(which * (all.width / streams), all.width / streams); }

 private:
  Rows modalities(Builder& b, Rows x) const;
  MatrixPart projection(Builder& b, std::string_view role, int which, int width) const;
};

}  // namespace espalier
