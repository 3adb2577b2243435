#include "engine/constrain/thinking_section.h"

#include <algorithm>
#include <utility>

namespace espalier {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

bool holds_any(std::string_view text, std::span<const std::string> marks) {
  return std::ranges::any_of(marks, [&](const std::string& mark) { return text.find(mark) != text.npos; });
}

}  // namespace

ThinkingSection::ThinkingSection(const Thinking& thinking, const Tokenizer& tokenizer)
    : thinking_(&thinking), tokenizer_(&tokenizer), at_(At::unsure), counts_(thinking.budget.has_value()) {
  for (const auto* marks : {&thinking.ends, &thinking.leaves})
    for (const std::string& mark : *marks) longest_ = std::max(longest_, mark.size());
  if (thinking.begins.empty()) enter();
}

void ThinkingSection::enter() {
  at_ = At::inside;
  text_.clear();
  count();
}

void ThinkingSection::count() {
  if (counts_ && tokens_ >= *thinking_->budget) forced_ = thinking_->close;
}

void ThinkingSection::read(TokenId token) {
  if (at_ == At::over) return;
  const std::string_view text = tokenizer_->token_bytes(token);
  if (at_ == At::unsure) return read_start(text, token);
  if (!forced_.empty() && forced_.front() == token) {
    forced_ = forced_.subspan(1);
    if (forced_.empty()) at_ = At::over;
    return;
  }
  read_inside(text, token);
}

void ThinkingSection::read_start(std::string_view text, TokenId token) {
  text_ += text;
  only_mark_ = only_mark_ && mark_read_ < thinking_->begin.size() && thinking_->begin[mark_read_] == token;
  if (only_mark_) ++mark_read_;
  const std::string_view said =
      std::string_view(text_).substr(std::min(text_.find_first_not_of(kBlanks), text_.size()));
  bool possible = false;
  for (const std::string& mark : thinking_->begins) {
    if (said.starts_with(mark)) return enter();
    possible = possible || mark.starts_with(said);
  }
  if (!possible) at_ = At::over;
}

void ThinkingSection::read_inside(std::string_view text, TokenId token) {
  text_ += text;
  ++tokens_;
  opened_ = std::ranges::find(thinking_->opens, token) != thinking_->opens.end();
  if (opened_ || holds_any(text_, thinking_->ends)) {
    at_ = At::over;
    return;
  }
  left_ = left_ || holds_any(text_, thinking_->leaves);
  counts_ = counts_ && !left_;
  if (text_.size() >= longest_) text_.erase(0, text_.size() - (longest_ - 1));
  count();
}

TokenId ThinkingSection::next_of_mark() const {
  if (at_ != At::unsure || !only_mark_ || mark_read_ >= thinking_->begin.size()) return -1;
  return thinking_->begin[mark_read_];
}

}  // namespace espalier
