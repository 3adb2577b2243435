#include "engine/stream/continued_text.h"

#include <algorithm>

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
                                  bool skip_special, bool cut) {
  std::size_t kept = ids.size(), shown = text.size();
  // The stop string took the text of the last tokens, or of a part of one.
  for (bool beyond = cut; beyond; kept -= beyond ? 1 : 0) {
    const std::string whole = tokenizer.decode(ids.first(kept), {skip_special});
    beyond = !text.starts_with(whole);  // no token at all has the text ""
    shown = whole.size();
  }
  append(ids.first(kept), shown);
  pending_ += text.substr(shown);
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
