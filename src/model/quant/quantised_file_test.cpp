// Quantised checkpoints that do not fit together are refused with the field at fault; those that do give rows that are
// exactly scale * (code - zero).
#include "model/quant/quantised_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <tuple>

#include "tensor/decode.h"
#include "testing/data.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

// Tensors in memory.
class InMemory final : public TensorFile {
 public:
  InMemory& add(const std::string& name, DType type, const Shape& shape, std::vector<std::byte> bytes) {
    bytes.resize(static_cast<std::size_t>(stored_bytes(type, shape).value()));
    Tensor tensor{name, type, shape, bytes_.emplace_back(std::move(bytes)), nullptr};
    tensors_.push_back(tensor);
    return *this;
  }
  const Tensor* find(std::string_view name) const override {
    const auto found = std::ranges::find(tensors_, name, &Tensor::name);
    return found == tensors_.end() ? nullptr : &*found;
  }
  const std::vector<Tensor>& tensors() const override { return tensors_; }

 private:
  std::deque<std::vector<std::byte>> bytes_;
  std::vector<Tensor> tensors_;
};

std::vector<std::byte> random_bytes(std::mt19937_64& rng, std::size_t count) {
  std::vector<std::byte> out(count);
  for (auto& b : out) b = static_cast<std::byte>(rng());
  return out;
}
template <class Number>
std::vector<std::byte> bytes_of(const std::vector<Number>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}
std::vector<float> scales(std::mt19937_64& rng, std::int64_t count) {
  std::uniform_real_distribution<float> some(0.001f, 0.1f);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& s : out) s = some(rng);
  return out;
}

Result<std::unique_ptr<TensorFile>> open(std::unique_ptr<InMemory> file, QuantMethod method) {
  Quantisation how;
  how.method = method;
  how.name = "test";
  return QuantisedFile::open(std::move(file), how);
}
Error refused(std::unique_ptr<InMemory> file, QuantMethod method) {
  auto made = open(std::move(file), method);
  EXPECT_FALSE(made.ok());
  return made.ok() ? Error{} : made.error();
}

struct Size {
  int bits;
  std::int64_t outputs, inputs, group;
};

// GPTQ's stream of bits against a plain loop, in every width and with inputs of mixed groups.
TEST(QuantisedFile, GptqRowsAreTheCodesOfTheStreamInTheirGroups) {
  std::mt19937_64 rng(testing::seed());
  for (const Size& s :
       {Size{2, 32, 64, 32}, Size{3, 64, 96, 32}, Size{4, 40, 256, 128}, Size{8, 12, 64, 16}, Size{4, 8, 48, 16}})
    for (const bool mixed : {false, true}) {
      const std::int64_t groups = s.inputs / s.group;
      const auto words = random_bytes(rng, static_cast<std::size_t>(s.inputs * s.bits / 8 * s.outputs)),
                 zeros = random_bytes(rng, static_cast<std::size_t>(groups * s.outputs * s.bits / 8));
      const auto scale = scales(rng, groups * s.outputs);
      std::vector<std::int32_t> group_of(static_cast<std::size_t>(s.inputs));
      for (std::int64_t k = 0; k < s.inputs; ++k)
        group_of[static_cast<std::size_t>(k)] = static_cast<std::int32_t>(k / s.group);
      if (mixed) std::ranges::shuffle(group_of, rng);
      auto file = std::make_unique<InMemory>();
      file->add("m.qweight", DType::i32, {s.inputs * s.bits / 32, s.outputs}, words)
          .add("m.qzeros", DType::i32, {groups, s.outputs * s.bits / 32}, zeros)
          .add("m.scales", DType::f32, {groups, s.outputs}, bytes_of(scale))
          .add("m.g_idx", DType::i32, {s.inputs}, bytes_of(group_of));
      const auto bit = [](const std::vector<std::byte>& from, std::int64_t word, std::int64_t n) {  // of a 32-bit word
        return static_cast<int>(from[static_cast<std::size_t>(4 * word + n / 8)]) >> (n % 8) & 1;
      };
      auto made = open(std::move(file), QuantMethod::gptq);
      ASSERT_TRUE(made.ok()) << made.error().message;
      const Tensor* weight = made.value()->find("m.weight");
      ASSERT_NE(weight, nullptr);
      EXPECT_EQ(made.value()->find("m.qweight"), nullptr);
      EXPECT_EQ(weight->shape, (Shape{s.outputs, s.inputs}));
      const auto values = decode(*weight);
      for (std::int64_t row = 0; row < s.outputs; ++row)
        for (std::int64_t k = 0; k < s.inputs; ++k) {
          int code = 0, zero = 0;
          const std::int64_t g = group_of[static_cast<std::size_t>(k)];
          for (int b = 0; b < s.bits; ++b) {
            const std::int64_t i = k * s.bits + b, z = row * s.bits + b;
            code |= bit(words, i / 32 * s.outputs + row, i % 32) << b;
            zero |= bit(zeros, g * (s.outputs * s.bits / 32) + z / 32, z % 32) << b;
          }
          const float want = scale[static_cast<std::size_t>(g * s.outputs + row)] * static_cast<float>(code - zero - 1);
          ASSERT_EQ(values[static_cast<std::size_t>(row * s.inputs + k)], want)
              << s.bits << " bits, " << row << ", " << k;
        }
    }
}

