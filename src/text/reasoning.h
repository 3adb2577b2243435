// reasoning.h: what a model thought, and what it answered.
//
// Each family of models marks its thinking with words of its own; some begin inside it, so that only its end is marked.
// Text without an end mark behind a beginning is all thinking. Blanks around the thinking and line ends before the
// answer are part of the marks. A text in pieces gives, put together, what the whole gives.
// Threads: values; a ReasoningSplitter is used by one thread at a time.
// Fails:   reasoning_marks(): bad_request naming the known ones.
// Source:  SGLang's --reasoning-parser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"

namespace espalier {

// The words around the thinking of one family of models.
struct ReasoningMarks {
  std::string_view name, begin, end;
  bool begins_inside = false;
};
// `name` in any case; `field`: at fault where it is unknown.
Result<ReasoningMarks> reasoning_marks(std::string_view name, std::string field);
std::string reasoning_names();  // of all, for messages

// A piece of output, divided into thinking and answer.
struct Reasoned {
  std::string thinking, answer;
  bool operator==(const Reasoned&) const = default;
};

Reasoned split_reasoning(std::string_view text, const ReasoningMarks& marks);

// Divides text that comes in pieces at the marks.
class ReasoningSplitter {
 public:
  explicit ReasoningSplitter(const ReasoningMarks& marks) : marks_(marks) {}
  Reasoned feed(std::string_view piece);  // what is certain by now
  Reasoned finish();                      // the rest
  bool thinks() const { return at_ == At::thinking; }

 private:
  enum class At { start, thinking, behind, answer };
  bool leave_start();
  bool leave_thinking(std::string& thinking);
  bool leave_behind();

  ReasoningMarks marks_;
  At at_ = At::start;
  bool begins_ = false;  // nothing was thought yet
  std::string held_;     // that may be part of a mark, or blanks around one
};

}  // namespace espalier
