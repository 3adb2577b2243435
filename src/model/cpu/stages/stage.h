// stage.h: what the team does between two meetings: one product, one attention, or some row operations.
//
// Stages are made by lowering a program (lower.h) and run in order. Threads: run() on one thread; the team computes.
// Fails: never.
#pragma once

#include <memory>
#include <vector>

#include "model/cpu/linear.h"
#include "model/cpu/memory.h"
#include "model/cpu/pass.h"

namespace espalier {

// One such piece of work.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual void run(Pass& pass) = 0;
  // Whether it may be run on some rows at a time (Pass::take_rows), which gives the same bits.
  virtual bool by_rows() const { return false; }
};
using Stages = std::vector<std::unique_ptr<Stage>>;

// The weights that are read next, behind a stage, so that they come meanwhile.
struct Upcoming {
  const Linear* linear = nullptr;
  MatrixId id = -1;
  bool wide = false;
  bool behind_keep = false;  // it computes only rows whose logits are wanted
  void expect(const Pass& pass, bool behind_keep_now) const {
    if (linear != nullptr)
      linear->expect(pass.with(),
                     behind_keep == behind_keep_now ? pass.rows()
                     : behind_keep                  ? pass.kept()
                                                    : pass.batch().rows(),
                     wide);
  }
};

// Where rows lie in every form that products read.
struct InputPlaces {
  Place floats;
  struct Form {
    std::byte* data = nullptr;
    std::size_t stride = 0;
  };
  Form converted[kRowFormats] = {};

  InputForms forms(int rows) const { return forms({0, rows}); }
  InputForms forms(RowSlice slice) const {
    const int rows = slice.end;
    InputForms out;
    out.as(RowFormat::f32) = {RowFormat::f32, floats.first, static_cast<std::size_t>(floats.stride) * sizeof(float),
                              rows};
    for (const RowFormat format : {RowFormat::bf16, RowFormat::int8, RowFormat::int16})
      if (const Form& form = converted[index_of(format)]; form.data != nullptr)
        out.as(format) = {format, form.data, form.stride, rows};
    for (RowBlock& block : out.blocks)
      if (block.data != nullptr) block = block.some(slice.begin, slice.end);
    return out;
  }
};

}  // namespace espalier
