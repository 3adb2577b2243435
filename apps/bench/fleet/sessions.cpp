#include "bench/fleet/sessions.h"

#include <algorithm>
#include <cmath>

namespace espalier::bench {
namespace {

constexpr double kDeviation = 0.8;
constexpr int kLongestOfMean = 12;  // times the mean

TokenId token_of(std::uint64_t text, int position) {
  return static_cast<TokenId>(derived_seed(text, static_cast<std::uint64_t>(position)) % (1u << 30));
}
std::uint64_t app_text(std::uint64_t seed, int app) {
  return derived_seed(seed, 0xa0000 + static_cast<std::uint64_t>(app));
}
std::uint64_t session_text(std::uint64_t seed, std::uint64_t id) {
  return derived_seed(seed ^ 0x5e55, id);
}

struct SessionRequest final : PlannedRequest {
  SessionRequest(Request asked, int length, std::uint64_t of_text, int from)
      : PlannedRequest(std::move(asked), length), text(of_text), first(from) {}
  TokenId answer(int, int position) const override { return token_of(text, first + position); }

  const std::uint64_t text;
  const int first;
};

}  // namespace

Sessions::Sessions(const SessionShape& shape, double rate, std::uint64_t seed)
    : shape_(shape), sessions_per_second_(rate / shape.turns), seed_(seed), arrivals_(derived_seed(seed, 1)) {
  double sum = 0;
  for (int app = 0; app < shape.apps; ++app) app_shares_.push_back(sum += std::pow(app + 1, -shape.app_skew));
  next_session_ = arrivals_.exponential() / sessions_per_second_;
  // Those that pause at any time, so that as many ask from the start as later on.
  const double on = 1 - 1 / shape.turns;
  for (auto left = std::llround(rate * on * shape.pause); left > 0; --left) {
    const std::size_t at = begin_session();
    Session& s = sessions_[at];
    do {
      ask(s);
      answered(s);
    } while (arrivals_.uniform() < on && !too_long(s));
    due_.push({arrivals_.exponential() * shape.pause, at});
  }
}

// The next question, and how long its answer will be.
void Sessions::ask(Session& s) const {
  Random random(derived_seed(session_text(seed_, s.id), 0xffff0000 + static_cast<std::uint64_t>(s.turn)));
  s.said += drawn_length(random, shape_.question_tokens);
  s.answer = drawn_length(random, shape_.answer_tokens);
}

void Sessions::answered(Session& s) {
  s.said += s.answer;
  ++s.turn;
}

double Sessions::next_due() const {
  return due_.empty() ? next_session_ : std::min(next_session_, due_.top().time);
}

int Sessions::drawn_length(Random& random, double mean) const {
  const double drawn = mean * std::exp(kDeviation * random.normal() - kDeviation * kDeviation / 2);
  return static_cast<int>(std::clamp(drawn, 1.0, kLongestOfMean * mean));
}

std::size_t Sessions::begin_session() {
  std::size_t at = sessions_.size();
  if (free_.empty()) {
    sessions_.emplace_back();
  } else {
    at = free_.back();
    free_.pop_back();
  }
  Session& s = sessions_[at] = {};
  s.id = ++begun_;
  Random random(derived_seed(seed_ ^ 0xa99, s.id));
  const double place = random.uniform() * app_shares_.back();
  s.app = static_cast<int>(std::ranges::upper_bound(app_shares_, place) - app_shares_.begin());
  s.app = std::min(s.app, shape_.apps - 1);
  return at;
}

Sessions::Turn Sessions::take() {
  std::size_t at = 0;
  if (due_.empty() || next_session_ <= due_.top().time) {
    at = begin_session();
    next_session_ += arrivals_.exponential() / sessions_per_second_;
  } else {
    at = due_.top().session;
    due_.pop();
  }
  Session& s = sessions_[at];
  ask(s);
  Turn turn = request_of(s, s.answer);
  turn.session = at;
  return turn;
}

Sessions::Turn Sessions::request_of(const Session& s, int answer) const {
  RequestFields fields;
  fields.id = "-";
  fields.prompt.reserve(static_cast<std::size_t>(shape_.app_tokens) + static_cast<std::size_t>(s.said));
  const std::uint64_t app = app_text(seed_, s.app), text = session_text(seed_, s.id);
  for (int i = 0; i < shape_.app_tokens; ++i) fields.prompt.push_back(token_of(app, i));
  for (int i = 0; i < s.said; ++i) fields.prompt.push_back(token_of(text, i));
  fields.sampling.max_new_tokens = answer;
  fields.sampling.temperature = 0;
  fields.sampling.seed = s.id;
  fields.sampling.ignore_eos = true;
  const ModelLimits limits{PromptEncoder::vocabulary, PromptEncoder::vocabulary, PromptEncoder::vocabulary, true, 0};
  Request request = Request::make(std::move(fields), limits).value();
  return {std::make_shared<SessionRequest>(std::move(request), answer, text, s.said), s.id, 0};
}

void Sessions::ended(std::size_t at, double now) {
  Session& s = sessions_[at];
  answered(s);
  Random random(derived_seed(session_text(seed_, s.id), 0xfffe0000 + static_cast<std::uint64_t>(s.turn)));
  if (random.uniform() * shape_.turns < 1 || too_long(s)) {
    free_.push_back(at);
    return;
  }
  due_.push({now + random.exponential() * shape_.pause, at});
}

}  // namespace espalier::bench
