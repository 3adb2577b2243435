// text_count.h: how many texts an expression reads, and which, as far as anybody wants to know.
//
// What is deeper or larger than anyone cares for counts as enough. Threads: as the store. Fails: never.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/automaton/expression.h"

namespace espalier::grammar {

// Counts or lists the texts of expressions, up to a number that is enough.
class TextCount {
 public:
  TextCount(ExpressionStore& store, std::uint64_t enough) : store_(store), enough_(enough) {}

  // At most `enough`. Requires: calls no rules.
  std::uint64_t of(Expression e, std::uint32_t depth = 0) {
    constexpr std::uint32_t kDeep = 1000;
    constexpr std::size_t kMany = 10'000;
    if (!store_.possible(e)) return 0;
    if (depth > kDeep || known_.size() > kMany) return enough_;
    const auto [known, fresh] = known_.try_emplace(e, enough_);  // of a loop there is no end
    if (!fresh) return known->second;
    std::uint64_t count = store_.nullable(e) ? 1 : 0;
    for (const Step& step : store_.steps(e).bytes) {
      if (count >= enough_) break;
      count += std::min(enough_, static_cast<std::uint64_t>(step.on.size()) * of(step.to, depth + 1));
    }
    return known_[e] = std::min(count, enough_);
  }

 private:
  ExpressionStore& store_;
  std::uint64_t enough_;
  std::unordered_map<Expression, std::uint64_t> known_;
};

// All texts, unless there are more than `most` or they are long. Requires: calls no rules.
inline std::optional<std::vector<std::string>> listed_texts(ExpressionStore& store, Expression e, std::size_t most) {
  constexpr std::size_t kLong = 200;
  std::vector<std::string> texts;
  std::vector<std::pair<Expression, std::string>> begun;
  if (store.possible(e)) begun.emplace_back(e, "");
  while (!begun.empty()) {
    const auto [at, text] = std::move(begun.back());
    begun.pop_back();
    if (store.nullable(at)) texts.push_back(text);
    if (texts.size() + begun.size() > most || text.size() > kLong) return std::nullopt;
    for (const Step& step : store.steps(at).bytes) {
      for (unsigned byte = 0; byte < 256 && begun.size() <= most; ++byte) {
        if (step.on.contains(static_cast<unsigned char>(byte)) && store.possible(step.to))
          begun.emplace_back(step.to, text + static_cast<char>(byte));
      }
    }
  }
  return texts;
}

}  // namespace espalier::grammar
