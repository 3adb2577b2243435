#include "text/detokenizer.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace espalier {

IncrementalDetokenizer::IncrementalDetokenizer(const Tokenizer& tokenizer, DecodeOptions options)
    : tokenizer_(&tokenizer), options_(options), to_strip_(tokenizer.decode_rules().strip_start) {}

std::string IncrementalDetokenizer::push(TokenId id) {
  if (!tokenizer_->contains(id) || (options_.skip_special && tokenizer_->is_special(id))) return {};
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
    std::string text = tokenizer_->decode(window_);
    return text.starts_with(window_text_) ? text.substr(window_text_.size()) : std::string();
  }
  if (tokenizer_->decode_rules().kind == DecodeRules::Kind::pieces) {
    end_run();
  } else {
    append_valid_utf8(ready_, unfinished_, true);
    unfinished_.clear();
  }
  for (std::size_t n = 0; n < tokenizer_->decode_rules().strip_stop && ready_.ends_with(' '); ++n) ready_.pop_back();
  return std::exchange(ready_, {});
}

// What is ready, less spaces that the end of the text may still lose.
std::string IncrementalDetokenizer::release() {
  const std::size_t strip = tokenizer_->decode_rules().strip_stop;
  std::size_t keep = 0;
  while (keep < std::min(strip, ready_.size()) && ready_[ready_.size() - 1 - keep] == ' ') ++keep;
  std::string out = ready_.substr(0, ready_.size() - keep);
  ready_.erase(0, out.size());
  if (!out.empty()) held_ = 0;
  return out;
}

void IncrementalDetokenizer::add_bytes(std::string_view bytes) {
  unfinished_.append(bytes);
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
    add_text(unfinished_);
    unfinished_.clear();
  } else {
    end_run();
    run_broken_ = true;
  }
}

// In a run that is no UTF-8 each byte becomes U+FFFD.
void IncrementalDetokenizer::end_run() {
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

// Decoders that only the library knows: compare the text of a short window with and without the new tokens.
std::string IncrementalDetokenizer::push_window(TokenId id) {
  window_.push_back(id);
  std::string text = tokenizer_->decode(window_);
  const bool unfinished = text.ends_with(kReplacement) && window_.size() - window_shown_ <= kMostHeld;
  if (unfinished || !text.starts_with(window_text_) || text.size() == window_text_.size()) return {};
  std::string out = text.substr(window_text_.size());
  window_.erase(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(window_shown_));
  window_shown_ = window_.size();
  window_text_ = tokenizer_->decode(window_);
  return out;
}

}  // namespace espalier
