#include "cache/disk/transfer_rates.h"

#include <cmath>

namespace espalier {

void TransferRates::read(std::uint64_t bytes, double opening_seconds, double reading_seconds) {
  constexpr double kNew = 0.1;
  reading_.add(static_cast<double>(bytes), reading_seconds);
  if (opening_seconds > 0) opening_ = opening_ == 0 ? opening_seconds : opening_ + kNew * (opening_seconds - opening_);
}

void TransferRates::computed(int tokens, double seconds) {
  computing_.add(tokens, seconds);
}

int TransferRates::break_even_tokens() const {
  const double read = bytes_per_second(), compute = tokens_per_second();
  if (read <= 0 || compute <= 0) return 0;
  const double gain = 1 / compute - bytes_per_token_ / read;  // seconds a token
  if (gain <= 0) return -1;
  const double tokens = opening_ / gain;
  return tokens < 1e9 ? static_cast<int>(std::ceil(tokens)) : -1;
}

bool TransferRates::pays(int tokens, int files, int tokens_read) const {
  const double read = bytes_per_second(), compute = tokens_per_second();
  if (!weighs_ || read <= 0 || compute <= 0) return true;
  return opening_ * files + tokens_read * bytes_per_token_ / read < tokens / compute;
}

bool TransferRates::pays_or_retry(int tokens, int files, int tokens_read) {
  if (!pays(tokens, files, tokens_read) && ++refused_ < retry_after) return false;
  refused_ = 0;
  return true;
}

}  // namespace espalier
