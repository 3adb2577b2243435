// FP8, MXFP4, NVFP4 and bitsandbytes' four bits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/json/json_fields.h"
#include "model/quant/made_rows.h"
#include "tensor/decode.h"
#include "tensor/group_blocks.h"
#include "tensor/iq_blocks.h"

namespace espalier {
namespace {

constexpr std::int64_t kFloatBlock = 32, kLongFloatBlock = 128, kTableBlock = 64;

template <class Rows>
Tensor made_tensor(std::string name, Shape shape, DType type, std::shared_ptr<Rows> rows) {
  Tensor out;
  out.name = std::move(name);
  out.shape = std::move(shape);
  out.dtype = type;
  out.maker = std::move(rows);
  return out;
}

// --- FP8 ---

// The scale of value k of row r is stored value r / rows * line + k / columns. They are read where they lie: those of all
// matrices of MXFP8 as floats would be an eighth of the checkpoint.
struct BlockScales {
  const Tensor* stored;  // null: 1
  std::int64_t rows, columns, line;
  float at(std::int64_t row, std::int64_t k) const {
    if (stored == nullptr) return 1;
    const std::int64_t i = row / rows * line + k / columns;
    if (stored->dtype != DType::u8) return float_at(*stored, i);
    return f8_e8m0_to_float(static_cast<std::uint8_t>(stored->data[static_cast<std::size_t>(i)]));  // MX
  }
};

// Value `row` of each of some rows of e4m3, whose scales change with whole blocks of them.
template <int kValues>
class TurnedFloat8Rows final : public MadeRows {
 public:
  TurnedFloat8Rows(const Tensor& codes, const BlockScales& scales, std::int64_t first, std::int64_t inputs,
                   std::vector<const Tensor*> sources)
      : MadeRows(std::move(sources)), codes_(codes), scales_(scales), first_(first), inputs_(inputs) {}

  void make(std::int64_t row, std::span<std::byte> out) const override {
    auto* block = reinterpret_cast<BlockScaled<kValues>*>(out.data());
    const auto columns = static_cast<std::size_t>(codes_.columns());
    const std::byte* code = codes_.data.data() + static_cast<std::size_t>(first_) * columns + row;
    for (std::int64_t k = 0; k < inputs_; k += kValues, ++block) {
      block->d = StoredF32::of(scales_.at(first_ + k, row));
      for (int i = 0; i < kValues; ++i, code += columns) block->q[i] = static_cast<std::uint8_t>(*code);
    }
  }

 private:
  const Tensor& codes_;
  BlockScales scales_;
  std::int64_t first_, inputs_;
};

// Rows of e4m3 with scales.
class Float8Rows final : public MadeRows {
 public:
  Float8Rows(const Tensor& codes, const BlockScales& scales, DType type, std::vector<const Tensor*> sources)
      : MadeRows(std::move(sources)), codes_(codes), scales_(scales), type_(type) {}

  void make(std::int64_t row, std::span<std::byte> out) const override {
    const std::span<const std::byte> codes = codes_.row(row);
    if (type_ == DType::f8_128) return blocks<kLongFloatBlock>(row, codes, out);
    if (type_ == DType::f8_32) return blocks<kFloatBlock>(row, codes, out);
    for (std::size_t k = 0; k < codes.size(); ++k) {
      const float value =
          f8_e4m3_to_float(static_cast<std::uint8_t>(codes[k])) * scales_.at(row, static_cast<std::int64_t>(k));
      std::memcpy(out.data() + 4 * k, &value, 4);
    }
  }
  std::shared_ptr<const Tensor> turned_part(std::int64_t first, std::int64_t inputs) const override {
    if (auto turned = turned_in_blocks<kLongFloatBlock>(DType::f8_128, first, inputs)) return turned;
    return turned_in_blocks<kFloatBlock>(DType::f8_32, first, inputs);
  }

 private:
  template <int kValues>
  std::shared_ptr<const Tensor> turned_in_blocks(DType type, std::int64_t first, std::int64_t inputs) const {
    if (inputs % kValues != 0) return nullptr;
    for (std::int64_t k = first; k < first + inputs; k += kValues)
      if (k / scales_.rows != (k + kValues - 1) / scales_.rows) return nullptr;
    return std::make_shared<const Tensor>(
        made_tensor(codes_.name, {codes_.columns(), inputs}, type,
                    std::make_shared<TurnedFloat8Rows<kValues>>(codes_, scales_, first, inputs, sources())));
  }
  template <int kValues>
  void blocks(std::int64_t row, std::span<const std::byte> codes, std::span<std::byte> out) const {
    auto* block = reinterpret_cast<BlockScaled<kValues>*>(out.data());
    for (std::size_t k = 0; k < codes.size(); k += kValues, ++block) {
      block->d = StoredF32::of(scales_.at(row, static_cast<std::int64_t>(k)));
      std::memcpy(block->q, codes.data() + k, kValues);
    }
  }

