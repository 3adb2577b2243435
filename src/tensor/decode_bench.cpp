// decode_bench: GB/s of decoded floats that decode_row writes, and encode_row reads, per type on one thread.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "tensor/decode.h"
#include "tensor/encode.h"

namespace {

template <class Work>
double gigabytes_per_second(std::size_t bytes, Work&& work) {
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 200; ++i) work();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(bytes) * 200 / taken.count() / 1e9);
  }
  return best;
}

}  // namespace

int main() {
  using namespace espalier;
  constexpr std::size_t columns = 8192;
  std::vector<float> values(columns);
  for (std::size_t i = 0; i < columns; ++i) values[i] = static_cast<float>(i % 251) / 100 - 1;
  for (int i = 0; i < kDTypes; ++i) {
    const auto type = static_cast<DType>(i);
    const Shape shape = {static_cast<std::int64_t>(columns)};
    std::vector<std::byte> stored(*stored_bytes(type, shape), std::byte{0x11});
    const double decoded = gigabytes_per_second(columns * 4, [&] { decode_row(type, stored, values); });
    fmt::print("{:<8} decode {:6.2f} GB/s", name(type), decoded);
    if (can_encode(type)) {
      fmt::print("   encode {:6.2f} GB/s",
                 gigabytes_per_second(columns * 4, [&] { encode_row(type, values, stored); }));
    }
    fmt::print("\n");
  }
}
