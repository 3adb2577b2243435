#include "text/stream/detokenizer.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace espalier {
namespace {

// Bytes of the whole characters with which both begin.
std::size_t shared_characters(std::string_view text, std::string_view other) {
  const auto differs = std::mismatch(text.begin(), text.end(), other.begin(), other.end());
  auto shared = static_cast<std::size_t>(differs.first - text.begin());
  while (shared > 0 && shared < text.size() && (static_cast<unsigned char>(text[shared]) & 0xc0u) == 0x80u) --shared;
  return shared;
}

}  // namespace

IncrementalDetokenizer::IncrementalDetokenizer(const Tokenizer& tokenizer, DecodeOptions options,
                                               std::span<const TokenId> before)
    : tokenizer_(&tokenizer),
      options_(std::move(options)),
      to_strip_(tokenizer.decode_rules().strip_start),
      strip_stop_(tokenizer.decode_rules().strip_stop) {
  if (!before.empty()) begin_behind(before);
}

void IncrementalDetokenizer::keep_blanks() {
  first_ = false;
  to_strip_ = 0;
  strip_stop_ = 0;
}

bool IncrementalDetokenizer::counts(TokenId id) const {
  return tokenizer_->contains(id) && !tokenizer_->is_left_out(id, options_);
}

// The last tokens of `before` that what follows may still change the text of.
std::span<const TokenId> IncrementalDetokenizer::end_that_matters(std::span<const TokenId> before) const {
  constexpr std::size_t kCharacter = 4;  // bytes
  const bool pieces = tokenizer_->decode_rules().kind == DecodeRules::Kind::pieces;
  std::size_t from = before.size(), bytes = 0, tokens = 0;
  while (from > 0) {
    const TokenId id = before[--from];
    if (!counts(id)) continue;
    ++tokens;
    bytes += tokenizer_->token_bytes(id).size();
    const bool enough = tokenizer_->decode_rules().kind == DecodeRules::Kind::library ? tokens == kMostHeld
                        : pieces                                                      ? !tokenizer_->is_byte(id)
                                                                                      : bytes >= kCharacter;
    if (enough) break;
  }
  return before.subspan(from);
}

void IncrementalDetokenizer::begin_behind(std::span<const TokenId> before) {
  if (tokenizer_->decode_rules().kind == DecodeRules::Kind::library) {
    for (const TokenId id : end_that_matters(before))
      if (counts(id)) window_.push_back(id);
    window_shown_ = window_.size();
    window_text_ = tokenizer_->decode(window_);
    while (window_text_.ends_with(kReplacement)) window_text_.resize(window_text_.size() - kReplacement.size());
    return;
  }
  // The start of the text, until nothing more can be taken off it; then its end.
  std::size_t at = 0;
  while (at < before.size() && (first_ || to_strip_ > 0)) push(before[at++]);
  for (const TokenId id : end_that_matters(before.subspan(at))) push(id);
  std::size_t spaces = 0;  // that decoding `before` alone takes off its end
  while (spaces < std::min(strip_stop_, ready_.size()) && ready_[ready_.size() - 1 - spaces] == ' ') ++spaces;
  ready_.assign(spaces, ' ');
  inherited_ = unfinished_.size();
  held_ = 0;
}

std::string IncrementalDetokenizer::push(TokenId id) {
  if (!counts(id)) return {};
  switch (tokenizer_->decode_rules().kind) {
    case DecodeRules::Kind::bytes:
      add_bytes(tokenizer_->token_bytes(id));
      break;
    case DecodeRules::Kind::pieces:
      add_piece(id);
      break;
    case DecodeRules::Kind::library:
      return push_window(id);
  }
  first_ = false;
  ++held_;
  const bool may_change = !unfinished_.empty() || ready_.ends_with(kReplacement);
  if (may_change && held_ <= kMostHeld) return {};
  return release();
}