  const Tensor& codes_;
  BlockScales scales_;
  DType type_;
};

std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Experts side by side are rows one below the other: `outputs` of each.
Result<BlockScales> block_scales(const Tensor& t, const Tensor& codes, const Quantisation& how) {
  const std::int64_t outputs = codes.shape[codes.shape.size() - 2], inputs = codes.columns(), rows = codes.rows();
  const std::int64_t count = t.elements(), columns = t.columns(), experts = rows / outputs;
  if (count < 1) return unfit(t, "it is empty");
  if (count == 1) return BlockScales{&t, rows, inputs, 1};
  if (count == experts) return BlockScales{&t, outputs, inputs, 1};
  const Shape a_row(codes.shape.begin(), codes.shape.end() - 1);
  if (count == rows && (t.shape.size() == 1 || columns == 1 || t.shape == a_row)) return BlockScales{&t, 1, inputs, 1};
  if (t.shape.size() >= 2) {
    const std::int64_t lines = t.shape[t.shape.size() - 2];
    if (lines == outputs && count == rows * columns && inputs % columns == 0)
      return BlockScales{&t, 1, inputs / columns, columns};
    const bool even = experts == 1 || outputs % how.block_rows == 0;
    if (even && lines == round_up(outputs, how.block_rows) && columns == round_up(inputs, how.block_columns) &&
        count == experts * lines * columns)
      return BlockScales{&t, how.block_rows, how.block_columns, columns};
  }
  return unfit(t, fmt::format("scales of {} {} are needed: one, one a row, or one for each block of {} x {}",
                              codes.name, to_string(codes.shape), how.block_rows, how.block_columns));
}

}  // namespace

Result<Tensor> float8_weight(const ModuleTensors& of, std::string_view weight, const Quantisation& how) {
  ESP_TRY(const Tensor* codes, of.get(weight));
  if (codes->dtype != DType::f8_e4m3) return unknown_format(*codes, "floats of 8 bits are supported as F8_E4M3");
  if (codes->shape.size() < 2 || codes->elements() == 0) return unfit(*codes, "it must be a matrix");
  std::vector<const Tensor*> sources = {codes};
  BlockScales scales{nullptr, codes->rows(), codes->columns(), 1};
  for (const std::string_view end : {"_scale", "_scale_inv"})
    if (const Tensor* stored = of.find(end)) {
      ESP_TRY(scales, block_scales(*stored, *codes, how));
      sources.push_back(stored);
      break;
    }
  const std::int64_t inputs = codes->columns();
  const auto fits = [&](std::int64_t values) {
    return inputs % values == 0 && (scales.columns % values == 0 || scales.columns >= inputs);
  };
  const DType type = fits(kLongFloatBlock) ? DType::f8_128 : fits(kFloatBlock) ? DType::f8_32 : DType::f32;
  return made_tensor(codes->name, codes->shape, type,
                     std::make_shared<Float8Rows>(*codes, scales, type, std::move(sources)));
}

// --- four bits with a power of two for each 32 values ---

namespace {

// Nibbles, the even value in the low half, and exponents.
class Mxfp4Rows final : public MadeRows {
 public:
  Mxfp4Rows(const Tensor& codes, const Tensor& exponents, std::int64_t inputs, bool turned)
      : MadeRows({&codes, &exponents}), codes_(codes), exponents_(exponents), inputs_(inputs), turned_(turned) {}
  bool turned() const override { return turned_; }

  void make(std::int64_t row, std::span<std::byte> out) const override {
    auto* block = reinterpret_cast<BlockMXFP4*>(out.data());
    const std::byte* q = codes_.data.data() + row * (inputs_ / 2);
    const std::byte* e = exponents_.data.data() + row * (inputs_ / kFloatBlock);
    for (std::int64_t k = 0; k < inputs_; k += kFloatBlock, ++block, q += 16) {
      block->e = static_cast<std::uint8_t>(*e++);
      const auto value = [&](int i) { return static_cast<int>(q[i / 2]) >> (i % 2 * 4) & 15; };
      for (int i = 0; i < 16; ++i) block->q[i] = static_cast<std::uint8_t>(value(i) | value(i + 16) << 4);
    }
  }

