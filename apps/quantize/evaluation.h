// evaluation.h: what a model lost: it and its source read the same text, layer by layer side by side.
//
// Both compute in exact mode, so what is told is of the weights alone.
// Units:   natural logarithms; positions have the whole vocabulary's distribution, of the source (p) and of what was made
//          (q): sum of p log(p / q). Errors of layers: |made - source|^2 / |source|^2 of the rows that a layer hands on.
// Memory:  one layer of each, and rows of the text.
// Threads: one; the team computes. Fails: as StreamedModel.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "quantize/calibration.h"
#include "quantize/difference.h"
#include "quantize/job.h"

namespace espalier::quantizer {

struct Evaluation {
  Difference difference;  // first: the source
  struct LayerError {
    int layer;
    double error;
  };
  std::vector<LayerError> layers;
};

Result<Evaluation> evaluate(const Source& source, const Source& made, const TextPieces& text, ComputeTeam& team,
                            const std::function<void(int done, int total)>& progress);

// The table that people read, and the picture of its layers.
std::string table_of(const Evaluation& evaluation);
std::string picture_of(const Evaluation& evaluation, const std::string& title);

}  // namespace espalier::quantizer
