// ends.h: what ends an output: strings that a server looks for, others that are looked for here.
//
// Interfaces take only so many stop strings, or none that are blank. What a server does not take it generates past, and
// the text is cut here.
// Threads: pure functions; an EndedText belongs to one output.
// Fails:   check_ends: unsupported naming the field.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "espalier/sampling.h"

namespace espalier::lang {

struct EndStrings {
  std::vector<std::string> there, here;
};

// At most `most` go there; blank ones only where they are `blanks_taken`.
EndStrings split_ends(const std::vector<std::string>& stop, std::size_t most, bool blanks_taken);

// Ends that are no strings, for interfaces that know none: leaving them out would change what the output means.
Result<> check_ends(const SamplingParams& sampling, std::string_view server);

// Cuts the text where the first of the strings begins and returns that one; null: it holds none.
const std::string* cut_at_first(std::string& text, const std::vector<std::string>& ends);

// A text that comes in pieces and is told up to the first of the strings.
class EndedText {
 public:
  explicit EndedText(std::vector<std::string> ends) : ends_(std::move(ends)) {}
  // What can be told now. The rest may be the beginning of an end.
  std::string go_on(std::string_view piece);

 private:
  std::size_t possible_end() const;  // bytes at the end of held_ that one of the strings begins with

  std::vector<std::string> ends_;
  std::string held_;
  bool ended_ = false;
};

}  // namespace espalier::lang
