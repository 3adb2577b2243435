#include "text/answer/answer_event.h"

#include <utility>

namespace espalier {
namespace {

// Adds one event to an answer.
struct Folding {
  Answer& answer;

  void operator()(const TextPiece& piece) const { answer.content += piece.text; }
  void operator()(const ThinkingPiece& piece) const { answer.thinking += piece.text; }
  void operator()(const CallBegun& call) const { answer.calls.push_back({call.name, {}, call.id}); }
  void operator()(const ArgumentsPiece& piece) const {
    answer.calls.at(static_cast<std::size_t>(piece.index)).arguments += piece.json;
  }
  void operator()(const CallEnded&) const {}
};

}  // namespace

void fold(Answer& answer, std::span<const AnswerEvent> events) {
  for (const AnswerEvent& event : events) std::visit(Folding{answer}, event);
}

Answer fold(std::span<const AnswerEvent> events) {
  Answer answer;
  fold(answer, events);
  return answer;
}

void EventList::text(std::string_view piece) {
  if (piece.empty()) return;
  if (auto* last = events_.empty() ? nullptr : std::get_if<TextPiece>(&events_.back()))
    last->text += piece;
  else
    events_.emplace_back(TextPiece{std::string(piece)});
}

void EventList::thinking(std::string_view piece) {
  if (piece.empty()) return;
  if (auto* last = events_.empty() ? nullptr : std::get_if<ThinkingPiece>(&events_.back()))
    last->text += piece;
  else
    events_.emplace_back(ThinkingPiece{std::string(piece)});
}

void EventList::begin_call(std::string name, std::string id) {
  events_.emplace_back(CallBegun{calls_, std::move(name), std::move(id)});
  open_ = true;
  has_arguments_ = false;
  ++calls_, ++turns_;
}

void EventList::arguments(std::string_view piece) {
  if (piece.empty()) return;
  has_arguments_ = true;
  if (auto* last = events_.empty() ? nullptr : std::get_if<ArgumentsPiece>(&events_.back()))
    last->json += piece;
  else
    events_.emplace_back(ArgumentsPiece{calls_ - 1, std::string(piece)});
}

void EventList::end_call() {
  if (!has_arguments_) arguments("{}");
  events_.emplace_back(CallEnded{calls_ - 1});
  open_ = false;
  ++turns_;
}

std::vector<AnswerEvent> EventList::take() {
  return std::exchange(events_, {});
}

}  // namespace espalier
