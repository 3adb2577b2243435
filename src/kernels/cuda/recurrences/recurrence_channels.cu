// Convolutions, selective scans and fading sums: a block takes 32 channels through all rows of a sequence.
//
// A channel's operations are those of kernels/cpu/generic (convolution.h, selective_scan.h, fading_sum.h) in order.
// Rows come in tiles: four warps fetch a tile into shared memory at once, then it is computed, so that results may be
// written over inputs and loads are wide. Only what must go from row to row does so: a fading sum in one warp, a scan's
// states each by itself, a convolution not at all.
#include "kernels/cuda/recurrences/recurrence_task.h"
#include "kernels/cuda/recurrences/sequence_walk.h"
#include "kernels/cuda/simt/simd.h"

#include "kernels/cpu/generic/each.h"
#include "kernels/cpu/generic/exponential.h"
#include "kernels/cpu/generic/function_values.h"

namespace espalier::cuda {
namespace {

using espalier::simt::meet;
using kernels::simt::each;

constexpr int kChannels = 32, kGroups = 4, kThreads = kChannels * kGroups;  // of a block: a warp is a group
constexpr int kTileRows = 64;                                               // of convolutions and fading sums

// The channel of a thread, and which rows of a tile, or states, its warp takes.
struct Lane {
  int lane, group;
  std::int64_t channel;
  bool there;  // false: the thread computes another's channel once more, and keeps nothing

  ESPALIER_ON_DEVICE Lane(std::int64_t begin, std::int64_t end)
      : lane(espalier::simt::thread() % kChannels),
        group(espalier::simt::thread() / kChannels),
        channel(begin + std::int64_t{espalier::simt::block_x()} * kChannels + lane),
        there(channel < end) {
    if (!there) channel = end - 1;
  }
};

// Calls tile(first, rows) for rows [begin, end).
template <class Tile>
ESPALIER_ON_DEVICE void over_tiles(int begin, int end, int most, Tile tile) {
  for (int first = begin; first < end; first += most) tile(first, end - first < most ? end - first : most);
}

// Where a channel's floats of rows are.
template <class Float>
struct ChannelRows {
  Float* first;
  std::int64_t stride;
  ESPALIER_ON_DEVICE ChannelRows(Float* row_0, std::int64_t of_stride, const Sequence& sequence, const Lane& at)
      : first(row_0 + sequence.row_begin * of_stride + at.channel), stride(of_stride) {}
  ESPALIER_ON_DEVICE Float& operator[](int row) const { return first[row * stride]; }
};

// A tile's rows of a channel, fetched all at once: row 4 u + group of the tile.
struct FetchedTile {
  float values[kTileRows / kGroups];