 private:
  const Tensor &codes_, &exponents_;
  std::int64_t inputs_;
  bool turned_;
};

bool bytes_of_exponents(const Tensor& t) {
  return t.dtype == DType::u8 || t.dtype == DType::f8_e8m0;
}

}  // namespace

// _blocks u8 [experts, outputs, inputs / 32, 16], _scales u8 [experts, outputs, inputs / 32]. The model's own name for
// the weight has inputs before outputs.
Result<Tensor> mxfp4_blocks(const ModuleTensors& of) {
  ESP_TRY(const Tensor* codes, of.get("_blocks"));
  ESP_TRY(const Tensor* exponents, of.get("_scales"));
  if (codes->dtype != DType::u8 || codes->shape.size() != 4 || codes->shape[3] != 16 || codes->elements() == 0)
    return unfit(*codes, "U8 [experts, outputs, blocks, 16] is needed");
  const Shape& s = codes->shape;
  if (!bytes_of_exponents(*exponents) || exponents->shape != Shape{s[0], s[1], s[2]})
    return unfit(*exponents, fmt::format("U8 {} is needed", to_string({s[0], s[1], s[2]})));
  return made_tensor(of.module(), {s[0], s[2] * kFloatBlock, s[1]}, DType::mxfp4,
                     std::make_shared<Mxfp4Rows>(*codes, *exponents, s[2] * kFloatBlock, true));
}

// weight_packed u8 [outputs, inputs / 2], weight_scale u8 [outputs, inputs / 32].
Result<Tensor> mxfp4_weight(const ModuleTensors& of) {
  ESP_TRY(const Tensor* codes, of.get(".weight_packed"));
  ESP_TRY(const Tensor* exponents, of.get(".weight_scale"));
  if (codes->dtype != DType::u8 || codes->shape.size() != 2 || codes->shape[1] % 16 != 0 || codes->elements() == 0)
    return unfit(*codes, "U8 [outputs, inputs / 2] is needed, of whole blocks of 32 inputs");
  const std::int64_t outputs = codes->shape[0], inputs = 2 * codes->shape[1];
  if (!bytes_of_exponents(*exponents) || exponents->shape != Shape{outputs, inputs / kFloatBlock})
    return unfit(*exponents, fmt::format("U8 [{}, {}] is needed", outputs, inputs / kFloatBlock));
  return made_tensor(of.module() + ".weight", {outputs, inputs}, DType::mxfp4,
                     std::make_shared<Mxfp4Rows>(*codes, *exponents, inputs, false));
}

// --- four bits with an e4m3 for each 16 values and a float for all ---

namespace {

// Nibbles as in Mxfp4Rows.
class Nvfp4Rows final : public MadeRows {
 public:
  Nvfp4Rows(const Tensor& codes, const Tensor& scales, const Tensor& global, float factor, DType type)
      : MadeRows({&codes, &scales, &global}), codes_(codes), scales_(scales), factor_(factor), type_(type) {}

  void make(std::int64_t row, std::span<std::byte> out) const override {
    const auto q = codes_.row(row), d = scales_.row(row);
    const auto value = [&](std::size_t k) { return static_cast<int>(q[k / 2]) >> (k % 2 * 4) & 15; };
    const std::size_t inputs = 2 * q.size();
    if (type_ == DType::f32) {
      for (std::size_t k = 0; k < inputs; ++k) {
        const float scale = f8_e4m3_to_float(static_cast<std::uint8_t>(d[k / 16])) * factor_;
        const float x = 0.5f * static_cast<float>(kFp4Values[static_cast<std::size_t>(value(k))]) * scale;
        std::memcpy(out.data() + 4 * k, &x, 4);
      }
      return;
    }
    auto* block = reinterpret_cast<BlockNvfp4Group*>(out.data());
    for (std::size_t k = 0; k < inputs; k += 64, ++block) {
      block->global = StoredF32::of(factor_);
      std::memcpy(block->d, d.data() + k / 16, 4);
      for (std::size_t i = 0; i < 64; ++i) block->q[i] = static_cast<std::uint8_t>(value(k + i));
    }
  }

