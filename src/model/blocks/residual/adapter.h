// adapter.h: a product with two narrow matrices that is added to what another one gives: what layers that share their
// tensors have of their own. Keeps nothing. Source: LoRA (arXiv 2106.09685).
#pragma once

#include <string_view>

#include "model/spec.h"

namespace espalier {

// The pair, by its roles.
struct Adapter {
  std::string_view down = {}, up = {};
  int rank = 0;

  // to += up * down * x
  void add(Builder& builder, Rows x, Rows to) const;
};

}  // namespace espalier
