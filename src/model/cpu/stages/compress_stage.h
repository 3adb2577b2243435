// compress_stage.h: windows of positions become one entry each, by a softmax that runs along with the tokens.
//
// What is kept of a half-filled window is the running softmax of each channel, so that the state is small and the sums
// are taken token by token, however a prompt is cut (promise 1).
#pragma once

#include "model/cpu/stages/stage.h"
#include "model/program/program.h"

namespace espalier {

// Adds the rows of a batch to their windows.
class CompressStage final : public Stage {
 public:
  CompressStage(const CompressOp& op, const Program& program, Place values, Place gates, Place out);
  void run(Pass& pass) override;

 private:
  struct Channels;
  void run_part(const Pass& pass, const BatchSequence& sequence, int begin, int end) const;

  CompressOp op_;
  Place values_, gates_, out_;
  const float* bias_;
};

}  // namespace espalier
