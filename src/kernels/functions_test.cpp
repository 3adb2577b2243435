// Activations, gates, sums, norms and rotations of every instruction set that this machine runs, against the plain
// loops; element-wise ones give the same bits however a row is split, and in place.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "kernels/cpu/table.h"
#include "kernels/plain/functions.h"
#include "kernels/random_floats.h"
#include "testing/data.h"

namespace espalier {
namespace {

constexpr std::int64_t kSizes[] = {0, 1, 2, 15, 16, 17, 31, 48, 63, 64, 65, 127, 128, 300, 1000};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

const std::vector<Activation> kActivations = {{ActivationKind::identity},
                                              {ActivationKind::silu},
                                              {ActivationKind::silu, 1.702f},
                                              {ActivationKind::gelu_quick},
                                              {ActivationKind::gelu_tanh},
                                              {ActivationKind::gelu_erf},
                                              {ActivationKind::relu},
                                              {ActivationKind::relu2},
                                              {ActivationKind::sigmoid},
                                              {ActivationKind::log_sigmoid},
                                              {ActivationKind::tanh},
                                              {ActivationKind::softplus},
                                              {ActivationKind::sqrt_softplus},
                                              {ActivationKind::exp},
                                              {ActivationKind::minus_exp},
                                              {ActivationKind::elu},
                                              {ActivationKind::elu, 1, 1, 0.7f},
                                              {ActivationKind::mish},
                                              {ActivationKind::xielu, 1, 0.8f, 0.8f, 0.5f, -1e-6f}};

class EachFunctionSet : public ::testing::TestWithParam<const CpuKernels*> {
 protected:
  const FunctionKernels& f = GetParam()->functions;
  std::mt19937_64 rng{testing::seed()};

  std::vector<float> row(std::int64_t n, float spread = 1.0f) {
    return random_floats(rng, static_cast<std::size_t>(n), spread);
  }
};

// |got - want| in parts of |want|, or of `least` where that is more.
double error_of(float got, double want, double least = 1e-30) {
  return std::abs(static_cast<double>(got) - want) / std::max(std::abs(want), least);
}
void expect_near(const std::vector<float>& got, const std::vector<double>& want, double bound, double least = 1e-30) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(error_of(got[i], want[i], least), bound) << "element " << i << " of " << got.size() << ": " << got[i];
}

// Small and large, close and far.
std::vector<float> arguments(std::mt19937_64& rng) {
  std::vector<float> x = {0.0f, -0.0f, 1e-30f, -1e-30f, 20.0f, 20.00001f, -20.0f, 87.9f, -87.0f};
  for (float v = -40.0f; v < 40.0f; v += 0.0137f) x.push_back(v);
  for (float v = 1e-12f; v < 1.0f; v *= 1.31f) x.insert(x.end(), {v, -v});
  for (float v : random_floats(rng, 4000, 4.0f)) x.push_back(v);
  return x;
}

// What the header promises. The exponents of some are rounded before they are taken, which shows in their tails.
double promised(const Activation& a, double value) {
  const bool rounded = a.kind == ActivationKind::gelu_tanh || a.kind == ActivationKind::gelu_quick ||
                       (a.kind == ActivationKind::silu && a.slope != 1.0f);
  return rounded && std::abs(value) < 1e-2 ? 2e-5 : 1e-6;
}

TEST_P(EachFunctionSet, ActivationsAreWithinAMillionthOfTheirValue) {
  const std::vector<float> x = arguments(rng);
  std::vector<float> y(x.size());
  for (const Activation& a : kActivations) {
    f.activate(a, x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    double worst = 0;  // in parts of what is promised
    std::size_t at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = plain::activation(a, static_cast<double>(x[i]));
      const double terms = a.kind == ActivationKind::xielu ? std::abs(static_cast<double>(x[i])) : 0;  // which cancel
      const double error = error_of(y[i], want, std::max(terms, 1e-30)) / promised(a, want);
      if (error > worst) worst = error, at = i;
    }
    EXPECT_LE(worst, 1) << "kind " << static_cast<int>(a.kind) << " of " << x[at];
    RecordProperty("worst_" + std::to_string(static_cast<int>(a.kind)), std::to_string(worst));
  }
}

TEST_P(EachFunctionSet, ActivationsEndWhereTheyShouldAtTheEndsOfTheFloats) {
  const auto value = [&](ActivationKind kind, float x) {
    float y = 0;
    f.activate({kind}, &x, &y, 1);
    return y;
  };
  EXPECT_EQ(value(ActivationKind::exp, kInfinity), kInfinity);
  EXPECT_EQ(value(ActivationKind::exp, 89.0f), kInfinity);
  EXPECT_EQ(value(ActivationKind::exp, -kInfinity), 0.0f);
  EXPECT_EQ(value(ActivationKind::minus_exp, -200.0f), 0.0f);
  EXPECT_EQ(value(ActivationKind::sigmoid, kInfinity), 1.0f);
  EXPECT_LT(value(ActivationKind::sigmoid, -kInfinity), 1e-37f);
  EXPECT_EQ(value(ActivationKind::tanh, kInfinity), 1.0f);
  EXPECT_EQ(value(ActivationKind::tanh, -kInfinity), -1.0f);
  EXPECT_EQ(value(ActivationKind::softplus, kInfinity), kInfinity);
  EXPECT_LT(value(ActivationKind::softplus, -kInfinity), 1e-37f);
  EXPECT_EQ(value(ActivationKind::elu, -kInfinity), -1.0f);
  for (const ActivationKind gelu : {ActivationKind::gelu_tanh, ActivationKind::gelu_erf, ActivationKind::silu}) {
    EXPECT_EQ(value(gelu, kInfinity), kInfinity);
    EXPECT_EQ(value(gelu, 1e30f), 1e30f);
    EXPECT_LT(std::abs(value(gelu, -200.0f)), 1e-35f);
  }
  for (const Activation& a : kActivations) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    float y = 0;
    f.activate(a, &nan, &y, 1);
    EXPECT_TRUE(std::isnan(y)) << "kind " << static_cast<int>(a.kind);
  }
}

