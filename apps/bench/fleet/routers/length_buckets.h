// length_buckets.h: which server computes prompts of which length: ranges of lengths, cut so that each server gets as many
// characters.
//
// The ranges are cut anew every interval, if the characters of the last one are more than twice or less than half of what
// they were when the ranges were cut. Before that they divide 4,096 characters equally; the last one has no end. While the
// characters that servers were sent in an interval are uneven, the one that was sent least gets the next prompt, whatever
// its length.
// Units:   characters, seconds. Threads: one. Fails: never. Cost: O(servers), and O(prompts of an interval) for cutting.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

namespace espalier::bench {

// The ranges of lengths of a fleet's servers, and what each was sent lately.
class LengthBuckets {
 public:
  static constexpr std::int64_t kFirstSpan = 4096;

  LengthBuckets(int servers, double interval, std::int64_t balance_abs, double balance_rel)
      : interval_(interval),
        balance_abs_(balance_abs),
        balance_rel_(balance_rel),
        loads_(static_cast<std::size_t>(servers)) {
    for (int s = 1; s < servers; ++s) ends_.push_back(s * (kFirstSpan / servers) - 1);
  }

  // Cuts the ranges, if that is due.
  void pass_time(double now) {
    now_ = now;
    if (next_cut_ < 0) next_cut_ = now + interval_;
    if (now < next_cut_) return;
    if (!prompts_.empty()) cut();
    next_cut_ = now + interval_;
  }

  int choose(std::int64_t length) const {
    const auto [least, most] = std::ranges::minmax(loads_);
    if (most - least > balance_abs_ && static_cast<double>(most) > balance_rel_ * static_cast<double>(least))
      return static_cast<int>(std::ranges::min_element(loads_) - loads_.begin());
    return static_cast<int>(std::ranges::lower_bound(ends_, length) - ends_.begin());
  }

  void sent(std::int64_t length, int server) {
    loads_[static_cast<std::size_t>(server)] += length;
    total_ += length;
    for (; !prompts_.empty() && now_ - prompts_.front().when > interval_; prompts_.pop_front()) {
      loads_[static_cast<std::size_t>(prompts_.front().server)] -= prompts_.front().length;
      total_ -= prompts_.front().length;
    }
    prompts_.push_back({now_, length, server});
  }

  // Where the range of every server but the last ends, inclusive.
  const std::vector<std::int64_t>& ends() const { return ends_; }

 private:
  struct Prompt {
    double when;
    std::int64_t length;
    int server;
  };

  // From the shortest on each server gets prompts until it has its part; a part that no prompt fills is as long as it is.
  void cut() {
    const std::int64_t mean = total_ / static_cast<std::int64_t>(loads_.size());
    if (mean_ != 0 && mean <= 2 * mean_ && mean_ <= 2 * mean) return;
    mean_ = mean;
    std::vector<std::int64_t> lengths;
    for (const Prompt& prompt : prompts_) lengths.push_back(prompt.length);
    std::ranges::sort(lengths);
    std::int64_t begin = 0;
    auto next = lengths.begin();
    for (std::int64_t& end : ends_) {
      std::int64_t part = 0, last = -1;
      while (next != lengths.end() && part < mean) part += last = *next++;
      end = part >= mean && last > begin ? last : begin + mean;
      begin = end + 1;
    }
  }

  const double interval_;
  const std::int64_t balance_abs_;
  const double balance_rel_;
  std::vector<std::int64_t> ends_;
  std::vector<std::int64_t> loads_;    // of each server, in the last interval
  std::deque<Prompt> prompts_;         // of the last interval
  std::int64_t total_ = 0, mean_ = 0;  // of these; of a server, when the ranges were cut
  double now_ = 0, next_cut_ = -1;
};

}  // namespace espalier::bench
