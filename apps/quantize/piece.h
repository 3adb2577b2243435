// piece.h: one tensor's share of the output: what becomes of it, where it goes, and how it is made.
// Threads: make() from one; the team computes. Fails: make() with bad_file naming the tensor whose values are no numbers,
// and as Output::write().
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/threads/compute_team.h"
#include "quantize/gguf_types.h"
#include "quantize/output.h"
#include "quantize/source_rows.h"

namespace espalier::quantizer {

// What is made in one go, and noted in the journal when it is whole.
struct Piece {
  std::string name, from, to;  // the tensor, its type before and after
  Shape shape;
  std::uint64_t stored = 0;       // bytes of the source
  std::vector<const Tensor*> of;  // what it is made of
  std::vector<Slot> slots;
  std::function<Result<>(const Output& output, const std::vector<Slot>& slots, ComputeTeam& team)> make;

  std::uint64_t bytes() const;
};

// Calls body(first, end) for neighbouring rows, a few hundred thousand values at a time, on the team; the first failure by
// rows is the answer.
Result<> for_rows(ComputeTeam& team, std::int64_t rows, std::int64_t columns,
                  const std::function<Result<>(std::int64_t first, std::int64_t end)>& body);

// Refuses values that are no numbers.
Result<> check_finite(const std::string& tensor, std::int64_t row, std::span<const float> values);

// Rows in a type of GGUF files. importance: empty, or a weight for each column, or for each column of each expert.
Piece gguf_piece(std::string name, SourceRows rows, DType type, std::vector<float> importance);

}  // namespace espalier::quantizer