TEST_P(EachFunctionSet, GatesAgreeWithThePlainOnesWithAndWithoutLimits) {
  for (const GateForm& form :
       {GateForm{}, GateForm{{ActivationKind::gelu_erf}}, GateForm{{ActivationKind::relu2}},
        GateForm{{ActivationKind::silu}, 1.5f, 1.5f}, GateForm{{ActivationKind::silu, 1.702f}, 2.0f, 0.7f, 1.0f}})
    for (const std::int64_t n : kSizes) {
      const std::vector<float> open = row(n, 3), up = row(n, 2);
      std::vector<float> y(open.size());
      f.gate(form, open.data(), up.data(), y.data(), n);
      std::vector<double> want;
      for (std::size_t i = 0; i < y.size(); ++i)
        want.push_back(plain::gate(form, static_cast<double>(open[i]), static_cast<double>(up[i])));
      expect_near(y, want, 1e-6 + 0x1p-23);  // the activation's, and the rounding of a sum and a product
    }
}

// An element-wise entry: y = op(x, z, y) of a part of the rows.
struct ElementWise {
  const char* name;
  std::function<void(const float* x, const float* z, float* y, std::int64_t n)> run;
  std::function<double(double x, double z, double y)> judge;
};
std::vector<ElementWise> element_wise(const FunctionKernels& f) {
  std::vector<ElementWise> all = {
      {"scale", [&f](auto x, auto, auto y, auto n) { f.scale(1.7f, x, y, n); },
       [](double x, double, double) { return static_cast<double>(1.7f) * x; }},
      {"affine", [&f](auto x, auto, auto y, auto n) { f.affine(1.5f, 0.25f, x, y, n); },
       [](double x, double, double) { return 1.5 * x + 0.25; }},
      {"add", [&f](auto x, auto z, auto y, auto n) { f.add(x, z, y, n); },
       [](double x, double z, double) { return x + z; }},
      {"mul", [&f](auto x, auto z, auto y, auto n) { f.mul(x, z, y, n); },
       [](double x, double z, double) { return x * z; }},
      {"add_scaled", [&f](auto x, auto, auto y, auto n) { f.add_scaled(0.75f, x, y, n); },
       [](double x, double, double y) { return y + 0.75 * x; }},
      {"add_product", [&f](auto x, auto z, auto y, auto n) { f.add_product(x, z, y, n); },
       [](double x, double z, double y) { return y + x * z; }},
      {"blend", [&f](auto x, auto, auto y, auto n) { f.blend(0.75f, x, -1.25f, y, n); },
       [](double x, double, double y) { return 0.75 * x - 1.25 * y; }},
      {"interpolate", [&f](auto x, auto z, auto y, auto n) { f.interpolate(x, z, y, y, n); },
       [](double x, double z, double y) { return z + x * (y - z); }},
      {"clamp", [&f](auto x, auto, auto y, auto n) { f.clamp(-0.5f, 0.75f, x, y, n); },
       [](double x, double, double) { return std::clamp(x, -0.5, 0.75); }},
      {"soft_cap", [&f](auto x, auto, auto y, auto n) { f.soft_cap(2.0f, x, y, n); },
       [](double x, double, double) { return 2 * std::tanh(x / 2); }},
      {"time_step", [&f](auto x, auto z, auto y, auto n) { f.time_step(x, z, 0.5f, 2.0f, y, n); },
       [](double x, double z, double) { return std::clamp(plain::softplus(x + z), 0.5, 2.0); }},
      {"gate", [&f](auto x, auto z, auto y, auto n) { f.gate({}, x, z, y, n); },
       [](double x, double z, double) { return plain::gate({}, x, z); }}};
  for (const Activation& a : kActivations)
    all.push_back({"activate", [&f, a](auto x, auto, auto y, auto n) { f.activate(a, x, y, n); },
                   [a](double x, double, double) { return plain::activation(a, x); }});
  return all;
}

