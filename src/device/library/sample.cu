// Tokens of rows of logits: the CPU's lanes, sums and order.
#include "device/step/sample_task.h"
#include "kernels/cuda/simt/simd.h"
// (simd.h comes first: it says what the others are compiled for)
#include "kernels/cpu/generic/function_values.h"
#include "sampling/row_weights.h"

namespace espalier::device {
namespace {

constexpr int kBlock = 1024, kStrip = 64, kLanes = 16, kStrips = kBlock / kStrip;
constexpr unsigned kThreads = kStrips * kLanes;  // of both kernels: a sixteen of threads has a strip

constexpr int kNone = 0x7fffffff;  // behind all tokens and blocks

ESPALIER_ON_DEVICE float infinity() {
  return kernels::simt::float_of_bits(0x7f800000u);
}

// One row's logits as they are seen: finished, and -infinity where not allowed or behind the end.
struct SeenRow {
  const SampleTask& task;
  const SampledRow& wanted;
  const float* logits;

  ESPALIER_ON_DEVICE SeenRow(const SampleTask& of, int number)
      : task(of), wanted(of.rows[number]), logits(of.logits + wanted.row * of.stride) {}
  ESPALIER_ON_DEVICE float at(int token) const {
    const bool seen =
        token < task.vocabulary && (wanted.mask == nullptr || (wanted.mask[token / 32] >> (token % 32) & 1u) != 0);
    return seen ? finished(logits[token]) : -infinity();
  }
  ESPALIER_ON_DEVICE float finished(float x) const {
    if (task.scale != 1.0f) x = task.scale * x;
    if (task.cap != 0.0f) x = task.cap * kernels::simt::function::tanh(x * (1.0f / task.cap));
    return x;
  }
};

ESPALIER_ON_DEVICE float weight_of(float x, float reference, float rate) {
  sampling::weight<float, std::uint32_t>(x, reference, rate);
  return x;
}

// join() of a value of each thread of a block, at `shared`, of one value a sixteen; all threads get it. `shared` is free
// again behind the next meet().
template <class T, class Join>
ESPALIER_ON_DEVICE T joined(T value, T* shared, Join join) {
  for (int half = kLanes / 2; half > 0; half /= 2) value = join(value, simt::of_neighbour_xor<kLanes>(value, half));
  if (simt::thread() % kLanes == 0) shared[simt::thread() / kLanes] = value;
  simt::meet();
  value = shared[0];
  for (int i = 1; i < kStrips; ++i) value = join(value, shared[i]);
  return value;
}
ESPALIER_ON_DEVICE float largest(float value, float* shared) {
  return joined(value, shared, [](float a, float b) { return a > b ? a : b; });
}
ESPALIER_ON_DEVICE int least(int value, int* shared) {
  return joined(value, shared, [](int a, int b) { return a < b ? a : b; });
}

// --- the scan: block x of a row, wanted row y ---

struct ScanMemory {
  float max[kStrips];
  int not_numbers[kStrips], best[kStrips];
  float sums[kStrips][kLanes];  // of four logits each
};

// The sum of a block's weights, of the first sixteen threads: strips in order, then lanes by halves.
ESPALIER_ON_DEVICE double sum_of_lanes(const ScanMemory& memory) {
  double sum = 0;
  for (int s = 0; s < kStrips; ++s) sum += static_cast<double>(memory.sums[s][simt::thread()]);
  for (int half = kLanes / 2; half > 0; half /= 2) sum = sum + simt::of_neighbour_xor<kLanes>(sum, half);
  return sum;
}

ESPALIER_GLOBAL ESPALIER_MOST_THREADS(kThreads) void scan_blocks(SampleTask task) {
  auto& memory = *simt::shared<ScanMemory>();
  const SeenRow row(task, simt::block_y());
  const int strip = simt::thread() / kLanes, lane = simt::thread() % kLanes,
            first = simt::block_x() * kBlock + strip * kStrip + lane;
  float x[4], most = -infinity();
  int not_a_number = 0;
  for (int i = 0; i < 4; ++i) {
    x[i] = row.at(first + kLanes * i);
    if (x[i] != x[i]) not_a_number = 1;
    most = x[i] > most ? x[i] : most;
  }
  most = largest(most, memory.max);
  if (lane == 0 && simt::block_y() >= task.plain && first < task.vocabulary)
    task.strips[std::int64_t{simt::block_y() - task.plain} * task.strips_of_row() + first / kStrip] = memory.max[strip];
  const int sound = least(1 - not_a_number, memory.not_numbers);
  int best = kNone;
  for (int i = 3; i >= 0; --i)
    if (x[i] == most) best = first + kLanes * i;
  best = least(best, memory.best);
  const float rate = sampling::rate_of(row.wanted.sharpness);
  float weights[4];
  for (int i = 0; i < 4; ++i) weights[i] = weight_of(x[i], most, rate);
  memory.sums[strip][lane] = (weights[0] + weights[1]) + (weights[2] + weights[3]);
  simt::meet();
  if (strip > 0) return;
  const double sum = sum_of_lanes(memory);
  if (lane > 0) return;
  const bool any = most > -infinity();
  task.blocks[simt::block_y() * task.blocks_of_row() + simt::block_x()] = {
      any ? sum : 0.0, sound != 0 ? most : kernels::simt::float_of_bits(0x7fc00000u), best};
}

// --- the token: wanted row x ---

struct PickMemory {
  float max[kStrips];
  int not_numbers[kStrips], found[kStrips], last[kStrips], best[kStrips];
  float weights[kBlock];
  double sums[kBlock];  // of these, up to each; before that, of the row's blocks: as many as there are
};

// Values become their sums from the left, beginning with `sum`; by one thread. Returns the last.
ESPALIER_ON_DEVICE double add_up(double sum, double* values, int count) {
  ESPALIER_UNROLL(16)
  for (int i = 0; i < count; ++i) values[i] = sum = sum + values[i];
  return sum;
}

// Where sums pass a target, looking only at what counts: the first place behind it, else the last of all. All threads
// get it; none counts: 0.
template <class Counts>
ESPALIER_ON_DEVICE int passed_at(const double* sums, int count, double target, PickMemory& memory, Counts counts) {
  int found = kNone, last = 0;
  for (int i = simt::thread(); i < count; i += simt::threads()) {
    if (!counts(i)) continue;
    if (found == kNone && sums[i] > target) found = i;
    last = i;
  }
  found = least(found, memory.found);
  last = -least(-last, memory.last);
  return found != kNone ? found : last;
}

ESPALIER_GLOBAL ESPALIER_MOST_THREADS(kThreads) void pick_token(SampleTask task) {
  auto& memory = *simt::shared<PickMemory>();
  const SeenRow row(task, simt::block_x());
  const int block_count = task.blocks_of_row();
  const BlockOfRow* blocks = task.blocks + simt::block_x() * block_count;
  DrawnToken& out = task.out[simt::block_x()];

  float most = -infinity();
  int not_a_number = 0;
  for (int b = simt::thread(); b < block_count; b += simt::threads()) {
    most = blocks[b].max > most ? blocks[b].max : most;
    if (blocks[b].max != blocks[b].max) not_a_number = 1;
  }
  most = largest(most, memory.max);
  const bool sound = least(-not_a_number, memory.not_numbers) == 0 && most < infinity();
  if (!sound || most == -infinity()) {
    if (simt::thread() == 0) out = {-1, sound ? RowFault::none_allowed : RowFault::not_finite, 0, 0};
    return;
  }
  const double sharpness = row.wanted.sharpness;
  const auto scale = [&](int b) { return sampling::scale_of_block(blocks[b].max, most, sharpness); };
  double* const sums = memory.sums;
  for (int b = simt::thread(); b < block_count; b += simt::threads())
    sums[b] = blocks[b].sum > 0 ? blocks[b].sum * scale(b) : 0.0;
  int best = kNone;
  for (int b = simt::thread(); b < block_count && best == kNone; b += simt::threads())
    if (blocks[b].max == most) best = blocks[b].best;
  best = least(best, memory.best);  // and the sums' terms are there
  if (simt::thread() == 0) add_up(0, sums, block_count);
  simt::meet();
  const double total = sums[block_count - 1];
  if (row.wanted.greedy) {
    if (simt::thread() == 0) out = {best, RowFault::none, 1, total};
    return;
  }

  const double target = row.wanted.uniform * total;
  const int b = passed_at(sums, block_count, target, memory, [&](int i) { return blocks[i].sum > 0; });
  const bool passes = sums[b] > target;
  const double before = passes ? (b > 0 ? sums[b - 1] : 0.0) : sums[b], scale_of_b = scale(b);
  const float rate = sampling::rate_of(sharpness), reference = blocks[b].max;
  const int first = b * kBlock, count = task.vocabulary - first < kBlock ? task.vocabulary - first : kBlock;
  simt::meet();  // all have read the blocks' sums
  for (int i = simt::thread(); i < count; i += simt::threads()) {
    memory.weights[i] = weight_of(row.at(first + i), reference, rate);
    sums[i] = static_cast<double>(memory.weights[i]) * scale_of_b;
  }
  simt::meet();
  if (simt::thread() == 0) add_up(before, sums, count);
  simt::meet();
  const int at = passed_at(sums, count, target, memory, [&](int i) { return memory.weights[i] > 0; });
  if (simt::thread() == 0)
    out = {first + at, RowFault::none, static_cast<double>(memory.weights[at]) * scale_of_b / total, total};
}

// --- sifting: block x of a row, row y ---

struct SiftMemory {
  int counts[kStrips], before[kStrips];
};

// Each thread's four logits, whether they reach the bound, and how many of its sixteen's do.
struct Sifted {
  float x[4];
  int reaches[4], count = 0;

