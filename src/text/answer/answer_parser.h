// answer_parser.h: a model's output, divided into thinking, content and calls of tools while it comes.
//
// The events of a text put together are the same however it is cut; a whole reply is a stream that is folded. Held back
// is only what may be part of a mark, and what of a call does not say yet that it is one; what turns out to be none is
// text again, all of it. A call that was told is not taken back: what goes wrong in its arguments comes as written.
// Blanks between content and calls belong to the calls unless more content follows.
// Units:   bytes of UTF-8; time is linear in them. Memory: what is held, at most some 64 KiB, and a value of 1 MiB.
// Threads: one at a time. Fails: never.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer/answer_event.h"
#include "text/answer/call_format.h"
#include "text/answer/call_tools.h"
#include "text/answer/calls/call_reader.h"
#include "text/answer/calls/harmony_reader.h"
#include "text/answer/calls/mark_finder.h"
#include "text/answer/thinking_format.h"

namespace espalier {

// Where an output begins, which the prompt knows: as the format says, within thinking, or behind it.
enum class AnswerBegins { by_format, inside_thinking, in_answer };

// How an output is to be read.
struct AnswerOptions {
  const CallFormat* calls = nullptr;         // null: no calls are looked for
  const ThinkingFormat* thinking = nullptr;  // null: no thinking
  AnswerBegins begins = AnswerBegins::by_format;
  std::shared_ptr<const CallTools> tools = {};
  bool only_known_tools = false;  // a call of another name is text
};

// Divides one output.
class AnswerParser {
 public:
  explicit AnswerParser(AnswerOptions options);

  std::vector<AnswerEvent> feed(std::string_view piece);  // what is certain by now
  std::vector<AnswerEvent> finish();                      // the rest

  bool thinks() const;
  int calls() const { return events_.calls(); }  // begun so far

 private:
  enum class At { start, thinking, behind, content, call };
  enum class Meaning { opens_call, ends_thinking, begins_answer, dropped };
  struct Mark {
    std::string_view text;
    Meaning meaning;
    int number = 0;  // of an opening mark
  };

  void begin();
  void take(char c);
  void take_again();
  std::size_t take_plain_run(std::string_view piece);
  void start_byte(char c);
  void leave_start(bool thinking);
  void text_byte(char c);
  bool opens_bare(char c) const;
  void call_byte(char c);
  void call_told();
  void mark_found(const Mark& mark);
  void open_call(int mark, std::string_view text);
  void give_back();
  void end_thinking();
  void plain(std::string_view text);
  void plain_content(std::string_view text);
  void plain_thinking(std::string_view text);
  void hold_blanks(std::string_view blanks);
  void look_for_marks();
  void finish_call();

  AnswerOptions options_;
  EventList events_;
  std::optional<HarmonyReader> harmony_;
  std::unique_ptr<CallReader> reader_;

  At at_ = At::content, behind_call_ = At::content;  // where text goes on that is no call
  bool begins_inside_ = false;
  std::string start_;  // blanks and what may be the mark of thinking
  std::size_t start_blanks_ = 0;

  std::vector<Mark> marks_;  // that are looked for here
  MarkFinder finder_;
  bool interrupted_ = false, owed_ = false, answer_begun_ = false;  // which marks are dropped now

  std::string blanks_;  // at the end of what was read
  bool thought_ = false, has_content_ = false, at_beginning_ = true;

  std::string raw_;      // of a call, since the last event
  bool opened_ = false;  // it begins with what opened it
  bool bare_ = false;    // which was no mark
  std::string again_;    // to be read before what comes next
  std::size_t again_at_ = 0;
};

Answer parse_answer(std::string_view text, AnswerOptions options);

}  // namespace espalier
