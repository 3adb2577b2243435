// transport_double.h: a server that exists only in a test, with a clock that jumps.
//
// It answers each call after `seconds`, with what `reply` says, and keeps what it was sent. Threads: one.
#pragma once

#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "bench/load/transport.h"

namespace espalier::bench {

class TransportDouble final : public Transport {
 public:
  struct Reply {
    std::string text;
    double seconds = 1;
    bool ok = true;
    int prompt_tokens = 10, output_tokens = 5, cached_tokens = 4;
  };
  struct Sent {
    Call call;
    double at = 0;
  };

  explicit TransportDouble(std::function<Reply(const Call&)> reply) : reply_(std::move(reply)) {}

  void send(const Call& call, Done done) override {
    sent.push_back({call, now_});
    ++open_;
    most_open = std::max(most_open, open_);
    const Reply reply = reply_(call);
    Outcome outcome;
    outcome.ok = reply.ok;
    outcome.status = reply.ok ? 200 : 500;
    if (!reply.ok) outcome.error = "the double fails";
    outcome.text = reply.text;
    outcome.sent = now_;
    outcome.first_token = now_ + reply.seconds / 2;
    outcome.ended = now_ + reply.seconds;
    outcome.prompt_tokens = reply.prompt_tokens;
    outcome.output_tokens = reply.output_tokens;
    outcome.cached_tokens = reply.cached_tokens;
    events_.push({outcome.ended, number_++, [this, outcome, done = std::move(done)] {
                    --open_;
                    done(outcome);
                  }});
  }
  void score(const std::string& prompt, int, const std::vector<std::string>& choices, Scored done) override {
    scored.push_back(prompt);
    Outcome outcome;
    outcome.ok = true;
    outcome.ended = now_ + 1;
    std::vector<double> scores;
    for (const std::string& choice : choices) scores.push_back(choice == likely ? -0.1 : -3);
    events_.push({now_ + 1, number_++, [outcome, scores, done = std::move(done)] { done(outcome, scores); }});
  }
  bool scores_choices() const override { return can_score; }

  void run(double until) override {
    if (events_.empty() || events_.top().at > until) {
      now_ = std::max(now_, until);
      return;
    }
    now_ = std::max(now_, events_.top().at);
    const auto happen = events_.top().happen;
    events_.pop();
    happen();
  }
  double now() const override { return now_; }

  std::vector<Sent> sent;
  std::vector<std::string> scored;
  std::string likely;
  bool can_score = false;
  int most_open = 0;

 private:
  struct Event {
    double at;
    int number;  // of two at once, the first sent
    std::function<void()> happen;
    bool operator<(const Event& other) const {
      return std::pair(at, number) > std::pair(other.at, other.number);  // the queue gives the greatest first
    }
  };

  std::function<Reply(const Call&)> reply_;
  std::priority_queue<Event> events_;
  double now_ = 0;
  int open_ = 0, number_ = 0;
};

}  // namespace espalier::bench
