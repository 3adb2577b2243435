// split_program.h: a program becomes the program of one rank of a group that computes it together (tensor parallel).
//
// Every matrix is cut by its outputs, attention and recurrences by heads; where an operation needs columns that other
// ranks have computed, an AllGatherOp brings them. No sum is taken across ranks, so a row has the same bits on any number
// of ranks. Buffers keep their columns; rows of the batch, slots and cells have the same numbers on all ranks. What no
// rule splits is computed by all ranks alike, so every program can be split.
// Why gathers and no sums of parts: docs/decisions/ranks.md.
// Ranks may also be stages, each with some of the layers, one behind the other: for models that no rank's memory holds. Then
// `stages` times as many ranks are numbered stage by stage, and all meet in every gather (stages.h).
// Threads: pure. Fails: never.
#pragma once

#include "model/program/program.h"

namespace espalier {

// Which of how many.
struct RankOf {
  int rank = 0, ranks = 1;
  bool experts_by_id = false;  // a rank has some experts whole, instead of some columns of all
  int stages = 1;              // `ranks` is a multiple of it
  bool alone() const { return ranks == 1; }
  bool operator==(const RankOf&) const = default;
};

// How columns are cut where nobody minds.
Cut even_columns(int width, int ranks);

Program split_program(const Program& whole, RankOf rank);

}  // namespace espalier