Result<std::unique_ptr<TensorFile>> open_bits(std::unique_ptr<InMemory> file, std::vector<int> bits) {
  Quantisation how;
  how.method = QuantMethod::compressed_tensors;
  how.bits = std::move(bits);
  return QuantisedFile::open(std::move(file), how);
}

// Three bits as compressed-tensors packs them now (a stream) and packed them before (ten codes a word).
TEST(QuantisedFile, PackedCodesOfThreeBitsLieInAStreamOrTenInAWord) {
  std::mt19937_64 rng(testing::seed());
  constexpr std::int64_t kOutputs = 8, kInputs = 64, kGroups = 2;
  for (const bool whole : {false, true}) {
    const std::int64_t words = whole ? 7 : 6;
    const auto packed = random_bytes(rng, static_cast<std::size_t>(4 * kOutputs * words)),
               zeros = random_bytes(rng, static_cast<std::size_t>(4 * kGroups));
    const std::vector<std::int64_t> shape = {kOutputs, kInputs};
    std::vector<std::uint16_t> scale;
    for (int i = 0; i < kOutputs * kGroups; ++i)
      scale.push_back(to_bf16(0.01f * static_cast<float>(1 + rng() % 9)).bits);
    auto file = std::make_unique<InMemory>();
    file->add("m.weight_packed", DType::i32, {kOutputs, words}, packed)
        .add("m.weight_zero_point", DType::i32, {1, kGroups}, zeros)
        .add("m.weight_scale", DType::bf16, {kOutputs, kGroups}, bytes_of(scale))
        .add("m.weight_shape", DType::i64, {2}, bytes_of(shape));
    auto made = open_bits(std::move(file), {3});
    ASSERT_TRUE(made.ok()) << made.error().message;
    const Tensor* weight = made.value()->find("m.weight");
    ASSERT_NE(weight, nullptr);
    EXPECT_EQ(weight->dtype, DType::g3_32);
    const auto bits_at = [](const std::vector<std::byte>& from, std::int64_t bit) {  // three of a stream of bits
      int code = 0;
      for (int b = 0; b < 3; ++b)
        code |= (static_cast<int>(from[static_cast<std::size_t>((bit + b) / 8)]) >> ((bit + b) % 8) & 1) << b;
      return code;
    };
    const auto place = [&](std::int64_t i) { return whole ? i / 10 * 32 + i % 10 * 3 : 3 * i; };
    const auto values = decode(*weight);
    for (std::int64_t row = 0; row < kOutputs; ++row)
      for (std::int64_t k = 0; k < kInputs; ++k) {
        const std::int64_t g = k / 32;
        // Lines of zero points are words of all groups side by side: of one line here, a word each.
        const std::vector<std::byte> word(zeros.begin() + 4 * g, zeros.begin() + 4 * g + 4);
        const int code = bits_at(packed, 32 * words * row + place(k)), zero = bits_at(word, place(row));
        const float d = to_float(bf16{scale[static_cast<std::size_t>(row * kGroups + g)]});
        ASSERT_EQ(values[static_cast<std::size_t>(row * kInputs + k)], d * static_cast<float>(code - zero))
            << whole << " " << row << ", " << k;
      }
  }
}

