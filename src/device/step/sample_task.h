// sample_task.h: rows of logits to tokens on a device: the CPU's tokens, bit for bit (sampling/row_scan.h, sampling/plain_draw.h).
//
// A block of threads scans 1024 logits of a row as sampling::scan_block() does, sixteen lanes being sixteen threads; then one
// block of threads a row puts these together in order and finds the token. Of rows with filters only the scan comes down, then the
// few logits that the filters can keep, from which the host draws (sampling/filtered_draw.h).
// Threads: asynchronous on a stream. Fails: never; a row's fault is told with its token.
#pragma once

#include <cstdint>

#include "kernels/cuda/simt/simt.h"
#include "model/row_draw.h"

namespace espalier::device {

// A token that is wanted: RowDraw, with the mask in the device's memory.
struct SampledRow {
  std::int32_t row;
  bool greedy;
  double sharpness, uniform;
  const std::uint32_t* mask;  // null: all tokens
};

// What is known of each block of 1024 logits of a row.
struct BlockOfRow {
  double sum;
  float max;          // NaN where one is allowed
  std::int32_t best;  // the first token of the largest logit
};

// Tokens of some rows of logits, which are finished as they are read: times `scale`, then capped.
struct SampleTask {
  const float* logits;  // [rows][stride]
  std::int64_t stride;
  int vocabulary;
  float scale, cap;        // cap 0: none
  const SampledRow* rows;  // [count]
  int count;
  int plain;           // of them get tokens; the others, behind these, are scanned
  BlockOfRow* blocks;  // [count][blocks of a row], written and read
  float* strips;       // [count - plain][strips of a row]: their maxima
  DrawnToken* out;     // [plain]

  ESPALIER_EITHER int blocks_of_row() const { return (vocabulary + 1023) / 1024; }
  ESPALIER_EITHER int strips_of_row() const { return (vocabulary + 63) / 64; }
};
void sample(simt::Stream stream, const SampleTask& task);

// A logit that a filter can keep.
struct SiftedLogit {
  float logit;
  TokenId token;
};

// The logits of scanned rows that reach a bound, in ascending token.
struct SiftTask {
  SampleTask of;        // its rows, all of them scanned
  const float* least;   // [count]
  std::int32_t* found;  // [count][blocks of a row]
  int room;             // for a row's logits; what is behind is counted alone
  // Written straight into the host's memory, so that only what there is comes down.
  std::int32_t* counts;  // [count]
  SiftedLogit* out;      // [count][room]
};
void sift(simt::Stream stream, const SiftTask& task);

}  // namespace espalier::device