 private:
  const Tensor &codes_, &scales_;
  float factor_;
  DType type_;
};

}  // namespace

// Codes u8 [outputs, inputs / 2], weight_scale e4m3 [outputs, inputs / 16]; compressed-tensors divides by
// weight_global_scale, ModelOpt multiplies by weight_scale_2.
Result<Tensor> nvfp4_weight(const ModuleTensors& of, std::string_view codes_end) {
  ESP_TRY(const Tensor* codes, of.get(codes_end));
  ESP_TRY(const Tensor* scales, of.get(".weight_scale"));
  const bool divides = codes_end == ".weight_packed";
  ESP_TRY(const Tensor* global, of.get(divides ? ".weight_global_scale" : ".weight_scale_2"));
  if (codes->dtype != DType::u8 || codes->shape.size() != 2 || codes->shape[1] % 8 != 0 || codes->elements() == 0)
    return unfit(*codes, "U8 [outputs, inputs / 2] is needed, of whole groups of 16 inputs");
  const std::int64_t outputs = codes->shape[0], inputs = 2 * codes->shape[1];
  if (scales->dtype != DType::f8_e4m3 || scales->shape != Shape{outputs, inputs / 16})
    return unfit(*scales, fmt::format("F8_E4M3 [{}, {}] is needed", outputs, inputs / 16));
  if (global->elements() != 1 || global->dtype != DType::f32) return unfit(*global, "one F32 is needed");
  const float told = float_at(*global, 0);
  if (!std::isfinite(told) || (divides && told == 0)) return unfit(*global, fmt::format("{} is no scale", told));
  const DType type = inputs % 64 == 0 ? DType::nvfp4_g : DType::f32;
  return made_tensor(of.module() + ".weight", {outputs, inputs}, type,
                     std::make_shared<Nvfp4Rows>(*codes, *scales, *global, divides ? 1.0f / told : told, type));
}

// --- bitsandbytes ---

namespace {

// The largest magnitude of each run of values: floats, or bytes of a table times a float for many runs.
struct Maxima {
  const Tensor* stored;
  const Tensor* outer = nullptr;  // null: stored has floats
  std::array<float, 256> table = {};
  std::int64_t outer_run = 256;
  float offset = 0;

  float at(std::int64_t i) const {
    if (outer == nullptr) return float_at(*stored, i);
    const auto place = static_cast<std::size_t>(stored->data[static_cast<std::size_t>(i)]);
    return table[place] * float_at(*outer, i / outer_run) + offset;
  }
};

// Nibbles, the even value in the high half, counted through the whole matrix; absolute maxima for runs of them.
class BitsAndBytesRows final : public MadeRows {
 public:
  BitsAndBytesRows(const Tensor& codes, std::int64_t inputs, const Maxima& maxima, std::int64_t run, DType type,
                   bool nf4, std::vector<const Tensor*> sources)
      : MadeRows(std::move(sources)),
        codes_(codes),
        inputs_(inputs),
        maxima_(maxima),
        run_(run),
        type_(type),
        table_(nf4 ? kNf4Values : kFp4Table) {}

  void make(std::int64_t row, std::span<std::byte> out) const override {
    const std::int64_t first = row * inputs_;
    const auto code = [&](std::int64_t i) {
      return static_cast<int>(codes_.data[static_cast<std::size_t>(i / 2)]) >> (i % 2 == 0 ? 4 : 0) & 15;
    };
    const auto most = [&](std::int64_t i) { return maxima_.at(i / run_); };
    if (type_ == DType::f32) {
      for (std::int64_t k = 0; k < inputs_; ++k) {
        const float x = most(first + k) * table_[static_cast<std::size_t>(code(first + k))];
        std::memcpy(out.data() + 4 * k, &x, 4);
      }
      return;
    }
    auto* block = reinterpret_cast<BlockScaled<kTableBlock>*>(out.data());
    for (std::int64_t k = 0; k < inputs_; k += kTableBlock, ++block) {
      block->d = StoredF32::of(most(first + k));
      for (std::int64_t i = 0; i < kTableBlock; ++i) block->q[i] = static_cast<std::uint8_t>(code(first + k + i));
    }
  }

