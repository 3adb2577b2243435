#include "text/answer/calls/mark_finder.h"

#include <algorithm>
#include <utility>

namespace espalier {

MarkFinder::MarkFinder(Marks marks) : marks_(std::move(marks)) {
  std::erase_if(marks_, [](std::string_view mark) { return mark.empty(); });
  for (const std::string_view mark : marks_) begins_[static_cast<unsigned char>(mark.front())] = true;
}

MarkFinder::Found MarkFinder::push(char c) {
  held_ += c;
  for (std::size_t begin = 0; begin < held_.size(); ++begin) {
    if (!may_begin(held_[begin])) continue;
    const std::string_view rest = std::string_view(held_).substr(begin);
    for (std::size_t i = 0; i < marks_.size(); ++i) {
      if (!marks_[i].starts_with(rest)) continue;
      return {begin, marks_[i].size() == rest.size() ? static_cast<int>(i) : -1};
    }
  }
  return {held_.size(), -1};
}

void MarkFinder::drop(const Found& found) {
  if (found.mark >= 0)
    held_.clear();
  else
    held_.erase(0, found.text);
}

std::string MarkFinder::take() {
  return std::exchange(held_, {});
}

void OneOf::expect(Marks texts) {
  texts_ = std::move(texts);
  std::erase_if(texts_, [](std::string_view text) { return text.empty(); });
  held_.clear();
}

int OneOf::step(char c) {
  if (held_.empty() && is_blank(c) &&
      std::ranges::none_of(texts_, [&](std::string_view text) { return text.front() == c; }))
    return more;
  held_ += c;
  bool possible = false;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    if (texts_[i] == held_) return static_cast<int>(i);
    possible = possible || texts_[i].starts_with(held_);
  }
  return possible ? more : none;
}

}  // namespace espalier
