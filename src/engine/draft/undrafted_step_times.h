// undrafted_step_times.h: what a decoding step without guesses takes now, by the number of its sequences; measured, and
// measured again every so many steps, because contexts grow and other programs come and go.
//
// Units: seconds. Threads: the engine thread. Fails: never.
#pragma once

#include <map>

namespace espalier {

// The average seconds of a step without drafts, for each number of sequences.
class UndraftedStepTimes {
 public:
  void observe(int sequences, double seconds) {
    Entry& entry = entries_[sequences];
    entry.seconds += (entry.since < kFresh ? 0.2 : 1.0) * (seconds - entry.seconds);
    entry.since = 0;
  }
  void guessed(int sequences) { ++entries_[sequences].since; }
  // Whether a step without guesses should be taken to measure it.
  bool stale(int sequences) const { return !known(sequences) || entries_.at(sequences).since >= kFresh; }
  bool known(int sequences) const { return entries_.contains(sequences) && entries_.at(sequences).seconds > 0; }
  double seconds(int sequences) const { return entries_.at(sequences).seconds; }  // requires: known

 private:
  static constexpr int kFresh = 64;  // steps
  struct Entry {
    double seconds = 0;
    int since = kFresh;  // steps with guesses, after the last without
  };
  std::map<int, Entry> entries_;
};

}  // namespace espalier
