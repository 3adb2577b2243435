// answer_event.h: what a model's output says, piece by piece and as a whole.
//
// Events come in the order of the output. A call begins once, gets its arguments as pieces of one text, and ends; calls
// do not overlap and are numbered from 0. The pieces of a call put together are a JSON object wherever the model wrote
// one; what it wrote wrongly is there as it wrote it.
// Units:   UTF-8; pieces end at characters where the output was fed so.
// Threads: values. Fails: never.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace espalier {

// More of what the user is told.
struct TextPiece {
  std::string text;
  bool operator==(const TextPiece&) const = default;
};

// More of what the model thought.
struct ThinkingPiece {
  std::string text;
  bool operator==(const ThinkingPiece&) const = default;
};

// A tool is called; its name is complete.
struct CallBegun {
  int index = 0;
  std::string name;
  std::string id;  // that the model wrote ("functions.f:0"), empty where it wrote none
  bool operator==(const CallBegun&) const = default;
};

// More of the arguments, which are a JSON text.
struct ArgumentsPiece {
  int index = 0;
  std::string json;
  bool operator==(const ArgumentsPiece&) const = default;
};

// Nothing more comes of this call.
struct CallEnded {
  int index = 0;
  bool operator==(const CallEnded&) const = default;
};

// One of the five.
using AnswerEvent = std::variant<TextPiece, ThinkingPiece, CallBegun, ArgumentsPiece, CallEnded>;

// A call of a tool, whole.
struct ToolCall {
  std::string name, arguments, id;
  bool operator==(const ToolCall&) const = default;
};

// A model's output, divided.
struct Answer {
  std::string thinking, content;
  std::vector<ToolCall> calls;
  bool operator==(const Answer&) const = default;
};

void fold(Answer& answer, std::span<const AnswerEvent> events);
Answer fold(std::span<const AnswerEvent> events);

// Collects events; neighbouring pieces of one kind become one.
class EventList {
 public:
  void text(std::string_view piece);
  void thinking(std::string_view piece);
  void begin_call(std::string name, std::string id = {});
  void arguments(std::string_view piece);
  void end_call();  // a call that got no arguments gets "{}"

  bool call_open() const { return open_; }
  int calls() const { return calls_; }  // begun so far
  int turns() const { return turns_; }  // how often a call began or ended
  std::vector<AnswerEvent> take();      // those since the last time

 private:
  std::vector<AnswerEvent> events_;
  bool open_ = false, has_arguments_ = false;
  int calls_ = 0, turns_ = 0;
};

}  // namespace espalier
