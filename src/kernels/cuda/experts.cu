// Rows on their way to the experts that were chosen for them, and back.
#include "kernels/cuda/experts_task.h"

#include <cmath>

#include "kernels/cuda/block_scan.h"
#include "kernels/cuda/four_words.h"

namespace espalier::cuda {
namespace {

constexpr int kThreads = 256;

// Some choices that follow one another: a thread's.
constexpr int kEach = 4;
struct Choices {
  int first, expert[kEach];
  // Behind the last choice: no expert at all.
  ESPALIER_ON_DEVICE Choices(const GroupByExpertTask& t, int first_choice) : first(first_choice) {
    ESPALIER_UNROLL(4)
    for (int i = 0; i < kEach; ++i) {
      const int at = first + i;
      expert[i] = at < t.places.rows * t.places.chosen
                      ? static_cast<int>(t.routed[at / t.places.chosen * t.routed_stride + at % t.places.chosen])
                      : -1;
    }
  }
  template <class Which>
  ESPALIER_ON_DEVICE int count(Which which) const {
    int out = 0;
    for (const int e : expert) out += which(e) ? 1 : 0;
    return out;
  }
};

// A block of threads finds the places of an expert: they begin behind those of all experts before. The block behind the last
// expert's marks the choices that have none.
ESPALIER_GLOBAL void group(GroupByExpertTask t) {
  const int own = simt::block_x(), chosen = t.places.chosen, most = t.places.rows * chosen;
  const bool none = own == t.places.count;
  const int each = simt::threads() * kEach;
  int earlier = 0;
  for (int first = 0; first < most; first += each)
    earlier += Choices(t, first + simt::thread() * kEach).count([&](int e) { return e >= 0 && e < own; });
  int place = BlockScan(earlier, simt::shared<int>()).all;
  if (simt::thread() == 0) t.places.begin[own] = place;
  for (int first = 0; first < most; first += each) {
    const Choices choices(t, first + simt::thread() * kEach);
    const auto is_own = [&](int e) { return none ? e >= own : e == own; };
    const BlockScan scan(choices.count(is_own), simt::shared<int>());
    int at = place + scan.before;
    for (int i = 0; i < kEach; ++i) {
      if (!is_own(choices.expert[i])) continue;
      t.places.place_of[choices.first + i] = none ? -1 : at;
      if (!none) t.places.row_of[at] = (choices.first + i) / chosen;
      ++at;
    }
    place += scan.all;
  }
}

// A block of threads copies a place's row.
template <class T>
ESPALIER_GLOBAL void gather(GatherRowsTask t) {
  const int place = simt::block_x();
  if (place >= t.places.begin[t.places.count]) return;
  const int row = t.places.row_of[place];
  const auto* const from = reinterpret_cast<const T*>(t.from + static_cast<std::size_t>(row) * t.from_stride);
  auto* const to = reinterpret_cast<T*>(t.to + static_cast<std::size_t>(place) * t.to_stride);
  for (std::size_t i = static_cast<std::size_t>(simt::thread()); i < t.bytes / sizeof(T); i += kThreads)
    to[i] = from[i];
}
ESPALIER_GLOBAL void gather_weighted(GatherRowsTask t) {
  const int place = simt::block_x(), chosen = t.places.chosen;
  if (place >= t.places.begin[t.places.count]) return;
  const int row = t.places.row_of[place];
  int choice = 0;
  while (t.places.place_of[row * chosen + choice] != place) ++choice;
  const float weight = t.routed[row * t.routed_stride + chosen + choice];
  const auto* const from = reinterpret_cast<const float*>(t.from + static_cast<std::size_t>(row) * t.from_stride);
  auto* const to = reinterpret_cast<float*>(t.to + static_cast<std::size_t>(place) * t.to_stride);
  for (std::size_t i = static_cast<std::size_t>(simt::thread()); i < t.bytes / sizeof(float); i += kThreads)
    to[i] = weight * from[i];
}

// A thread computes one float of a row.
ESPALIER_GLOBAL void combine(CombineExpertsTask t) {
  const std::int64_t row = simt::block_y(), column = std::int64_t{kThreads} * simt::block_x() + simt::thread();
  if (column >= t.width) return;
  const int chosen = t.places.chosen;
  const float* const weights = t.routed + row * t.routed_stride + chosen;
  float* const out = t.out + row * t.out_stride + column;
  float sum = t.add ? *out : 0.0f;
  for (int c = 0; c < chosen; ++c) {
    const int place = t.places.place_of[row * chosen + c];
    const float value = place >= 0 ? t.from[place * t.from_stride + column] : t.in[row * t.in_stride + column];
    const float weight = t.weighted ? weights[c] : 1.0f;
    sum = c == 0 && !t.add ? weight * value : fmaf(weight, value, sum);
  }
  *out = sum;
}

bool of_sixteens(const GatherRowsTask& t) {
  const auto places = reinterpret_cast<std::uintptr_t>(t.from) | reinterpret_cast<std::uintptr_t>(t.to);
  return ((places | t.from_stride | t.to_stride | t.bytes) & 15) == 0;
}

}  // namespace

void group_by_expert(simt::Stream stream, const GroupByExpertTask& task) {
  const unsigned threads = task.places.most() <= 32 * kEach ? 32 : kThreads;
  simt::launch(stream, {static_cast<unsigned>(task.places.count + 1), 1, threads, kThreads / 32 * sizeof(int)}, group,
               task);
}

void gather_rows(simt::Stream stream, const GatherRowsTask& task) {
  const simt::Shape shape{static_cast<unsigned>(task.places.most()), 1, kThreads};
  if (task.routed != nullptr)
    simt::launch(stream, shape, gather_weighted, task);
  else if (of_sixteens(task))
    simt::launch(stream, shape, gather<FourWords>, task);
  else
    simt::launch(stream, shape, gather<std::uint32_t>, task);
}

void combine_experts(simt::Stream stream, const CombineExpertsTask& task) {
  const auto blocks = static_cast<unsigned>((task.width + kThreads - 1) / kThreads);
  simt::launch(stream, {blocks, static_cast<unsigned>(task.places.rows), kThreads}, combine, task);
}

}  // namespace espalier::cuda
