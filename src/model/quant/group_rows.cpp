#include "model/quant/group_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tensor/group_blocks.h"
#include "tensor/quant_blocks.h"

namespace espalier {
namespace {

constexpr std::int64_t kGroupBlock = 32, kMiddleGroupBlock = 64, kLongGroupBlock = 128;

bool exact_as_f16(float value) {
  return to_float(to_f16(value)) == value;
}

// Makes the rows of one matrix.
class GroupRows final : public MadeRows {
 public:
  explicit GroupRows(GroupMatrix matrix) : MadeRows(matrix.sources), m_(std::move(matrix)) {
    put_in_order();
    type_ = choose();
    if (type_ == DType::f32) order_.clear();
  }
  DType type() const { return type_; }
  std::span<const std::int32_t> order() const override { return order_; }

  void make(std::int64_t row, std::span<std::byte> out) const override {
    thread_local std::vector<std::uint8_t> codes, stored;
    codes.resize(static_cast<std::size_t>(m_.inputs));
    stored.resize(codes.size());
    m_.codes(row, order_.empty() ? codes : stored);
    for (std::size_t k = 0; k < order_.size(); ++k) codes[k] = stored[static_cast<std::size_t>(order_[k])];
    switch (type_) {
      case DType::f32:
        return floats(row, codes, reinterpret_cast<float*>(out.data()));
      case DType::q4_0:
        return q4_0(row, codes, reinterpret_cast<BlockQ4_0*>(out.data()));
      case DType::q8_0:
        return q8_0(row, codes, reinterpret_cast<BlockQ8_0*>(out.data()));
      default:
        return groups(row, codes, out);
    }
  }

 private:
  void groups(std::int64_t row, std::span<const std::uint8_t> codes, std::span<std::byte> out) const {
    switch (block_shape(type_).elements) {
      case kGroupBlock:
        return blocks(row, codes, reinterpret_cast<BlockGroup<kGroupBlock>*>(out.data()));
      case kMiddleGroupBlock:
        return blocks(row, codes, reinterpret_cast<BlockGroup<kMiddleGroupBlock>*>(out.data()));
      default:
        return blocks(row, codes, reinterpret_cast<BlockGroup<kLongGroupBlock>*>(out.data()));
    }
  }

  // Inputs by group; first_[g] is where those of group g begin.
  void put_in_order() {
    first_.assign(static_cast<std::size_t>(m_.groups) + 1, 0);
    if (m_.group_of.empty()) {
      for (std::int64_t g = 0; g <= m_.groups; ++g) first_[static_cast<std::size_t>(g)] = m_.inputs / m_.groups * g;
      return;
    }
    for (const std::int32_t g : m_.group_of) ++first_[static_cast<std::size_t>(g) + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    if (std::ranges::is_sorted(m_.group_of)) return;
    order_.resize(m_.group_of.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::stable_sort(order_, {}, [this](std::int32_t k) { return m_.group_of[static_cast<std::size_t>(k)]; });
  }
  std::int64_t group_at(std::int64_t k) const {  // k in order
    return std::upper_bound(first_.begin(), first_.end(), k) - first_.begin() - 1;
  }
  bool whole_blocks_of(std::int64_t values) const {
    return std::ranges::all_of(first_, [&](std::int64_t first) { return first % values == 0; });
  }

  DType choose() const {
    if (!whole_blocks_of(kGroupBlock)) return DType::f32;
    const Fits fits = look();
    if ((m_.bits == 4 || m_.bits == 8) && fits.plain) return m_.bits == 4 ? DType::q4_0 : DType::q8_0;
    const bool is_long = whole_blocks_of(kLongGroupBlock);
    switch (fits.raised ? m_.bits : 8) {  // bytes have a float32 as their scale, which a narrower code may need
      case 2:
        if (is_long) return DType::g2_128;
        return whole_blocks_of(kMiddleGroupBlock) ? DType::g2_64 : DType::g2_32;
      case 3:
        return is_long ? DType::g3_128 : DType::g3_32;
      case 4:
        return is_long ? DType::g4_128 : DType::g4_32;
      default:
        return is_long ? DType::g8_128 : DType::g8_32;
    }
  }
  struct Fits {
    bool plain = true;   // every zero is the middle and every scale an f16
    bool raised = true;  // every scale is one of G2 .. G4
  };
  Fits look() const {
    const int middle = 1 << (m_.bits - 1);
    Fits fits;
    for (std::int64_t row = 0; row < m_.outputs && (fits.plain || fits.raised); ++row)
      for (std::int64_t g = 0; g < m_.groups; ++g) {
        const float scale = m_.scale(row, g);
        fits.plain = fits.plain && m_.zero(row, g) == middle && exact_as_f16(scale);
        fits.raised = fits.raised && fits_raised(scale);
      }
    return fits;
  }

  void floats(std::int64_t row, std::span<const std::uint8_t> codes, float* out) const {
    for (std::size_t k = 0; k < codes.size(); ++k) {
      // Without an order to tell: group_of says it of each input.
      const auto input = order_.empty() ? static_cast<std::int64_t>(k) : order_[k];
      const std::int64_t g =
          m_.group_of.empty() ? input / (m_.inputs / m_.groups) : m_.group_of[static_cast<std::size_t>(input)];
      out[k] = m_.scale(row, g) * static_cast<float>(codes[k] - m_.zero(row, g));
    }
  }
  void q4_0(std::int64_t row, std::span<const std::uint8_t> codes, BlockQ4_0* out) const {
    for (std::int64_t k = 0; k < m_.inputs; k += kGroupBlock, ++out) {
      const std::uint8_t* q = codes.data() + k;
      out->d = StoredF16::of(to_f16(m_.scale(row, group_at(k))));
      for (int i = 0; i < 16; ++i) out->q[i] = static_cast<std::uint8_t>(q[i] | q[i + 16] << 4);
    }
  }
  void q8_0(std::int64_t row, std::span<const std::uint8_t> codes, BlockQ8_0* out) const {
    for (std::int64_t k = 0; k < m_.inputs; k += kGroupBlock, ++out) {
      out->d = StoredF16::of(to_f16(m_.scale(row, group_at(k))));
      for (int i = 0; i < kGroupBlock; ++i)
        out->q[i] = static_cast<std::int8_t>(codes[static_cast<std::size_t>(k + i)] - 128);
    }
  }
  template <int kValues>
  void blocks(std::int64_t row, std::span<const std::uint8_t> codes, BlockGroup<kValues>* out) const {
    for (std::int64_t k = 0; k < m_.inputs; k += kValues, ++out) {
      const std::int64_t g = group_at(k);
      out->d = StoredF32::of(m_.scale(row, g));
      out->set_zero(m_.zero(row, g));
      std::memcpy(out->q, codes.data() + k, kValues);
    }
  }

  GroupMatrix m_;
  std::vector<std::int64_t> first_;
  std::vector<std::int32_t> order_;
  DType type_ = DType::f32;
};

}  // namespace

Tensor weight_of(GroupMatrix matrix) {
  Tensor made;
  made.name = matrix.name;
  made.shape = {matrix.outputs, matrix.inputs};
  auto rows = std::make_shared<GroupRows>(std::move(matrix));
  made.dtype = rows->type();
  made.maker = std::move(rows);
  return made;
}

}  // namespace espalier