TEST_P(EachFunctionSet, SumsAndProductsOfRowsAgreeWithThePlainOnes) {
  for (const ElementWise& op : element_wise(f))
    for (const std::int64_t n : kSizes) {
      const std::vector<float> x = row(n), z = row(n), before = row(n);
      std::vector<float> y = before;
      op.run(x.data(), z.data(), y.data(), n);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double want =
            op.judge(static_cast<double>(x[i]), static_cast<double>(z[i]), static_cast<double>(before[i]));
        const double bound = 2e-6 * std::max(1.0, std::abs(want));  // sums cancel: in parts of the terms
        EXPECT_NEAR(static_cast<double>(y[i]), want, bound) << op.name;
      }
    }
}

TEST_P(EachFunctionSet, ElementWiseEntriesGiveTheSameBitsHoweverARowIsSplitAndInPlace) {
  constexpr std::int64_t n = 203;
  for (const ElementWise& op : element_wise(f)) {
    const std::vector<float> x = row(n), z = row(n), before = row(n);
    std::vector<float> whole = before, split = before;
    op.run(x.data(), z.data(), whole.data(), n);
    for (std::int64_t at = 0; at < n;) {
      const std::int64_t part = std::min<std::int64_t>(n - at, 1 + static_cast<std::int64_t>(rng() % 40));
      op.run(x.data() + at, z.data() + at, split.data() + at, part);
      at += part;
    }
    EXPECT_EQ(whole, split) << op.name;
    std::vector<float> from_x = before, in_x = x;
    op.run(x.data(), x.data(), from_x.data(), n);
    const std::string name = op.name;
    if (name == "add_scaled" || name == "add_product" || name == "blend" || name == "interpolate") continue;  // read y
    op.run(in_x.data(), in_x.data(), in_x.data(), n);
    EXPECT_EQ(from_x, in_x) << op.name;
  }
}

// How often the deviation of a row goes into its mean: digits of the mean are lost when it is taken away.
double lost_digits(const std::vector<float>& x, double eps) {
  double mean = 0, variance = 0;
  for (const float v : x) mean += static_cast<double>(v) / static_cast<double>(x.size());
  for (const float v : x) variance += (v - mean) * (v - mean) / static_cast<double>(x.size());
  return std::max(1.0, std::abs(mean) / std::sqrt(variance + eps));
}

TEST_P(EachFunctionSet, NormsAgreeWithThePlainOnes) {
  for (const std::int64_t n : kSizes) {
    if (n == 0) continue;
    std::vector<float> x = row(n, 2);
    for (float& v : x) v += 3;  // a mean that must be taken away
    const std::vector<float> gain = row(n), bias = row(n);
    std::vector<float> y(x.size());
    const double bound = 2e-6 * lost_digits(x, 1e-5);
    f.layer_norm(x.data(), gain.data(), bias.data(), 1e-5f, y.data(), n);
    expect_near(y, plain::layer_norm(x, gain, bias, 1e-5f), bound, 1.0);
    f.layer_norm(x.data(), nullptr, nullptr, 1e-5f, y.data(), n);
    expect_near(y, plain::layer_norm(x, {}, {}, 1e-5f), bound, 1.0);
    for (const L2Form form : {L2Form::added, L2Form::least})
      for (const float eps : {1e-6f, 1.0f, 1e3f}) {
        f.l2_norm(form, x.data(), eps, y.data(), n);
        expect_near(y, plain::l2_norm(form, x, eps), 1e-6);
      }
    std::vector<float> in_place = x;
    f.l2_norm(L2Form::added, x.data(), 1e-6f, y.data(), n);
    f.l2_norm(L2Form::added, in_place.data(), 1e-6f, in_place.data(), n);
    EXPECT_EQ(y, in_place);
    f.softmax(x.data(), y.data(), n);
    expect_near(y, plain::softmax(x), 2e-6);
  }
}