std::string IncrementalDetokenizer::finish() {
  if (tokenizer_->decode_rules().kind == DecodeRules::Kind::library) {
    const std::string text = tokenizer_->decode(window_);
    return text.substr(shared_characters(text, window_text_));
  }
  if (tokenizer_->decode_rules().kind == DecodeRules::Kind::pieces) {
    end_run();
  } else {
    if (inherited_ > 0) unfinished_.clear();  // still the one that the tokens before have shown to be broken
    append_valid_utf8(ready_, unfinished_, true);
    unfinished_.clear();
  }
  for (std::size_t n = 0; n < strip_stop_ && ready_.ends_with(' '); ++n) ready_.pop_back();
  return std::exchange(ready_, {});
}

// What is ready, less spaces that the end of the text may still lose.
std::string IncrementalDetokenizer::release() {
  std::size_t keep = 0;
  while (keep < std::min(strip_stop_, ready_.size()) && ready_[ready_.size() - 1 - keep] == ' ') ++keep;
  std::string out = ready_.substr(0, ready_.size() - keep);
  ready_.erase(0, out.size());
  if (!out.empty()) held_ = 0;
  return out;
}

void IncrementalDetokenizer::add_bytes(std::string_view bytes) {
  if (bytes.empty()) return;
  unfinished_.append(bytes);
  if (inherited_ > 0) {
    const Utf8Step step = utf8_step(unfinished_);
    if (step.incomplete) return;
    if (!step.valid) unfinished_.erase(0, step.length);
    inherited_ = 0;
  }
  const std::size_t used = append_valid_utf8(ready_, unfinished_, false);
  unfinished_.erase(0, used);
}

void IncrementalDetokenizer::add_piece(TokenId id) {
  const std::string_view bytes = tokenizer_->token_bytes(id);
  if (tokenizer_->is_byte(id)) {
    for (const char byte : bytes) add_run_byte(byte);
    return;
  }
  end_run();
  if (first_ && tokenizer_->decode_rules().first_token_drops_marks) {
    const TokenId alone[] = {id};
    add_text(tokenizer_->decode(alone));
  } else {
    add_text(bytes);
  }
}

void IncrementalDetokenizer::add_run_byte(char byte) {
  if (run_broken_) return add_text(kReplacement);
  unfinished_.push_back(byte);
  const Utf8Step step = utf8_step(unfinished_);
  if (step.incomplete) return;
  if (step.valid) {
    inherited_ = 0;
    add_text(unfinished_);
    unfinished_.clear();
  } else {
    end_run();
    run_broken_ = true;
  }
}

// In a run that is no UTF-8 each byte becomes U+FFFD.
void IncrementalDetokenizer::end_run() {
  unfinished_.erase(0, std::exchange(inherited_, 0));  // those are shown by who came before
  for (std::size_t i = 0; i < unfinished_.size(); ++i) add_text(kReplacement);
  unfinished_.clear();
  run_broken_ = false;
}

void IncrementalDetokenizer::add_text(std::string_view text) {
  while (to_strip_ > 0 && !text.empty()) {
    if (text.front() != ' ') {
      to_strip_ = 0;
      break;
    }
    text.remove_prefix(1);
    --to_strip_;
  }
  ready_.append(text);
}

// Decoders that only the library knows: compare the text of a short window with and without the new tokens. Where a
// new token changes what was shown already, as cleaning of spaces does, what differs is shown as it is now.
std::string IncrementalDetokenizer::push_window(TokenId id) {
  window_.push_back(id);
  std::string text = tokenizer_->decode(window_);
  const bool may_wait = window_.size() - window_shown_ <= kMostHeld;
  if (may_wait && (text.ends_with(kReplacement) || !text.starts_with(window_text_))) return {};
  std::string out = text.substr(shared_characters(text, window_text_));
  if (out.empty()) return {};
  window_.erase(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(window_shown_));
  window_shown_ = window_.size();
  window_text_ = tokenizer_->decode(window_);
  return out;
}

std::string decoded_behind(const Tokenizer& tokenizer, std::span<const TokenId> before, std::span<const TokenId> ids,
                           DecodeOptions options) {
  IncrementalDetokenizer detokenizer(tokenizer, std::move(options), before);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

}  // namespace espalier
