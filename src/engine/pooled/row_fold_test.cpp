// Rows of a text as one vector, against plain loops.
#include "engine/pooled/row_fold.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "testing/data.h"

namespace espalier::row_fold_test {
namespace {

using Rows = std::vector<std::vector<float>>;

std::vector<float> folded(Pooling how, const Rows& rows, int leave_out = 0) {
  RowFold fold;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (pools_row(how, static_cast<int>(i), static_cast<int>(rows.size()), leave_out)) fold.add(how, rows[i]);
  return fold.take(how);
}

TEST(RowFold, EachPoolingIsWhatItsNameSays) {
  const Rows rows = {{1, -2}, {3, 4}, {-5, 6}};
  EXPECT_EQ(folded(Pooling::first, rows), (std::vector<float>{1, -2}));
  EXPECT_EQ(folded(Pooling::last, rows), (std::vector<float>{-5, 6}));
  EXPECT_EQ(folded(Pooling::greatest, rows), (std::vector<float>{3, 6}));
  EXPECT_EQ(folded(Pooling::each, rows), (std::vector<float>{1, -2, 3, 4, -5, 6}));
  EXPECT_FLOAT_EQ(folded(Pooling::mean, rows)[1], 8.0f / 3);
  EXPECT_FLOAT_EQ(folded(Pooling::mean_by_root, rows)[1], 8.0f / std::sqrt(3.0f));
  EXPECT_FLOAT_EQ(folded(Pooling::weighted_mean, rows)[0], (1 + 2 * 3 - 3 * 5) / 6.0f);
  EXPECT_FLOAT_EQ(folded(Pooling::mean, rows, 2)[0], -5);
  EXPECT_EQ(folded(Pooling::last, rows, 2), folded(Pooling::last, rows));
}

TEST(RowFold, AMeanIsWithinRoundingOfThePlainOne) {
  std::mt19937_64 rng(testing::seed());
  std::normal_distribution<float> normal;
  Rows rows(2000, std::vector<float>(5));
  std::vector<double> sum(5);
  for (auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) sum[i] += static_cast<double>(row[i] = normal(rng));
  const auto mean = folded(Pooling::mean, rows);
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(mean[i], sum[i] / 2000, 1e-5);
}

}  // namespace
}  // namespace espalier::row_fold_test
