#include "cache/disk/transfer_rates.h"

#include <gtest/gtest.h>

namespace espalier::transfer_rates_test {
namespace {

TEST(TransferRates, ReadingPaysUntilBothSidesAreMeasured) {
  TransferRates rates(1000);
  EXPECT_TRUE(rates.pays(1, 100));
  EXPECT_EQ(rates.break_even_tokens(), 0);
  rates.computed(1000, 1.0);
  EXPECT_TRUE(rates.pays(1, 100));
}

TEST(TransferRates, TheBreakEvenIsWhereReadingAndComputingTakeAsLong) {
  TransferRates rates(1000);
  rates.computed(1000, 1.0);          // 1 ms a token
  rates.read(10'000'000, 0.05, 1.0);  // 0.1 ms a token, 50 ms a file
  EXPECT_NEAR(rates.break_even_tokens(), 56, 1);
  EXPECT_FALSE(rates.pays(50, 1));
  EXPECT_TRUE(rates.pays(60, 1));
  EXPECT_FALSE(rates.pays(60, 2));
}

TEST(TransferRates, ADiskSlowerThanComputingNeverPaysButIsTriedAgain) {
  TransferRates rates(1000);
  rates.computed(1000, 0.1);
  rates.read(1'000'000, 0.001, 1.0);
  EXPECT_EQ(rates.break_even_tokens(), -1);
  int allowed = 0;
  for (int i = 0; i < 3 * TransferRates::retry_after; ++i) allowed += rates.pays_or_retry(1000, 1) ? 1 : 0;
  EXPECT_EQ(allowed, 3);
}

TEST(TransferRates, OldMeasurementsAreForgotten) {
  TransferRates rates(1);
  for (int i = 0; i < 50; ++i) rates.read(1000, 0, 1.0);
  for (int i = 0; i < 50; ++i) rates.read(1'000'000, 0, 1.0);
  EXPECT_NEAR(rates.bytes_per_second(), 1e6, 1e4);
  rates.read(1000, 0, 0);  // too quick for the clock: no measurement
  rates.computed(0, 1);
  EXPECT_EQ(rates.tokens_per_second(), 0);
}

}  // namespace
}  // namespace espalier::transfer_rates_test
