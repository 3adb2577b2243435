// answer_cuts.h: what an AnswerParser makes of a text that comes in pieces. For tests.
//
// Threads: one at a time. Fails: expectations of GoogleTest.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>
#include <string>
#include <string_view>

#include "testing/data.h"
#include "text/answer/answer_parser.h"

namespace espalier {

inline void PrintTo(const Answer& answer, std::ostream* out) {
  *out << "thinking [" << answer.thinking << "] content [" << answer.content << "]";
  for (const ToolCall& call : answer.calls) *out << " call " << call.name << " (" << call.id << ") " << call.arguments;
}

}  // namespace espalier

namespace espalier::testing {

// Folds events and looks whether they come in an order that a client can follow.
class CheckedFold {
 public:
  void add(const std::vector<AnswerEvent>& events) {
    for (const AnswerEvent& event : events) {
      if (const auto* begun = std::get_if<CallBegun>(&event)) {
        EXPECT_EQ(open_, -1) << "a call begins within another one";
        EXPECT_EQ(begun->index, static_cast<int>(answer_.calls.size()));
        open_ = begun->index;
      } else if (const auto* piece = std::get_if<ArgumentsPiece>(&event)) {
        EXPECT_EQ(piece->index, open_);
        EXPECT_NE(piece->json, "");
      } else if (const auto* ended = std::get_if<CallEnded>(&event)) {
        EXPECT_EQ(ended->index, open_);
        open_ = -1;
      }
      fold(answer_, {&event, 1});
    }
  }
  const Answer& answer() const { return answer_; }
  bool open() const { return open_ >= 0; }

 private:
  Answer answer_;
  int open_ = -1;
};

// The answer of a text that comes in pieces of the given sizes, the last one over and over.
inline Answer cut_answer(std::string_view text, const AnswerOptions& options, const std::vector<std::size_t>& sizes) {
  AnswerParser parser(options);
  CheckedFold folded;
  for (std::size_t i = 0; !text.empty(); ++i) {
    const std::string_view piece = text.substr(0, sizes[std::min(i, sizes.size() - 1)]);
    folded.add(parser.feed(piece));
    text.remove_prefix(piece.size());
  }
  folded.add(parser.finish());
  EXPECT_FALSE(folded.open()) << "a call never ends";
  return folded.answer();
}

// Every split into two, byte by byte, and random pieces give what the whole gives.
inline void expect_same_however_cut(std::string_view text, const AnswerOptions& options) {
  const Answer whole = cut_answer(text, options, {std::max<std::size_t>(text.size(), 1)});
  for (std::size_t at = 1; at < text.size(); ++at)
    ASSERT_EQ(cut_answer(text, options, {at, text.size()}), whole) << "cut at " << at << " of: " << text;
  ASSERT_EQ(cut_answer(text, options, {1}), whole) << "byte by byte: " << text;
  std::mt19937_64 random(seed());
  for (int round = 0; round < 5; ++round) {
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < text.size(); ++i) sizes.push_back(1 + random() % 9);
    ASSERT_EQ(cut_answer(text, options, sizes), whole) << "seed " << seed() << ": " << text;
  }
}

inline AnswerOptions options_of(std::string_view calls, std::string_view thinking = {},
                                std::shared_ptr<const CallTools> tools = {}) {
  AnswerOptions options{.tools = std::move(tools)};
  if (!calls.empty()) options.calls = call_format(calls, "calls").value();
  if (!thinking.empty()) options.thinking = thinking_format(thinking, "thinking").value();
  return options;
}

}  // namespace espalier::testing
