// quantize.h: a model's files in another type, made tensor by tensor, and what that costs.
//
// Memory:  of the source a few rows at a time (it is mapped); with a text to measure by, one layer and the rows of the
//          text. Whatever the size of the model that is below 4 GiB.
// Goes on: a run that was cut off is carried on by the next one with the same source and wishes, which ends with the same
//          bytes, whatever the number of threads (output.h).
// Threads: one caller. Fails: as job.h, output.h and calibration.h.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "quantize/evaluation.h"
#include "quantize/job.h"

namespace espalier::quantizer {

struct Wishes {
  std::string source, destination;
  Target target;
  TypeWishes types;
  int group = 0;
  std::string calibrate, text;  // paths of texts; empty: none
  int threads = 0;              // 0: as many as there are processors
  int calibrate_tokens = 8192, text_tokens = 2048, length = 512;
  bool overwrite = false, dry_run = false, report = true;
  bool only_report = false;  // the destination is there, whoever made it, and is compared with the source
};

// What a run tells while it goes on. Called by the thread that runs it.
struct Listener {
  std::function<void(const std::string& stage, const std::string& at, std::uint64_t done, std::uint64_t total)>
      progress;
  std::function<void(const std::string& sentence)> note;
};

struct Outcome {
  Job job;  // what was made, or (dry_run) would be
  std::uint64_t source_bytes = 0;
  int found = 0;  // pieces that an earlier run left
  std::optional<Evaluation> evaluation;
};

Result<Outcome> quantize(const Wishes& wishes, const Listener& listener);

// Sizes of all tensors, before and after.
std::string sizes_of(const Outcome& outcome);

}  // namespace espalier::quantizer
