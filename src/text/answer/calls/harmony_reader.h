// harmony_reader.h: output in channels, as gpt-oss writes it.
//
// <|channel|>analysis<|message|>...<|end|> is thinking, a message to=functions.f is a call, every other is content. Text
// that begins without a header is content, too.
// Units:   bytes. Memory: a header of at most kHeaderMost. Threads: one at a time. Fails: never.
// Source:  OpenAI's harmony format.
#pragma once

#include <string>

#include "text/answer/answer_event.h"
#include "text/answer/call_tools.h"
#include "text/answer/calls/json_arguments.h"
#include "text/answer/calls/mark_finder.h"

namespace espalier {

// Where the output begins: behind "<|start|>assistant", or within a message that the prompt has begun.
enum class HarmonyBegins { header, analysis, final_channel };

// Reads a whole output.
class HarmonyReader {
 public:
  static constexpr std::size_t kHeaderMost = 1024;

  HarmonyReader(HarmonyBegins begins, const CallTools* tools, bool calls, bool only_known);
  void read(char c, EventList& out);
  void finish(EventList& out);
  bool thinks() const { return at_ == At::body && body_ == Body::thinking; }

 private:
  enum class At { between, header, body };
  enum class Body { content, thinking, arguments, broken, behind };
  void between_step(char c, EventList& out);
  void header_step(char c, EventList& out);
  void body_step(char c, EventList& out);
  void arguments_step(char c, EventList& out);
  void begin_body(EventList& out);
  void begin_header(std::string text);
  void body_ended(int mark, EventList& out);
  void add(std::string_view text, EventList& out);
  std::string called(std::string_view recipient) const;

  const CallTools* tools_;
  bool calls_, only_known_;
  At at_ = At::between;
  Body body_ = Body::content;
  OneOf expected_;
  MarkFinder header_end_, body_end_;
  std::string header_;
  JsonArguments json_;
};

}  // namespace espalier
