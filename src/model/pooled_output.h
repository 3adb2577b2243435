// pooled_output.h: what a model gives of a text instead of tokens: rows of its last layer, made one, and what stands behind.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <functional>

#include "model/program/op.h"

namespace espalier {

class Builder;

// How the rows of a text become one: its last or first row; their mean, their sum over the root of their number, their
// mean weighed by 1, 2, 3, ...; the greatest of each value. each: they stay as they are.
enum class Pooling : std::uint8_t { last, first, mean, mean_by_root, weighted_mean, greatest, each };

// Whether all rows of a text are read.
constexpr bool reads_all_rows(Pooling how) {
  return how != Pooling::last && how != Pooling::first;
}

// What a text becomes.
struct PooledOutput {
  Pooling pooling = Pooling::last;
  // Products, activations and norms behind the pooling, of each vector by itself; empty: it stays as it is.
  std::function<Rows(Builder&, Rows)> finish = {};
};

}  // namespace espalier
