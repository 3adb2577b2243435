#include "text/answer/answer_parser.h"

#include <algorithm>
#include <utility>

namespace espalier {
namespace {

constexpr std::size_t kHeldMost = 64 << 10;   // of what may become a call
constexpr std::size_t kReadAgainMost = 512;   // of what was none: longer pieces are text without another look
constexpr std::size_t kBlanksMost = 4 << 10;  // in a row, before they are text
constexpr std::string_view kAllBlanks = " \t\r\n";

// Whether a text behind a call can be no more than the end of it.
bool is_tail(std::string_view text, const CallFormat& format) {
  const auto skip = [&](std::string_view letters) {
    text.remove_prefix(std::min(text.find_first_not_of(letters), text.size()));
  };
  skip(" \t\r\n,;}])");
  if (!format.after_arguments.empty() && text.starts_with(format.after_arguments))
    text.remove_prefix(format.after_arguments.size());
  skip(kAllBlanks);
  Marks marks = marks_of(format.ends);
  marks.insert(marks.end(), {format.call_end, format.behind_call, format.after_arguments});
  return text.empty() || std::ranges::any_of(marks, [&](std::string_view mark) { return mark.starts_with(text); });
}

const CallTools& no_tools() {
  static const CallTools none;
  return none;
}

}  // namespace

AnswerParser::AnswerParser(AnswerOptions options) : options_(std::move(options)) {
  const CallTools* tools = options_.tools ? options_.tools.get() : &no_tools();
  const bool harmony = (options_.calls && options_.calls->family == CallFamily::harmony) ||
                       (options_.thinking && options_.thinking->harmony);
  if (harmony) {
    const HarmonyBegins begins = options_.begins == AnswerBegins::by_format         ? HarmonyBegins::header
                                 : options_.begins == AnswerBegins::inside_thinking ? HarmonyBegins::analysis
                                                                                    : HarmonyBegins::final_channel;
    harmony_.emplace(begins, tools, options_.calls != nullptr, options_.only_known_tools);
    return;
  }
  if (options_.calls) reader_ = make_call_reader({options_.calls, tools, options_.only_known_tools});
  begin();
}

void AnswerParser::begin() {
  const ThinkingFormat* thinking = options_.thinking;
  begins_inside_ = thinking && (options_.begins == AnswerBegins::inside_thinking || thinking->begins_inside);
  if (thinking && options_.begins != AnswerBegins::in_answer) at_ = At::start;
  if (thinking && thinking->kept) {
    if (at_ == At::start) events_.text(thinking->begins[0]);
    at_ = At::content;
  }
  look_for_marks();
}

std::vector<AnswerEvent> AnswerParser::feed(std::string_view piece) {
  while (!piece.empty()) {
    if (const std::size_t run = take_plain_run(piece); run > 0) {
      piece.remove_prefix(run);
      continue;
    }
    take(piece.front());
    take_again();
    piece.remove_prefix(1);
  }
  return events_.take();
}

// Bytes that can be part of no mark, all at once.
std::size_t AnswerParser::take_plain_run(std::string_view piece) {
  if (harmony_ || (at_ != At::content && at_ != At::thinking) || !finder_.held().empty()) return 0;
  std::size_t run = 0;
  while (run < piece.size() && !finder_.may_begin(piece[run]) && !opens_bare(piece[run])) ++run;
  if (run > 0) plain(piece.substr(0, run));
  return run;
}

void AnswerParser::take(char c) {
  if (harmony_) return harmony_->read(c, events_);
  if (at_ == At::start) return start_byte(c);
  if (at_ == At::call) return call_byte(c);
  if (at_ == At::behind) {
    if (c == '\r' || c == '\n') return;
    at_ = At::content;
    look_for_marks();
  }
  text_byte(c);
}

void AnswerParser::take_again() {
  while (again_at_ < again_.size()) take(again_[again_at_++]);
  again_.clear();
  again_at_ = 0;
}

void AnswerParser::start_byte(char c) {
  start_ += c;
  if (start_.size() == start_blanks_ + 1 && is_blank(c) && start_blanks_ < kBlanksMost) {
    ++start_blanks_;
    return;
  }
  const std::string_view rest = std::string_view(start_).substr(start_blanks_);
  bool possible = false;
  for (const std::string_view mark : options_.thinking->begins) {
    if (mark.empty()) continue;
    if (mark == rest) {
      start_.clear();
      return leave_start(true);
    }
    possible = possible || mark.starts_with(rest);
  }
  if (!possible) leave_start(begins_inside_);
}

void AnswerParser::leave_start(bool thinking) {
  at_ = thinking ? At::thinking : At::content;
  look_for_marks();
  again_ = std::exchange(start_, {}) + again_.substr(again_at_);
  again_at_ = 0;
}

void AnswerParser::look_for_marks() {
  marks_.clear();
  const auto add = [&](std::string_view text, Meaning meaning, int number = 0) {
    if (!text.empty()) marks_.push_back({text, meaning, number});
  };
  const ThinkingFormat* thinking = options_.thinking;
  const bool thinks = at_ == At::thinking;
  if (options_.calls && (!thinks || thinking->calls_end_it))
    for (std::size_t i = 0; i < options_.calls->opens.size(); ++i)
      add(options_.calls->opens[i], Meaning::opens_call, static_cast<int>(i));
  if (thinking && thinks)
    for (const std::string_view end : thinking->ends) add(end, Meaning::ends_thinking);
  if (thinking && !answer_begun_) add(thinking->answer_begin, Meaning::begins_answer);
  if (thinking && !thinks && answer_begun_) add(thinking->answer_end, Meaning::dropped);
  if (interrupted_ && !thinks)
    for (const std::string_view end : thinking->ends) add(end, Meaning::dropped);
  if (owed_ && !thinks) {
    for (const std::string_view end : options_.calls->ends) add(end, Meaning::dropped);
    add(options_.calls->call_end, Meaning::dropped);
  }
  Marks texts;
  for (const Mark& mark : marks_) texts.push_back(mark.text);
  finder_ = MarkFinder(std::move(texts));
}

bool AnswerParser::opens_bare(char c) const {
  return at_ == At::content && at_beginning_ && options_.calls && options_.calls->bare && (c == '{' || c == '[');
}

void AnswerParser::text_byte(char c) {
  if (finder_.held().empty() && opens_bare(c)) {
    open_call(CallReader::bare, {});
    return call_byte(c);
  }
  const MarkFinder::Found found = finder_.push(c);
  if (found.text > 0) {
    const std::string text = finder_.held().substr(0, found.text);
    plain(text);
  }
  finder_.drop(found);
  if (found.mark >= 0) mark_found(marks_[static_cast<std::size_t>(found.mark)]);
}

void AnswerParser::mark_found(const Mark& mark) {
  switch (mark.meaning) {
    case Meaning::opens_call:
      return open_call(mark.number, mark.text);
    case Meaning::ends_thinking:
      return end_thinking();
    case Meaning::begins_answer:
      answer_begun_ = true;
      return end_thinking();
    case Meaning::dropped:
      return;
  }
}

// Line ends before the answer are part of the mark.
void AnswerParser::end_thinking() {
  if (!has_content_) blanks_.clear();
  at_ = At::behind;
}

void AnswerParser::open_call(int mark, std::string_view text) {
  behind_call_ = at_;
  at_ = At::call;
  raw_ = text;
  opened_ = true;
  bare_ = mark == CallReader::bare;
  reader_->open(mark);
}

void AnswerParser::call_byte(char c) {
  while (true) {
    const int turns = events_.turns();
    const CallStep step = reader_->read(c, events_);
    const bool told = events_.turns() != turns;
    if (told) call_told();
    if (step == CallStep::again) continue;
    if (step == CallStep::done) {
      raw_.clear();
      at_ = behind_call_;
      look_for_marks();
      return;
    }
    if (step == CallStep::settled) raw_.clear();
    if (!events_.call_open() && !told && step != CallStep::settled) raw_ += c;
    if (step == CallStep::refused || raw_.size() > kHeldMost) give_back();
    return;
  }
}

void AnswerParser::call_told() {
  raw_.clear();
  opened_ = false;
  if (behind_call_ != At::thinking) return;
  blanks_.clear();
  interrupted_ = true;
  behind_call_ = At::content;
}

// What was read since the last event is no call.
void AnswerParser::give_back() {
  at_ = behind_call_;
  const std::string raw = std::exchange(raw_, {});
  if (!opened_ && !owed_) owed_ = true;
  if (opened_) at_beginning_ = false;
  look_for_marks();
  const std::size_t text = raw.size() > kReadAgainMost ? raw.size() : opened_ && !bare_ ? 1 : 0;
  plain(std::string_view(raw).substr(0, text));
  again_ = raw.substr(text) + again_.substr(again_at_);
  again_at_ = 0;
}

void AnswerParser::plain(std::string_view text) {
  if (text.empty()) return;
  if (at_ == At::thinking)
    plain_thinking(text);
  else
    plain_content(text);
}

void AnswerParser::plain_content(std::string_view text) {
  if (!options_.calls) return events_.text(text);
  const std::size_t first = std::min(text.find_first_not_of(kAllBlanks), text.size());
  hold_blanks(text.substr(0, first));
  if (first == text.size()) return;
  if (has_content_ || events_.calls() == 0) events_.text(blanks_);
  blanks_.clear();
  const std::size_t end = text.find_last_not_of(kAllBlanks) + 1;
  events_.text(text.substr(first, end - first));
  has_content_ = true;
  at_beginning_ = false;
  hold_blanks(text.substr(end));
}

void AnswerParser::plain_thinking(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(kAllBlanks), text.size());
  if (thought_) hold_blanks(text.substr(0, first));
  if (first == text.size()) return;
  events_.thinking(std::exchange(blanks_, {}));
  const std::size_t end = text.find_last_not_of(kAllBlanks) + 1;
  events_.thinking(text.substr(first, end - first));
  thought_ = true;
  hold_blanks(text.substr(end));
}

