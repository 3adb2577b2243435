// GPTQ, AWQ, compressed-tensors' packed weights, and int8: where codes, scales and zeros are.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "model/quant/group_rows.h"
#include "model/quant/made_rows.h"

namespace espalier {
namespace {

bool is_float(const Tensor& t) {
  return t.dtype == DType::f32 || t.dtype == DType::f16 || t.dtype == DType::bf16;
}

Result<const Tensor*> words_or_scales(const ModuleTensors& of, std::string_view end, bool words) {
  ESP_TRY(const Tensor* found, of.get(end));
  if (found->shape.size() != 2 || found->shape[0] < 1 || found->shape[1] < 1)
    return unfit(*found, "it must have two dimensions");
  if (words ? found->dtype != DType::i32 : !is_float(*found))
    return unfit(*found, words ? "it must be I32" : "it must be F32, F16 or BF16");
  return found;
}

// Code i of a run of words that lie `stride` words apart, its bits following those before it.
std::uint8_t code_at(const Tensor& t, std::int64_t first, std::int64_t stride, std::int64_t i, int bits) {
  const std::int64_t bit = i * bits;
  const int shift = static_cast<int>(bit % 32);
  std::uint64_t word = word_at(t, first + bit / 32 * stride);
  if (shift + bits > 32) word |= static_cast<std::uint64_t>(word_at(t, first + (bit / 32 + 1) * stride)) << 32;
  return static_cast<std::uint8_t>(word >> shift & ((1u << bits) - 1));
}

bool known_width(std::int64_t bits, const Quantisation& how) {
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8) return false;
  return how.bits.empty() || std::ranges::find(how.bits, bits) != how.bits.end();
}

// The group of each input, below `groups`.
Result<std::vector<std::int32_t>> groups_of_inputs(const Tensor& t, std::int64_t inputs, std::int64_t groups) {
  std::vector<std::int32_t> out;
  if ((t.dtype != DType::i32 && t.dtype != DType::i64) || t.elements() != inputs)
    return unfit(t, fmt::format("it must have {} whole numbers, a group for each input", inputs));
  for (std::int64_t k = 0; k < inputs; ++k) {
    std::int64_t g = static_cast<std::int32_t>(t.dtype == DType::i32 ? word_at(t, k) : word_at(t, 2 * k));
    if (t.dtype == DType::i64 && word_at(t, 2 * k + 1) != 0) g = -1;
    if (g < 0 || g >= groups) return unfit(t, fmt::format("input {} is in group {} of {}", k, g, groups));
    out.push_back(static_cast<std::int32_t>(g));
  }
  return out;
}

Result<> check_even(const Tensor& scales, std::int64_t inputs, std::int64_t groups) {
  if (inputs % groups == 0) return success();
  return unfit(scales, fmt::format("{} groups do not divide {} inputs", groups, inputs));
}

constexpr int kAwqPlace[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // of column i % 8 in a word

}  // namespace

// qweight [inputs * bits / 32, outputs], qzeros [groups, outputs * bits / 32], scales [groups, outputs], g_idx [inputs].
Result<Tensor> gptq_weight(const ModuleTensors& of, const Quantisation& how) {
  ESP_TRY(const Tensor* codes, words_or_scales(of, ".qweight", true));
  ESP_TRY(const Tensor* scales, words_or_scales(of, ".scales", false));
  ESP_TRY(const Tensor* zeros, words_or_scales(of, ".qzeros", true));
  const std::int64_t outputs = codes->shape[1], groups = scales->shape[0];
  const std::int64_t bits = zeros->shape[1] * 32 % outputs == 0 ? zeros->shape[1] * 32 / outputs : 0;
  if (!known_width(bits, {})) return unfit(*zeros, "its width is not that of codes of 2, 3, 4 or 8 bits");
  if (scales->shape[1] != outputs) return unfit(*scales, fmt::format("there are {} outputs", outputs));
  if (zeros->shape[0] != groups) return unfit(*zeros, fmt::format("there are {} groups of scales", groups));
  if (codes->shape[0] * 32 % bits != 0)
    return unfit(*codes, fmt::format("its rows are no whole codes of {} bits", bits));
  GroupMatrix m;
  m.name = of.module() + ".weight";
  m.outputs = outputs;
  m.inputs = codes->shape[0] * 32 / bits;
  m.groups = groups;
  m.bits = static_cast<int>(bits);
  m.sources = {codes, scales, zeros};
  if (const Tensor* order = of.find(".g_idx"); order != nullptr && order->elements() > 0) {
    m.sources.push_back(order);
    ESP_TRY(m.group_of, groups_of_inputs(*order, m.inputs, groups));
  } else {
    ESP_CHECK(check_even(*scales, m.inputs, groups));
  }
  m.codes = [codes, outputs, b = m.bits](std::int64_t row, std::span<std::uint8_t> out) {
    for (std::size_t k = 0; k < out.size(); ++k)
      out[k] = code_at(*codes, row, outputs, static_cast<std::int64_t>(k), b);
  };
  m.scale = [scales, outputs](std::int64_t row, std::int64_t g) { return float_at(*scales, g * outputs + row); };
  m.zero = [zeros, b = m.bits, more = how.zeros_less_one ? 1 : 0](std::int64_t row, std::int64_t g) {
    return code_at(*zeros, g * zeros->shape[1], 1, row, b) + more;
  };
  return weight_of(std::move(m));
}

// qweight [inputs, outputs / 8], qzeros [groups, outputs / 8], scales [groups, outputs].
Result<Tensor> awq_weight(const ModuleTensors& of, const Quantisation&) {
  ESP_TRY(const Tensor* codes, words_or_scales(of, ".qweight", true));
  ESP_TRY(const Tensor* scales, words_or_scales(of, ".scales", false));
  ESP_TRY(const Tensor* zeros, words_or_scales(of, ".qzeros", true));
  GroupMatrix m;
  m.name = of.module() + ".weight";
  m.inputs = codes->shape[0];
  m.outputs = scales->shape[1];
  m.groups = scales->shape[0];
  m.sources = {codes, scales, zeros};
  const std::int64_t words = codes->shape[1];
  if (m.outputs % 8 != 0 || words != m.outputs / 8)
    return unfit(*codes, fmt::format("{} outputs of the scales are not its words of eight", m.outputs));
  if (zeros->shape != Shape{m.groups, words}) return unfit(*zeros, fmt::format("[{}, {}] is needed", m.groups, words));
  ESP_CHECK(check_even(*scales, m.inputs, m.groups));
  const auto nibble = [words](const Tensor& t, std::int64_t line, std::int64_t column) {
    return static_cast<std::uint8_t>(word_at(t, line * words + column / 8) >> (4 * kAwqPlace[column % 8]) & 15);
  };
  m.codes = [codes, nibble](std::int64_t row, std::span<std::uint8_t> out) {
    for (std::size_t k = 0; k < out.size(); ++k) out[k] = nibble(*codes, static_cast<std::int64_t>(k), row);
  };
  m.scale = [scales, n = m.outputs](std::int64_t row, std::int64_t g) { return float_at(*scales, g * n + row); };
  m.zero = [zeros, nibble](std::int64_t row, std::int64_t g) { return nibble(*zeros, g, row); };
  return weight_of(std::move(m));
}

namespace {

// Scales [outputs, groups], [outputs] or one for all.
struct RowScales {
  const Tensor* tensor;
  std::int64_t groups, row_stride;
  float at(std::int64_t row, std::int64_t g) const { return float_at(*tensor, row * row_stride + g); }
};

Result<RowScales> row_scales(const Tensor& t, std::int64_t outputs) {
  if (!is_float(t)) return unfit(t, "it must be F32, F16 or BF16");
  const std::int64_t count = t.elements();
  if (count == 1) return RowScales{&t, 1, 0};
  if (count < 1 || t.shape.front() != outputs)
    return unfit(t, fmt::format("one scale, or a row for each of {} outputs, is needed", outputs));
  return RowScales{&t, count / outputs, count / outputs};
}

// The logical shape that compressed-tensors notes.
Result<Shape> noted_shape(const Tensor& t) {
  Shape shape;
  if ((t.dtype != DType::i64 && t.dtype != DType::i32) || t.elements() != 2)
    return unfit(t, "it must have two whole numbers, outputs and inputs");
  for (std::int64_t i = 0; i < 2; ++i) {
    std::int64_t n = 0;
    std::memcpy(&n, t.data.data() + i * block_shape(t.dtype).bytes,
                static_cast<std::size_t>(block_shape(t.dtype).bytes));
    if (n < 1 || n > std::int64_t{1} << 31) return unfit(t, fmt::format("{} is no length of a matrix", n));
    shape.push_back(n);
  }
  return shape;
}

// How codes lie in words: one behind the other, or (three bits of older compressed-tensors) whole ones in each word.
struct Packing {
  int bits = 0;  // 0: none that is known
  bool whole = false;