 private:
  const Tensor& codes_;
  std::int64_t inputs_;
  Maxima maxima_;
  std::int64_t run_;
  DType type_;
  std::array<float, 16> table_;
};

struct QuantState {
  std::int64_t outputs = 0, inputs = 0, run = 64, nested_run = 256;
  double offset = 0;
};

Result<QuantState> read_state(const Tensor& t) {
  if (t.dtype != DType::u8 || t.data.size() > 1 << 16) return unfit(t, "JSON in bytes is needed");
  const std::string text(reinterpret_cast<const char*>(t.data.data()), t.data.size());
  const auto read = [&]() -> Result<QuantState> {
    QuantState out;
    ESP_TRY(const Json json, parse_json(text));
    ESP_TRY(const Json* shape, get_array(json, "shape"));
    if (shape->size() != 2) return bad_request("shape must have two numbers", "shape");
    ESP_TRY(out.outputs, as_integer((*shape)[0], "shape[0]", {1, std::int64_t{1} << 31}));
    ESP_TRY(out.inputs, as_integer((*shape)[1], "shape[1]", {1, std::int64_t{1} << 31}));
    ESP_TRY(out.run, get_integer(json, "blocksize", {1, 1 << 20}));
    ESP_TRY(const auto nested, find_integer(json, "nested_blocksize", {1, 1 << 20}));
    out.nested_run = nested.value_or(256);
    ESP_TRY(const auto offset, find_number(json, "nested_offset"));
    out.offset = offset.value_or(0.0);
    return out;
  };
  auto made = read();
  if (!made.ok()) return unfit(t, made.error().message);
  return made;
}

Result<Maxima> read_maxima(const ModuleTensors& of, const Tensor& stored, const QuantState& state,
                           std::vector<const Tensor*>& sources) {
  const std::int64_t count = (state.outputs * state.inputs + state.run - 1) / state.run;
  if (stored.elements() != count)
    return unfit(stored, fmt::format("{} runs of {} need a value each", count, state.run));
  if (stored.dtype == DType::f32) return Maxima{&stored};
  if (stored.dtype != DType::u8) return unfit(stored, "F32 or U8 is needed");
  ESP_TRY(const Tensor* table, of.get(".weight.nested_quant_map"));
  ESP_TRY(const Tensor* outer, of.get(".weight.nested_absmax"));
  if (table->dtype != DType::f32 || table->elements() != 256) return unfit(*table, "F32 of 256 values is needed");
  if (outer->dtype != DType::f32 || outer->elements() != (count + state.nested_run - 1) / state.nested_run)
    return unfit(*outer, fmt::format("F32, a value for each {} runs, is needed", state.nested_run));
  sources.push_back(table);
  sources.push_back(outer);
  Maxima out{&stored, outer};
  for (std::int64_t i = 0; i < 256; ++i) out.table[static_cast<std::size_t>(i)] = float_at(*table, i);
  out.outer_run = state.nested_run;
  out.offset = static_cast<float>(state.offset);
  return out;
}

}  // namespace

// weight u8 [outputs * inputs / 2, 1], .absmax, .quant_map f32 [16], .quant_state.bitsandbytes__nf4 (or __fp4): JSON.
Result<Tensor> bits_and_bytes_weight(const ModuleTensors& of) {
  ESP_TRY(const Tensor* codes, of.get(".weight"));
  const Tensor* told = of.find(".weight.quant_state.bitsandbytes__nf4");
  const bool nf4 = told != nullptr;
  if (!nf4) {
    ESP_TRY(told, of.get(".weight.quant_state.bitsandbytes__fp4"));
  }
  ESP_TRY(const QuantState state, read_state(*told));
  ESP_TRY(const Tensor* stored, of.get(".weight.absmax"));
  const std::int64_t values = state.outputs * state.inputs;
  if (codes->elements() != (values + 1) / 2) return unfit(*codes, fmt::format("{} says {} values", told->name, values));
  std::vector<const Tensor*> sources = {codes, stored, told};
  if (const Tensor* table = of.find(".weight.quant_map")) {
    sources.push_back(table);
    const auto& known = nf4 ? kNf4Values : kFp4Table;
    if (table->dtype != DType::f32 || table->elements() != 16) return unfit(*table, "F32 of 16 values is needed");
    for (std::int64_t i = 0; i < 16; ++i)
      if (std::abs(float_at(*table, i) - known[static_cast<std::size_t>(i)]) > 1e-6f)
        return unknown_format(*table, "its values are not those of NF4 or FP4");
  }
  ESP_TRY(const Maxima maxima, read_maxima(of, *stored, state, sources));
  const bool whole = state.inputs % kTableBlock == 0 && state.run % kTableBlock == 0;
  const DType type = !whole ? DType::f32 : nf4 ? DType::nf4 : DType::fp4;
  return made_tensor(
      of.module() + ".weight", {state.outputs, state.inputs}, type,
      std::make_shared<BitsAndBytesRows>(*codes, state.inputs, maxima, state.run, type, nf4, std::move(sources)));
}

}  // namespace espalier
