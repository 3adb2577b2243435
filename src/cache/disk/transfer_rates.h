// transfer_rates.h: whether keys and values are read faster than computed again: running averages of both, measured on
// the spot.
//
// Reading a run of n tokens costs a fixed time for each file and a time for each byte; computing them costs a time for
// each token. Each average forgets: what was measured weighs half after a few times its window. While either side has
// not been measured, reading is taken to pay: that is how it gets measured. A side that lost is asked again now and
// then (retry_after), because both change: the disk is shared, and long contexts are computed more slowly.
//
// Units:   bytes, tokens, seconds. Threads: one caller at a time. Fails: never.
#pragma once

#include <cstdint>

namespace espalier {

// Σ amount / Σ seconds over roughly the last `window` seconds of work.
class RunningRate {
 public:
  explicit RunningRate(double window) : window_(window) {}
  void add(double amount, double seconds) {
    if (!(amount > 0) || !(seconds > 0)) return;
    const double keep = window_ / (window_ + seconds);
    amount_ = amount_ * keep + amount;
    seconds_ = seconds_ * keep + seconds;
  }
  double per_second() const { return seconds_ > 0 ? amount_ / seconds_ : 0; }  // 0: not measured yet

 private:
  double window_, amount_ = 0, seconds_ = 0;
};

// Measured seconds to read and to compute a token, and which of the two is quicker for a run.
class TransferRates {
 public:
  static constexpr int retry_after = 32;

  // Without weighing reading always pays.
  explicit TransferRates(std::uint64_t bytes_per_token, bool weighs = true)
      : weighs_(weighs), bytes_per_token_(static_cast<double>(bytes_per_token)) {}

  void read(std::uint64_t bytes, double opening_seconds, double reading_seconds);
  void computed(int tokens, double seconds);

  double bytes_per_second() const { return reading_.per_second(); }
  double tokens_per_second() const { return computing_.per_second(); }

  // The shortest run in one file that is worth reading; 0 when not both sides are measured, -1 when none is.
  int break_even_tokens() const;
  // Reading `tokens` out of `files` files, against computing them; with a state more is read than is saved.
  bool pays(int tokens, int files) const { return pays(tokens, files, tokens); }
  bool pays(int tokens, int files, int tokens_read) const;
  bool pays_or_retry(int tokens, int files) { return pays_or_retry(tokens, files, tokens); }
  bool pays_or_retry(int tokens, int files, int tokens_read);

 private:
  bool weighs_;
  double bytes_per_token_;
  RunningRate reading_{0.5}, computing_{2.0};
  double opening_ = 0;  // seconds a file, decaying average
  int refused_ = 0;
};

}  // namespace espalier