void AnswerParser::hold_blanks(std::string_view blanks) {
  while (!blanks.empty()) {
    const std::size_t some = std::min(blanks.size(), kBlanksMost - blanks_.size());
    blanks_ += blanks.substr(0, some);
    blanks.remove_prefix(some);
    if (blanks_.size() < kBlanksMost) continue;
    const std::string text = std::exchange(blanks_, {});
    at_ == At::thinking ? events_.thinking(text) : events_.text(text);
  }
}

std::vector<AnswerEvent> AnswerParser::finish() {
  if (harmony_) {
    harmony_->finish(events_);
    return events_.take();
  }
  if (at_ == At::start) {
    leave_start(begins_inside_);
    take_again();
  }
  if (at_ == At::call) finish_call();
  if (at_ == At::thinking || at_ == At::content) plain(finder_.take());
  if (at_ == At::content && events_.calls() == 0) events_.text(blanks_);
  blanks_.clear();
  return events_.take();
}

void AnswerParser::finish_call() {
  at_ = behind_call_;
  if (events_.call_open())
    reader_->finish(events_);
  else if (opened_ || !is_tail(raw_, *options_.calls))
    plain(raw_);
  raw_.clear();
}

bool AnswerParser::thinks() const {
  if (harmony_) return harmony_->thinks();
  return at_ == At::thinking || (at_ == At::call && behind_call_ == At::thinking);
}

Answer parse_answer(std::string_view text, AnswerOptions options) {
  AnswerParser parser(std::move(options));
  Answer answer;
  fold(answer, parser.feed(text));
  fold(answer, parser.finish());
  return answer;
}

}  // namespace espalier
