#include "quantize/gptq.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tensor/quantize/groups.h"

namespace espalier::quantizer::gptq_test {
namespace {

struct Problem {
  std::int64_t inputs = 96, outputs = 24;
  std::vector<float> x, w, products;  // inputs that go together, as those of models do

  explicit Problem(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    constexpr int kRows = 400, kFactors = 24;
    std::vector<float> mix(static_cast<std::size_t>(kFactors * inputs));
    for (float& one : mix) one = normal(random);
    x.resize(static_cast<std::size_t>(kRows * inputs));
    for (int r = 0; r < kRows; ++r)
      for (int f = 0; f < kFactors; ++f) {
        const float by = normal(random);
        for (std::int64_t k = 0; k < inputs; ++k)
          x[static_cast<std::size_t>(r * inputs + k)] +=
              by * mix[static_cast<std::size_t>(f * inputs + k)] + 0.05f * normal(random);
      }
    w.resize(static_cast<std::size_t>(outputs * inputs));
    for (float& one : w) one = 0.1f * normal(random);
    products.assign(static_cast<std::size_t>(inputs * inputs), 0.0f);
    for (int r = 0; r < kRows; ++r)
      for (std::int64_t i = 0; i < inputs; ++i)
        for (std::int64_t j = 0; j < inputs; ++j)
          products[static_cast<std::size_t>(i * inputs + j)] +=
              x[static_cast<std::size_t>(r * inputs + i)] * x[static_cast<std::size_t>(r * inputs + j)] / kRows;
  }

  // Of what the matrix gives for the inputs.
  double error(const std::vector<float>& rounded) const {
    double sum = 0;
    for (std::int64_t o = 0; o < outputs; ++o)
      for (std::int64_t i = 0; i < inputs; ++i)
        for (std::int64_t j = 0; j < inputs; ++j) {
          const auto difference = [&](std::int64_t k) {
            return static_cast<double>(w[static_cast<std::size_t>(o * inputs + k)] -
                                       rounded[static_cast<std::size_t>(o * inputs + k)]);
          };
          sum +=
              difference(i) * difference(j) * static_cast<double>(products[static_cast<std::size_t>(i * inputs + j)]);
        }
    return sum;
  }

  std::vector<float> rounded(const Gptq* gptq, int bits) const {
    const GroupForm form{bits, true, DType::f32};
    std::vector<GroupScale> scales;
    for (std::int64_t o = 0; o < outputs; ++o)
      scales.push_back(fit_group(
          std::span(w).subspan(static_cast<std::size_t>(o * inputs), static_cast<std::size_t>(inputs)), {}, form));
    const auto value = [&](std::int64_t row, std::int64_t, float one) {
      const GroupScale& scale = scales[static_cast<std::size_t>(row)];
      return value_of(code_of(one, scale, form), scale);
    };
    std::vector<float> out = w;
    if (gptq != nullptr)
      gptq->round(out, outputs, value);
    else
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = value(static_cast<std::int64_t>(i) / inputs, 0, out[i]);
    return out;
  }
};

TEST(Gptq, ErrorsAreMadeUpForByInputsThatGoTogether) {
  ComputeTeam team(2);
  for (const unsigned seed : {1u, 2u, 3u}) {
    const Problem p(seed);
    const Gptq gptq(p.products, p.inputs, {}, team);
    for (const int bits : {3, 4})
      EXPECT_LT(p.error(p.rounded(&gptq, bits)), 0.35 * p.error(p.rounded(nullptr, bits))) << seed << " " << bits;
  }
}

TEST(Gptq, AnyNumberOfThreadsGivesTheSameBits) {
  const Problem p(4);
  ComputeTeam one(1), three(3);
  const Gptq a(p.products, p.inputs, {}, one), b(p.products, p.inputs, {}, three);
  EXPECT_EQ(p.rounded(&a, 4), p.rounded(&b, 4));
}

TEST(Gptq, InputsThatAreNeverThereChangeNothing) {
  Problem p(5);
  p.products.assign(p.products.size(), 0.0f);
  ComputeTeam team(1);
  const Gptq gptq(p.products, p.inputs, {}, team);
  EXPECT_EQ(p.rounded(&gptq, 4), p.rounded(nullptr, 4));
}

}  // namespace
}  // namespace espalier::quantizer::gptq_test
