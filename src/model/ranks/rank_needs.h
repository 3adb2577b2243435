// rank_needs.h: what one rank's program has of the whole one's matrices, vectors and states.
//
// Threads: one. Fails: never.
#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "model/program/program.h"
#include "model/ranks/cut.h"

namespace espalier {

// Some outputs of every part of a matrix; some of all its outputs.
MatrixNeed some_of_parts(MatrixNeed need, Range outputs);
MatrixNeed some_outputs(const MatrixNeed& need, Range outputs);

// What the rank's program has of the whole one's matrices, vectors and states.
class RankNeeds {
 public:
  RankNeeds(const Program& whole, Program& out) : whole_(whole), out_(out) {}

  // Some outputs (of every part: where parts are alike) of `count` matrices that follow one another; gives the first's new
  // number.
  MatrixId matrices(MatrixId first, int count, std::optional<Range> outputs = std::nullopt, bool of_parts = false) {
    const Key key{first, count, outputs ? outputs->begin : -1, outputs ? outputs->end : -1};
    const auto [known, is_new] = matrices_.try_emplace(key, static_cast<MatrixId>(out_.needs.matrices.size()));
    if (is_new)
      for (int i = 0; i < count; ++i) {
        const MatrixNeed& need = whole_.needs.matrices[static_cast<std::size_t>(first) + static_cast<std::size_t>(i)];
        out_.needs.matrices.push_back(!outputs   ? need
                                      : of_parts ? some_of_parts(need, *outputs)
                                                 : some_outputs(need, *outputs));
      }
    return known->second;
  }
  std::size_t state(std::size_t floats) {
    const std::size_t first = out_.keeps.state_floats;
    out_.keeps.state_floats += (floats + 15) / 16 * 16;
    return first;
  }
  VectorId some_values(VectorId id, int rows, int count, Range units) {
    if (units == Range{0, count}) return id;
    const std::vector<float>& all = out_.vectors[static_cast<std::size_t>(id)];
    const std::size_t of_row = all.size() / static_cast<std::size_t>(rows),
                      each = of_row / static_cast<std::size_t>(count);
    std::vector<float> some;
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(row * of_row);
      some.insert(some.end(), from + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(units.begin) * each),
                  from + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(units.end) * each));
    }
    out_.vectors.push_back(std::move(some));
    return static_cast<VectorId>(out_.vectors.size()) - 1;
  }
  std::size_t length(VectorId id) const { return out_.vectors[static_cast<std::size_t>(id)].size(); }

 private:
  using Key = std::tuple<MatrixId, int, int, int>;
  const Program& whole_;
  Program& out_;
  std::map<Key, MatrixId> matrices_;
};

}  // namespace espalier
