// lower.h: a program becomes stages of the team, with memory for its buffers.
//
// Row operations that follow one another are one stage. What a product reads in another form than floats is converted
// by the stage that wrote it last, while it lies in a near cache: attention and gated products write such a form
// themselves where it is the only one that is read. Weights that are read next are announced.
// Buffers that the caller brings (by number; those without memory are made here) outlive the stages.
// Threads: one. Fails: for lack of memory.
#pragma once

#include <vector>

#include "model/cpu/row_operations.h"
#include "model/cpu/stages/products.h"
#include "model/cpu/stages/stage.h"
#include "model/program/program.h"

namespace espalier {

// What programs over the same needs are made of; all of it outlives the stages, as the program does.
struct Loaded {
  ComputeWith with;
  std::vector<Linear> matrices;  // of the program's needs
  std::vector<const Tensor*> tables;
  std::vector<RopeTables> ropes;
  std::shared_ptr<AdapterScratch> scratch = std::make_shared<AdapterScratch>();
};

// Stages in order, and the memory they use.
struct Lowered {
  Stages stages;
  BufferMemory memory;
  Place logits;
  HeadStage* head = nullptr;
};

Result<Lowered> lower(const Program& program, Loaded& loaded, int max_rows, std::vector<Place> brought = {});

}  // namespace espalier
