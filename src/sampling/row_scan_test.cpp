#include "sampling/row_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "testing/data.h"

namespace espalier::sampling {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

struct Row {
  std::vector<float> logits;
  std::vector<std::uint32_t> mask;
};

Row random_row(std::mt19937_64& random, int size) {
  std::normal_distribution<float> normal(0, static_cast<float>(1 + random() % 10));
  Row row;
  row.logits.resize(size);
  for (float& x : row.logits) x = random() % 50 == 0 ? -inf : normal(random);
  // Words of no, all or some tokens, so that every path through a strip is taken; exactly as many as are needed.
  row.mask.resize((size + 31) / 32);
  for (auto& word : row.mask) word = random() % 3 == 0 ? 0 : random() % 2 ? ~0u : static_cast<std::uint32_t>(random());
  return row;
}

TEST(RowScan, AgreesWithAPlainLoop) {
  std::mt19937_64 random(testing::seed());
  for (int size : {1, 2, 31, 32, 33, 63, 64, 65, 127, 1000, 1023, 1024, 1025, 1056, 5000, 49152, 50257}) {
    Row row = random_row(random, size);
    for (bool masked : {false, true}) {
      double sharpness = 1 / (0.1 + static_cast<double>(random() % 30) / 10);
      AllowedMask mask = masked ? AllowedMask(row.mask) : AllowedMask();
      RowScan scan;
      scan_row(row.logits, mask, sharpness, ScanFor::sums, scan);
      float max = -inf;
      for (int i = 0; i < size; ++i) {
        if (allowed(mask, i)) max = std::max(max, row.logits[i]);
      }
      ASSERT_EQ(scan.max, max);
      ASSERT_TRUE(scan.sound);
      if (max == -inf) continue;
      double total = 0;
      for (int i = 0; i < size; ++i) {
        if (allowed(mask, i)) total += std::exp((static_cast<double>(row.logits[i]) - max) * sharpness);
      }
      ASSERT_NEAR(scan.total / total, 1, 1e-6) << size << " logits";
      for (int s = 0; s * strip_size < size; ++s) {
        float most = -inf;
        for (int i = s * strip_size; i < std::min(size, (s + 1) * strip_size); ++i) {
          if (allowed(mask, i)) most = std::max(most, row.logits[i]);
        }
        ASSERT_EQ(scan.strip_max[s], most);
      }
    }
  }
}

TEST(RowScan, AllInstructionSetsGiveTheSameBits) {
  std::mt19937_64 random(testing::seed());
  for (const RowKernels& k : available_row_kernels()) std::printf("instruction set %s\n", std::string(k.isa).c_str());
  for (int round = 0; round < 60; ++round) {
    Row row = random_row(random, 1 + static_cast<int>(random() % 9000));
    AllowedMask mask = round % 2 ? AllowedMask(row.mask) : AllowedMask();
    double sharpness = std::ldexp(1.0, static_cast<int>(random() % 12) - 4);
    RowScan first;
    scan_row(available_row_kernels()[0], row.logits, mask, sharpness, ScanFor::sums, first);
    std::vector<float> first_weights(row.logits.size());
    float rate = static_cast<float>(sharpness);
    float top = std::max(first.max, 0.0f) + 60;
    available_row_kernels()[0].weigh(row.logits.data(), static_cast<int>(row.logits.size()), top, rate,
                                     first_weights.data());
    for (const RowKernels& k : available_row_kernels().subspan(1)) {
      RowScan other;
      scan_row(k, row.logits, mask, sharpness, ScanFor::sums, other);
      ASSERT_EQ(other.strip_max, first.strip_max) << k.isa;
      ASSERT_EQ(other.block_sum, first.block_sum) << k.isa;
      ASSERT_EQ(other.total, first.total) << k.isa;
      std::vector<float> weights(row.logits.size());
      k.weigh(row.logits.data(), static_cast<int>(row.logits.size()), top, rate, weights.data());
      ASSERT_EQ(std::memcmp(weights.data(), first_weights.data(), sizeof(float) * weights.size()), 0) << k.isa;
    }
  }
}

TEST(RowScan, NaNAndInfinityAmongAllowedLogitsAreSeenWhereverTheyStand) {
  for (int at : {0, 15, 63, 64, 1023, 1024, 1999}) {
    for (float bad : {std::nanf(""), inf}) {
      std::vector<float> logits(2000, 1.0f);
      logits[at] = bad;
      for (const RowKernels& k : available_row_kernels()) {
        for (ScanFor what : {ScanFor::maxima, ScanFor::sums}) {
          RowScan scan;
          scan_row(k, logits, {}, 1, what, scan);
          EXPECT_FALSE(scan.sound) << at;
        }
      }
    }
  }
}

TEST(Weigh, IsExactAtTheReferenceAccurateBelowAndZeroFarBelow) {
  std::vector<float> logits;
  for (double x = 0; x > -87; x -= 0.013) logits.push_back(static_cast<float>(x));
  std::vector<float> weights(logits.size());
  weigh(logits, 0, 1, weights);
  EXPECT_EQ(weights[0], 1.0f);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    double exact = std::exp(static_cast<double>(logits[i]));
    // The argument is rounded once: its error grows with its size.
    ASSERT_NEAR(weights[i] / exact, 1, 2e-7 + 1.2e-7 * std::abs(logits[i])) << logits[i];
  }
  std::vector<float> far = {-200, -1e30f, std::numeric_limits<float>::lowest(), -inf};
  std::vector<float> none(far.size(), 1);
  weigh(far, 3e38f, 1, none);
  for (float w : none) EXPECT_EQ(w, 0.0f);
}

}  // namespace
}  // namespace espalier::sampling
