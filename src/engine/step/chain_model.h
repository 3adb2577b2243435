// chain_model.h: a double of a model with recurrent layers: its state is a number that chains all tokens, its logits
// are a function of that number alone; for tests.
//
// It keeps nothing of tokens but their state, so one state that is lost, taken from the wrong place or written over
// changes every logit that follows. Of rows that pictures bring (Batch::given) it chains the first number instead of the
// token, and where they stand on the axes.
#pragma once

#include <algorithm>
#include <cstring>

#include "cache/tree/recent_set.h"  // mix_bits
#include "engine/step/core_harness.h"

namespace espalier::testing {

// Few likely tokens and a habit of repeating itself, so that drafts from a text's own past come true now and then.
class ChainModel final : public Model {
 public:
  static constexpr int kVocabulary = 40;
  explicit ChainModel(int threads = 1) : team(threads) {}

  int vocabulary() const override { return kVocabulary; }
  int max_rows() const override { return 600; }

  std::span<float> forward(const Batch& batch, const KvView&) override {
    wanted_.clear();
    std::size_t next = 0;
    for (const BatchSequence& s : batch.sequences) {
      std::uint64_t value = s.state_in != nullptr ? read(s.state_in) : kStart;
      EXPECT_EQ(s.state_in != nullptr, s.first_position > 0);
      const StateMark* mark = s.state_marks.data();
      for (int i = 0; i < s.rows; ++i) {
        if (i > 0 && mark != s.state_marks.data() + s.state_marks.size() && mark->rows == i)
          write((mark++)->out, value);
        const int row = s.row_begin + i;
        EXPECT_TRUE(whole_spans(s, i)) << "a picture is cut at row " << i;
        value = chained(value, number(batch, row), place(s, i));
        if (next < batch.logit_rows.size() && batch.logit_rows[next] == row) {
          wanted_.push_back(value);
          ++next;
        }
      }
      EXPECT_EQ(mark, s.state_marks.data() + s.state_marks.size());
      write(s.state_out, value);
    }
    logits_.resize(wanted_.size() * kVocabulary);
    for (std::size_t row = 0; row < wanted_.size(); ++row) {
      const auto out = std::span(logits_).subspan(row * kVocabulary, kVocabulary);
      fill(wanted_[row], 0, out);
      const int index = static_cast<int>(row);
      if (batch.reader != nullptr && batch.reader->takes(index)) batch.reader->read(index, 0, out);
    }
    return logits_;
  }
  void logits_again(int row, int first, std::span<float> out) const override {
    fill(wanted_[static_cast<std::size_t>(row)], first, out);
  }

  // Of an empty text, and of one more token (or of a picture's row) at a place on the axes.
  static std::uint64_t start() { return kStart; }
  static std::uint64_t chained(std::uint64_t value, std::uint64_t number, const AxisPositions& at) {
    value = mix_bits(value * 31 + number);
    return at[0] == at[1] && at[1] == at[2] ? value : mix_bits(value + static_cast<std::uint64_t>(at[1] * 64 + at[2]));
  }
  static std::uint64_t number_of(TokenId token) { return static_cast<std::uint32_t>(token) + 1; }
  static std::uint64_t number_of(float given) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &given, sizeof bits);
    return mix_bits(bits + 0x100000000u);
  }
  static TokenId likeliest(std::uint64_t value) {
    std::vector<float> logits(kVocabulary);
    fill(value, 0, logits);
    return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
  }

  ModelParts parts() { return {*this, {.per_token = {}, .state_floats = kFloats}, {}, team, kVocabulary}; }
  ComputeTeam team;

 private:
  static constexpr std::uint64_t kStart = 0x0123456789abcdef;
  static constexpr std::size_t kFloats = 40;  // not a whole cache line

  static std::uint64_t number(const Batch& batch, int row) {
    const auto at = static_cast<std::size_t>(row);
    const float* given = batch.given.empty() ? nullptr : batch.given[0][at];
    EXPECT_LT(batch.tokens[at], kVocabulary);
    return given != nullptr ? number_of(*given) : number_of(batch.tokens[at]);
  }
  static AxisPositions place(const BatchSequence& s, int i) {
    if (!s.axes.empty()) return s.axes[static_cast<std::size_t>(i)];
    const auto at = static_cast<std::int32_t>(s.first_position + i + s.axis_shift);
    return {at, at, at};
  }
  // Whoever the row sees behind it stands in the same batch.
  static bool whole_spans(const BatchSequence& s, int i) {
    if (s.span_last.empty()) return true;
    const auto at = static_cast<std::size_t>(i);
    return s.span_first[at] >= s.first_position && s.span_last[at] < s.first_position + s.rows;
  }
  static std::uint64_t read(const float* state) {
    std::uint64_t value;
    std::memcpy(&value, state + kFloats - 2, sizeof value);
    return value;
  }
  static void write(float* state, std::uint64_t value) {
    std::fill_n(state, kFloats, 0.5f);
    std::memcpy(state + kFloats - 2, &value, sizeof value);
  }
  static void fill(std::uint64_t value, int first, std::span<float> out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::uint64_t bits = mix_bits(value ^ mix_bits(static_cast<std::uint64_t>(first) + i + 1));
      out[i] = static_cast<float>(bits >> 44) / static_cast<float>(1 << 18);
    }
  }

  std::vector<std::uint64_t> wanted_;
  std::vector<float> logits_;
};

}  // namespace espalier::testing
