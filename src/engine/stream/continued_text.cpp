#include "engine/stream/continued_text.h"

#include <algorithm>

#include "text/stream/detokenizer.h"

namespace espalier {

void ContinuedText::append(std::span<const TokenId> ids, std::size_t bytes) {
  own_.insert(own_.end(), ids.begin(), ids.end());
  bytes_ += bytes;
  boundaries_.push_back({bytes_, size()});
}

void ContinuedText::settle(std::span<const TokenId> ids, std::size_t bytes) {
  append(ids, bytes);
  pending_.erase(0, bytes);
}

void ContinuedText::add_generated(const Tokenizer& tokenizer, std::span<const TokenId> ids, std::string_view text,
                                  Shown shown) {
  std::size_t kept = ids.size(), bytes = text.size();
  if (shown.cut) {  // the stop string took the text of the last tokens, or of a part of one
    IncrementalDetokenizer start(tokenizer, {shown.skip_special}, tokens());
    if (shown.constrained) start.keep_blanks();
    for (bool beyond = true; beyond; kept -= beyond ? 1 : 0) {
      IncrementalDetokenizer detokenizer = start;
      std::string whole;
      for (const TokenId id : ids.first(kept)) whole += detokenizer.push(id);
      whole += detokenizer.finish();
      beyond = kept > 0 && !text.starts_with(whole);
      bytes = std::min(whole.size(), text.size());
    }
  }
  append(ids.first(kept), bytes);
  pending_ += text.substr(bytes);
}

std::vector<TokenId> ContinuedText::tokens() const {
  std::vector<TokenId> all;
  all.reserve(size());
  all.insert(all.end(), shared_->begin(), shared_->end());
  all.insert(all.end(), own_.begin(), own_.end());
  return all;
}

void ContinuedText::share() {
  if (own_.empty()) return;
  shared_ = std::make_shared<const std::vector<TokenId>>(tokens());
  own_.clear();
}

void ContinuedText::rewind(std::size_t bytes) {
  if (bytes >= this->bytes()) return;
  pending_.clear();
  while (!boundaries_.empty() && boundaries_.back().bytes > bytes) boundaries_.pop_back();
  const Boundary to = boundaries_.empty() ? Boundary{0, 0} : boundaries_.back();
  std::vector<TokenId> kept = tokens();
  kept.resize(to.tokens);
  shared_ = std::make_shared<const std::vector<TokenId>>(std::move(kept));
  own_.clear();
  bytes_ = to.bytes;
}

}  // namespace espalier
