// sequence_states.h: the recurrent state of running sequences: which cells a step reads and writes, which snapshots it
// leaves in the tree, and where a sequence goes on when some of its rows do not count.
//
// A state is a value in a cell (cache/slots/state_cells.h). A step reads the state behind a sequence's computed tokens and
// writes the one behind its chunk: into the same cell if nobody else has a share and all rows are sure to count, else
// into a fresh one. So a snapshot is a share that the tree keeps, a fork is a share, a refused draft is a return to the
// state before it, and nothing is ever copied. Snapshots inside a chunk are marks that the model writes on its way.
// Left behind: the end of a prompt but one token (the last one is computed again for its logits) and but a few, every so
// many tokens of a long prompt, where what the tree holds diverges or another request waits for a beginning, and where a
// sequence stops running. docs/decisions/recurrent-state.md says why.
//
// Units: positions in tokens; a position's state is the one behind so many tokens. Threads: the engine thread.
// Fails: take() when there is no cell. Order: cells and tree outlive it. Without cells everything here does nothing.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cache/slots/state_cells.h"
#include "cache/tree/radix_tree.h"

namespace espalier {

struct Sequence;

// What one sequence has of its state; part of it.
struct SequenceState {
  struct Mark {
    int position = 0;
    StateCell cell;
  };
  StateCell now;            // behind the computed tokens; empty: none are
  StateCell next;           // of the step under way, behind its chunk; empty: `now` is written over
  std::vector<Mark> marks;  // of the step under way, inside its chunk, ascending
  std::vector<int> wanted;  // where snapshots are to be left, ascending
};

// Hands out cells to running sequences, and keeps their snapshots in the tree.
class SequenceStates {
 public:
  SequenceStates(StateCells& cells, RadixTree& tree, bool leaves_snapshots)
      : cells_(cells), tree_(tree), leaves_(leaves_snapshots) {}
  bool on() const { return cells_.capacity() > 0; }

  // --- admission ---
  // How many more sequences would find a cell to write to in the next step beside these.
  int room(std::span<const std::unique_ptr<Sequence>> running,
           std::span<const std::unique_ptr<Sequence>> admitted) const;
  void begin(Sequence& sequence, Match& match);
  // Up to which position `sequence`, which is being computed, leaves a state for whoever shares `common` tokens with it:
  // a snapshot there is asked of it, as long as those it leaves are few.
  int leaves_for_others(Sequence& sequence, int common) const;

  // --- a step ---
  bool take(Sequence& sequence);                   // what its chunk must have; false: no cell
  void take_marks(Sequence& sequence, int count);  // what its chunk of `count` tokens may have, once all have theirs
  // `held` of the chunk's `count` rows count; how many tokens are computed with that: fewer when the state goes back.
  int settle(Sequence& sequence, int count, int held);
  void leave_snapshots(Sequence& sequence);  // its tokens are the tree's by now
  void release(Sequence& sequence);          // it stops running; likewise

 private:
  StateCell fresh();
  bool writes_in_place(const Sequence& sequence) const;
  void want(Sequence& sequence, int position) const;

  StateCells& cells_;
  RadixTree& tree_;
  const bool leaves_;
};

}  // namespace espalier