  std::int64_t words(std::int64_t count) const {
    return whole ? (count + 32 / bits - 1) / (32 / bits) : (count * bits + 31) / 32;
  }
  // Code i of words that lie `stride` apart.
  int code(const Tensor& t, std::int64_t first, std::int64_t stride, std::int64_t i) const {
    if (!whole) return code_at(t, first, stride, i, bits);
    const std::int64_t in_word = 32 / bits;
    return static_cast<int>(word_at(t, first + i / in_word * stride) >> (i % in_word * bits)) & ((1 << bits) - 1);
  }
};

// That of rows of so many words.
Packing packing_of(std::int64_t inputs, std::int64_t words, const Quantisation& how) {
  for (const bool whole : {false, true})
    for (const int bits : {2, 3, 4, 8})
      if (const Packing packing{bits, whole}; known_width(bits, how) && packing.words(inputs) == words) return packing;
  return {};
}

// Whether codes that may have four bits do: a file that has several widths does not say which module has which.
bool has_four_bits(const Tensor& codes, const Quantisation& how) {
  if (std::ranges::find(how.bits, 4) == how.bits.end()) return false;
  constexpr std::size_t kTogether = 4096;  // bytes that are looked at without a branch
  for (std::size_t begin = 0; begin < codes.data.size(); begin += kTogether) {
    unsigned outside = 0;  // bits of code + 8 that 0 .. 15 has not
    for (const std::byte code : codes.data.subspan(begin, std::min(kTogether, codes.data.size() - begin)))
      outside |= (std::to_integer<unsigned>(code) + 8) & 0xf0;
    if (outside != 0) return false;
  }
  return true;
}

}  // namespace

// weight_packed [outputs, inputs * bits / 32], weight_shape, weight_scale [outputs, groups], and maybe weight_zero_point
// [outputs * bits / 32, groups] and weight_g_idx [inputs]. Codes are raised by half their range.
Result<Tensor> packed_weight(const ModuleTensors& of, const Quantisation& how) {
  ESP_TRY(const Tensor* codes, words_or_scales(of, ".weight_packed", true));
  ESP_TRY(const Tensor* noted, of.get(".weight_shape"));
  ESP_TRY(const Shape shape, noted_shape(*noted));
  ESP_TRY(const Tensor* stored_scales, of.get(".weight_scale"));
  if (codes->shape[0] != shape[0]) return unfit(*codes, fmt::format("{} says {} outputs", noted->name, shape[0]));
  const Packing packing = packing_of(shape[1], codes->shape[1], how);
  if (packing.bits == 0)
    return unfit(*codes, fmt::format("{} inputs in so many words are of no known width", shape[1]));
  ESP_TRY(const RowScales scales, row_scales(*stored_scales, shape[0]));
  GroupMatrix m;
  m.name = of.module() + ".weight";
  m.outputs = shape[0];
  m.inputs = shape[1];
  m.groups = scales.groups;
  m.bits = packing.bits;
  m.sources = {codes, noted, stored_scales};
  if (const Tensor* order = of.find(".weight_g_idx"); order != nullptr && order->elements() > 0) {
    m.sources.push_back(order);
    ESP_TRY(m.group_of, groups_of_inputs(*order, m.inputs, m.groups));
  } else {
    ESP_CHECK(check_even(*stored_scales, m.inputs, m.groups));
  }
  m.codes = [codes, packing](std::int64_t row, std::span<std::uint8_t> out) {
    for (std::size_t k = 0; k < out.size(); ++k)
      out[k] = static_cast<std::uint8_t>(packing.code(*codes, row * codes->shape[1], 1, static_cast<std::int64_t>(k)));
  };
  m.scale = [scales](std::int64_t row, std::int64_t g) { return scales.at(row, g); };
  m.zero = [middle = 1 << (packing.bits - 1)](std::int64_t, std::int64_t) { return middle; };
  if (const Tensor* zeros = of.find(".weight_zero_point")) {
    m.sources.push_back(zeros);
    const std::int64_t lines = packing.words(m.outputs);
    if (zeros->dtype != DType::i32 || zeros->elements() != lines * m.groups)
      return unfit(*zeros, fmt::format("I32 [{}, {}] is needed", lines, m.groups));
    m.zero = [zeros, packing, groups = m.groups](std::int64_t row, std::int64_t g) {
      return packing.code(*zeros, g, groups, row);
    };
  }
  return weight_of(std::move(m));
}

// weight i8 [outputs, inputs] with weight_scale and maybe weight_zero_point i8, as scales; or bitsandbytes' SCB, 127
// times the scale of each output. Codes of four bits have a byte each where activations are rounded too (w4a8).
Result<Tensor> int8_weight(const ModuleTensors& of, const Quantisation& how) {
  ESP_TRY(const Tensor* codes, of.get(".weight"));
  if (codes->shape.size() != 2) return unfit(*codes, "it must have two dimensions");
  const Tensor* stored = of.find(".weight_scale");
  const bool scb = stored == nullptr;
  if (scb) stored = of.find(".SCB");
  if (stored == nullptr) return unfit(*codes, "whole numbers have no weight_scale and no SCB beside them");
  ESP_TRY(const RowScales scales, row_scales(*stored, codes->shape[0]));
  GroupMatrix m;
  m.name = of.module() + ".weight";
  m.outputs = codes->shape[0];
  m.inputs = codes->shape[1];
  m.groups = scales.groups;
  m.bits = has_four_bits(*codes, how) ? 4 : 8;
  const int middle = 1 << (m.bits - 1);
  m.sources = {codes, stored};
  ESP_CHECK(check_even(*stored, m.inputs, m.groups));
  m.codes = [codes, middle](std::int64_t row, std::span<std::uint8_t> out) {
    const auto from = codes->row(row);
    for (std::size_t k = 0; k < out.size(); ++k)
      out[k] = static_cast<std::uint8_t>(static_cast<int>(static_cast<std::int8_t>(from[k])) + middle);
  };
  m.scale = [scales, scb](std::int64_t row, std::int64_t g) {
    return scb ? scales.at(row, g) / 127.0f : scales.at(row, g);
  };
  m.zero = [middle](std::int64_t, std::int64_t) { return middle; };
  if (const Tensor* zeros = of.find(".weight_zero_point")) {
    m.sources.push_back(zeros);
    if (zeros->dtype != DType::i8 || zeros->elements() != stored->elements())
      return unfit(*zeros, fmt::format("I8 of {} values is needed", stored->elements()));
    m.zero = [zeros, middle, stride = scales.row_stride](std::int64_t row, std::int64_t g) {
      const auto stored_zero = static_cast<std::int8_t>(zeros->data[static_cast<std::size_t>(row * stride + g)]);
      return static_cast<int>(stored_zero) + middle;
    };
  }
  return weight_of(std::move(m));
}

}  // namespace espalier
