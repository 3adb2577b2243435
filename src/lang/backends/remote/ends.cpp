#include "lang/backends/remote/ends.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier::lang {

EndStrings split_ends(const std::vector<std::string>& stop, std::size_t most, bool blanks_taken) {
  EndStrings ends;
  for (const std::string& one : stop) {
    const bool blank = one.find_first_not_of(" \t\n\r\f\v") == std::string::npos;
    const bool taken = ends.there.size() < most && (blanks_taken || !blank);
    (taken ? ends.there : ends.here).push_back(one);
  }
  return ends;
}

Result<> check_ends(const SamplingParams& sampling, std::string_view server) {
  const auto no = [&](const char* field) {
    return Error{Error::Kind::unsupported,
                 fmt::format("{} takes no {}: leave it out, or use the native or the local back end", server, field),
                 field,
                 {}};
  };
  if (!sampling.stop_regex.empty()) return no("stop_regex");
  if (!sampling.stop_token_ids.empty()) return no("stop_token_ids");
  if (sampling.min_new_tokens > 0) return no("min_tokens");
  if (sampling.ignore_eos) return no("ignore_eos");
  if (sampling.no_stop_trim) return no("no_stop_trim");
  return success();
}

const std::string* cut_at_first(std::string& text, const std::vector<std::string>& ends) {
  std::size_t first = std::string::npos;
  const std::string* found = nullptr;
  for (const std::string& end : ends) {
    const auto at = end.empty() ? std::string::npos : text.find(end);
    if (at >= first) continue;
    first = at;
    found = &end;
  }
  if (found) text.resize(first);
  return found;
}

std::size_t EndedText::possible_end() const {
  std::size_t longest = 0;
  for (const std::string& end : ends_)
    for (std::size_t n = std::min(held_.size(), end.size()); n > longest; --n)
      if (held_.ends_with(std::string_view(end).substr(0, n))) longest = n;
  return longest;
}

std::string EndedText::go_on(std::string_view piece) {
  if (ended_) return {};
  held_ += piece;
  if (cut_at_first(held_, ends_)) {
    ended_ = true;
    return std::exchange(held_, {});
  }
  const std::size_t kept = possible_end();
  std::string told = held_.substr(0, held_.size() - kept);
  held_.erase(0, told.size());
  return told;
}

}  // namespace espalier::lang
