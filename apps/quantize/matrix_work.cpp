#include "quantize/matrix_work.h"

#include <cstdint>
#include <memory>

#include "quantize/piece.h"
#include "tensor/encode.h"

namespace espalier::quantizer {
namespace {

class MatrixMaker {
 public:
  MatrixMaker(const MatrixWork& work, const Output& output, const std::vector<Slot>& slots, ComputeTeam& team)
      : w_(work), output_(output), slots_(slots), team_(team) {}

  Result<> make() {
    if (w_.products) {
      std::vector<float> by;
      for (const float factor : w_.columns) by.push_back(1 / factor);
      ESP_TRY(gptq_, w_.products->gptq_of(w_.tensor->name, w_.inputs(), by));
    }
    zeros_.assign(static_cast<std::size_t>(w_.outputs() * w_.groups()), 0);
    ESP_CHECK(for_rows(team_, w_.outputs(), w_.inputs(),
                       [this](std::int64_t first, std::int64_t end) { return make_rows(first, end); }));
    if (!w_.packed) return success();
    const std::int64_t shape[2] = {w_.outputs(), w_.inputs()};
    ESP_CHECK(output_.write(slots_[2], 0, std::as_bytes(std::span(shape))));
    return w_.form.symmetric ? success() : write_zeros();
  }

 private:
  Result<> make_rows(std::int64_t first, std::int64_t end) {
    const auto count = static_cast<std::size_t>(end - first), width = static_cast<std::size_t>(w_.inputs()),
               groups = static_cast<std::size_t>(w_.groups()), group = static_cast<std::size_t>(w_.group);
    std::vector<float> values(count * width);
    std::vector<GroupScale> scales(count * groups);
    std::vector<std::int8_t> codes(count * width);
    for (std::size_t r = 0; r < count; ++r) {
      const std::span<float> row(values.data() + r * width, width);
      ESP_CHECK(read(first + static_cast<std::int64_t>(r), row));
      for (std::size_t g = 0; g < groups; ++g)
        scales[r * groups + g] = fit_group(
            row.subspan(g * group, group),
            w_.importance.empty() ? std::span<const float>() : std::span(w_.importance).subspan(g * group, group),
            w_.form);
    }
    const auto rounded = [&](std::int64_t r, std::int64_t k, float x) {
      const GroupScale& scale = scales[static_cast<std::size_t>(r) * groups + static_cast<std::size_t>(k) / group];
      const int code = code_of(x, scale, w_.form);
      codes[static_cast<std::size_t>(r) * width + static_cast<std::size_t>(k)] = static_cast<std::int8_t>(code);
      return value_of(code, scale);
    };
    if (gptq_) {
      gptq_->round(values, static_cast<std::int64_t>(count), rounded);
    } else {
      for (std::size_t r = 0; r < count; ++r)
        for (std::size_t k = 0; k < width; ++k)
          rounded(static_cast<std::int64_t>(r), static_cast<std::int64_t>(k), values[r * width + k]);
    }
    return write(first, codes, scales);
  }

  Result<> read(std::int64_t index, std::span<float> row) const {
    read_row(*w_.tensor, index, row);
    ESP_CHECK(check_finite(w_.tensor->name, index, row));
    if (!w_.rows.empty())
      for (float& value : row) value /= w_.rows[static_cast<std::size_t>(index)];
    if (!w_.columns.empty())
      for (std::size_t k = 0; k < row.size(); ++k) row[k] *= w_.columns[k];
    return success();
  }

  Result<> write(std::int64_t first, const std::vector<std::int8_t>& codes, const std::vector<GroupScale>& scales) {
    std::vector<float> plain;
    for (std::size_t i = 0; i < scales.size(); ++i) {
      plain.push_back(scales[i].scale);
      zeros_[static_cast<std::size_t>(first * w_.groups()) + i] = static_cast<std::int8_t>(scales[i].zero);
    }
    const std::vector<std::byte> stored = encode(w_.form.scale_type, plain, w_.groups());
    const std::uint64_t each =
        stored.size() / static_cast<std::size_t>(codes.size() / static_cast<std::size_t>(w_.inputs()));
    ESP_CHECK(output_.write(slots_[1], static_cast<std::uint64_t>(first) * each, stored));
    if (!w_.packed)
      return output_.write(slots_[0], static_cast<std::uint64_t>(first * w_.inputs()), std::as_bytes(std::span(codes)));
    const auto count = static_cast<std::int64_t>(codes.size()) / w_.inputs();
    std::vector<std::uint32_t> words(static_cast<std::size_t>(count * w_.words()), 0);
    for (std::int64_t r = 0; r < count; ++r)
      for (std::int64_t k = 0; k < w_.inputs(); ++k)
        put(words[static_cast<std::size_t>(r * w_.words() + k / w_.in_word())], k,
            codes[static_cast<std::size_t>(r * w_.inputs() + k)]);
    return output_.write(slots_[0], static_cast<std::uint64_t>(first * w_.words()) * 4,
                         std::as_bytes(std::span(words)));
  }

  // Codes in words are raised by half their range.
  void put(std::uint32_t& word, std::int64_t place, int code) const {
    const auto raised = static_cast<std::uint32_t>(code - w_.form.low());
    word |= raised << (place % w_.in_word() * w_.form.bits);
  }

  Result<> write_zeros() const {
    const std::int64_t lines = (w_.outputs() + w_.in_word() - 1) / w_.in_word();
    std::vector<std::uint32_t> words(static_cast<std::size_t>(lines * w_.groups()), 0);
    for (std::int64_t row = 0; row < w_.outputs(); ++row)
      for (std::int64_t g = 0; g < w_.groups(); ++g)
        put(words[static_cast<std::size_t>(row / w_.in_word() * w_.groups() + g)], row,
            zeros_[static_cast<std::size_t>(row * w_.groups() + g)]);
    return output_.write(slots_[3], 0, std::as_bytes(std::span(words)));
  }

  const MatrixWork& w_;
  const Output& output_;
  const std::vector<Slot>& slots_;
  ComputeTeam& team_;
  std::shared_ptr<const Gptq> gptq_;
  std::vector<std::int8_t> zeros_;
};

}  // namespace

Result<> make_matrix(const MatrixWork& work, const Output& output, const std::vector<Slot>& slots, ComputeTeam& team) {
  return MatrixMaker(work, output, slots, team).make();
}

}  // namespace espalier::quantizer