TEST_P(EachFunctionSet, SoftmaxHoldsForLargeAndInfinitelySmallLogits) {
  const std::vector<float> x = {1000.0f, 998.0f, -kInfinity, -1e30f, 1000.0f};
  std::vector<float> y(x.size());
  f.softmax(x.data(), y.data(), 5);
  expect_near(y, plain::softmax(x), 1e-6);
  EXPECT_EQ(y[2], 0.0f);
}

TEST_P(EachFunctionSet, GatedNormsAgreeWithThePlainOnesGroupByGroupAndInPlace) {
  for (const GatedNormForm form :
       {GatedNormForm::norm_then_silu, GatedNormForm::norm_then_sigmoid, GatedNormForm::silu_then_norm})
    for (const std::int64_t group : {1, 16, 37, 128})
      for (const std::int64_t groups : {1, 3})
        for (const bool shared : {false, true}) {
          const std::vector<float> x = row(group * groups), z = row(group * groups, 2), gain = row(group * groups);
          std::vector<float> y(x.size());
          GatedNormTask t{x.data(), z.data(), gain.data(), shared ? 0 : group, y.data(), group, groups, 1e-5f, form};
          f.gated_norm(t);
          expect_near(y, plain::gated_norm(t), 2e-6);
          t.gain = nullptr;
          f.gated_norm(t);
          expect_near(y, plain::gated_norm(t), 2e-6);
          for (const bool over_gate : {false, true}) {
            std::vector<float> in_place = over_gate ? z : x;
            GatedNormTask same = t;
            (over_gate ? same.z : same.x) = in_place.data();
            same.y = in_place.data();
            f.gated_norm(same);
            EXPECT_EQ(y, in_place);
          }
        }
}

TEST_P(EachFunctionSet, DecaysAgreeWithThePlainOnesForHeadsAndForChannels) {
  for (const DecayForm form : {DecayForm::softplus, DecayForm::bounded, DecayForm::step})
    for (const std::int64_t per_head : {1, 16, 21})
      for (const std::int64_t heads : {1, 5, 33}) {
        std::vector<float> x = row(heads * per_head, 3), bias = row(heads * per_head), rate = row(heads);
        for (float& r : rate) r = std::exp(r);
        if (form == DecayForm::step)
          for (float& v : x) v = std::abs(v);
        std::vector<float> y(x.size());
        const float* no_bias = nullptr;
        for (const float* b : {static_cast<const float*>(bias.data()), no_bias}) {
          if (form == DecayForm::step && b) continue;
          const DecayTask t{x.data(), b, rate.data(), y.data(), heads, per_head, form, -5.0f};
          f.decay(t);
          for (std::int64_t i = 0; i < heads * per_head; ++i)
            EXPECT_NEAR(y[static_cast<std::size_t>(i)], plain::decay(t, i), 1e-6) << static_cast<int>(form);
        }
      }
}

TEST_P(EachFunctionSet, RotatedPairsAreNeighbours) {
  for (const int half : {1, 2, 7, 8, 9, 16, 37, 64}) {
    const std::vector<float> head = row(2 * half), angles = row(half);
    std::vector<float> cosines, sines, turned = head;
    for (const float angle : angles) {
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
    turned.push_back(99.0f);
    f.rotate_pairs(turned.data(), cosines.data(), sines.data(), half);
    EXPECT_EQ(turned.back(), 99.0f);
    turned.pop_back();
    const std::vector<double> want = plain::rotate_pairs(head, cosines, sines);
    for (std::size_t i = 0; i < turned.size(); ++i) EXPECT_NEAR(turned[i], want[i], 1e-6) << half;
  }
}

// Both rotations turn the same pairs, laid out differently: by the same operations.
TEST_P(EachFunctionSet, BothLayoutsOfRotatedPairsGiveTheSameBits) {
  constexpr int kHalf = 21;
  const std::vector<float> head = row(2 * kHalf), cosines = row(kHalf), sines = row(kHalf);
  std::vector<float> halves = head, pairs(head.size());
  for (std::size_t i = 0; i < head.size(); ++i) pairs[i] = head[i / 2 + i % 2 * kHalf];
  GetParam()->rotate_halves(halves.data(), cosines.data(), sines.data(), kHalf);
  f.rotate_pairs(pairs.data(), cosines.data(), sines.data(), kHalf);
  for (std::size_t i = 0; i < head.size(); ++i) EXPECT_EQ(pairs[i], halves[i / 2 + i % 2 * kHalf]) << i;
}

INSTANTIATE_TEST_SUITE_P(Isa, EachFunctionSet, ::testing::ValuesIn(runnable_cpu_kernels()),
                         [](const auto& test) { return std::string(test.param->isa); });

}  // namespace
}  // namespace espalier
