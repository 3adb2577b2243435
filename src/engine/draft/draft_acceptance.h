// draft_acceptance.h: how often guesses came true, and whether guessing has paid for itself; learnt while running.
//
// Units: probabilities, seconds. Threads: the engine thread. Fails: never.
#pragma once

#include <algorithm>
#include <array>

namespace espalier {

// How often a guess is right that its maker gave a probability: the maker's own figure at first, then what was seen.
// Forgets: about the last thousand guesses of a class count.
class DraftAcceptance {
 public:
  double of(double confidence, bool greedy) const {
    const Class& c = at(confidence, greedy);
    constexpr double kTrust = 8;  // guesses that the maker's own figure is worth
    return (c.right + kTrust * confidence) / (c.all + kTrust);
  }
  void learn(double confidence, bool greedy, bool right) {
    Class& c = at(confidence, greedy);
    constexpr double kKeep = 0.999;
    c.all = kKeep * c.all + 1;
    c.right = kKeep * c.right + (right ? 1 : 0);
  }

 private:
  struct Class {
    double all = 0, right = 0;
  };
  static constexpr int kClasses = 12;
  static std::size_t class_of(double confidence) {
    return static_cast<std::size_t>(std::clamp(static_cast<int>(confidence * kClasses), 0, kClasses - 1));
  }
  const Class& at(double confidence, bool greedy) const { return classes_[greedy ? 1 : 0][class_of(confidence)]; }
  Class& at(double confidence, bool greedy) { return classes_[greedy ? 1 : 0][class_of(confidence)]; }

  std::array<std::array<Class, kClasses>, 2> classes_{};
};

// What one way of guessing has won and lost in time. It may lose what it has won, a hundredth of the time that decoding
// takes, and its allowance once to find out; then it rests until enough time has passed. So wrong estimates cost no
// more.
class DraftTimeCredit {
 public:
  static constexpr double kShare = 0.01;  // of decoding time
  static constexpr double kMost = 5;      // seconds

  explicit DraftTimeCredit(double allowance) : allowance_(allowance), credit_(allowance) {}

  bool may_try() const { return credit_ > 0; }
  bool rested() const { return credit_ >= 0.9 * allowance_; }
  bool may_spend(double seconds) const { return credit_ > seconds; }
  void decoded(double seconds) { add(kShare * seconds); }
  void won(double seconds) { add(seconds); }
  void lost(double seconds) { add(-seconds); }

 private:
  void add(double seconds) { credit_ = std::min(credit_ + seconds, kMost); }
  double allowance_, credit_;
};

}  // namespace espalier
