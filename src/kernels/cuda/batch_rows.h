// batch_rows.h: where rows of a batch lie in a device's memory. Threads: constants. Fails: never.
#pragma once

#include <cstdint>

namespace espalier::cuda {

// Rows of a buffer: the first float of row 0, floats from row to row. first null: there are none.
struct BatchRows {
  float* first;
  std::int64_t stride;
};

}  // namespace espalier::cuda
