// sessions.h: who asks a fleet: conversations of several turns with applications, as many as there are, one by one.
//
// A session begins at any time (Poisson), with one of some applications, whose system prompts are shared by all sessions
// and of which few are asked often (Zipf). Each turn's prompt is all that was said before and a new question; the next turn
// comes some time after the answer. Some have begun before the start, as many as pause at any time. Nothing of a session is kept but its numbers: its tokens are a function of them.
// Units:   tokens, seconds. Threads: one. Fails: never. Memory: a few numbers for each open session.
#pragma once

#include <memory>
#include <queue>
#include <vector>

#include "bench/load/random.h"
#include "bench/sim/simulated_model.h"

namespace espalier::bench {

// Means; lengths are log-normal with a deviation of 0.8 of the logarithm, turns geometric, pauses exponential.
struct SessionShape {
  int apps = 1000;
  double app_skew = 1;  // the n-th application is asked 1 / n^skew as often as the first
  int app_tokens = 400;
  double turns = 4, question_tokens = 120, answer_tokens = 150;
  double pause = 30;
  int longest = 8192;  // tokens of a session, at which it ends
};

class Sessions {
 public:
  struct Turn {
    std::shared_ptr<PlannedRequest> request;
    std::uint64_t client = 0;
    std::size_t session = 0;  // for ended()
  };

  // `rate`: of requests, in the long run.
  Sessions(const SessionShape& shape, double rate, std::uint64_t seed);

  double next_due() const;                      // when the next turn comes
  Turn take();                                  // that turn
  void ended(std::size_t session, double now);  // its turn was answered
  // Of every session that had begun before the start: what was said of it by then, as a prompt.
  template <class F>
  void for_each_begun(F&& seen) const {
    for (const Session& session : sessions_)
      if (session.turn > 0) seen(request_of(session, 1));
  }
  std::size_t open() const { return sessions_.size() - free_.size(); }

 private:
  struct Session {
    std::uint64_t id = 0;
    int app = 0, turn = 0;
    int said = 0;    // tokens behind the application's
    int answer = 0;  // of the turn under way
  };
  struct Due {
    double time;
    std::size_t session;
    bool operator>(const Due& other) const { return std::tie(time, session) > std::tie(other.time, other.session); }
  };

  Turn request_of(const Session& session, int answer) const;
  std::size_t begin_session();
  void ask(Session& session) const;
  static void answered(Session& session);
  bool too_long(const Session& s) const { return s.said + shape_.app_tokens > shape_.longest; }
  int drawn_length(Random& random, double mean) const;

  const SessionShape shape_;
  const double sessions_per_second_;
  const std::uint64_t seed_;
  Random arrivals_;
  double next_session_ = 0;
  std::uint64_t begun_ = 0;
  std::vector<double> app_shares_;  // cumulated
  std::vector<Session> sessions_;
  std::vector<std::size_t> free_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
};

}  // namespace espalier::bench