  template <class F>
  ESPALIER_ON_DEVICE static void for_own(const Lane& at, int rows, F f) {
    each<kTileRows / kGroups>([&](auto u) {
      const int row = at.group + kGroups * u;
      if (row < rows) f(u, row);
    });
  }
  ESPALIER_ON_DEVICE FetchedTile(const ChannelRows<const float>& from, const Lane& at, int first, int rows) {
    for_own(at, rows, [&](auto u, int row) { values[u] = from[first + row]; });
  }
};

// The inputs that a convolution still needs and those of a tile, in a ring of lines of 32 channels.
struct InputRing {
  float* lines;
  int size, oldest = 0;
  int lane;
  ESPALIER_ON_DEVICE float& operator[](int age) const {
    const int at = oldest + age;
    return lines[(at < size ? at : at - size) * kChannels + lane];
  }
  ESPALIER_ON_DEVICE void advance(int rows) {
    oldest += rows;
    if (oldest >= size) oldest -= size;
  }
};

// kTaps: their number where it is known, else 0.
template <int kTaps>
ESPALIER_ON_DEVICE float convolved(const ConvolutionTask& t, const InputRing& ring, const float (&known)[kMaxTaps],
                                   const Lane& at, int row) {
  float sum = t.bias != nullptr ? t.bias[at.channel] : 0.0f;
  if constexpr (kTaps > 0)
    each<kTaps>([&](auto j) { sum = fmaf(known[j], ring[row + j * t.dilation], sum); });
  else
    for (int j = 0; j < t.taps; ++j)
      sum = fmaf(t.weights[j * t.channels + at.channel], ring[row + j * t.dilation], sum);
  return t.silu ? kernels::simt::function::silu(sum) : sum;
}

template <int kTaps>
ESPALIER_GLOBAL void convolve_kernel(ConvolveTask task) {
  const ConvolutionTask& t = task.of;
  const Sequence sequence(task.sequences, espalier::simt::block_y());
  const Lane at(t.begin, t.end);
  const ChannelRows x(t.x, t.x_stride, sequence, at);
  const ChannelRows y(t.y, t.y_stride, sequence, at);
  const int lines = (t.taps - 1) * t.dilation;
  InputRing ring{espalier::simt::shared<float>(), lines + kTileRows, 0, at.lane};
  float known[kMaxTaps];
  each<kTaps>([&](auto j) { known[j] = t.weights[j * t.channels + at.channel]; });

  const float* const start = sequence.state_in != nullptr ? sequence.state_in + task.state + at.channel : nullptr;
  for (int i = at.group; i < lines; i += kGroups) ring[i] = start != nullptr ? start[i * t.channels] : 0.0f;

  const auto do_tile = [&](int first, int rows) {
    const FetchedTile fetched(x, at, first, rows);
    FetchedTile::for_own(at, rows, [&](auto u, int row) { ring[lines + row] = fetched.values[u]; });
    meet();
    for (int row = at.group; row < rows; row += kGroups) {
      const float result = convolved<kTaps>(t, ring, known, at, row);
      if (at.there) y[first + row] = result;
    }
    meet();  // what the next tile overwrites was read
    ring.advance(rows);
  };
  over_parts(
      sequence, [&](int begin, int end) { over_tiles(begin, end, kTileRows, do_tile); },
      [&](float* to) {
        float* const column = to + task.state + at.channel;
        for (int i = at.group; i < lines; i += kGroups)
          if (at.there) column[i * t.channels] = ring[i];  // the next tile's rows lie elsewhere in the ring
      });
}

ESPALIER_GLOBAL void fade_kernel(FadeTask task) {
  const FadingSumTask& t = task.of;
  const Sequence sequence(task.sequences, espalier::simt::block_y());
  const Lane at(t.begin, t.end);
  const ChannelRows x(t.x, t.x_stride, sequence, at), decay(t.decay, t.decay_stride, sequence, at);
  const ChannelRows y(t.y, t.y_stride, sequence, at);
  float* const inputs = espalier::simt::shared<float>();
  float* const decays = inputs + kTileRows * kChannels;
  float h = 0.0f;  // of the first warp
  if (sequence.state_in != nullptr && at.group == 0) h = sequence.state_in[task.state + at.channel];

  const auto do_tile = [&](int first, int rows) {
    const FetchedTile some_x(x, at, first, rows), some_decay(decay, at, first, rows);
    FetchedTile::for_own(at, rows, [&](auto u, int row) {
      inputs[row * kChannels + at.lane] = some_x.values[u];
      decays[row * kChannels + at.lane] = some_decay.values[u];
    });
    meet();
    for (int row = 0; row < rows && at.group == 0; ++row) {
      h = fmaf(decays[row * kChannels + at.lane], h, inputs[row * kChannels + at.lane]);
      if (at.there) y[first + row] = h;
    }
    meet();
  };
  over_parts(
      sequence, [&](int begin, int end) { over_tiles(begin, end, kTileRows, do_tile); },
      [&](float* to) {
        if (at.there && at.group == 0) to[task.state + at.channel] = h;
      });
}

// The states of 32 channels and, of a tile's rows, what they were behind each: [states][32] and [kRows][states][32].
template <int kRows>
struct ScannedStates {
  float *held, *behind;
  int states, lane;
  ESPALIER_ON_DEVICE float& state(int n) const { return held[n * kChannels + lane]; }
  ESPALIER_ON_DEVICE float& after(int row, int n) const { return behind[(row * states + n) * kChannels + lane]; }
};

// Takes each state through a tile's rows; input: step * x. b: of the tile's first row.
template <int kRows>
ESPALIER_ON_DEVICE void scan_states(const SelectiveScanTask& t, const ScannedStates<kRows>& states, const Lane& at,
                                    const float (&step)[kRows], const float (&input)[kRows], const float* b, int rows) {
  for (int n = at.group; n < t.states; n += kGroups) {
    const float rate = t.a[n * t.channels + at.channel] * 1.44269504088896341f;
    float h = states.state(n);
    each<kRows>([&](auto row) {
      if (row >= rows) return;
      const float kept = kernels::simt::exp2(step[row] * rate) * h;
      h = fmaf(input[row], b[row * t.b_stride + n], kept);
      states.after(row, n) = h;
    });
    states.state(n) = h;
  }
}

template <int kRows>
ESPALIER_GLOBAL void scan_kernel(ScanTask task) {
  const SelectiveScanTask& t = task.of;
  const Sequence sequence(task.sequences, espalier::simt::block_y());
  const Lane at(t.begin, t.end);
  const ChannelRows x(t.x, t.x_stride, sequence, at), dt(t.dt, t.dt_stride, sequence, at);
  const ChannelRows y(t.y, t.y_stride, sequence, at);
  float* const memory = espalier::simt::shared<float>();
  const ScannedStates<kRows> states{memory, memory + t.states * kChannels, t.states, at.lane};
  const float d = t.d != nullptr ? t.d[at.channel] : 0.0f;

  const float* const start = sequence.state_in != nullptr ? sequence.state_in + task.state + at.channel : nullptr;
  for (int n = at.group; n < t.states; n += kGroups) states.state(n) = start != nullptr ? start[n * t.channels] : 0.0f;

  const auto do_tile = [&](int first, int rows) {
    float step[kRows] = {}, input[kRows] = {}, values[kRows] = {};
    each<kRows>([&](auto row) {
      if (row < rows) {
        step[row] = dt[first + row];
        values[row] = x[first + row];
        input[row] = step[row] * values[row];
      }
    });
    scan_states<kRows>(t, states, at, step, input, t.b + (sequence.row_begin + first) * t.b_stride, rows);
    meet();
    each<kRows>([&](auto row) {
      if (row >= rows || row % kGroups != at.group) return;
      const float* const c = t.c + (sequence.row_begin + first + row) * t.c_stride;
      float sum = 0.0f;
      for (int n = 0; n < t.states; ++n) sum = fmaf(states.after(row, n), c[n], sum);
      if (t.d != nullptr) sum = fmaf(values[row], d, sum);
      if (at.there) y[first + row] = sum;
    });
    meet();
  };
  over_parts(
      sequence, [&](int begin, int end) { over_tiles(begin, end, kRows, do_tile); },
      [&](float* to) {
        float* const column = to + task.state + at.channel;
        for (int n = at.group; n < t.states; n += kGroups)
          if (at.there) column[n * t.channels] = states.state(n);
      });
}

simt::Shape shape(std::int64_t channels, int sequences, std::int64_t shared_floats) {
  return {static_cast<unsigned>((channels + kChannels - 1) / kChannels), static_cast<unsigned>(sequences), kThreads,
          static_cast<std::size_t>(shared_floats) * sizeof(float)};
}

}  // namespace

void convolve(simt::Stream stream, const ConvolveTask& task) {
  const ConvolutionTask& t = task.of;
  const std::int64_t lines = std::int64_t{t.taps - 1} * t.dilation + kTileRows;
  const simt::Shape blocks = shape(t.end - t.begin, task.sequences.count, lines * kChannels);
  if (t.taps == 4) return simt::launch(stream, blocks, convolve_kernel<4>, task);
  if (t.taps == 3) return simt::launch(stream, blocks, convolve_kernel<3>, task);
  simt::launch(stream, blocks, convolve_kernel<0>, task);
}

void fade(simt::Stream stream, const FadeTask& task) {
  simt::launch(stream, shape(task.of.end - task.of.begin, task.sequences.count, 2 * kTileRows * kChannels), fade_kernel,
               task);
}

void scan(simt::Stream stream, const ScanTask& task) {
  const auto blocks = [&](int rows) {
    return shape(task.of.end - task.of.begin, task.sequences.count,
                 std::int64_t{rows + 1} * task.of.states * kChannels);
  };
  if (task.of.states <= 32) return simt::launch(stream, blocks(8), scan_kernel<8>, task);
  simt::launch(stream, blocks(1), scan_kernel<1>, task);
}

}  // namespace espalier::cuda