// Four bits whose activations are rounded too have a byte each in the file, and half of one in memory.
TEST(QuantisedFile, BytesThatHoldFourBitsAreMultipliedAsFourBits) {
  const auto with = [](std::int8_t largest, std::vector<int> bits) {
    std::vector<std::int8_t> codes(4 * 64);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::int8_t>(static_cast<int>(i % 16) - 8);
    codes[100] = largest;
    auto file = std::make_unique<InMemory>();
    file->add("m.weight", DType::i8, {4, 64}, bytes_of(codes))
        .add("m.weight_scale", DType::f32, {4, 2}, bytes_of(std::vector<float>(8, 0.25f)));
    auto made = open_bits(std::move(file), std::move(bits)).value();
    const Tensor& weight = *made->find("m.weight");
    EXPECT_EQ(decode(weight)[100], 0.25f * static_cast<float>(largest));
    EXPECT_EQ(decode(weight)[3], 0.25f * -5);
    return weight.dtype;
  };
  EXPECT_EQ(with(7, {4}), DType::q4_0);
  EXPECT_EQ(with(-8, {4, 8}), DType::q4_0);
  EXPECT_EQ(with(8, {4, 8}), DType::q8_0);
  EXPECT_EQ(with(7, {8}), DType::q8_0);
}

// Scales of float32 that no f16 has keep their value: the codes get a byte.
TEST(QuantisedFile, ScalesThatNeedAllTheirBitsKeepThem) {
  const auto type_with = [](float scale) {
    auto file = std::make_unique<InMemory>();
    file->add("m.qweight", DType::i32, {8, 8}, {})
        .add("m.qzeros", DType::i32, {1, 1}, {})
        .add("m.scales", DType::f32, {1, 8}, bytes_of(std::vector<float>(8, scale)));
    return open(std::move(file), QuantMethod::gptq).value()->find("m.weight")->dtype;
  };
  EXPECT_EQ(type_with(0.01f), DType::g8_32);
  for (const float scale :
       {to_float(to_bf16(0.01f)), to_float(to_bf16(3e-7f)), to_float(to_f16(0.0123f)), 0x1p-24f, 0.0f})
    EXPECT_EQ(type_with(scale), DType::g4_32) << scale;
}

// Latent attention multiplies by columns of its matrix: of FP8 they are FP8 again where scales change with whole blocks.
TEST(QuantisedFile, ColumnsOfEightBitFloatsStayEightBitFloats) {
  std::mt19937_64 rng(testing::seed());
  constexpr std::int64_t kRows = 256, kColumns = 64;
  auto codes = random_bytes(rng, kRows * kColumns);
  for (auto& code : codes)
    if ((code & std::byte{0x7f}) == std::byte{0x7f}) code = std::byte{0x31};
  auto file = std::make_unique<InMemory>();
  file->add("m.weight", DType::f8_e4m3, {kRows, kColumns}, codes)
      .add("m.weight_scale_inv", DType::f32, {2, 1}, bytes_of(scales(rng, 2)))
      .add("n.weight", DType::f8_e4m3, {kRows, kColumns}, codes)
      .add("n.weight_scale", DType::f32, {kRows, 1}, bytes_of(scales(rng, kRows)));
  const auto made = open(std::move(file), QuantMethod::fp8).value();
  const Tensor& weight = *made->find("m.weight");
  const auto values = decode(weight);
  for (const auto& [first, inputs, type] : {std::tuple{std::int64_t{128}, std::int64_t{128}, DType::f8_128},
                                            std::tuple{std::int64_t{96}, std::int64_t{64}, DType::f8_32}}) {
    const auto turned = weight.maker->turned_part(first, inputs);
    ASSERT_NE(turned, nullptr) << first;
    EXPECT_EQ(turned->dtype, type);
    const auto columns = decode(*turned);
    for (std::int64_t i = 0; i < kColumns; ++i)
      for (std::int64_t k = 0; k < inputs; ++k)
        ASSERT_EQ(columns[static_cast<std::size_t>(i * inputs + k)],
                  values[static_cast<std::size_t>((first + k) * kColumns + i)]);
  }
  EXPECT_EQ(weight.maker->turned_part(112, 32), nullptr);  // across two blocks
  EXPECT_EQ(made->find("n.weight")->maker->turned_part(0, 128), nullptr);
}

