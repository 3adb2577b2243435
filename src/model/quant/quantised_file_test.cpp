// Quantised checkpoints that do not fit together are refused with the field at fault; those that do give rows that are
// exactly scale * (code - zero).
#include "model/quant/quantised_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>

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
  const auto gptq = [](Shape codes, Shape zeros, Shape scale, std::vector<std::int32_t> order) {
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

  const auto one = [](const char* name, DType type, Shape shape, const char* other, DType other_type,
                      Shape other_shape) {
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
  }
  EXPECT_FALSE(read(R"({"quant_method":"gptq","bits":4,"checkpoint_format":"gptq_v2"})")->zeros_less_one);
  EXPECT_EQ(read(R"({"quant_method":"gptq","bits":4,"dynamic":{"+:x":{"bits":8},"-:y":{}}})")->bits,
            (std::vector<int>{4, 8}));
  EXPECT_EQ(read_quantisation(nullptr)->method, QuantMethod::none);
}

}  // namespace
}  // namespace espalier
