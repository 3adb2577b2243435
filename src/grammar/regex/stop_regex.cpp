#include "grammar/regex/stop_regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "grammar/automaton/expression.h"
#include "grammar/characters/character_kinds.h"
#include "grammar/characters/spelling.h"
#include "grammar/regex/regex.h"

namespace espalier::grammar {
namespace {

constexpr std::size_t kMostNodes = 200'000;
constexpr std::chrono::seconds kMostTime{1};
constexpr unsigned char kMark = 255;  // no kind: behind it comes the number of the pattern that ends there

Error named(Error error, std::size_t pattern) {
  error.message = fmt::format("stop_regex[{}]: {}", pattern, error.message);
  error.field = "stop_regex";
  return error;
}

Error too_many_states() {
  return bad_request(
      fmt::format("stop_regex has patterns that need more than {} states or a second of work; use fewer, "
                  "shorter or less nested repetitions",
                  StopPatterns::kMostStates),
      "stop_regex", "grammar_too_complex");
}

Result<Regex> parsed(const std::string& pattern) {
  ESP_TRY(Regex regex, parse_regex(pattern));
  const auto looks_at_end = [](const RegexNode& node) { return node.kind == RegexNode::Kind::text_end; };
  if (std::ranges::any_of(regex.nodes, looks_at_end)) {
    return Error{Error::Kind::unsupported,
                 "regex: $ and \\Z cannot be honoured, since where a text ends is not known while it is generated; "
                 "leave them out",
                 {},
                 {}};
  }
  return regex;
}

class Compiler {
 public:
  explicit Compiler(const CharacterKinds& kinds) : kinds_(kinds), store_(kMostNodes), spelling_(store_, kinds) {
    store_.limits().set_deadline(std::chrono::steady_clock::now() + kMostTime);
  }

  // What is left of a match at its begin, for a match at the text's start and for one behind it.
  Result<> add(const Regex& regex, std::size_t number) {
    const char mark[] = {static_cast<char>(kMark), static_cast<char>(number)};
    for (const bool at_start : {true, false}) {
      auto read = spelling_.match(regex, at_start);
      if (!read.ok()) return named(std::move(read).error(), number);
      if (store_.nullable(*read)) {
        return named(bad_request("regex: it matches the empty text, which would stop before the first token; leave out "
                                 "what may match nothing",
                                 {}, "grammar_invalid"),
                     number);
      }
      (at_start ? at_start_ : inside_).push_back(store_.concat(*read, store_.text({mark, sizeof mark})));
    }
    return success();
  }

  Result<> finish(StopPatterns& out) {
    count_ = at_start_.size();
    expressions_ = {ExpressionStore::nothing};
    out.at_start = state_of(store_.either(std::move(at_start_)));
    out.inside = state_of(store_.either(std::move(inside_)));
    out.kind_count = kinds_.size();
    for (std::size_t state = 0; state < expressions_.size(); ++state) {
      read_state(out, expressions_[state]);
      if (store_.exhausted() || expressions_.size() > StopPatterns::kMostStates) return too_many_states();
    }
    return success();
  }

 private:
  StopPatterns::State state_of(Expression e) {
    if (e == ExpressionStore::nothing) return StopPatterns::kDead;
    const auto next = static_cast<StopPatterns::State>(expressions_.size());
    const auto [known, fresh] = states_.try_emplace(e, next);
    if (fresh) expressions_.push_back(e);
    return known->second;
  }

  void read_state(StopPatterns& out, Expression e) {
    const std::size_t row = out.table.size();
    out.table.resize(row + kinds_.size(), StopPatterns::kDead);
    out.matches.push_back(-1);
    for (const Step& step : store_.steps(e).bytes) {
      if (step.on.contains(kMark)) {
        out.matches.back() = first_number(step.to);
        continue;
      }
      const StopPatterns::State to = state_of(step.to);
      step.on.each([&](unsigned kind) { out.table[row + kind] = to; });
    }
  }

  std::int16_t first_number(Expression after_mark) {
    for (std::size_t number = 0; number < count_; ++number) {
      if (store_.after(after_mark, static_cast<unsigned char>(number)) != ExpressionStore::nothing)
        return static_cast<std::int16_t>(number);
    }
    return -1;
  }

  const CharacterKinds& kinds_;
  ExpressionStore store_;
  Spelling spelling_;
  std::vector<Expression> at_start_, inside_;  // by pattern
  std::size_t count_ = 0;
  std::vector<Expression> expressions_;  // by state
  std::map<Expression, StopPatterns::State> states_;
};

}  // namespace

Result<std::shared_ptr<const StopPatterns>> compile_stop_regex(const std::vector<std::string>& patterns) {
  std::vector<Regex> regexes;
  std::vector<CodePointSet> sets;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    auto regex = parsed(patterns[i]);
    if (!regex.ok()) return named(std::move(regex).error(), i);
    sets.insert(sets.end(), regex->sets.begin(), regex->sets.end());
    regexes.push_back(std::move(regex).value());
  }
  auto kinds = CharacterKinds::make(sets);
  if (!kinds.ok()) return bad_request("stop_regex: " + kinds.error().message, "stop_regex", kinds.error().code);
  auto out = std::make_shared<StopPatterns>();
  Compiler compiler(*kinds);
  for (std::size_t i = 0; i < regexes.size(); ++i) ESP_CHECK(compiler.add(regexes[i], i));
  ESP_CHECK(compiler.finish(*out));
  out->patterns = patterns;
  out->begins = kinds->begins();
  out->kinds = kinds->kinds();
  for (std::size_t c = 0; c < out->ascii.size(); ++c) {
    const auto behind = std::ranges::upper_bound(out->begins, static_cast<char32_t>(c));
    out->ascii[c] = out->kinds[static_cast<std::size_t>(behind - out->begins.begin()) - 1];
  }
  return std::shared_ptr<const StopPatterns>(std::move(out));
}

}  // namespace espalier::grammar