TEST(QuantisedFile, ModulesThatWereLeftOutStayAsTheyAre) {
  auto file = std::make_unique<InMemory>();
  file->add("a.weight", DType::bf16, {4, 32}, {})
      .add("b.weight", DType::i8, {4, 32}, {})
      .add("b.weight_scale", DType::bf16, {4, 1}, {})
      .add("b.input_scale", DType::f32, {1}, {});
  auto made = open(std::move(file), QuantMethod::compressed_tensors);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made.value()->find("a.weight")->dtype, DType::bf16);
  EXPECT_EQ(made.value()->find("b.weight")->dtype, DType::q8_0);
  EXPECT_EQ(made.value()->tensors().size(), 2u);
}

TEST(QuantisedFile, TensorsThatDoNotFitAreRefusedByName) {
  const auto gptq = [](const Shape& codes, const Shape& zeros, const Shape& scale,
                       const std::vector<std::int32_t>& order) {
    auto file = std::make_unique<InMemory>();
    file->add("m.qweight", DType::i32, codes, {}).add("m.qzeros", DType::i32, zeros, {});
    if (!scale.empty()) file->add("m.scales", DType::f16, scale, {});
    if (!order.empty()) file->add("m.g_idx", DType::i32, {static_cast<std::int64_t>(order.size())}, bytes_of(order));
    return refused(std::move(file), QuantMethod::gptq);
  };
  EXPECT_EQ(gptq({8, 64}, {2, 8}, {}, {}).field, "m.scales");
  EXPECT_EQ(gptq({8, 64}, {2, 8}, {2, 63}, {}).field, "m.scales");
  EXPECT_EQ(gptq({8, 64}, {3, 8}, {2, 64}, {}).field, "m.qzeros");
  EXPECT_EQ(gptq({8, 64}, {2, 10}, {2, 64}, {}).field, "m.qzeros");    // 5 bits
  EXPECT_EQ(gptq({8, 64}, {3, 8}, {3, 64}, {}).field, "m.scales");     // 3 groups of 64 inputs
  EXPECT_EQ(gptq({8, 64}, {2, 8}, {2, 64}, {0, 1}).field, "m.g_idx");  // too few
  std::vector<std::int32_t> outside(64, 0);
  outside[63] = 2;
  EXPECT_THAT(gptq({8, 64}, {2, 8}, {2, 64}, outside).message, HasSubstr("group 2 of 2"));
  outside[63] = -1;
  EXPECT_EQ(gptq({8, 64}, {2, 8}, {2, 64}, outside).field, "m.g_idx");

  const auto one = [](const char* name, DType type, const Shape& shape, const char* other, DType other_type,
                      const Shape& other_shape) {
    auto file = std::make_unique<InMemory>();
    file->add(name, type, shape, {});
    if (other != nullptr) file->add(other, other_type, other_shape, {});
    return refused(std::move(file), QuantMethod::compressed_tensors);
  };
  EXPECT_EQ(one("m.weight", DType::i8, {4, 32}, nullptr, DType::f32, {}).field, "m.weight");
  EXPECT_EQ(one("m.weight", DType::i8, {4, 32}, "m.weight_scale", DType::f32, {3}).field, "m.weight_scale");
  EXPECT_EQ(one("m.weight", DType::i8, {4, 32}, "m.weight_scale", DType::f32, {0}).field, "m.weight_scale");
  EXPECT_EQ(one("m.weight", DType::f8_e4m3, {4, 32}, "m.weight_scale", DType::f32, {2, 2}).field, "m.weight_scale");
  EXPECT_EQ(one("m.weight", DType::f8_e4m3, {4, 32}, "m.weight_scale", DType::f32, {4, 0}).field, "m.weight_scale");
  EXPECT_EQ(one("m.weight", DType::f8_e5m2, {4, 32}, nullptr, DType::f32, {}).kind, Error::Kind::unsupported);
  EXPECT_EQ(one("m.weight", DType::u8, {4, 32}, nullptr, DType::f32, {}).kind, Error::Kind::unsupported);
  EXPECT_EQ(one("m.weight_packed", DType::u8, {4, 15}, "m.weight_scale", DType::u8, {4, 1}).field, "m.weight_packed");
  EXPECT_EQ(one("m.weight_packed", DType::i32, {4, 4}, "m.weight_scale", DType::f32, {4, 1}).field, "m.weight_shape");
  EXPECT_EQ(one("m_blocks", DType::u8, {2, 4, 1, 16}, "m_scales", DType::u8, {2, 4, 2}).field, "m_scales");
  EXPECT_EQ(one("m.weight", DType::u8, {64, 1}, "m.weight.absmax", DType::f32, {2}).field,
            "m.weight.quant_state.bitsandbytes__fp4");
}

