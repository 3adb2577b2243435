// sequence_stages.h: stages that go through the rows of each sequence in order and carry its state: convolutions and
// recurrences. The work is split over sequences and over columns that do not touch.
#pragma once

#include "model/cpu/stages/stage.h"
#include "model/program/program.h"

namespace espalier {

// Convolves the rows of each sequence.
class ConvolveStage final : public Stage {
 public:
  ConvolveStage(const ConvolveOp& op, const Program& program, Place in, Place out);
  void run(Pass& pass) override;

 private:
  ConvolveOp op_;
  Place in_, out_;
  const float *weights_, *bias_;
};

// Carries matrix states through the rows of each sequence.
class RecurrenceStage final : public Stage {
 public:
  struct Places {
    Place queries, keys, values, decay, beta, probe, answer, out;
  };
  RecurrenceStage(const RecurrenceOp& op, const Program& program, const Places& places);
  void run(Pass& pass) override;

 private:
  LinearRecurrenceTask task_of(const BatchSequence& sequence, int head) const;
  RecurrenceOp op_;
  Places at_;
  const float *constant_decay_, *skip_;
};

// Carries Mamba-1's states through the rows of each sequence.
class ScanStage final : public Stage {
 public:
  struct Places {
    Place in, step, input, output, out;
  };
  ScanStage(const ScanOp& op, const Program& program, const Places& places);
  void run(Pass& pass) override;

 private:
  ScanOp op_;
  Places at_;
  const float *rates_, *skip_;
};

// Carries fading sums through the rows of each sequence.
class FadingSumStage final : public Stage {
 public:
  FadingSumStage(const FadingSumOp& op, Place in, Place decay, Place out)
      : op_(op), in_(in), decay_(decay), out_(out) {}
  void run(Pass& pass) override;

 private:
  FadingSumOp op_;
  Place in_, decay_, out_;
};

}  // namespace espalier