  ESPALIER_ON_DEVICE Sifted(const SeenRow& row, int first, float least) {
    for (int i = 0; i < 4; ++i) {
      x[i] = row.at(first + kLanes * i);
      reaches[i] = x[i] >= least ? 1 : 0;
      count += reaches[i];
    }
    for (int half = kLanes / 2; half > 0; half /= 2) count = count + simt::of_neighbour_xor<kLanes>(count, half);
  }
};
ESPALIER_ON_DEVICE int sum_of(int value, int* shared) {
  return joined(value, shared, [](int a, int b) { return a + b; });
}
ESPALIER_ON_DEVICE bool none_reaches(const SiftTask& task) {
  const int y = simt::block_y();
  return !(task.of.blocks[y * task.of.blocks_of_row() + simt::block_x()].max >= task.least[y]);
}

ESPALIER_GLOBAL ESPALIER_MOST_THREADS(kThreads) void count_sifted(SiftTask task) {
  auto& memory = *simt::shared<SiftMemory>();
  const SeenRow row(task.of, simt::block_y());
  const int lane = simt::thread() % kLanes, strip = simt::thread() / kLanes;
  std::int32_t& found = task.found[simt::block_y() * task.of.blocks_of_row() + simt::block_x()];
  if (none_reaches(task)) {
    if (simt::thread() == 0) found = 0;
    return;
  }
  const Sifted sifted(row, simt::block_x() * kBlock + strip * kStrip + lane, task.least[simt::block_y()]);
  const int count = sum_of(lane == 0 ? sifted.count : 0, memory.counts);
  if (simt::thread() == 0) found = count;
}

// How many of the sixteen's lanes below this one say so.
ESPALIER_ON_DEVICE int lanes_before(int says) {
  const int lane = simt::thread() % kLanes;
  int sum = says;
  for (int step = 1; step < kLanes; step *= 2) {
    const int below = simt::of_neighbour<kLanes>(sum, lane >= step ? lane - step : lane);
    if (lane >= step) sum += below;
  }
  return sum - says;
}

ESPALIER_GLOBAL ESPALIER_MOST_THREADS(kThreads) void put_sifted(SiftTask task) {
  auto& memory = *simt::shared<SiftMemory>();
  const SeenRow row(task.of, simt::block_y());
  const int lane = simt::thread() % kLanes, strip = simt::thread() / kLanes, block_count = task.of.blocks_of_row(),
            first = simt::block_x() * kBlock + strip * kStrip + lane;
  const std::int32_t* const found = task.found + simt::block_y() * block_count;
  const bool last = simt::block_x() == block_count - 1;
  if (found[simt::block_x()] == 0 && !last) return;
  int earlier = 0;
  for (int b = simt::thread(); b < simt::block_x(); b += simt::threads()) earlier += found[b];
  int at = sum_of(earlier, memory.before);
  if (last && simt::thread() == 0) task.counts[simt::block_y()] = at + found[simt::block_x()];
  const Sifted sifted(row, first, task.least[simt::block_y()]);
  if (lane == 0) memory.counts[strip] = sifted.count;
  simt::meet();
  for (int s = 0; s < strip; ++s) at += memory.counts[s];
  SiftedLogit* const out = task.out + std::int64_t{simt::block_y()} * task.room;
  for (int i = 0; i < 4; ++i) {
    const int place = at + lanes_before(sifted.reaches[i]);
    if (sifted.reaches[i] != 0 && place < task.room) out[place] = {sifted.x[i], first + kLanes * i};
    at = simt::of_neighbour<kLanes>(place + sifted.reaches[i], kLanes - 1);
  }
}

}  // namespace

void sample(simt::Stream stream, const SampleTask& task) {
  const auto blocks = static_cast<unsigned>(task.blocks_of_row()), count = static_cast<unsigned>(task.count);
  simt::launch(stream, {blocks, count, kThreads, sizeof(ScanMemory)}, scan_blocks, task);
  const std::size_t of_blocks = blocks > kBlock ? (blocks - kBlock) * sizeof(double) : 0;
  simt::launch(stream, {static_cast<unsigned>(task.plain), 1, kThreads, sizeof(PickMemory) + of_blocks}, pick_token,
               task);
}

void sift(simt::Stream stream, const SiftTask& task) {
  const auto blocks = static_cast<unsigned>(task.of.blocks_of_row()), count = static_cast<unsigned>(task.of.count);
  simt::launch(stream, {blocks, count, kThreads, sizeof(SiftMemory)}, count_sifted, task);
  simt::launch(stream, {blocks, count, kThreads, sizeof(SiftMemory)}, put_sifted, task);
}

}  // namespace espalier::device