Result<Quantisation> read(const char* text) {
  const Json json = parse_json(text).value();
  return read_quantisation(&json);
}

TEST(Quantisation, WhatNoKernelReadsIsRefusedWithItsField) {
  struct Case {
    const char *text, *field;
  };
  for (const auto& [text, field] : {
           Case{R"({})", "quantization_config.quant_method"},
           Case{R"({"quant_method":"aqlm"})", "quantization_config.quant_method"},
           Case{R"({"quant_method":"gptq"})", "quantization_config.bits"},
           Case{R"({"quant_method":"gptq","bits":5})", "quantization_config.bits"},
           Case{R"({"quant_method":"gptq","bits":"4"})", "quantization_config.bits"},
           Case{R"({"quant_method":"gptq","bits":4,"checkpoint_format":"marlin"})",
                "quantization_config.checkpoint_format"},
           Case{R"({"quant_method":"gptq","bits":4,"is_marlin_format":true})", "quantization_config.is_marlin_format"},
           Case{R"({"quant_method":"gptq","bits":4,"is_marlin_format":"yes"})", "quantization_config.is_marlin_format"},
           Case{R"({"quant_method":"quark"})", "quantization_config.quant_method"},
           Case{R"({"quant_method":"awq","bits":4,"version":"marlin"})", "quantization_config.version"},
           Case{R"({"quant_method":"awq","bits":4,"version":"gemv"})", "quantization_config.version"},
           Case{R"({"quant_method":"fp8","fmt":"e5m2"})", "quantization_config.fmt"},
           Case{R"({"quant_method":"fp8","weight_block_size":[128]})", "quantization_config.weight_block_size"},
           Case{R"({"quant_method":"fp8","weight_block_size":[0,128]})", "quantization_config.weight_block_size[0]"},
           Case{R"({"quant_method":"compressed-tensors","format":"marlin-24"})", "quantization_config.format"},
           Case{R"({"quant_method":"compressed-tensors","sparsity_config":{"format":"sparse-24-bitmask"}})",
                "quantization_config.sparsity_config"},
           Case{R"({"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":6}}}})",
                "quantization_config.num_bits"},
           Case{R"({"quant_method":"compressed-tensors","config_groups":{"g":7}})",
                "quantization_config.config_groups.g"},
       }) {
    const auto made = read(text);
    ASSERT_FALSE(made.ok()) << text;
    EXPECT_EQ(made.error().field, field) << made.error().message;
    const std::string_view last = std::string_view(field).substr(std::string_view(field).rfind('.') + 1);
    EXPECT_THAT(made.error().message, HasSubstr(std::string(last.substr(0, last.find('[')))));
  }
  EXPECT_FALSE(read(R"({"quant_method":"gptq","bits":4,"checkpoint_format":"gptq_v2"})")->zeros_less_one);
  EXPECT_EQ(read(R"({"quant_method":"gptq","bits":4,"dynamic":{"+:x":{"bits":8},"-:y":{}}})")->bits,
            (std::vector<int>{4, 8}));
  EXPECT_EQ(read_quantisation(nullptr)->method, QuantMethod::none);
}

}  // namespace
}  // namespace espalier
